"""Graphs as one file, so that workers have the same ones without preparing them again."""

from __future__ import annotations

import functools

from gnas.data.benchmark import SPLIT_NAMES as SPLITS
from gnas.data.storage import read_splits
from gnas.data.storage import share_splits as pack

__all__ = ["SPLITS", "pack", "unpack"]

unpack = functools.lru_cache(maxsize=2)(read_splits)  # a worker does many jobs on the same graphs
