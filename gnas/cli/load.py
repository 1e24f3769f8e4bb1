"""Data for a command: loaded with a bar if it takes long, and described in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnas.cli.progress import count_progress
from gnas.cli.screen import Screen
from gnas.cli.settings import assignment
from gnas.data import NAMES, Benchmark, load


def load_data(
    screen: Screen, dataset: str, data_root: Path | None, options: Mapping[str, Any], show: bool = True
) -> Benchmark:
    """The benchmark, described for people."""
    with count_progress(screen, dataset) as on_progress:
        more: dict[str, Any] = {"on_progress": on_progress} if dataset in NAMES else {}
        benchmark = load(dataset, data_root=data_root, **options, **more)
    if show:
        screen.pair("data", benchmark.describe())
    return benchmark


def data_options(
    target: Sequence[str] | None, texts: Sequence[str] | None, sample_neighbors: str | None = None
) -> dict[str, Any]:
    """``--target`` and ``--data key=value`` by name, as they were typed.

    >>> data_options(["logP"], ["split=scaffold", "seed=3"])
    {'split': 'scaffold', 'seed': '3', 'target': ['logP']}
    """
    found: dict[str, Any] = dict(assignment(text, "--data") for text in texts or ())
    if sample_neighbors is not None:
        found["sample_neighbors"] = sample_neighbors
    return {**found, "target": list(target)} if target else found
