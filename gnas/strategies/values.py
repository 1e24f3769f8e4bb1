"""Strategies as plain values and back, so that a job can carry one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from gnas.errors import InputError
from gnas.strategies.base import SearchStrategy
from gnas.strategies.darts import Darts
from gnas.strategies.evolution import Evolution
from gnas.strategies.graphnas import GraphNAS
from gnas.strategies.random import RandomSearch
from gnas.strategies.single_level import SingleLevel

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (SingleLevel, Darts, RandomSearch, Evolution, GraphNAS)}


def to_values(strategy: SearchStrategy) -> dict[str, Any]:
    """The kind of a strategy of this package, and its settings."""
    kind = type(strategy).__name__
    if KINDS.get(kind) is not type(strategy):
        raise InputError(
            f"the strategy {strategy.name!r} is not one of gnas and cannot be sent to workers; leave --on away"
        )
    return {"kind": kind, "settings": json.loads(json.dumps(asdict(strategy)))}  # type: ignore[call-overload]


def from_values(values: dict[str, Any]) -> SearchStrategy:
    """The strategy that ``to_values`` described."""
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in values["settings"].items()}
    return KINDS[values["kind"]](**settings)
