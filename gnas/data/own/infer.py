"""Whether columns hold categories or numbers, and whether targets are numbers or classes, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gnas.data.encoding import (
    LARGEST_DEGREE,
    Array,
    Column,
    Encoding,
    Place,
    check_finite,
    format_list,
    format_value,
)
from gnas.data.own.options import Categorical
from gnas.data.own.raw import RawGraphs
from gnas.errors import InputError, choose
from gnas.printed import format_count

MOST_CATEGORIES = 1000  # an integer column with more values is a measurement
MOST_CLASSES = 100  # an integer target with more values is a measurement
FEW_CLASSES = 20


def infer_node_columns(raw: RawGraphs, categorical: Categorical) -> tuple[tuple[Column, ...], str]:
    """The node columns and a line that says what they are."""
    if not raw.nodes:
        column = Column("degree", "degree", LARGEST_DEGREE + 1)
        return (column,), f"input: no node features, so the in-degree is the category (up to {LARGEST_DEGREE})"
    decided = _read_categorical(raw.nodes, categorical)
    columns = tuple(infer_column(n, v, decided[n], raw.node_place) for n, v in raw.nodes.items())
    return columns, describe_columns(columns)


def describe_columns(columns: Sequence[Column]) -> str:
    """A line that says what the node columns are."""
    kinds = [c.categorical for c in columns]
    if all(kinds):
        sizes = format_list([c.size for c in columns])
        return f"input: {format_count(len(columns), 'categorical column')} of {sizes} values"
    if not any(kinds):
        return f"input: {format_count(len(columns), 'continuous column')}"
    both = f"{format_count(kinds.count(False), 'continuous column')} and {sum(kinds)} categorical, as one-hot columns"
    return f"input: {both}"


def _read_categorical(columns: Mapping[str, Array], categorical: Categorical) -> dict[str, bool | None]:
    """The caller's decision for each column; None: its values decide."""
    if categorical is None:
        # Many 0/1 columns are a bag of words or one-hot rows; a linear map reads them, and embeddings would only cost time.
        bits = len(columns) > 1 and all(v.dtype.kind == "i" and v.min() >= 0 and v.max() <= 1 for v in columns.values())
        return dict.fromkeys(columns, False if bits else None)
    if isinstance(categorical, bool):
        return dict.fromkeys(columns, categorical)
    names = [categorical] if isinstance(categorical, str) else list(categorical)
    for name in names:
        choose(name, columns, "categorical column")
    return {n: True if n in names else (None if v.dtype.kind == "S" else False) for n, v in columns.items()}


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
    whole = _to_integers(name, values, place)
    distinct = np.unique(whole)
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


# -- targets -------------------------------------------------------------------------------------------------------


def infer_encoding(raw: RawGraphs, kind: str | None = None, categorical: Categorical = None) -> Encoding:
    """Columns, kind of task and class labels of raw graphs; ``kind`` and ``categorical`` override."""
    nodes, reason = infer_node_columns(raw, categorical)
    edges = tuple(infer_column(n, v, None, raw.edge_place) for n, v in raw.edges.items())
    rows = find_labelled_rows(raw)
    if not rows.any():
        raise InputError(f"no {raw.level} has a target ({format_list(list(raw.targets))})")
    found, why = _infer_kind(raw, rows, "multilabel" if raw.level == "link" else kind)
    labels = _labels(raw, rows) if found == "classification" else ()
    return Encoding(
        source=raw.source,
        level=raw.level,
        kind=found,
        nodes=nodes,
        edges=edges,
        targets=tuple(raw.targets),
        labels=labels,
        requested=raw.requested,
        reasons=(*raw.reasons, *(() if raw.level == "link" else (why,)), reason),
    )


def find_labelled_rows(raw: RawGraphs) -> Array:
    """Target rows that have a value (one at least) and, if the data has a split, belong to a part of it."""
    rows = np.ones(raw.num_rows, bool) if raw.labelled is None else raw.labelled.copy()
    if raw.targets:
        rows &= np.logical_or.reduce([find_known(values) for values in raw.targets.values()])
    return rows if raw.row_split is None else rows & (raw.row_split >= 0)


def find_known(values: Array) -> Array:
    """Entries of a target that are not blank."""
    return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)


def _infer_kind(raw: RawGraphs, rows: Array, requested: str | None) -> tuple[str, str]:
    texts = [n for n, v in raw.targets.items() if v.dtype.kind == "S"]
    if requested == "regression" and texts:
        row = int(rows.argmax())
        what = f"{raw.target_place(row)}: target {texts[0]!r} is {format_value(raw.targets[texts[0]][row])}"
        raise InputError(f"{what}; regression needs numbers")
    if requested == "multilabel":
        _check_labels(raw, rows)
        return requested, "kind as requested"
    if len(raw.targets) > 1:
        return _kind_of_many(raw, rows, requested, texts)
    ((name, values),) = raw.targets.items()
    distinct = np.unique(values[rows])
    if requested == "classification" or texts:
        reason = "kind as requested" if requested else f"classification: {name} has {len(distinct)} values"
        return "classification", reason
    if requested:
        return requested, "kind as requested"
    span = f"{len(distinct)} values in {int(rows.sum())} rows"
    if values.dtype.kind == "f":
        if distinct.tolist() == [0, 1]:
            return "classification", f"classification: {name} holds only 0 and 1"
        return "regression", f"regression: {name} holds floats"
    consecutive = len(distinct) <= FEW_CLASSES and int(distinct[-1]) - int(distinct[0]) < len(distinct)
    if consecutive or (len(distinct) <= MOST_CLASSES and 2 * len(distinct) <= rows.sum()):
        return "classification", f"classification: {name} holds integers, {span}"
    return "regression", f"regression: {name} holds integers, {span}, too many for classes"


def _kind_of_many(raw: RawGraphs, rows: Array, requested: str | None, texts: Sequence[str]) -> tuple[str, str]:
    names = format_list(list(raw.targets))
    if requested != "regression" and not texts and _one_hot(raw, rows):
        return "classification", f"classification: {names} are one-hot"
    labels = not texts and _find_other_label(raw, rows) is None
    if texts or requested == "classification":
        what = f"several class targets ({names}): a task has one; name it with the data option target"
        raise InputError(f"{what}, or set kind=multilabel to predict all of them" if labels else what)
    if labels and requested is None:
        return "multilabel", f"multilabel: {len(raw.targets)} targets hold only 0 and 1{_count_blanks(raw, rows)}"
    reason = "kind as requested" if requested else f"regression: {len(raw.targets)} targets"
    return "regression", f"{reason}{_count_blanks(raw, rows)}"


def _count_blanks(raw: RawGraphs, rows: Array) -> str:
    """The end of a reason: how many entries are blank."""
    blank = sum(int((~find_known(values[rows])).sum()) for values in raw.targets.values())
    return f"; {blank:,} of {int(rows.sum()) * len(raw.targets):,} entries are blank and do not count" if blank else ""


def _find_other_label(raw: RawGraphs, rows: Array) -> tuple[str, int] | None:
    """The first target and row that hold neither 0, 1 nor a blank; None if there is none."""
    for name, values in raw.targets.items():
        if values.dtype.kind == "S":
            return name, int(rows.argmax())
        other = rows & find_known(values) & (values != 0) & (values != 1)
        if other.any():
            return name, int(other.argmax())
    return None


def _check_labels(raw: RawGraphs, rows: Array) -> None:
    other = _find_other_label(raw, rows)
    if other is not None:
        name, row = other
        what = f"{raw.target_place(row)}: target {name!r} is {format_value(raw.targets[name][row])}"
        raise InputError(f"{what}; multilabel targets are 0, 1 or blank")


def _one_hot(raw: RawGraphs, rows: Array) -> bool:
    values = np.stack([v[rows] for v in raw.targets.values()], axis=1)
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all())


def _labels(raw: RawGraphs, rows: Array) -> tuple[str, ...]:
    if len(raw.targets) > 1:
        return tuple(raw.targets)
    ((name, values),) = raw.targets.items()
    labels = [format_label(v) for v in np.unique(values[rows]).tolist()]
    if len(labels) < 2:
        raise InputError(f"target {name!r} has one class only ({labels[0]!r}); a classification needs at least two")
    if len(labels) > MOST_CATEGORIES:
        raise InputError(f"target {name!r} has {len(labels)} different values; at most {MOST_CATEGORIES} are classes")
    return tuple(labels)


def _place_at(raw: RawGraphs, rows: Array, k: int) -> str:
    return raw.target_place(int(rows[k]))


def format_label(value: Any) -> str:
    """A raw class as text: whole numbers without a point."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if np.isfinite(value) and value == int(value) else str(value)


def read_targets(encoding: Encoding, raw: RawGraphs) -> tuple[Array, Array]:
    """Targets as class numbers (int64, -1 for none) or floats [rows, targets] (NaN for a blank), and which rows count."""
    missing = np.zeros(raw.num_rows, bool)
    if not raw.targets:
        empty = np.full(raw.num_rows, -1) if encoding.labels else np.full((raw.num_rows, len(encoding.targets)), np.nan)
        return empty if encoding.labels else empty.astype(np.float32), missing
    if tuple(raw.targets) != encoding.targets:
        raise InputError(f"targets are {format_list(list(raw.targets))}; {format_list(encoding.targets)} is needed")
    rows = find_labelled_rows(raw)
    values = list(raw.targets.values())
    if not encoding.labels:
        found = np.full((raw.num_rows, len(values)), np.nan, np.float32)
        if encoding.kind == "multilabel":
            _check_labels(raw, rows)
        for i, (name, column) in enumerate(raw.targets.items()):
            at = np.flatnonzero(rows & find_known(column))
            found[at, i] = check_finite(column[at], name, partial(_place_at, raw, at))
        return found, rows
    if len(values) > 1:
        for name, column in raw.targets.items():
            check_finite(column[rows], name, raw.target_place)
        return np.where(rows, np.argmax(np.stack(values, axis=1), axis=1), -1), rows
    distinct, inverse = np.unique(values[0], return_inverse=True)
    index = {text: i for i, text in enumerate(encoding.labels)}
    codes = np.array([index.get(format_label(v), -1) for v in distinct.tolist()], np.int64)[inverse.reshape(-1)]
    if (codes[rows] < 0).any():
        row = int((rows & (codes < 0)).argmax())
        raise InputError(
            f"{raw.target_place(row)}: class {format_label(values[0][row])!r} is not one of {format_list(encoding.labels)}"
        )
    return codes, rows
