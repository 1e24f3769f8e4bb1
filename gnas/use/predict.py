"""Predictions of a trained network for new graphs in any form, from a run folder or an exported model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
from gnas.data.rows import index_rows
from gnas.data.storage import SUFFIXES
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.graph import GraphSet
from gnas.model.network import GraphModule
from gnas.model.task import Task
from gnas.printed import format_count
from gnas.run.models import load_average, load_model
from gnas.training.prediction import Predictions, Progress, infer_spread, list_output_names


def predict(
    folder: str | Path,
    data: Any,
    out: str | Path | None = None,
    *,
    network: str | None = None,
    seed: int | None = None,
    average_seeds: bool = False,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    data_root: str | Path | None = None,
    skip_bad: bool = False,
    force: bool = False,
    on_progress: Progress | None = None,
) -> Predictions:
    """Predict with a trained network.

    Args:
        folder: a run folder, or an exported model, whose code is not run.
        data: graphs in any form the network's data may come in (a CSV of SMILES, a folder of tables, PyG objects, SMILES
            texts), with or without targets; or a benchmark, by name or as a bundle, whose test split is used.
        out: a CSV file to write; an existing file is replaced only with ``force``.
        network: one of the networks of the run; the found one is called ``gnas``, the ensemble ``ensemble``. By default the best
            by validation.
        seed: the seed of its training; by default the one with the best validation metric.
        average_seeds: the mean over all seeds of the network. The predictions have a ``spread`` then, as those of an
            ensemble have: the standard deviation over the networks.
        device: where to compute.
        batch_size: graphs in a batch.
        data_root: the folder of benchmark files.
        skip_bad: leave out SMILES that do not parse, or have atoms or bonds the network does not know; the ``graph`` of
            the other rows still counts all of them.
        force: replace an existing file.
        on_progress: called after each batch with the stage, the number of batches done and their total.

    >>> answers = gnas.predict("runs/mine", "new_molecules.csv")
    >>> answers.columns, len(answers)
    (('graph', 'smiles', 'prediction'), 10)
    """
    if out is not None:
        _check_free(Path(out), force)
    model, info = load_average(folder, network, seed) if average_seeds else load_model(folder, network, seed)
    new = read_graphs(data, model.task, info.encoding, data_root, skip_bad=skip_bad)
    result = predict_graphs(model, new, info.encoding, device, batch_size, on_progress)
    result = replace(result, network=info.title)
    if out is not None:
        write_atomic(out, result.to_csv())
    return result


def _check_free(out: Path, force: bool) -> None:
    if out.is_dir() or (out.exists() and not force):
        what = "is a folder; name a file" if out.is_dir() else "exists; use force to replace it"
        raise InputError(f"{out}: {what}")


def predict_graphs(
    model: GraphModule,
    new: NewGraphs,
    encoding: Encoding | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 128,
    on_progress: Progress | None = None,
) -> Predictions:
    """Predictions of a network for graphs that :func:`read_graphs` has read. ``encoding`` names the targets."""
    graphs, order, task = new.graphs, new.order, model.task
    every, index = infer_spread(model, graphs, device, batch_size, on_progress), index_rows(graphs)
    tensors = [one for one in every if one is not None]
    if graphs.mask is not None:
        mask = graphs.mask
        tensors, index = [one[mask] for one in tensors], {key: column[mask] for key, column in index.items()}
    if order is not None:
        back = torch.argsort(order)
        tensors = [one[back] for one in tensors]
        index = {**{key: column[back] for key, column in index.items()}, "edge": index["edge"]}
    table = {key: column.numpy() for key, column in index.items()}
    if new.smiles:
        table["smiles"] = np.array(new.smiles, dtype=object)
    values, *spread = (one.double().numpy() for one in tensors)
    names = list_output_names(task, encoding)
    return Predictions(task.kind, names, table, values, new.notes, spread=spread[0] if spread else None)


# -- new graphs -------------------------------------------------------------------------------------------------------


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
    order = None
    if parts is not None and parts.graphs and all(isinstance(graph, Data) for graph in parts.graphs):
        data = parts.graphs if targets else [_without_target(graph) for graph in parts.graphs]
        order = _edge_order(data) if task.level == "edge" else None
        found = encode_graphs(data, encoding, task, skip_bad, unlabelled=not targets)
    else:
        found = encode_graphs(data, encoding, task, skip_bad, unlabelled=not targets, ignore_targets=not targets)
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
        test = replace(test, node_pe=None, edge_pe=None)
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
