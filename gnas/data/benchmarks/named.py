"""The benchmarks by name: load one, prepare its file, say where it would come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gnas.data.benchmark import PATIENCE, Benchmark
from gnas.data.benchmarks import sbm, superpixels, zinc
from gnas.data.benchmarks.catalogue import BENCHMARKS, SPLITS, Facts
from gnas.data.benchmarks.mini import MINIS, load_mini
from gnas.data.measured import with_structure
from gnas.data.root import data_root as find_root
from gnas.data.root import find
from gnas.data.sources import Opened, Options, open_splits, prepared_name
from gnas.errors import InputError, choose

NAMES = (*BENCHMARKS, *MINIS)
_FAMILIES = {"zinc": zinc, "pattern": sbm, "cluster": sbm, "mnist": superpixels, "cifar10": superpixels}
_TASK = ("loss", "metric", "readout")
_OPTIONS = ("device", "workers", "download", "on_progress")


def facts(name: str) -> Facts:
    """What is published of a benchmark, or known of a small one."""
    choose(name, NAMES, "benchmark")
    return BENCHMARKS[name] if name in BENCHMARKS else MINIS[name]


def find_patience(name: str) -> int:
    """Patience of the training protocol of a benchmark that is not loaded yet; the default for other data."""
    return facts(name).patience if name in NAMES else PATIENCE


def load_named(
    name: str,
    *,
    data_root: str | Path | None = None,
    seed: int = 0,
    edge_attr: bool = False,
    structure: str | Sequence[str] | None = None,
    **overrides: Any,
) -> Benchmark:
    """Load a benchmark. ``edge_attr`` adds edge strengths and positions to superpixels (ZINC always has its bonds),
    ``structure`` what nodes read besides their columns (``size``, ``degree``)."""
    wrong = sorted(set(overrides) - {*_TASK, *_OPTIONS})
    if wrong:
        names = ", ".join(("edge_attr", "structure", *_OPTIONS, *_TASK))
        raise InputError(f"benchmark {name!r} takes no {wrong[0]!r}; what can be set: {names}")
    changes = {key: overrides.pop(key) for key in _TASK if key in overrides}
    if name in MINIS:
        benchmark = load_mini(name, seed)
    else:
        found = prepare(name, data_root=data_root, seed=seed, **overrides)
        train, val, test = (_FAMILIES[name].graph_set(name, found.splits.pop(split), edge_attr) for split in SPLITS)
        known = BENCHMARKS[name]
        benchmark = Benchmark(name, train, val, test, known.task, found.source, found.notes, patience=known.patience)
    if changes:
        benchmark = dataclasses.replace(benchmark, task=dataclasses.replace(benchmark.task, **changes))
    return with_structure(benchmark, structure)


def prepare(name: str, *, data_root: str | Path | None = None, seed: int = 0, **options: Any) -> Opened:
    """Read the splits of a benchmark, building its prepared file first if there is none."""
    choose(name, BENCHMARKS, "benchmark")
    root = find_root(data_root)
    return open_splits(name, _FAMILIES[name].sources(name), root, Options(seed=seed, **options))


class Listing(NamedTuple):
    """One line of the list of benchmarks."""

    name: str
    what: str
    graphs: tuple[int, int, int]
    nodes: int
    source: str


def list_benchmarks(data_root: str | Path | None = None) -> list[Listing]:
    """All benchmarks, and the source each would be read from now. Nothing is read, nothing is asked of the network."""
    root = find_root(data_root)
    return [Listing(n, facts(n).what, facts(n).graphs, facts(n).nodes, _source_now(n, root)) for n in NAMES]


def _source_now(name: str, root: Path) -> str:
    if name in MINIS:
        return "built in"
    if find(root, prepared_name(name)):
        return f"prepared: {prepared_name(name)}"
    ready = [s for s in _FAMILIES[name].sources(name) if s.ready(root, Options())]
    if not ready:
        return "none"
    if ready[0].kind == "download":
        return " or ".join(str(s) for s in ready)
    return str(ready[0])
