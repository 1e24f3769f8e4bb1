"""Checks before a training: an error for what is wrong, a note for what is unusual."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from gnas.data.encoding import Encoding
from gnas.data.own.raw import RawGraphs
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task
from gnas.printed import format_count


def check_raw_graphs(raw: RawGraphs) -> tuple[str, ...]:
    """Check that graphs have nodes and that edges join existing nodes; return notes on odd edges."""
    if not len(raw):
        raise InputError(f"{raw.name}: no graphs")
    empty = np.flatnonzero(raw.node_counts == 0)
    if len(empty):
        raise InputError(f"{raw.graph_place(int(empty[0]))}: no nodes ({len(empty)} such graphs)")
    limit = np.repeat(raw.node_counts, raw.edge_counts)
    wrong = (raw.edge_index < 0) | (raw.edge_index >= limit)
    if wrong.any():
        row = int(wrong.any(axis=0).argmax())
        end = 0 if wrong[0, row] else 1
        raise InputError(
            f"{raw.edge_place(row)}: {('source', 'target')[end]} {raw.edge_index[end, row]} is not a node; "
            f"the graph has {limit[row]} nodes, numbered from 0"
        )
    _check_raw_pairs(raw)
    return note_odd_edges(raw)


def _check_raw_pairs(raw: RawGraphs) -> None:
    if raw.pairs is None or raw.pair_counts is None:
        return
    limit = np.repeat(raw.node_counts, raw.pair_counts)
    wrong = ((raw.pairs < 0) | (raw.pairs >= limit)).any(axis=0)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{raw.pair_place(row)}: a node is not one of the graph's {limit[row]}, numbered from 0")


def note_odd_edges(raw: RawGraphs) -> tuple[str, ...]:
    """Notes that count self-loops, repeated edges and edges without their reverse."""
    source, target = raw.flat_edges()
    total = int(raw.node_counts.sum())
    keys = np.sort(source * total + target)
    distinct = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
    loops = int((source == target).sum())
    source, target = distinct // total, distinct % total
    between = source != target
    reverse = (target * total + source)[between]
    at = np.minimum(np.searchsorted(distinct, reverse), len(distinct) - 1)
    alone = int((distinct[at] != reverse).sum()) if len(reverse) else 0
    notes = []
    if not len(keys):
        notes.append("no graph has an edge")
    if loops:
        notes.append(f"{format_count(loops, 'self-loop')}")
    if len(keys) > len(distinct):
        notes.append(f"{format_count(len(keys) - len(distinct), 'repeated edge')}: each one counts")
    if alone:
        share = "no edge has" if alone == len(reverse) else f"{alone} of {len(reverse)} edges do not have"
        notes.append(f"directed: {share} the reverse edge; if both directions are meant, add it")
    return tuple(notes)


def check_splits(splits: Mapping[str, GraphSet], task: Task, advice: str = "") -> None:
    """Check that no split is empty and that every class has a training example."""
    for name, graphs in splits.items():
        if not graphs.num_targets:
            raise InputError(f"the {name} split is empty{advice}")
    if task.kind == "classification":
        train = splits["train"]
        if task.num_outputs > train.num_targets:
            raise InputError(f"{task.num_outputs} classes, but only {train.num_targets} training examples")
        seen = torch.bincount(train.targets(), minlength=task.num_outputs)
        missing = [task.labels[i] if task.labels else str(i) for i in torch.nonzero(seen == 0).flatten().tolist()]
        if missing:
            what = f"class {missing[0]!r}" + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
            raise InputError(
                f"{what} has no training example; add some, merge classes, or set the data option split=stratified"
            )


def check_graph_set(graphs: GraphSet, task: Task, where: str) -> None:
    """Check a set of graphs read from a file: shapes, pointers, node numbers, categories, targets."""
    if graphs.level != task.level:
        raise InputError(f"{where}: targets are at {graphs.level} level, the task is at {task.level} level")
    _check_pointers(graphs, task, where)
    _check_edges(graphs, where)
    _check_inputs(graphs, task, where)
    _check_edge_inputs(graphs, task, where)
    _check_encodings(graphs, task, where)
    _check_pairs(graphs, where)
    _check_targets(graphs, task, where)


def check_task(task: Task, where: str) -> None:
    """Check the numbers of a task read from a file."""
    sizes = (*task.categories, task.num_outputs)
    if not all(0 < s < 2**31 for s in sizes) or not 0 <= task.in_channels < 2**31:
        raise InputError(f"{where}: a task of {task.num_outputs} outputs from {task.categories or task.in_channels}")
    widths = (task.edge_channels, task.graph_channels, task.walks, task.laplacian, task.edge_walks)
    if not all(0 < s < 2**31 for s in task.edge_categories) or not all(0 <= w < 2**31 for w in widths):
        raise InputError(f"{where}: a task with edge categories {task.edge_categories} and widths {widths}")
    for name in ("center", "scale"):
        values = getattr(task, name)
        if len(values) not in (1, task.num_outputs) or not all(abs(v) < 1e300 for v in values):
            raise InputError(f"{where}: task {name} {values} does not fit {task.num_outputs} outputs")
    if not all(abs(v) < 1e300 for v in task.structure_center) or not all(0 < v < 1e300 for v in task.structure_scale):
        raise InputError(f"{where}: task structure {task.structure_center}, {task.structure_scale} is not finite")
    if min(task.scale) <= 0 or len(task.labels) not in (0, task.num_outputs):
        raise InputError(f"{where}: task scale {task.scale} or its {len(task.labels)} labels do not fit")


def check_encoding(encoding: Encoding, task: Task, where: str) -> None:
    """Check that an encoding gives what the task reads."""
    if (task.edge_categories or task.edge_channels) and (encoding.edge_categories, encoding.edge_channels) != (
        task.edge_categories,
        task.edge_channels,
    ):
        raise InputError(
            f"{where}: edges are encoded as {encoding.edge_categories or encoding.edge_channels} columns, but the task "
            f"reads {task.edge_categories or task.edge_channels}"
        )
    gives = (encoding.level, encoding.kind, encoding.categories, encoding.in_channels, len(encoding.graphs))
    reads = (task.level, task.kind, task.categories, task.in_channels, task.graph_channels)
    if gives != reads:
        raise InputError(f"{where}: the encoding gives {gives}, but the task reads {reads}")
    outputs = len(encoding.labels) if task.kind == "classification" else len(encoding.targets)
    if outputs != task.num_outputs:
        raise InputError(f"{where}: the encoding has {outputs} outputs, but the task {task.num_outputs}")


def _shape(where: str, name: str, value: torch.Tensor, expected: tuple[int, ...]) -> None:
    if tuple(value.shape) != expected:
        raise InputError(f"{where}: {name} has the shape {list(value.shape)}; {list(expected)} is needed")


def _check_pointers(graphs: GraphSet, task: Task, where: str) -> None:
    g = graphs
    for name, tensor, dims in (("x", g.x, 2), ("edge_index", g.edge_index, 2), ("node_ptr", g.node_ptr, 1)):
        if tensor.dim() != dims:
            raise InputError(f"{where}: {name} has {tensor.dim()} dimensions; {dims} are needed")
    _shape(where, "x", g.x, (g.num_nodes, len(task.categories) or task.in_channels))
    _shape(where, "edge_index", g.edge_index, (2, g.num_edges))
    for name, ptr, last in (("node_ptr", g.node_ptr, g.num_nodes), ("edge_ptr", g.edge_ptr, g.num_edges)):
        if ptr.dtype != torch.int64 or ptr.dim() != 1 or len(ptr) < 2 or int(ptr[0]) or int(ptr[-1]) != last:
            raise InputError(f"{where}: {name} does not run from 0 to {last}")
        if bool((ptr.diff() < 0).any()):
            raise InputError(f"{where}: {name} runs backwards")
    if g.rows is not None:
        _shape(where, "rows", g.rows, (len(g),))
    if len(g.node_ptr) != len(g.edge_ptr):
        raise InputError(f"{where}: {len(g.node_ptr) - 1} graphs by their nodes, {len(g.edge_ptr) - 1} by their edges")


def _check_edges(graphs: GraphSet, where: str) -> None:
    if graphs.edge_index.dtype not in (torch.int16, torch.int32, torch.int64):
        raise InputError(f"{where}: edge_index holds {graphs.edge_index.dtype}; whole numbers are needed")
    limit = torch.repeat_interleave(graphs.node_counts, graphs.edge_counts)
    wrong = (graphs.edge_index < 0) | (graphs.edge_index.long() >= limit)
    if bool(wrong.any()):
        edge = int(wrong.any(0).nonzero()[0])
        number = int(torch.searchsorted(graphs.edge_ptr, edge, right=True)) - 1
        raise InputError(f"{where} graph {number}: an edge joins a node that does not exist")
    graph = torch.repeat_interleave(torch.arange(len(graphs)), graphs.edge_counts)
    source, target = graphs.edge_index.long()
    largest = int(graphs.node_counts.max())
    if bool((((graph * largest + target) * largest + source).diff() < 0).any()):
        raise InputError(f"{where}: edges are not sorted by graph, target and source")
    rows_of = (("edge_attr", graphs.num_edges), ("pos", graphs.num_nodes), ("graph_attr", len(graphs)))
    for name, rows in rows_of:
        value = getattr(graphs, name)
        if value is not None and (value.dim() == 0 or len(value) != rows):
            raise InputError(f"{where}: {name} has the shape {list(value.shape)}; {rows} rows are needed")


def _check_inputs(graphs: GraphSet, task: Task, where: str) -> None:
    _check_values(graphs.x, task.categories, "x", where)
    if task.graph_channels:
        if graphs.graph_attr is None:
            raise InputError(f"{where}: no graph_attr; the task reads {task.graph_channels} features of whole graphs")
        _shape(where, "graph_attr", graphs.graph_attr, (len(graphs), task.graph_channels))
        _check_values(graphs.graph_attr, (), "graph_attr", where)


def _check_values(values: torch.Tensor, categories: tuple[int, ...], name: str, where: str) -> None:
    """Categories must be whole numbers within their ranges, features finite floats."""
    if not categories:
        if not values.is_floating_point() or not bool(torch.isfinite(values).all()):
            raise InputError(f"{where}: {name} must hold finite floats")
        return
    if values.is_floating_point() or values.dtype == torch.bool:
        raise InputError(f"{where}: {name} holds {values.dtype}; categories are whole numbers")
    if len(values) and bool(((values < 0) | (values.long() >= torch.tensor(categories))).any()):
        raise InputError(f"{where}: {name} holds categories outside {list(categories)}")


def _check_edge_inputs(graphs: GraphSet, task: Task, where: str) -> None:
    columns = len(task.edge_categories) or task.edge_channels
    if not columns:
        return
    if graphs.edge_attr is None:
        raise InputError(f"{where}: no edge_attr; the task reads {columns} columns of edges")
    attr = graphs.edge_attr[:, None] if graphs.edge_attr.dim() == 1 else graphs.edge_attr
    _shape(where, "edge_attr", attr, (graphs.num_edges, columns))
    _check_values(attr, task.edge_categories, "edge_attr", where)


def _check_encodings(graphs: GraphSet, task: Task, where: str) -> None:
    """Encodings that are there must be those of the task; a network computes missing ones."""
    shapes = {
        "node_pe": (graphs.num_nodes, task.walks + task.laplacian),
        "edge_pe": (graphs.num_edges, task.edge_walks),
    }
    for name, shape in shapes.items():
        value = getattr(graphs, name)
        if value is not None:
            _shape(where, name, value, shape)
            _check_values(value, (), name, where)


def _check_pairs(graphs: GraphSet, where: str) -> None:
    pairs, ptr = graphs.pairs, graphs.pair_ptr
    if graphs.level != "link":
        return
    if pairs is None or ptr is None or pairs.dim() != 2 or pairs.size(0) != 2 or pairs.is_floating_point():
        raise InputError(f"{where}: a link task needs pairs of nodes, [2, pairs], and where those of each graph begin")
    counts = ptr.diff()
    if len(ptr) != len(graphs.node_ptr) or int(ptr[0]) or int(ptr[-1]) != pairs.size(1) or bool((counts < 0).any()):
        raise InputError(f"{where}: pair_ptr does not run from 0 to {pairs.size(1)}")
    if bool(((pairs < 0) | (pairs.long() >= torch.repeat_interleave(graphs.node_counts, counts))).any()):
        raise InputError(f"{where}: a pair has a node that does not exist")


def _check_targets(graphs: GraphSet, task: Task, where: str) -> None:
    pairs = 0 if graphs.pairs is None else graphs.pairs.size(1)
    rows = {"graph": len(graphs), "node": graphs.num_nodes, "edge": graphs.num_edges, "link": pairs}[task.level]
    classes = task.kind == "classification"
    flat = classes or (graphs.y.dim() == 1 and task.num_outputs == 1)
    _shape(where, "y", graphs.y, (rows,) if flat else (rows, task.num_outputs))
    if graphs.mask is not None:
        _shape(where, "mask", graphs.mask, (rows,))
        if graphs.mask.dtype != torch.bool:
            raise InputError(f"{where}: mask holds {graphs.mask.dtype}; bool is needed")
    y = graphs.targets()
    if classes and (y.is_floating_point() or (len(y) and not 0 <= int(y.min()) <= int(y.max()) < task.num_outputs)):
        raise InputError(f"{where}: y must hold classes 0..{task.num_outputs - 1}")
    if classes:
        return
    known = ~torch.isnan(y) if task.num_outputs > 1 else torch.ones_like(y, dtype=torch.bool)
    if not (
        y.is_floating_point() and bool(torch.isfinite(y[known]).all()) and bool(known.reshape(len(y), -1).any(1).all())
    ):
        raise InputError(f"{where}: y must hold finite floats" + " or blanks (NaN)" * (task.num_outputs > 1))
    if task.kind == "multilabel" and not bool(((y[known] == 0) | (y[known] == 1)).all()):
        raise InputError(f"{where}: y must hold 0, 1 or blanks (NaN)")
