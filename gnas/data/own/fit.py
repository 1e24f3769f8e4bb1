"""What an encoding takes from the training data alone: the choices of each column, and the scale of graph features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gnas.data.encoding import Array, Column, Encoding, Feature, Place, format_list
from gnas.data.own.infer import describe_columns
from gnas.data.own.raw import RawGraphs
from gnas.errors import InputError
from gnas.printed import format_count

FITTED_SOURCES = ("smiles", "tables", "tu", "networkx")  # PyG's x is what the network reads: its categories stay


def fit_encoding(encoding: Encoding, raw: RawGraphs, train: Array | None) -> Encoding:
    """The encoding with choices of columns and features from the graphs of train (a mask); None: from all graphs.

    Values that only other graphs have become the category "other".
    """
    fit = fit_column if raw.source in FITTED_SOURCES and not raw.has_tokens else _name_absent
    nodes = _fit_columns(fit, encoding.nodes, raw.nodes, _rows(train, raw.node_counts))
    edges = _fit_columns(fit, encoding.edges, raw.edges, _rows(train, raw.edge_counts))
    before, after = describe_columns(encoding.nodes), describe_columns(nodes)
    reasons = tuple(after if reason == before else reason for reason in encoding.reasons)
    encoding = replace(encoding, nodes=nodes, edges=edges, reasons=reasons)
    edges = tuple(_standardise(c, raw.edges[c.name], _rows(train, raw.edge_counts)) for c in encoding.edges)
    encoding = replace(encoding, edges=edges)
    if raw.graphs and raw.level != "graph":
        raise InputError(f"features of whole graphs need targets of graphs; the targets are of {raw.level}s")
    return replace(encoding, graphs=_fit_features(raw.graphs, train), smiles=raw.smiles_column)


def _standardise(column: Column, values: Array, rows: Array | None) -> Column:
    """A continuous column of edges with the mean and the spread of train; node features stay as they are."""
    known = values if rows is None else values[rows]
    if column.categorical or not len(known) or values.dtype.kind == "S":
        return column
    with np.errstate(invalid="ignore", over="ignore"):
        center, scale = float(np.mean(known, dtype=np.float64)), float(np.std(known, dtype=np.float64))
    if not (np.isfinite(center) and np.isfinite(scale)):
        return column  # read_columns names the value that is not finite
    return replace(column, center=center, scale=scale or 1.0)


def note_fit(encoding: Encoding, raw: RawGraphs) -> list[str]:
    """Lines on values that are read as "other", on features with blanks and on features that were left out."""
    return [*note_unseen(encoding, raw), *_note_features(encoding, raw)]


def note_unseen(encoding: Encoding, raw: RawGraphs) -> list[str]:
    """Lines on values that the training data does not have."""
    notes = []
    tables: tuple[tuple[Sequence[Column], Mapping[str, Array], Place], ...] = (
        (encoding.nodes, raw.nodes, raw.node_place),
        (encoding.edges, raw.edges, raw.edge_place),
    )
    for columns, values, place in tables:
        for column in columns:
            if column.name in values:
                notes += column.note_unseen(values[column.name], place)
    return notes


def read_features(encoding: Encoding, raw: RawGraphs) -> Array | None:
    """Features of whole graphs, standardised; None if the encoding has none."""
    if not encoding.graphs:
        return None
    missing = [f.name for f in encoding.graphs if f.name not in raw.graphs]
    if missing:
        raise InputError(f"{raw.name}: no column {missing[0]!r}, a feature of graphs that this network reads")
    return np.stack([feature.read(raw.graphs[feature.name]) for feature in encoding.graphs], axis=1)


def _rows(train: Array | None, counts: Array) -> Array | None:
    return None if train is None else np.repeat(train, counts)


def _fit_columns(
    fit: Callable[[Column, Array], Column],
    columns: Sequence[Column],
    table: Mapping[str, Array],
    rows: Array | None,
) -> tuple[Column, ...]:
    return tuple(
        fit(c, table[c.name] if rows is None else table[c.name][rows]) if c.kind in ("integer", "vocabulary") else c
        for c in columns
    )


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


# -- features of whole graphs --------------------------------------------------------------------------------------


def _fit_features(table: Mapping[str, Array], train: Array | None) -> tuple[Feature, ...]:
    """Means and standard deviations of train; features that are constant there are left out."""
    features = []
    for name, values in table.items():
        known = values if train is None else values[train]
        known = known[np.isfinite(known)].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            center, scale = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
        if np.isfinite(scale) and scale > 1e-9 * max(1.0, abs(center)):
            features.append(Feature(name, center, scale))
    if table and not features:
        raise InputError(f"the features of graphs are constant in train: {format_list(list(table))}; leave them out")
    return tuple(features)


def _note_features(encoding: Encoding, raw: RawGraphs) -> list[str]:
    used = [f.name for f in encoding.graphs]
    left_out = [name for name in raw.graphs if name not in used]
    notes = []
    if used:
        notes.append(
            f"{format_count(len(used), 'feature')} of whole graphs, standardised by train: {format_list(used, 4)}"
        )
    if left_out:
        notes.append(
            f"{format_count(len(left_out), 'feature')} constant in train, left out: {format_list(left_out, 4)}"
        )
    return [*notes, *note_blanks(encoding, raw)]


def note_blanks(encoding: Encoding, raw: RawGraphs) -> list[str]:
    """A line on features with missing values."""
    blanks = {f.name: int(np.isnan(raw.graphs[f.name]).sum()) for f in encoding.graphs if f.name in raw.graphs}
    filled = [f"{name} ({count:,})" for name, count in blanks.items() if count]
    return [f"missing values, read as the mean of train: {format_list(filled, 4)}"] if filled else []
