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
    format_list,
    read_columns,
)
from gnas.data.own.fit import fit_encoding, note_fit, read_features
from gnas.data.own.graph_features import check_options
from gnas.data.own.infer import infer_encoding, read_targets
from gnas.data.own.links import NO_PAIRS, is_undirected, prepare_links
from gnas.data.own.options import LoadOptions, use_edges
from gnas.data.own.problems import find_problems
from gnas.data.own.raw import RawGraphs, codes_of_rows, name_columns
from gnas.data.own.split import assign_splits, describe_split_rule, drop_unlabelled
from gnas.data.own.targets import choose_metric, compute_target_moments, note_label_classes
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.encodings import fill_encodings
from gnas.model.losses import positive_weights
from gnas.model.task import Task
from gnas.printed import format_count

SOURCES = {
    "pyg": "PyG objects",
    "networkx": "NetworkX graphs",
    "tables": "tables",
    "smiles": "SMILES",
    "tu": "TU folder",
}


def assemble_benchmark(raw: RawGraphs, options: LoadOptions) -> Benchmark:
    """Check, encode and split raw graphs."""
    check_options(raw, options)
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
    marks = torch.from_numpy(codes if by_rows else rows.astype(np.int8) - 1)
    whole = _graph_set(raw, encoding, y, marks)
    splits = _by_rows(whole) if by_rows else _by_graphs(whole, codes)
    if raw.draw_negatives:
        splits["train"] = dataclasses.replace(splits["train"], draw_negatives=True)
    parts = [_split_targets(raw, y, rows, one, by_rows) for one in assigned.of_folds]
    metric, reasons = choose_metric(encoding, parts or [{k: g.targets() for k, g in splits.items()}], options.metric)
    task = dataclasses.replace(_make_task(encoding, splits["train"], options, metric), undirected=undirected)
    check_splits(splits, task, describe_split_rule(raw, codes, options))
    unseen = (*note_fit(encoding, raw), *_unseen_notes(whole, splits["train"], encoding))
    inputs = (*_input_notes(raw, encoding), *unseen)
    labels = note_label_classes(encoding, splits)
    encoding = dataclasses.replace(encoding, reasons=(*encoding.reasons, *reasons, *assigned.how))
    return Benchmark(
        options.name or raw.name,
        splits["train"],
        splits["val"],
        splits["test"],
        task=task,
        source=SOURCES[raw.source],
        notes=(*raw.notes, *oddities, *inputs, *left_out, *labels),
        encoding=encoding,
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
    raw = _add_inputs(raw, encoding)
    _check_width(raw, encoding)
    y, _ = read_targets(encoding, raw)
    if not (task.edge_categories or task.edge_channels):
        encoding = dataclasses.replace(encoding, edges=())  # of older versions, whose networks do not read them
    return fill_encodings(_graph_set(raw, encoding, y, None), task)


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


def _add_inputs(raw: RawGraphs, encoding: Encoding) -> RawGraphs:
    """New graphs with their positions among the node columns, if the encoding has them there."""
    names = {column.name for column in encoding.nodes}
    wanted = raw.pos is not None and names.issuperset(name_columns("pos", raw.pos)) and not names <= set(raw.nodes)
    return _with_positions(raw) if wanted else raw


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
    width = len(task.categories) or task.in_channels
    names = ["x"] if width == 1 else [f"x{i}" for i in range(width)]
    sizes = task.categories or (0,) * width
    columns = tuple(Column(n, "integer" if s else "continuous", s) for n, s in zip(names, sizes, strict=True))
    edges = tuple(Column(n, "integer" if s else "continuous", s) for n, s in _edge_columns(task).items())
    classes = task.num_outputs if task.kind == "classification" else 0
    targets = 1 if classes else task.num_outputs
    names = ["y"] if targets == 1 else [f"y{i}" for i in range(targets)]
    labels = tuple(str(i) for i in range(classes))
    return Encoding("pyg", task.level, task.kind, columns, edges, targets=tuple(names), labels=labels)


def _edge_columns(task: Task) -> dict[str, int]:
    """Names and numbers of categories of edge_attr."""
    sizes = task.edge_categories or (0,) * task.edge_channels
    return {"edge_attr" if len(sizes) == 1 else f"edge_attr{i}": size for i, size in enumerate(sizes)}


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

    graphs = GraphSet.build(
        torch.from_numpy(x),
        torch.from_numpy(np.ascontiguousarray(raw.edge_index)),
        _pointers(raw.node_counts),
        _pointers(raw.edge_counts),
        torch.from_numpy(y),
        raw.level,
        mask,
        tensor(edge_attr),
        tensor(pos),
        tensor(read_features(encoding, raw)),
    )
    rows = np.arange(len(raw)) if raw.rows is None else raw.rows
    graphs = dataclasses.replace(graphs, rows=torch.from_numpy(rows.astype(np.int64)))
    if raw.pairs is None or raw.pair_counts is None:
        return graphs
    pairs = torch.from_numpy(np.ascontiguousarray(raw.pairs)).to(graphs.edge_index.dtype)
    return dataclasses.replace(graphs, pairs=pairs, pair_ptr=_pointers(raw.pair_counts))


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
    codes = whole.mask
    assert codes is not None
    if whole.level == "link":
        return {name: whole.select_pairs(codes == code) for code, name in enumerate(SPLIT_NAMES)}
    return {name: dataclasses.replace(whole, mask=codes == code) for code, name in enumerate(SPLIT_NAMES)}


def _split_targets(raw: RawGraphs, y: Array, rows: Array, codes: Array, by_rows: bool) -> dict[str, Tensor]:
    """The targets of each split of a fold."""
    of_rows = np.where(rows, codes if by_rows else codes_of_rows(raw, codes), -1)
    return {name: torch.from_numpy(y[of_rows == code]) for code, name in enumerate(SPLIT_NAMES)}


def _by_graphs(whole: GraphSet, codes: Array) -> dict[str, GraphSet]:
    assert whole.mask is not None
    mask = None if whole.level == "graph" or bool((whole.mask == 0).all()) else whole.mask == 0
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
    center: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    outputs = len(encoding.labels) or len(encoding.targets)
    y = train.targets()
    if encoding.kind == "regression" and options.standardise and len(y):
        center, scale = compute_target_moments(y)
    labels = encoding.labels or (encoding.targets if outputs > 1 else ())
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
        labels=labels,
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
