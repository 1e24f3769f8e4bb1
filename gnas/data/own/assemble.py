"""Raw graphs to a benchmark: checked, encoded, split, with the task they pose."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import SPLIT_NAMES, Benchmark
from gnas.data.checks import check_encoding, check_raw_graphs, check_splits
from gnas.data.encoding import (
    LARGEST_DEGREE,
    Array,
    Column,
    Encoding,
    check_finite,
    format_count,
    format_list,
    read_columns,
)
from gnas.data.own.infer import infer_encoding, read_targets
from gnas.data.own.molecules import find_scaffolds
from gnas.data.own.options import LoadOptions
from gnas.data.own.raw import RawGraphs
from gnas.data.splits import random_split, scaffold_split, stratified_split
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task

SOURCES = {
    "pyg": "PyG objects",
    "networkx": "NetworkX graphs",
    "tables": "tables",
    "smiles": "SMILES",
    "tu": "TU folder",
}


def assemble_benchmark(raw: RawGraphs, options: LoadOptions) -> Benchmark:
    """Check, encode and split raw graphs."""
    oddities = check_raw_graphs(raw)
    encoding = infer_encoding(raw, options.kind, options.categorical)
    y, rows = read_targets(encoding, raw)
    codes, by_rows, how = _assign_splits(raw, y, rows, options)
    codes, left_out = _drop_unlabelled(raw, codes, rows, by_rows)
    # Edge targets are sorted with their edges; the codes take the place of the mask until then.
    marks = torch.from_numpy(codes if by_rows else rows.astype(np.int8) - 1)
    whole = _graph_set(raw, encoding, y, marks)
    splits = _by_rows(whole) if by_rows else _by_graphs(whole, codes)
    task = _make_task(encoding, splits["train"], options)
    check_splits(splits, task, _describe_split_rule(raw, codes, options))
    inputs = (*_input_notes(raw, encoding), *_unseen_notes(whole, splits["train"], encoding))
    notes = (*raw.notes, *oddities, *inputs, *left_out, how)
    train, val, test = (splits[name] for name in SPLIT_NAMES)
    return Benchmark(options.name or raw.name, train, val, test, task, SOURCES[raw.source], notes, encoding)


def encode_raw(raw: RawGraphs, encoding: Encoding, task: Task) -> GraphSet:
    """New raw graphs as the network that was trained with ``encoding`` reads them; targets may be missing."""
    check_encoding(encoding, task, "this model")
    check_raw_graphs(raw)
    _check_width(raw, encoding)
    y, _ = read_targets(encoding, raw)
    return _graph_set(raw, encoding, y, None)


def _check_width(raw: RawGraphs, encoding: Encoding) -> None:
    """Columns of a matrix have no names: another number of columns means other columns."""
    found, needed = len(raw.nodes), len(encoding.nodes)
    matrix = raw.source in ("pyg", "networkx") and encoding.nodes[0].kind != "degree"
    if matrix and found and found != needed:
        raise InputError(f"x has {found} column{'s' * (found != 1)}; this network reads {needed}")


def default_encoding(task: Task) -> Encoding:
    """The encoding of PyG objects whose x is what the task reads."""
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
        pos = np.stack(
            [check_finite(raw.pos[:, i], f"pos {i}", raw.node_place) for i in range(raw.pos.shape[1])], axis=1
        )

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
        raise InputError(f"{what}s have no column {missing[0]!r}; they have: {format_list(list(table)) or 'none'}")
    return read_columns(columns, table, place)


def _degree(raw: RawGraphs) -> Array:
    targets = raw.flat_edges()[1]
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
        notes.append(f"no node features: the in-degree is used as a category, clipped at {LARGEST_DEGREE}")
    if encoding.mixed:
        names = [c.name for c in encoding.nodes if c.categorical]
        notes.append(f"categorical columns became one-hot, because there are continuous ones too: {format_list(names)}")
    numbers = [c.name for c in encoding.nodes if c.kind == "continuous" and raw.nodes[c.name].dtype.kind == "i"]
    if numbers:
        notes.append(f"{format_count(len(numbers), 'integer column')} read as continuous: {format_list(numbers, 3)}")
    return notes


def _unseen_notes(whole: GraphSet, train: GraphSet, encoding: Encoding) -> list[str]:
    """Categories that only val or test have: nothing is learned about them."""
    notes = []
    for i, column in enumerate(encoding.nodes if encoding.categories else ()):
        everywhere, learned = (len(g.x[:, i].unique()) for g in (whole, train))
        if everywhere > learned:
            notes.append(f"column {column.name!r}: {everywhere - learned} of {everywhere} categories are not in train")
    return notes


def _make_task(encoding: Encoding, train: GraphSet, options: LoadOptions) -> Task:
    center, scale = (0.0,), (1.0,)
    outputs = len(encoding.labels) or len(encoding.targets)
    y = train.targets()
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


# -- the split of each graph, or of each node or edge if the splits share graphs ------------------------------------

FEWEST_GRAPHS = 3  # with fewer graphs, their nodes or edges are split instead


def _assign_splits(raw: RawGraphs, y: Array, rows: Array, options: LoadOptions) -> tuple[Array, bool, str]:
    """A code for each graph or each target row, whether it is by rows, and a note on the rule."""
    method = options.split
    if method in (None, "given"):
        if raw.row_split is not None:
            return raw.row_split, True, "split: as given, within graphs"
        if raw.graph_split is not None:
            return raw.graph_split, False, "split: as given"
        if method == "given":
            raise InputError(
                "the data has no split of its own; set the data option split to random, stratified or scaffold"
            )
    method = method or "random"
    by_rows = raw.level != "graph" and len(raw) < FEWEST_GRAPHS
    units = _units(raw, by_rows, rows)
    how = f"split: {method} {options.fractions} of {raw.level if by_rows else 'graph'}s by seed {options.seed}"
    return _codes(method, units, raw, y, by_rows, options), by_rows, how


def _units(raw: RawGraphs, by_rows: bool, rows: Array) -> Array:
    """A number per graph or row; -1 leaves it out. The two directions of an edge are one unit."""
    if not by_rows:
        return np.arange(len(raw))
    units = np.arange(len(rows))
    if raw.level == "edge":
        ends = np.sort(raw.flat_edges(), axis=0)
        units = ends[0] * int(raw.node_counts.sum()) + ends[1]
    return np.where(rows, units, -1)


def _codes(method: str, units: Array, raw: RawGraphs, y: Array, by_rows: bool, options: LoadOptions) -> Array:
    used = np.flatnonzero(units >= 0)
    _, first, unit = np.unique(units[used], return_index=True, return_inverse=True)
    if method == "scaffold":
        if not raw.smiles:
            raise InputError(
                "a scaffold split needs molecules as SMILES; set the data option split to random or stratified"
            )
        chosen = scaffold_split(find_scaffolds(raw.smiles), options.shares, options.seed)
    elif method == "stratified":
        if y.ndim != 1 or (raw.level != "graph" and not by_rows):
            raise InputError("a stratified split needs one class for each graph; set the data option split=random")
        chosen = stratified_split(y[used][first], options.shares, options.seed)
    else:
        chosen = random_split(len(first), options.shares, options.seed)
    codes = np.full(len(units), -1, np.int8)
    codes[used] = chosen[unit.reshape(-1)]
    return codes


def _drop_unlabelled(raw: RawGraphs, codes: Array, rows: Array, by_rows: bool) -> tuple[Array, tuple[str, ...]]:
    """Take rows without a target out of their split; a graph without a target is an error."""
    notes = []
    if raw.level == "graph" and not rows.all():
        row = int((~rows).argmax())
        what = f"{raw.target_place(row)}: no target ({format_list(list(raw.targets))} is empty or nan)"
        raise InputError(f"{what}, {format_count(int((~rows).sum()), 'graph')} in all; fill it in or remove them")
    if raw.level != "graph" and not rows.all():
        notes.append(
            f"{format_count(int((~rows).sum()), raw.level)} without target or split: they are context and do not count"
        )
    if not by_rows and (codes < 0).any():
        notes.append(f"{format_count(int((codes < 0).sum()), 'graph')} in no split: left out")
    return np.where(rows, codes, -1) if by_rows else codes, tuple(notes)


def _describe_split_rule(raw: RawGraphs, codes: Array, options: LoadOptions) -> str:
    """The end of the error line "the ... split is empty"."""
    if options.split in (None, "given") and (raw.row_split is not None or raw.graph_split is not None):
        return " (the splits come with the data)"
    return f" ({len(codes)} to split by fractions {options.fractions}); add data or change the fractions"
