"""Raw graphs to a benchmark: checked, encoded, split, with the task they pose."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import SPLIT_NAMES, Benchmark
from gnas.data.checks import check_encoding, check_splits
from gnas.data.encoding import LARGEST_DEGREE, Array, Column, Encoding, check_finite, format_list, read_columns
from gnas.data.own.columns import fit_encoding, note_features, note_unseen, read_features
from gnas.data.own.links import NO_PAIRS, is_undirected, prepare_links
from gnas.data.own.options import LoadOptions, use_edges
from gnas.data.own.problems import find_problems
from gnas.data.own.raw import RawGraphs, check_raw_graphs, name_columns
from gnas.data.own.split import assign_splits, describe_split_rule, drop_unlabelled
from gnas.data.own.targets import (
    choose_metric,
    compute_target_moments,
    infer_encoding,
    note_label_classes,
    read_targets,
)
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.encodings import fill_encodings
from gnas.model.losses import positive_weights
from gnas.model.task import Task
from gnas.printed import format_count

OF_MOLECULES = ("smiles", "atoms", "descriptors")  # options
SOURCES = {
    "pyg": "PyG objects",
    "networkx": "NetworkX graphs",
    "tables": "tables",
    "smiles": "SMILES",
    "tu": "TU folder",
}


def assemble_benchmark(raw: RawGraphs, options: LoadOptions) -> Benchmark:
    """Check, encode and split raw graphs."""
    _check_options(raw, options)
    oddities = check_raw_graphs(raw)
    raw = _select_inputs(raw, options)
    undirected = raw.level == "link" and is_undirected(raw)
    raw = prepare_links(raw, options) if raw.level == "link" else raw
    encoding = infer_encoding(raw, options.kind, options.categorical)
    y, rows = read_targets(encoding, raw)
    assigned = assign_splits(raw, y, rows, options)
    by_rows = assigned.by_rows
    codes, left_out = drop_unlabelled(raw, assigned.codes, rows, by_rows)
    encoding = fit_encoding(encoding, raw, None if by_rows else codes == 0)
    # Edge targets are sorted with their edges; the codes take the place of the mask until then.
    whole = _graph_set(raw, encoding, y, codes if by_rows else rows.astype(np.int8) - 1)
    splits = _by_rows(whole) if by_rows else _by_graphs(whole, codes)
    if raw.draw_negatives:
        splits["train"] = dataclasses.replace(splits["train"], draw_negatives=True)
    folds = [_split_targets(raw, y, rows, one, by_rows) for one in assigned.of_folds]
    metric, reasons = choose_metric(encoding, folds or [{k: g.targets() for k, g in splits.items()}], options.metric)
    task = dataclasses.replace(_make_task(encoding, splits["train"], options, metric), undirected=undirected)
    check_splits(splits, task, describe_split_rule(raw, codes, options))
    notes = (
        *(*raw.notes, *oddities, *_input_notes(raw, encoding), *note_unseen(encoding, raw)),
        *(*note_features(encoding, raw), *_unseen_notes(whole, splits["train"], encoding)),
        *(*left_out, *note_label_classes(encoding, splits)),
    )
    return Benchmark(
        options.name or raw.name,
        splits["train"],
        splits["val"],
        splits["test"],
        task=task,
        source=SOURCES[raw.source],
        notes=notes,
        encoding=dataclasses.replace(encoding, reasons=(*encoding.reasons, *reasons, *assigned.how)),
        files=raw.files,
        left_out=raw.left_out,
        problems=find_problems(raw, whole, y, codes, by_rows, encoding.labels, assigned.stratified),
    )


def encode_raw(raw: RawGraphs, encoding: Encoding, task: Task) -> GraphSet:
    """New raw graphs as the network that was trained with ``encoding`` reads them; targets may be missing."""
    check_encoding(encoding, task, "this model")
    check_raw_graphs(raw)
    if raw.level == "link" and raw.pairs is None:
        raise InputError(NO_PAIRS)
    names = {column.name for column in encoding.nodes}
    if raw.pos is not None and names.issuperset(name_columns("pos", raw.pos)) and not names <= set(raw.nodes):
        raw = _with_positions(raw)
    _check_width(raw, encoding)
    y, _ = read_targets(encoding, raw)
    if not (task.edge_categories or task.edge_channels):
        encoding = dataclasses.replace(encoding, edges=())  # of older versions, whose networks do not read them
    return fill_encodings(_graph_set(raw, encoding, y, None), task)


def _check_options(raw: RawGraphs, options: LoadOptions) -> None:
    """An error for an option that means nothing to these graphs, and for a column that is both target and feature."""
    for name in OF_MOLECULES:
        if getattr(options, name) is not None and raw.source != "smiles":
            raise InputError(f"the data option {name} is for molecules, and {raw.name!r} holds none; leave it out")
    both = [name for name in raw.graphs if name in raw.targets]
    if both:
        raise InputError(f"{both[0]!r} is both the target and a feature of graphs; name another with target")


def _select_inputs(raw: RawGraphs, options: LoadOptions) -> RawGraphs:
    """The columns that the options choose; the others are named as left out."""
    if raw.edges and not use_edges(options.edges):
        unused = f"{format_count(len(raw.edges), 'edge column')} ({format_list(list(raw.edges))}): edges=none"
        raw = dataclasses.replace(raw, edges={}, left_out=(*raw.left_out, unused))
    if options.edges in (True, "yes") and not raw.edges:
        raise InputError("edges is yes, but the edges have no columns; leave the data option edges out")
    if options.pos:
        if raw.pos is None:
            raise InputError("pos is yes, but the graphs have no positions; leave the data option pos out")
        raw = _with_positions(raw)
    return raw


def _with_positions(raw: RawGraphs) -> RawGraphs:
    assert raw.pos is not None
    return dataclasses.replace(raw, nodes={**raw.nodes, **name_columns("pos", raw.pos)})


def _check_width(raw: RawGraphs, encoding: Encoding) -> None:
    """Columns of a matrix have no names: another number of columns means other columns."""
    found, needed = len(raw.nodes), len(encoding.nodes)
    matrix = raw.source in ("pyg", "networkx") and encoding.nodes[0].kind != "degree"
    if matrix and found and found != needed:
        raise InputError(f"x has {found} column{'s' * (found != 1)}; this network reads {needed}")


def default_encoding(task: Task) -> Encoding:
    """The encoding of PyG objects whose x is what the task reads."""
    nodes = _default_columns("x", task.categories or (0,) * task.in_channels)
    edges = _default_columns("edge_attr", task.edge_categories or (0,) * task.edge_channels)
    labels = tuple(map(str, range(task.num_outputs))) if task.kind == "classification" else ()
    targets = tuple(column.name for column in _default_columns("y", (0,) * (1 if labels else task.num_outputs)))
    return Encoding("pyg", task.level, task.kind, nodes, edges, targets=targets, labels=labels)


def _default_columns(name: str, sizes: Sequence[int]) -> tuple[Column, ...]:
    """The columns of a matrix with these numbers of categories; 0: a continuous column."""
    names = [name] if len(sizes) == 1 else [f"{name}{i}" for i in range(len(sizes))]
    return tuple(Column(n, "integer" if s else "continuous", s) for n, s in zip(names, sizes, strict=True))


# -- tensors -------------------------------------------------------------------------------------------------------


def _graph_set(raw: RawGraphs, encoding: Encoding, y: Array, mask: Array | None) -> GraphSet:
    x = _degree(raw) if encoding.nodes[0].kind == "degree" else _columns(raw, encoding.nodes, "node")
    edge_attr = _columns(raw, encoding.edges, "edge") if encoding.edges else None
    pos = None
    if raw.pos is not None:
        place, columns = raw.place("node"), enumerate(raw.pos.T)
        pos = np.stack([check_finite(column, f"pos {i}", place) for i, column in columns], axis=1)
    nodes, edges = _pointers(raw.node_counts), _pointers(raw.edge_counts)
    more = map(_tensor, (mask, edge_attr, pos, read_features(encoding, raw)))
    graphs = GraphSet.build(_tensor(x), _tensor(raw.edge_index), nodes, edges, _tensor(y), raw.level, *more)
    rows = np.arange(len(raw)) if raw.rows is None else raw.rows
    graphs = dataclasses.replace(graphs, rows=_tensor(rows.astype(np.int64)))
    if raw.pairs is None or raw.pair_counts is None:
        return graphs
    pairs = _tensor(raw.pairs).to(graphs.edge_index.dtype)
    return dataclasses.replace(graphs, pairs=pairs, pair_ptr=_pointers(raw.pair_counts))


def _tensor(array: Array | None) -> Any:
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array))


def _pointers(counts: Array) -> Tensor:
    return torch.from_numpy(np.concatenate([[0], counts.cumsum()]).astype(np.int64))


def _columns(raw: RawGraphs, columns: tuple[Column, ...], level: str) -> Array:
    table = raw.tables[level]
    missing = [c.name for c in columns if c.name not in table]
    if missing:
        raise InputError(f"{level}s have no column {missing[0]!r}; they have: {format_list(list(table)) or 'none'}")
    return read_columns(columns, table, raw.place(level))


def _degree(raw: RawGraphs) -> Array:
    degree = np.bincount(raw.flat_edges()[1], minlength=int(raw.node_counts.sum()))
    return np.minimum(degree, LARGEST_DEGREE).astype(np.int16)[:, None]


def _by_rows(whole: GraphSet) -> dict[str, GraphSet]:
    assert whole.mask is not None
    marks = {name: whole.mask == code for code, name in enumerate(SPLIT_NAMES)}
    if whole.level == "link":
        return {name: whole.select_pairs(mask) for name, mask in marks.items()}
    return {name: dataclasses.replace(whole, mask=mask) for name, mask in marks.items()}


def _by_graphs(whole: GraphSet, codes: Array) -> dict[str, GraphSet]:
    assert whole.mask is not None
    mask = None if whole.level == "graph" or bool((whole.mask == 0).all()) else whole.mask == 0
    whole = dataclasses.replace(whole, mask=mask)
    return {name: whole.select(_tensor(np.flatnonzero(codes == code))) for code, name in enumerate(SPLIT_NAMES)}


def _split_targets(raw: RawGraphs, y: Array, rows: Array, codes: Array, by_rows: bool) -> dict[str, Tensor]:
    """The targets of each split of a fold."""
    of_rows = np.where(rows, codes if by_rows else raw.spread(codes), -1)
    return {name: torch.from_numpy(y[of_rows == code]) for code, name in enumerate(SPLIT_NAMES)}


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
    """Tokens and degrees that only val or test have; ``note_fit`` has the lines on other columns."""
    notes = []
    for i, column in enumerate(encoding.nodes if encoding.categories else ()):
        if column.other or column.kind == "integer":
            continue
        everywhere, learned = (len(g.x[:, i].unique()) for g in (whole, train))
        if everywhere > learned:
            notes.append(f"column {column.name!r}: {everywhere - learned} of {everywhere} categories are not in train")
    return notes


def _make_task(encoding: Encoding, train: GraphSet, options: LoadOptions, metric: str) -> Task:
    outputs, y = len(encoding.labels) or len(encoding.targets), train.targets()
    standardise = encoding.kind == "regression" and options.standardise and len(y)
    center, scale = compute_target_moments(y) if standardise else ((0.0,), (1.0,))
    return Task(
        encoding.level,
        encoding.kind,
        outputs,
        encoding.categories,
        encoding.in_channels,
        options.loss or "",
        metric,
        options.readout or "mean",
        center=center,
        scale=scale,
        labels=encoding.labels or (encoding.targets if outputs > 1 else ()),
        graph_channels=len(encoding.graphs),
        edge_categories=encoding.edge_categories,
        edge_channels=encoding.edge_channels,
        other=number_other(encoding.nodes) if encoding.categories else (),
        edge_other=number_other(encoding.edges) if encoding.edge_categories else (),
        positive_weight=positive_weights(y) if options.loss == "weighted_bce" else (),
        head=options.head or ("linear" if encoding.level == "node" and len(train) == 1 else "mlp"),
    )


def number_other(columns: tuple[Column, ...]) -> tuple[int, ...]:
    """The numbers of the columns that have a category for other values."""
    return tuple(i for i, column in enumerate(columns) if column.other)
