"""The benchmarks by name: load one, prepare its file, say where it would come from, check it against what is published.

To add one, declare its ``DATASETS`` in a file of this folder and list that file here. A package of yours can offer datasets
too, by the entry point group ``gnas.datasets``; see docs/extending.md.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gnas.data.benchmark import PATIENCE, SPLIT_NAMES, Benchmark
from gnas.data.benchmarks import mini, sbm, superpixels, zinc
from gnas.data.benchmarks.sources import (
    Dataset,
    Facts,
    PreparedSplits,
    Request,
    find_data_root,
    open_splits,
    prepared_name,
)
from gnas.data.graph_encodings import Requested, with_encodings
from gnas.data.own.options import use_edges
from gnas.errors import InputError, choose
from gnas.graph import GraphSet
from gnas.model.task import Task
from gnas.plugins import find_plugins, resolve_plugin

DATASETS: dict[str, Dataset] = {**zinc.DATASETS, **sbm.DATASETS, **superpixels.DATASETS, **mini.DATASETS}
NAMES = tuple(DATASETS)
PUBLISHED = tuple(name for name, dataset in DATASETS.items() if dataset.sources)  # the others are built in
GROUP = "gnas.datasets"  # the entry point group of datasets in other packages
TASK_OPTIONS = ("loss", "metric", "readout")
SOURCE_OPTIONS = ("device", "workers", "download", "on_progress")


def find_facts(name: str) -> Facts:
    """What is published of a benchmark, or known of a small one."""
    return DATASETS[choose(name, NAMES, "benchmark")].facts


def list_names() -> list[str]:
    """Names of all benchmarks: those of the package first, then those of installed packages."""
    return list(dict.fromkeys((*DATASETS, *find_plugins(GROUP))))


def is_dataset(name: str) -> bool:
    """Whether this is the name of a benchmark, of the package or of an installed one."""
    return name in DATASETS or name in find_plugins(GROUP)


def load_from_package(name: str, *, data_root: str | Path | None = None, seed: int = 0, **options: Any) -> Benchmark:
    """Load a dataset that an installed package offers.

    Its entry point names a function of ``data_root`` and ``seed``, which returns a ``Benchmark`` or anything else that
    ``gnas.load`` takes. ``options`` are those of own data.
    """
    from gnas.data.own.load import load_own  # late: it reads packed files, which need the patience of a benchmark

    read = resolve_plugin(name, {}, GROUP, "dataset")
    return load_own(read(data_root=find_data_root(data_root), seed=seed), **{"name": name, "seed": seed, **options})


def find_patience(name: str) -> int:
    """Patience of the training protocol of a benchmark that is not loaded yet; the default for other data."""
    return DATASETS[name].facts.patience if name in DATASETS else PATIENCE


def load_named(
    name: str,
    *,
    data_root: str | Path | None = None,
    seed: int = 0,
    edge_attr: bool = False,
    edges: bool | str | None = None,
    encodings: Requested = None,
    structure: Requested = None,
    **options: Any,
) -> Benchmark:
    """Load a benchmark of the package.

    Args:
        name: one of ``NAMES``.
        data_root: folder of data files; else ``GNAS_DATA``, else a per-user cache folder.
        seed: of what is random in the data: the draw of a generated benchmark.
        edge_attr: keep edge strengths and positions of superpixels, without using them. ZINC always has its bonds.
        edges: ``yes``: networks read ZINC's bonds, or the edge strengths of superpixels; by default they do not, as in the
            paper. The other benchmarks have no columns of edges.
        encodings: what nodes and edges read of their place in the graph: ``walks:20,edge_walks:20,laplacian:8,size,degree``,
            ``auto`` or ``none``; see :mod:`gnas.data.graph_encodings`.
        structure: the older option for ``size`` and ``degree`` alone.
        **options: ``loss``, ``metric``, ``readout``; ``device``, ``workers``, ``download``, ``on_progress``.
    """
    wrong = sorted(set(options) - {*TASK_OPTIONS, *SOURCE_OPTIONS})
    if wrong:
        names = ", ".join(("edges", "encodings", "edge_attr", *SOURCE_OPTIONS, *TASK_OPTIONS))
        raise InputError(f"benchmark {name!r} has no option {wrong[0]!r}; its options are: {names}")
    changes = {key: options.pop(key) for key in TASK_OPTIONS if key in options}
    dataset = DATASETS[choose(name, NAMES, "benchmark")]
    used = use_edges(edges, default=False)
    found = prepare_benchmark(name, data_root=data_root, seed=seed, **options)
    train, val, test = (dataset.graph_set(found.splits.pop(split), edge_attr or used) for split in SPLIT_NAMES)
    task = _standardise(dataset.facts.task, train) if dataset.standardise else dataset.facts.task
    if used:
        task = dataclasses.replace(task, edge_categories=dataset.edge_categories, edge_channels=dataset.edge_channels)
    if used and not edge_attr:  # positions are among the features already
        train, val, test = (dataclasses.replace(graphs, pos=None) for graphs in (train, val, test))
    lacking = used and not (dataset.edge_categories or dataset.edge_channels)
    benchmark = Benchmark(
        name,
        train,
        val,
        test,
        task=dataclasses.replace(task, **changes),
        source=found.source,
        notes=(*found.notes, f"edges: {name} has no columns of edges") if lacking else found.notes,
        patience=dataset.facts.patience,
    )
    return with_encodings(benchmark, encodings, structure)


def _standardise(task: Task, train: GraphSet) -> Task:
    return dataclasses.replace(task, center=(float(train.y.mean()),), scale=(float(train.y.std()),))


def prepare_benchmark(
    name: str, *, data_root: str | Path | None = None, seed: int = 0, **options: Any
) -> PreparedSplits:
    """Read the splits of a benchmark; if it has no prepared file yet, build it first."""
    dataset = DATASETS[choose(name, NAMES, "benchmark")]
    if dataset.build is not None:
        return PreparedSplits(dataset.build(dataset.facts.graphs, seed), "built in", None, ())
    request = Request(name, dataset.facts, find_data_root(data_root), seed=seed, **options)
    return open_splits(request, dataset.sources)


class Listing(NamedTuple):
    """One line of the list of benchmarks."""

    name: str
    what: str
    graphs: tuple[int, ...]  # per split; empty if that is not known before the data is loaded
    nodes: int | None
    source: str


def list_benchmarks(data_root: str | Path | None = None) -> list[Listing]:
    """All benchmarks, and the source each would be read from now. No file is read, no network is used."""
    root = find_data_root(data_root)
    ours = [
        Listing(name, one.facts.what, one.facts.graphs, one.facts.nodes, _describe_source(name, one, root))
        for name, one in DATASETS.items()
    ]
    others = {name: point for name, point in find_plugins(GROUP).items() if name not in DATASETS}
    return ours + [
        Listing(name, "dataset of another package", (), None, f"entry point: {point.value}")
        for name, point in others.items()
    ]


def _describe_source(name: str, dataset: Dataset, root: Path) -> str:
    if dataset.build is not None:
        return "built in"
    request = Request(name, dataset.facts, root)
    for suffix in (".safetensors", ".npz"):
        relative = prepared_name(name, dataset.facts, suffix=suffix)
        if request.find(relative):
            return f"prepared: {relative}"
    ready = [source for source in dataset.sources if source.ready(request)]
    if not ready:
        return "none"
    return " or ".join(map(str, ready)) if ready[0].kind == "download" else str(ready[0])


# -- a copy of a benchmark against what is published of it ---------------------------------------------------------


class Check(NamedTuple):
    """One figure of a benchmark and its expected value."""

    what: str
    found: str
    expected: str
    ok: bool


def check_benchmark(benchmark: Benchmark, facts: Facts) -> list[Check]:
    """Compare a benchmark with its published figures, and check the order of edges that every reader relies on."""
    sets = list(benchmark.splits().values())
    nodes = torch.cat([s.node_counts for s in sets])
    edges = sum(s.num_edges for s in sets) / max(len(nodes), 1)
    low, high = int(nodes.min()), int(nodes.max())
    checks = [_equal(f"{split} graphs", len(s), n) for split, s, n in zip(SPLIT_NAMES, sets, facts.graphs, strict=True)]
    checks += [
        _near("nodes", int(nodes.sum()), facts.nodes, facts.tolerance),
        _within("nodes of the smallest graph", low, facts.smallest, facts.slack),
        _within("nodes of the largest graph", high, facts.largest, facts.slack),
        _near("edges of a graph, mean", edges, facts.edges, facts.tolerance or 1e-3),
    ]
    for split, graphs in zip(SPLIT_NAMES, sets, strict=True):
        fault = find_edge_fault(graphs, facts.symmetric)
        checks.append(Check(f"{split} edges", fault or "in order", "in order", not fault))
    return checks


def find_edge_fault(graphs: GraphSet, symmetric: bool) -> str:
    """The first fault of the edges: a number out of range, a self-loop, a wrong order, a missing opposite; or no text."""
    step = 500
    for first in range(0, len(graphs), step):
        fault = _edge_fault(graphs, first, min(first + step, len(graphs)), symmetric)
        if fault:
            return fault
    return ""


def _edge_fault(graphs: GraphSet, first: int, last: int, symmetric: bool) -> str:
    nodes, edges = graphs.node_counts[first:last], graphs.edge_counts[first:last]
    source, target = graphs.edge_index[:, graphs.edge_ptr[first] : graphs.edge_ptr[last]].long()
    graph = torch.repeat_interleave(torch.arange(last - first), edges)
    if source.numel() and (
        min(source.min(), target.min()) < 0 or bool((torch.maximum(source, target) >= nodes[graph]).any())
    ):
        return "node numbers out of range"
    if bool((source == target).any()):
        return "self-loops"
    width = int(nodes.max()) if nodes.numel() else 1
    key = (graph * width + target) * width + source
    if not bool((key.diff() > 0).all()):
        return "not sorted by graph, target, source, or repeated"
    if not symmetric:
        return ""
    there = torch.zeros((last - first) * width * width, dtype=torch.bool)
    there[key] = True
    opposite = (graph * width + source) * width + target
    return "" if bool(there[opposite].all()) else "edges without their opposite"


def _equal(what: str, found: int, expected: int) -> Check:
    return Check(what, f"{found:,}", f"{expected:,}", found == expected)


def _near(what: str, found: float, expected: float, tolerance: float) -> Check:
    def text(value: float) -> str:
        return f"{value:,.0f}" if isinstance(value, int) else f"{value:,.2f}"

    words = text(expected) + (f" +- {100 * tolerance:g} %" if tolerance else "")
    return Check(what, text(found), words, abs(found - expected) <= tolerance * expected)


def _within(what: str, found: int, expected: int, slack: int) -> Check:
    return Check(what, str(found), f"{expected}" + (f" +- {slack}" if slack else ""), abs(found - expected) <= slack)
