"""What is asked of the data, read off its targets: regression or classes, which classes, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnas.data.encoding import Array, Encoding, finite, shown, some
from gnas.data.own.inputs import MOST_CATEGORIES, Categorical, infer_column, node_columns
from gnas.data.own.raw import RawGraphs
from gnas.errors import InputError

MOST_CLASSES = 100  # an integer target with more values is a measurement
FEW_CLASSES = 20


def infer_encoding(raw: RawGraphs, kind: str | None = None, categorical: Categorical = None) -> Encoding:
    """Columns, kind of task and class labels of raw graphs; ``kind`` and ``categorical`` override."""
    nodes, reason = node_columns(raw, categorical)
    edges = tuple(infer_column(n, v, None, raw.edge_place) for n, v in raw.edges.items())
    rows = labelled_rows(raw)
    if not rows.any():
        raise InputError(f"no {raw.level} has a target ({some(list(raw.targets))})")
    found, why = _infer_kind(raw, rows, kind)
    labels = _labels(raw, rows) if found == "classification" else ()
    return Encoding(
        source=raw.source,
        level=raw.level,
        kind=found,
        nodes=nodes,
        edges=edges,
        targets=tuple(raw.targets),
        labels=labels,
        asked=raw.asked,
        reasons=(*raw.reasons, why, reason),
    )


def labelled_rows(raw: RawGraphs) -> Array:
    """Target rows that have a value and belong to a split, where splits are given."""
    rows = np.ones(raw.num_rows, bool) if raw.labelled is None else raw.labelled.copy()
    for values in raw.targets.values():
        if values.dtype.kind == "f":
            rows &= ~np.isnan(values)
    return rows if raw.row_split is None else rows & (raw.row_split >= 0)


def _infer_kind(raw: RawGraphs, rows: Array, asked: str | None) -> tuple[str, str]:
    texts = [n for n, v in raw.targets.items() if v.dtype.kind == "S"]
    if asked == "regression" and texts:
        row = int(rows.argmax())
        what = f"{raw.target_place(row)}: target {texts[0]!r} is {shown(raw.targets[texts[0]][row])}"
        raise InputError(f"{what}; regression needs numbers")
    if len(raw.targets) > 1:
        return _kind_of_many(raw, rows, asked, texts)
    ((name, values),) = raw.targets.items()
    distinct = np.unique(values[rows])
    if asked == "classification" or texts:
        return "classification", f"classification: {name} has {len(distinct)} values" if not asked else "kind as asked"
    if asked:
        return asked, "kind as asked"
    span = f"{len(distinct)} values in {int(rows.sum())} rows"
    if values.dtype.kind == "f":
        if distinct.tolist() == [0, 1]:
            return "classification", f"classification: {name} holds only 0 and 1"
        return "regression", f"regression: {name} holds floats"
    consecutive = len(distinct) <= FEW_CLASSES and int(distinct[-1]) - int(distinct[0]) < len(distinct)
    if consecutive or (len(distinct) <= MOST_CLASSES and 2 * len(distinct) <= rows.sum()):
        return "classification", f"classification: {name} holds integers, {span}"
    return "regression", f"regression: {name} holds integers, {span}, too many for classes"


def _kind_of_many(raw: RawGraphs, rows: Array, asked: str | None, texts: Sequence[str]) -> tuple[str, str]:
    names = some(list(raw.targets))
    if asked != "regression" and not texts and _one_hot(raw, rows):
        return "classification", f"classification: {names} are one-hot"
    if texts or asked == "classification":
        raise InputError(f"several class targets ({names}): a task has one; name it with target=")
    return "regression", f"regression: {len(raw.targets)} targets"


def _one_hot(raw: RawGraphs, rows: Array) -> bool:
    values = np.stack([v[rows] for v in raw.targets.values()], axis=1)
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all())


def _labels(raw: RawGraphs, rows: Array) -> tuple[str, ...]:
    if len(raw.targets) > 1:
        return tuple(raw.targets)
    ((name, values),) = raw.targets.items()
    labels = [label(v) for v in np.unique(values[rows]).tolist()]
    if len(labels) < 2:
        raise InputError(f"target {name!r} has one class only ({labels[0]!r}); there is nothing to tell apart")
    if len(labels) > MOST_CATEGORIES:
        raise InputError(f"target {name!r} has {len(labels)} different values; at most {MOST_CATEGORIES} are classes")
    return tuple(labels)


def label(value: Any) -> str:
    """A raw class as text: whole numbers without a point."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if np.isfinite(value) and value == int(value) else str(value)


def read_targets(encoding: Encoding, raw: RawGraphs) -> tuple[Array, Array]:
    """Targets as class numbers (int64, -1 for none) or floats [rows, targets] (NaN for none), and which rows count."""
    missing = np.zeros(raw.num_rows, bool)
    if not raw.targets:
        empty = np.full(raw.num_rows, -1) if encoding.labels else np.full((raw.num_rows, len(encoding.targets)), np.nan)
        return empty if encoding.labels else empty.astype(np.float32), missing
    if tuple(raw.targets) != encoding.targets:
        raise InputError(f"targets are {some(list(raw.targets))}; {some(encoding.targets)} was expected")
    rows = labelled_rows(raw)
    values = list(raw.targets.values())
    if not encoding.labels:
        found = np.full((raw.num_rows, len(values)), np.nan, np.float32)
        at = np.flatnonzero(rows)
        for i, (name, column) in enumerate(raw.targets.items()):
            found[rows, i] = finite(column[rows], name, lambda k: raw.target_place(int(at[k])))
        return found, rows
    if len(values) > 1:
        for name, column in raw.targets.items():
            finite(column[rows], name, raw.target_place)
        return np.where(rows, np.argmax(np.stack(values, axis=1), axis=1), -1), rows
    distinct, inverse = np.unique(values[0], return_inverse=True)
    index = {text: i for i, text in enumerate(encoding.labels)}
    codes = np.array([index.get(label(v), -1) for v in distinct.tolist()], np.int64)[inverse.reshape(-1)]
    if (codes[rows] < 0).any():
        row = int((rows & (codes < 0)).argmax())
        raise InputError(
            f"{raw.target_place(row)}: class {label(values[0][row])!r} is not one of {some(encoding.labels)}"
        )
    return codes, rows
