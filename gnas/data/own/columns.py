"""Columns of nodes, edges and graphs: which hold categories and which numbers, and what they take from the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gnas.data.encoding import LARGEST_DEGREE, Array, Column, Encoding, Feature, Place, format_list, format_value
from gnas.data.own.options import Categorical
from gnas.data.own.raw import RawGraphs
from gnas.errors import InputError, choose
from gnas.printed import format_count

MOST_CATEGORIES = 1000  # an integer column with more values is a measurement
FITTED_SOURCES = ("smiles", "tables", "tu", "networkx")  # PyG's x is what the network reads: its categories stay


# -- categories or numbers -------------------------------------------------------------------------------------------


def infer_node_columns(raw: RawGraphs, categorical: Categorical) -> tuple[Column, ...]:
    """The node columns; without any, the in-degree."""
    if not raw.nodes:
        return (Column("degree", "degree", LARGEST_DEGREE + 1),)
    decided = _read_categorical(raw.nodes, categorical)
    return tuple(infer_column(name, values, decided[name], raw.place("node")) for name, values in raw.nodes.items())


def describe_columns(columns: Sequence[Column]) -> str:
    """A line that says what the node columns are."""
    kinds = [column.categorical for column in columns]
    if columns[0].kind == "degree":
        what = f"no node features, so the in-degree is the category (up to {LARGEST_DEGREE})"
    elif all(kinds):
        sizes = format_list([column.size for column in columns])
        what = f"{format_count(len(columns), 'categorical column')} of {sizes} values"
    else:
        what = format_count(kinds.count(False), "continuous column")
        what += f" and {sum(kinds)} categorical, as one-hot columns" if any(kinds) else ""
    return f"input: {what}"


def _read_categorical(columns: Mapping[str, Array], categorical: Categorical) -> dict[str, bool | None]:
    """The caller's decision for each column; None: its values decide."""
    if categorical is None:
        # Many 0/1 columns are a bag of words or one-hot rows; a linear map reads them, and embeddings would only cost time.
        bits = len(columns) > 1 and all(v.dtype.kind == "i" and v.min() >= 0 and v.max() <= 1 for v in columns.values())
        return dict.fromkeys(columns, False if bits else None)
    if isinstance(categorical, bool):
        return dict.fromkeys(columns, categorical)
    for name in categorical:
        choose(name, columns, "categorical column")
    return {n: True if n in categorical else (None if v.dtype.kind == "S" else False) for n, v in columns.items()}


def infer_column(name: str, values: Array, categorical: bool | None, place: Place) -> Column:
    """Floats are continuous, integers and texts are categories, unless the caller says otherwise."""
    if values.dtype.kind == "S":
        if categorical is False:
            first = format_value(values[0])
            raise InputError(f"{place(0)}: column {name!r} holds texts ({first}) and cannot be continuous")
        texts = sorted(set(values.tolist()))
        if len(texts) > MOST_CATEGORIES:
            raise InputError(f"column {name!r} holds {len(texts)} different texts; remove it, or group them")
        return Column(name, "vocabulary", len(texts), tuple(t.decode(errors="replace") for t in texts))
    if categorical is False or (categorical is None and values.dtype.kind == "f"):
        return Column(name)
    distinct = np.unique(_to_integers(name, values, place))
    if len(distinct) > MOST_CATEGORIES:
        if categorical is None:
            return Column(name)
        raise InputError(f"column {name!r} has {len(distinct)} values; at most {MOST_CATEGORIES} can be categories")
    largest = int(distinct[-1]) if len(distinct) else 0
    if (len(distinct) and distinct[0] < 0) or largest >= max(2 * len(distinct), 64):
        return Column(name, "vocabulary", len(distinct), tuple(distinct.tolist()))
    return Column(name, "integer", largest + 1)


def _to_integers(name: str, values: Array, place: Place) -> Array:
    with np.errstate(invalid="ignore"):
        whole = values.astype(np.int64)
    if (whole != values).any():
        row = int((whole != values).argmax())
        raise InputError(f"{place(row)}: column {name!r} is {values[row]} and cannot be a category")
    return whole


# -- what the training data decides ----------------------------------------------------------------------------------


def fit_encoding(encoding: Encoding, raw: RawGraphs, train: Array | None) -> Encoding:
    """The encoding with choices of columns and features from the graphs of train (a mask); None: from all graphs.

    Values that only other graphs have become the category "other". Continuous columns of edges are standardised; those of
    nodes stay as they are.
    """
    if raw.graphs and raw.level != "graph":
        raise InputError(f"features of whole graphs need targets of graphs; the targets are of {raw.level}s")
    fit = fit_column if raw.source in FITTED_SOURCES and not raw.has_tokens else _name_absent

    def fit_columns(level: str, columns: Sequence[Column]) -> tuple[Column, ...]:
        rows = slice(None) if train is None else np.repeat(train, raw.counts(level))
        found = []
        for column in columns:
            if column.kind in ("integer", "vocabulary"):
                column = fit(column, raw.tables[level][column.name][rows])
            elif column.kind == "continuous" and level == "edge":
                column = _standardise(column, raw.tables[level][column.name][rows])
            found.append(column)
        return tuple(found)

    nodes, edges = fit_columns("node", encoding.nodes), fit_columns("edge", encoding.edges)
    before, after = describe_columns(encoding.nodes), describe_columns(nodes)
    reasons = tuple(after if reason == before else reason for reason in encoding.reasons)
    features = _fit_features(raw.graphs, slice(None) if train is None else train)
    return replace(encoding, nodes=nodes, edges=edges, reasons=reasons, graphs=features, smiles=raw.smiles_column)


def fit_column(column: Column, values: Array) -> Column:
    """The column with the categories of ``values`` and one for all others."""
    codes = np.unique(column.codes(values))
    if column.kind == "vocabulary":
        seen = tuple(column.values[i] for i in codes.tolist())
        return Column(column.name, "vocabulary", len(seen) + 1, seen, other=True)
    largest = int(codes[-1]) if len(codes) else -1
    seen = tuple(codes.tolist()) if len(codes) <= largest else ()
    return Column(column.name, "integer", largest + 2, seen, other=True)


def _name_absent(column: Column, values: Array) -> Column:
    """The column with the same categories; it names those that ``values`` lacks."""
    if column.kind != "integer":
        return column
    seen = column.codes(np.unique(values))
    return replace(column, absent=tuple(np.setdiff1d(np.arange(column.size), seen).tolist()))


def _standardise(column: Column, values: Array) -> Column:
    center, scale = _moments(values) if values.dtype.kind != "S" else (np.nan, np.nan)
    if not (np.isfinite(center) and np.isfinite(scale)):
        return column  # read_columns names the value that is not finite
    return replace(column, center=center, scale=scale or 1.0)


def _fit_features(table: Mapping[str, Array], train: Array | slice) -> tuple[Feature, ...]:
    """Features of whole graphs, by mean and standard deviation of train; those that are constant there are left out."""
    features = []
    for name, values in table.items():
        known = values[train]
        center, scale = _moments(known[np.isfinite(known)])
        if np.isfinite(scale) and scale > 1e-9 * max(1.0, abs(center)):
            features.append(Feature(name, center, scale))
    if table and not features:
        raise InputError(f"the features of graphs are constant in train: {format_list(list(table))}; leave them out")
    return tuple(features)


def _moments(values: Array) -> tuple[float, float]:
    """Mean and standard deviation; 0 of no values."""
    if not len(values):
        return 0.0, 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.mean(values, dtype=np.float64)), float(np.std(values, dtype=np.float64))


def read_features(encoding: Encoding, raw: RawGraphs) -> Array | None:
    """Features of whole graphs, standardised; None if the encoding has none."""
    if not encoding.graphs:
        return None
    missing = [f.name for f in encoding.graphs if f.name not in raw.graphs]
    if missing:
        raise InputError(f"{raw.name}: no column {missing[0]!r}, a feature of graphs that this network reads")
    return np.stack([feature.read(raw.graphs[feature.name]) for feature in encoding.graphs], axis=1)


# -- notes -----------------------------------------------------------------------------------------------------------


def note_unseen(encoding: Encoding, raw: RawGraphs) -> list[str]:
    """Lines on values that the training data does not have."""
    notes = []
    for level, columns in (("node", encoding.nodes), ("edge", encoding.edges)):
        table, place = raw.tables[level], raw.place(level)
        for column in columns:
            notes += column.note_unseen(table[column.name], place) if column.name in table else []
    return notes


def note_features(encoding: Encoding, raw: RawGraphs) -> list[str]:
    """Lines on the features of graphs that are used, on those that were left out, and on blanks."""
    used = [f.name for f in encoding.graphs]
    constant = [name for name in raw.graphs if name not in used]
    notes = []
    for names, what in ((used, "of whole graphs, standardised by train"), (constant, "constant in train, left out")):
        if names:
            notes.append(f"{format_count(len(names), 'feature')} {what}: {format_list(names, 4)}")
    return [*notes, *note_blanks(encoding, raw)]


def note_blanks(encoding: Encoding, raw: RawGraphs) -> list[str]:
    """A line on features with missing values."""
    blanks = {f.name: int(np.isnan(raw.graphs[f.name]).sum()) for f in encoding.graphs if f.name in raw.graphs}
    filled = [f"{name} ({count:,})" for name, count in blanks.items() if count]
    return [f"missing values, read as the mean of train: {format_list(filled, 4)}"] if filled else []
