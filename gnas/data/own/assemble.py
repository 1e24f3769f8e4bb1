"""Raw graphs to a benchmark: checked, encoded, split, with the task they pose."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import Benchmark
from gnas.data.checks import check_encoding, check_splits, check_structure, split_targets
from gnas.data.encoding import LARGEST_DEGREE, Array, Column, Encoding, counted, finite, read_columns, some
from gnas.data.options import Options
from gnas.data.own.assign import advice, assign, only_labelled
from gnas.data.own.infer import infer_encoding, read_targets
from gnas.data.own.raw import SPLIT_NAMES, RawGraphs, flat_edges
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task


def assemble(raw: RawGraphs, options: Options) -> Benchmark:
    """Check, encode and split raw graphs."""
    structure = check_structure(raw)
    encoding = infer_encoding(raw, options.kind, options.categorical)
    y, rows = read_targets(encoding, raw)
    codes, by_rows, how = assign(raw, y, rows, options)
    codes, left_out = only_labelled(raw, codes, rows, by_rows)
    # Edge targets are sorted with their edges: the codes travel in the place of the mask.
    marks = torch.from_numpy(codes if by_rows else rows.astype(np.int8) - 1)
    whole = _graph_set(raw, encoding, y, marks)
    splits = _by_rows(whole) if by_rows else _by_graphs(whole, codes)
    task = _task(encoding, splits["train"], options)
    check_splits(splits, task, advice(raw, codes, options))
    inputs = (*_input_notes(raw, encoding), *_unseen(whole, splits["train"], encoding))
    notes = (*raw.notes, *structure, *inputs, *left_out, how)
    source = {"pyg": "PyG objects", "networkx": "NetworkX graphs", "tables": "tables", "smiles": "SMILES"}[raw.source]
    return Benchmark(options.name or raw.name, **splits, task=task, source=source, notes=notes, encoding=encoding)


def encode_raw(raw: RawGraphs, encoding: Encoding, task: Task) -> GraphSet:
    """New raw graphs as the network that was trained with ``encoding`` reads them; targets may be missing."""
    check_encoding(encoding, task, "this model")
    check_structure(raw)
    _check_width(raw, encoding)
    y, _ = read_targets(encoding, raw)
    return _graph_set(raw, encoding, y, None)


def _check_width(raw: RawGraphs, encoding: Encoding) -> None:
    """Columns of a matrix have no names: another number of them means others, and of a wider x the rest would be left out."""
    found, known = len(raw.nodes), len(encoding.nodes)
    matrix = raw.source in ("pyg", "networkx") and encoding.nodes[0].kind != "degree"
    if matrix and found and found != known:
        raise InputError(f"x has {found} column{'s' * (found != 1)}; this network reads {known}")


def encoding_of(task: Task) -> Encoding:
    """The plain encoding: PyG objects whose x is already what the task reads."""
    width = len(task.categories) or task.in_channels
    names = ["x"] if width == 1 else [f"x{i}" for i in range(width)]
    sizes = task.categories or (0,) * width
    columns = tuple(Column(n, "integer" if s else "continuous", s) for n, s in zip(names, sizes, strict=True))
    classes = task.num_outputs if task.kind == "classification" else 0
    targets = 1 if classes else task.num_outputs
    names = ["y"] if targets == 1 else [f"y{i}" for i in range(targets)]
    labels = tuple(str(i) for i in range(classes))
    return Encoding("pyg", task.level, task.kind, columns, targets=tuple(names), labels=labels)


# -- tensors -------------------------------------------------------------------------------------------------------


def _graph_set(raw: RawGraphs, encoding: Encoding, y: Array, mask: Tensor | None) -> GraphSet:
    x = _degree(raw) if encoding.nodes[0].kind == "degree" else _columns(raw, encoding.nodes, "node")
    edge_attr = _columns(raw, encoding.edges, "edge") if encoding.edges else None
    pos = None
    if raw.pos is not None:
        pos = np.stack([finite(raw.pos[:, i], f"pos {i}", raw.node_place) for i in range(raw.pos.shape[1])], axis=1)

    def tensor(array: Array | None) -> Tensor | None:
        return None if array is None else torch.from_numpy(np.ascontiguousarray(array))

    return GraphSet.build(
        torch.from_numpy(x),
        torch.from_numpy(np.ascontiguousarray(raw.edge_index)),
        _pointers(raw.node_counts),
        _pointers(raw.edge_counts),
        torch.from_numpy(y),
        raw.level,
        mask,
        tensor(edge_attr),
        tensor(pos),
    )


def _pointers(counts: Array) -> Tensor:
    return torch.from_numpy(np.concatenate([[0], counts.cumsum()]).astype(np.int64))


def _columns(raw: RawGraphs, columns: tuple[Column, ...], what: str) -> Array:
    table = raw.nodes if what == "node" else raw.edges
    place = raw.node_place if what == "node" else raw.edge_place
    missing = [c.name for c in columns if c.name not in table]
    if missing:
        raise InputError(f"{what}s have no column {missing[0]!r}; they have: {some(list(table)) or 'none'}")
    return read_columns(columns, table, place)


def _degree(raw: RawGraphs) -> Array:
    targets = flat_edges(raw.node_counts, raw.edge_counts, raw.edge_index)[1]
    degree = np.bincount(targets, minlength=int(raw.node_counts.sum()))
    return np.minimum(degree, LARGEST_DEGREE).astype(np.int16)[:, None]


def _by_rows(whole: GraphSet) -> dict[str, GraphSet]:
    assert whole.mask is not None
    return {name: dataclasses.replace(whole, mask=whole.mask == code) for code, name in enumerate(SPLIT_NAMES)}


def _by_graphs(whole: GraphSet, codes: Array) -> dict[str, GraphSet]:
    assert whole.mask is not None
    mask = None if bool((whole.mask == 0).all()) else whole.mask == 0
    whole = dataclasses.replace(whole, mask=mask)
    return {
        name: whole.select(torch.from_numpy(np.flatnonzero(codes == code))) for code, name in enumerate(SPLIT_NAMES)
    }


def _input_notes(raw: RawGraphs, encoding: Encoding) -> list[str]:
    notes = []
    if encoding.nodes[0].kind == "degree":
        notes.append(f"no node features: the in-degree is used, as a category clipped at {LARGEST_DEGREE}")
    if encoding.mixed:
        names = [c.name for c in encoding.nodes if c.categorical]
        notes.append(f"categorical columns turned one-hot beside continuous ones: {some(names)}")
    numbers = [c.name for c in encoding.nodes if c.kind == "continuous" and raw.nodes[c.name].dtype.kind == "i"]
    if numbers:
        notes.append(f"{counted(len(numbers), 'integer column')} read as continuous: {some(numbers, 3)}")
    return notes


def _unseen(whole: GraphSet, train: GraphSet, encoding: Encoding) -> list[str]:
    """Categories that only val or test have: nothing is learned about them."""
    notes = []
    for i, column in enumerate(encoding.nodes if encoding.categories else ()):
        everywhere, learned = (len(g.x[:, i].unique()) for g in (whole, train))
        if everywhere > learned:
            notes.append(f"column {column.name!r}: {everywhere - learned} of {everywhere} categories are not in train")
    return notes


def _task(encoding: Encoding, train: GraphSet, options: Options) -> Task:
    center, scale = (0.0,), (1.0,)
    outputs = len(encoding.labels) or len(encoding.targets)
    y = split_targets(train)
    if encoding.kind == "regression" and options.standardise and len(y):
        spread = y.double().std(0, correction=0)
        center = tuple(y.double().mean(0).tolist())
        scale = tuple(torch.where(spread > 0, spread, 1.0).tolist())
    return Task(
        encoding.level,
        encoding.kind,
        outputs,
        encoding.categories,
        encoding.in_channels,
        options.loss or "",
        options.metric or "",
        options.readout or "mean",
        center=center,
        scale=scale,
        labels=encoding.labels,
    )
