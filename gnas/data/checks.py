"""Checks of what a file holds: an error for what is wrong, and for what takes more memory than it may."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import torch
from torch import Tensor

from gnas.data.encoding import Encoding
from gnas.errors import InputError, name_place
from gnas.graph import GraphSet
from gnas.model.task import Task

MEMORY, COLUMNS = "GNAS_MAX_MEMORY", "GNAS_MAX_COLUMNS"  # environment variables that replace the limits
FREE_BYTES = 2**26  # every file may take so much
MOST_GROWTH = 50  # a larger one at most this many times its size: for compressed graphs the factor is 1 to 10
MOST_BYTES = 16 * 2**30
MOST_COLUMNS = 100_000
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


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


def check_task(task: Task, where: str) -> None:
    """Check the numbers of a task read from a file."""
    sizes = (*task.categories, task.num_outputs)
    widths = (task.edge_channels, task.graph_channels, task.walks, task.laplacian, task.edge_walks)
    with name_place(where):
        if not all(0 < s < 2**31 for s in sizes) or not 0 <= task.in_channels < 2**31:
            raise InputError(f"a task of {task.num_outputs} outputs from {task.categories or task.in_channels}")
        if not all(0 < s < 2**31 for s in task.edge_categories) or not all(0 <= w < 2**31 for w in widths):
            raise InputError(f"a task with edge categories {task.edge_categories} and widths {widths}")
        for name, values in (("center", task.center), ("scale", task.scale)):
            if len(values) not in (1, task.num_outputs) or not all(abs(v) < 1e300 for v in values):
                raise InputError(f"task {name} {values} does not fit {task.num_outputs} outputs")
        measures = task.structure_center, task.structure_scale
        if not all(abs(v) < 1e300 for v in measures[0]) or not all(0 < v < 1e300 for v in measures[1]):
            raise InputError(f"task structure {measures[0]}, {measures[1]} is not finite")
        if min(task.scale) <= 0 or len(task.labels) not in (0, task.num_outputs):
            raise InputError(f"task scale {task.scale} or its {len(task.labels)} labels do not fit")


def check_encoding(encoding: Encoding, task: Task, where: str) -> None:
    """Check that an encoding gives what the task reads."""
    edges = encoding.edge_categories or encoding.edge_channels
    needed = task.edge_categories or task.edge_channels
    gives = (encoding.level, encoding.kind, encoding.categories, encoding.in_channels, len(encoding.graphs))
    reads = (task.level, task.kind, task.categories, task.in_channels, task.graph_channels)
    outputs = len(encoding.labels) if task.kind == "classification" else len(encoding.targets)
    with name_place(where):
        if needed and edges != needed:
            raise InputError(f"edges are encoded as {edges} columns, but the task reads {needed}")
        if gives != reads:
            raise InputError(f"the encoding gives {gives}, but the task reads {reads}")
        if outputs != task.num_outputs:
            raise InputError(f"the encoding has {outputs} outputs, but the task {task.num_outputs}")


# -- graphs ----------------------------------------------------------------------------------------------------------


def check_graph_set(graphs: GraphSet, task: Task, where: str) -> None:
    """Check a set of graphs read from a file: shapes, pointers, node numbers, categories, targets."""
    with name_place(where):
        if graphs.level != task.level:
            raise InputError(f"targets are at {graphs.level} level, the task is at {task.level} level")
        for name, dims in (("x", 2), ("edge_index", 2), ("node_ptr", 1), ("edge_ptr", 1)):
            if (found := getattr(graphs, name).dim()) != dims:
                raise InputError(f"{name} has {found} dimensions; {dims} are needed")
        _check_shape("edge_index", graphs.edge_index, (2, graphs.num_edges))
        nodes, edges = graphs.node_ptr, graphs.edge_ptr
        _check_pointer("node_ptr", nodes, graphs.num_nodes)
        _check_pointer("edge_ptr", edges, graphs.num_edges)
        if len(nodes) != len(edges):
            raise InputError(f"{len(nodes) - 1} graphs by their nodes, {len(edges) - 1} by their edges")
        _check_columns(graphs, task)
        _check_edges(graphs)
        if graphs.level == "link":
            _check_pairs(graphs)
        _check_targets(graphs, task)


def _check_pointer(name: str, pointer: Tensor, last: int) -> None:
    """Check that a pointer of graphs runs from 0 to ``last``, never backwards."""
    if pointer.dtype != torch.int64 or len(pointer) < 2 or int(pointer[0]) or int(pointer[-1]) != last:
        raise InputError(f"{name} does not run from 0 to {last}")
    if bool((pointer.diff() < 0).any()):
        raise InputError(f"{name} runs backwards")


def _check_columns(graphs: GraphSet, task: Task) -> None:
    """Shapes, and the values of what the task reads. Encodings may be missing: a network computes them."""
    nodes, edges, count = graphs.num_nodes, graphs.num_edges, len(graphs)
    shapes: dict[str, tuple[int, ...]] = {  # of what the task reads
        "x": (nodes, len(task.categories) or task.in_channels),
        "edge_attr": (edges, len(task.edge_categories) or task.edge_channels),
        "graph_attr": (count, task.graph_channels),
        "node_pe": (nodes, task.walks + task.laplacian),
        "edge_pe": (edges, task.edge_walks),
    }
    categories = {"x": task.categories, "edge_attr": task.edge_categories}
    for name, shape in shapes.items():
        value, unread = getattr(graphs, name), name in ("edge_attr", "graph_attr") and not shape[1]
        if value is None and not unread and name.endswith("_attr"):
            raise InputError(f"no {name}; the task reads {shape[1]} columns of it")
        if value is None or unread:
            continue
        value = value[:, None] if name == "edge_attr" and value.dim() == 1 else value
        _check_shape(name, value, shape)
        _check_values(value, categories.get(name, ()), name)
    for name, rows in (("edge_attr", edges), ("pos", nodes), ("graph_attr", count), ("rows", count)):
        value = getattr(graphs, name)
        if value is not None and (value.dim() == 0 or len(value) != rows):
            raise InputError(f"{name} has the shape {list(value.shape)}; {rows} rows are needed")


def _check_shape(name: str, value: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(value.shape) != expected:
        raise InputError(f"{name} has the shape {list(value.shape)}; {list(expected)} is needed")


def _check_values(values: Tensor, categories: tuple[int, ...], name: str) -> None:
    """Categories must be whole numbers within their ranges, features finite floats."""
    if not categories:
        if not values.is_floating_point() or not bool(torch.isfinite(values).all()):
            raise InputError(f"{name} must hold finite floats")
        return
    if values.is_floating_point() or values.dtype == torch.bool:
        raise InputError(f"{name} holds {values.dtype}; categories are whole numbers")
    if len(values) and bool(((values < 0) | (values.long() >= torch.tensor(categories))).any()):
        raise InputError(f"{name} holds categories outside {list(categories)}")


def _check_edges(graphs: GraphSet) -> None:
    edge_index = graphs.edge_index
    if edge_index.dtype not in (torch.int16, torch.int32, torch.int64):
        raise InputError(f"edge_index holds {edge_index.dtype}; whole numbers are needed")
    source, target = edge_index.long()
    graph = torch.repeat_interleave(torch.arange(len(graphs)), graphs.edge_counts)
    wrong = ((edge_index < 0) | (edge_index >= graphs.node_counts[graph])).any(0)
    if bool(wrong.any()):
        raise InputError(f"graph {int(graph[wrong][0])}: an edge joins a node that does not exist")
    largest = int(graphs.node_counts.max())
    if bool((((graph * largest + target) * largest + source).diff() < 0).any()):
        raise InputError("edges are not sorted by graph, target and source")


def _check_pairs(graphs: GraphSet) -> None:
    pairs, pointer = graphs.pairs, graphs.pair_ptr
    if pairs is None or pointer is None or pairs.dim() != 2 or pairs.size(0) != 2 or pairs.is_floating_point():
        raise InputError("a link task needs pairs of nodes, [2, pairs], and where those of each graph begin")
    if len(pointer) != len(graphs.node_ptr):
        raise InputError(f"pair_ptr does not run from 0 to {pairs.size(1)}")
    _check_pointer("pair_ptr", pointer, pairs.size(1))
    if bool(((pairs < 0) | (pairs.long() >= torch.repeat_interleave(graphs.node_counts, pointer.diff()))).any()):
        raise InputError("a pair has a node that does not exist")


def _check_targets(graphs: GraphSet, task: Task) -> None:
    pairs = 0 if graphs.pairs is None else graphs.pairs.size(1)
    rows = {"graph": len(graphs), "node": graphs.num_nodes, "edge": graphs.num_edges, "link": pairs}[task.level]
    classes = task.kind == "classification"
    flat = classes or (graphs.y.dim() == 1 and task.num_outputs == 1)
    _check_shape("y", graphs.y, (rows,) if flat else (rows, task.num_outputs))
    if graphs.mask is not None:
        _check_shape("mask", graphs.mask, (rows,))
        if graphs.mask.dtype != torch.bool:
            raise InputError(f"mask holds {graphs.mask.dtype}; bool is needed")
    y = graphs.targets()
    if classes:
        if y.is_floating_point() or (len(y) and not 0 <= int(y.min()) <= int(y.max()) < task.num_outputs):
            raise InputError(f"y must hold classes 0..{task.num_outputs - 1}")
        return
    known = ~torch.isnan(y) if task.num_outputs > 1 else torch.ones_like(y, dtype=torch.bool)
    some = known.any(1) if known.dim() > 1 else known  # every row has a target
    if not (y.is_floating_point() and bool(torch.isfinite(y[known]).all()) and bool(some.all())):
        raise InputError("y must hold finite floats" + " or blanks (NaN)" * (task.num_outputs > 1))
    if task.kind == "multilabel" and not bool(((y[known] == 0) | (y[known] == 1)).all()):
        raise InputError("y must hold 0, 1 or blanks (NaN)")


# -- memory: a small file cannot fill the machine ----------------------------------------------------------------------


def allowed_memory(size: int, free: int = FREE_BYTES) -> int:
    """Bytes of memory that the content of a file of ``size`` bytes may take."""
    text = os.environ.get(MEMORY)
    if text is None:
        return min(MOST_BYTES, max(free, MOST_GROWTH * size))
    found = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise InputError(f"{MEMORY} is {text!r}; write it as a number of bytes or like 16GB")
    return int(found[1]) * _UNITS[found[2].upper()]


def check_memory(needed: int, size: int, where: str, free: int = FREE_BYTES) -> None:
    """An error if the content of a file of ``size`` bytes takes more memory than it may."""
    allowed = allowed_memory(size, free)
    if needed > allowed:
        raise InputError(
            f"{where} would take {needed:,} bytes of memory, from a file of {size:,}; allowed are {allowed:,}; if you trust "
            f"the file, set the environment variable {MEMORY}={-(-needed // 10**9)}GB"
        )


def check_columns(count: int, where: str) -> None:
    """An error if a table has more columns than it may."""
    text = os.environ.get(COLUMNS, str(MOST_COLUMNS))
    if not text.strip().isdecimal():
        raise InputError(f"{COLUMNS} is {text!r}; it must be a whole number")
    if count > int(text):
        raise InputError(
            f"{where}: {count:,} columns; allowed are {int(text):,}; remove some, or set the environment variable "
            f"{COLUMNS}={count}"
        )
