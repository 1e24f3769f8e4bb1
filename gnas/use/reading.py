"""New graphs, in any form, as a trained network reads them."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnas.data import NAMES, is_path, load, unknown_data
from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import is_dataset
from gnas.data.checks import check_graph_set
from gnas.data.encoding import Encoding
from gnas.data.own.csv import Table
from gnas.data.own.load import as_table, encode_graphs
from gnas.data.own.pyg import collect_graphs
from gnas.data.storage import SUFFIXES
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task
from gnas.printed import format_count


class NewGraphs(NamedTuple):
    """Graphs as a trained network reads them, and their order in the caller's data.

    ``order`` is the place of each sorted edge in the caller's order, None where it does not matter or is not known: a
    benchmark, tables. Of SMILES there are the texts and ``notes``, which say what was left out.
    """

    graphs: GraphSet
    order: Tensor | None = None
    smiles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_graphs(
    data: Any,
    task: Task,
    encoding: Encoding | None = None,
    data_root: str | Path | None = None,
    targets: bool = False,
    skip_bad: bool = False,
) -> NewGraphs:
    """Graphs as a network trained on ``task`` reads them.

    Args:
        data: Graphs in any form that :func:`gnas.load` takes, or a benchmark, whose test split is used.
        task: The task of the network.
        encoding: How the training data was read; None: as tensors.
        data_root: The folder of benchmark files.
        targets: Read the targets: data without any is an error, single rows may lack them. Otherwise they are ignored, because
            a prediction needs none and classes may be new.
        skip_bad: Leave out SMILES that the network cannot read.
    """
    if skip_bad and (isinstance(data, GraphSet) or is_benchmark(data)):
        raise InputError("the option skip_bad leaves out SMILES that cannot be read; these graphs are not SMILES")
    if isinstance(data, GraphSet):
        check_graph_set(data, task, "graphs")
        return NewGraphs(data)
    if is_benchmark(data):
        benchmark = data if isinstance(data, Benchmark) else _load_benchmark(data, task, data_root)
        return NewGraphs(_test_split(benchmark, task, encoding))
    if isinstance(data, str) and not is_path(data):
        raise unknown_data(data)
    data = as_table(data)
    parts = None if isinstance(data, str | Path | Table) else collect_graphs(data)
    if parts is None or not parts.graphs or not all(isinstance(g, Data) for g in parts.graphs):
        found = encode_graphs(data, encoding, task, skip_bad, unlabelled=not targets, ignore_targets=not targets)
        _warn_unseen(found.unseen)
        return NewGraphs(found.graphs, None, found.smiles, found.notes)
    graphs = parts.graphs if targets else [_without_target(graph) for graph in parts.graphs]
    order = _edge_order(graphs) if task.level == "edge" else None
    found = encode_graphs(graphs, encoding, task, skip_bad, unlabelled=not targets)
    _warn_unseen(found.unseen)
    return NewGraphs(found.graphs, order, found.smiles, found.notes)


def _warn_unseen(notes: Sequence[str]) -> None:
    """One Python warning on values that the training data does not have; a script may not look at the notes."""
    if notes:
        more = f" (and {format_count(len(notes) - 1, 'more such note')})" if len(notes) > 1 else ""
        warnings.warn(f"{notes[0]}{more}; predictions for them are guesses", stacklevel=3)


def is_benchmark(data: Any) -> bool:
    """Whether ``data`` is a benchmark, its name or its file: nothing has to be inferred."""
    if isinstance(data, Benchmark) or (isinstance(data, str) and is_dataset(data)):
        return True
    return isinstance(data, str | Path) and Path(data).suffix.lower() in SUFFIXES


def _load_benchmark(data: str | Path, task: Task, data_root: str | Path | None) -> Benchmark:
    """A benchmark with the columns of edges that the network reads; by name they are left out unless requested."""
    read = bool(task.edge_categories or task.edge_channels)
    options = {"edges": True} if read and isinstance(data, str) and data in NAMES else {}
    return load(data, data_root=data_root, **options)


def _test_split(benchmark: Benchmark, task: Task, encoding: Encoding | None) -> GraphSet:
    parts = ["level", "kind", "num_outputs", "categories", "in_channels"]
    parts += ["edge_categories", "edge_channels"] if task.edge_categories or task.edge_channels else []
    for part in parts:
        trained, here = getattr(task, part), getattr(benchmark.task, part)
        if trained != here:
            raise InputError(f"{benchmark.name}: {part} is {here!r}; this network was trained with {trained!r}")
    if encoding is not None and benchmark.encoding is not None:
        pairs = list(zip(encoding.nodes, benchmark.encoding.nodes, strict=True))
        if task.edge_categories or task.edge_channels:
            pairs += zip(encoding.edges, benchmark.encoding.edges, strict=True)
        for mine, theirs in pairs:
            if mine != theirs:
                raise InputError(f"{benchmark.name}: column {theirs.name!r} is not encoded as in the training data")
    test = benchmark.test
    if any(getattr(task, part) != getattr(benchmark.task, part) for part in ("walks", "laplacian", "edge_walks")):
        test = dataclasses.replace(test, node_pe=None, edge_pe=None)
    check_graph_set(test, task, f"{benchmark.name} test")
    return test


def _without_target(graph: Data) -> Data:
    bare = copy.copy(graph)
    bare.y = None
    return bare


def _edge_order(graphs: Sequence[Data]) -> Tensor:
    """The place in the caller's order of each edge of a ``GraphSet``, which sorts them by graph, target and source."""
    places, start = [], 0
    for graph in graphs:
        source, target = graph.edge_index.long()
        largest = int(graph.edge_index.max()) + 1 if graph.edge_index.numel() else 1
        places.append(torch.argsort(target * largest + source, stable=True) + start)
        start += source.numel()
    return torch.cat(places)
