"""Targets: numbers, classes or labels, with the reasons; their values, the metric that selects, and their scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnas.data.encoding import Array, Encoding, check_finite, format_list, format_value
from gnas.data.own.columns import MOST_CATEGORIES, describe_columns, infer_column, infer_node_columns
from gnas.data.own.options import Categorical
from gnas.data.own.raw import RawGraphs
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.metrics import DEFAULT_METRICS, METRIC_TABLE, METRICS, UNITS, is_defined

MOST_CLASSES = 100  # an integer target with more values is a measurement
FEW_CLASSES = 20
UNBALANCED = 0.25  # two classes are unbalanced if the smaller one has less than this share of train


def infer_encoding(raw: RawGraphs, kind: str | None = None, categorical: Categorical = None) -> Encoding:
    """Columns, kind of task and class labels of raw graphs; ``kind`` and ``categorical`` override."""
    nodes = infer_node_columns(raw, categorical)
    edges = tuple(infer_column(name, values, None, raw.place("edge")) for name, values in raw.edges.items())
    rows = find_labelled_rows(raw)
    if not rows.any():
        raise InputError(f"no {raw.level} has a target ({format_list(list(raw.targets))})")
    links = raw.level == "link"
    found, why = _infer_kind(raw, rows, "multilabel" if links else kind)
    return Encoding(
        source=raw.source,
        level=raw.level,
        kind=found,
        nodes=nodes,
        edges=edges,
        targets=tuple(raw.targets),
        labels=_labels(raw, rows) if found == "classification" else (),
        requested=raw.requested,
        reasons=(*raw.reasons, *(() if links else (why,)), describe_columns(nodes)),
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


# -- the kind of task --------------------------------------------------------------------------------------------------


def _infer_kind(raw: RawGraphs, rows: Array, requested: str | None) -> tuple[str, str]:
    """The kind and the reason."""
    texts = [n for n, v in raw.targets.items() if v.dtype.kind == "S"]
    if requested == "regression" and texts:
        raise InputError(f"{_name_entry(raw, texts[0], int(rows.argmax()))}; regression needs numbers")
    if requested == "multilabel":
        _check_labels(raw, rows)
    elif len(raw.targets) > 1:
        return _kind_of_many(raw, rows, requested, texts)
    if requested:
        return requested, "kind as requested"
    ((name, values),) = raw.targets.items()
    distinct = np.unique(values[rows])
    if texts:
        return "classification", f"classification: {name} has {len(distinct)} values"
    if values.dtype.kind == "f":
        if distinct.tolist() == [0, 1]:
            return "classification", f"classification: {name} holds only 0 and 1"
        return "regression", f"regression: {name} holds floats"
    span = f"{len(distinct)} values in {int(rows.sum())} rows"
    consecutive = len(distinct) <= FEW_CLASSES and int(distinct[-1]) - int(distinct[0]) < len(distinct)
    if consecutive or (len(distinct) <= MOST_CLASSES and 2 * len(distinct) <= rows.sum()):
        return "classification", f"classification: {name} holds integers, {span}"
    return "regression", f"regression: {name} holds integers, {span}, too many for classes"


def _kind_of_many(raw: RawGraphs, rows: Array, requested: str | None, texts: Sequence[str]) -> tuple[str, str]:
    names = format_list(list(raw.targets))
    if requested != "regression" and not texts and _is_one_hot(raw, rows):
        return "classification", f"classification: {names} are one-hot"
    labels = not texts and _find_other_label(raw, rows) is None
    if texts or requested == "classification":
        what = f"several class targets ({names}): a task has one; name it with the data option target"
        raise InputError(f"{what}, or set kind=multilabel to predict all of them" if labels else what)
    blank = sum(int((~find_known(values[rows])).sum()) for values in raw.targets.values())
    blanks = (
        f"; {blank:,} of {int(rows.sum()) * len(raw.targets):,} entries are blank and do not count" if blank else ""
    )
    if labels and requested is None:
        return "multilabel", f"multilabel: {len(raw.targets)} targets hold only 0 and 1{blanks}"
    reason = "kind as requested" if requested else f"regression: {len(raw.targets)} targets"
    return "regression", f"{reason}{blanks}"


def _name_entry(raw: RawGraphs, name: str, row: int) -> str:
    return f"{raw.target_place(row)}: target {name!r} is {format_value(raw.targets[name][row])}"


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
        raise InputError(f"{_name_entry(raw, *other)}; multilabel targets are 0, 1 or blank")


def _is_one_hot(raw: RawGraphs, rows: Array) -> bool:
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


def format_label(value: Any) -> str:
    """A raw class as text: whole numbers without a point."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if np.isfinite(value) and value == int(value) else str(value)


# -- values ------------------------------------------------------------------------------------------------------------


def read_targets(encoding: Encoding, raw: RawGraphs) -> tuple[Array, Array]:
    """Targets as class numbers (int64, -1 for none) or floats [rows, targets] (NaN for a blank), and which rows count."""
    count, classes = raw.num_rows, bool(encoding.labels)
    blank = np.full(count, -1) if classes else np.full((count, len(encoding.targets)), np.nan, np.float32)
    if not raw.targets:
        return blank, np.zeros(count, bool)
    if tuple(raw.targets) != encoding.targets:
        raise InputError(f"targets are {format_list(list(raw.targets))}; {format_list(encoding.targets)} is needed")
    rows = find_labelled_rows(raw)
    if not classes:
        if encoding.kind == "multilabel":
            _check_labels(raw, rows)
        for i, (name, column) in enumerate(raw.targets.items()):
            at = np.flatnonzero(rows & find_known(column))
            blank[at, i] = check_finite(column[at], name, lambda k, at=at: raw.target_place(int(at[k])))  # type: ignore[misc]
        return blank, rows
    values = list(raw.targets.values())
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


def compute_target_moments(y: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each target over its known entries; 1 for a constant target."""
    y = y.double()
    if bool(torch.isnan(y).any()):
        mean = y.nanmean(0)
        spread = (y - mean).square().nanmean(0).sqrt()
    else:
        mean, spread = y.mean(0), y.std(0, correction=0)
    return tuple(mean.nan_to_num(0.0).tolist()), tuple(torch.where(spread > 0, spread, 1.0).tolist())


def note_label_classes(encoding: Encoding, splits: Mapping[str, GraphSet]) -> list[str]:
    """Notes on labels of which a split knows one class only."""
    notes = []
    for split, graphs in splits.items() if encoding.kind == "multilabel" else ():
        y = graphs.targets()
        both = ((y == 0).any(0) & (y == 1).any(0)).tolist()
        names = [name for name, fine in zip(encoding.targets, both, strict=True) if not fine]
        if names:
            result = "nothing can be learned of them" if split == "train" else "they have no ROC-AUC"
            notes.append(f"labels with one class only in {split}: {format_list(names)}; {result}")
    return notes


# -- the metric --------------------------------------------------------------------------------------------------------


def choose_metric(
    encoding: Encoding, folds: Sequence[Mapping[str, Tensor]], requested: str | None
) -> tuple[str, tuple[str, ...]]:
    """The metric that selects: MAE, accuracy, or ROC-AUC for labels and for two unbalanced classes.

    The reason comes along where there was a choice. Validation and test must define the metric: a split with one class
    only has no ROC-AUC. All folds have the same metric, or their mean would mix several.

    Args:
        encoding: What the targets are.
        folds: The targets of each split, for every fold; one item if there are no folds.
        requested: The metric that the caller named.
    """
    links = encoding.level == "link"
    metric, reason = requested or DEFAULT_METRICS[encoding.kind], ""
    if requested is None and encoding.kind == "classification" and len(encoding.labels) == 2:
        y = folds[0]["train"] if len(folds) == 1 else torch.cat(list(folds[0].values()))
        metric, reason = _choose_for_two_classes(y, encoding.labels, "train" if len(folds) == 1 else "all rows")
    elif requested is None and encoding.kind == "multilabel":
        reason = "the mean over the labels of which both classes are known"
    known = metric in METRICS["link" if links else encoding.kind]  # else the task refuses it
    undefined = _find_undefined(encoding, folds, metric) if known else None
    if undefined is not None and (requested is not None or links):
        least = METRIC_TABLE[metric].least_negative
        fault = f"which has fewer than {least} negative pairs" if least else "whose targets are all equal"
        raise InputError(
            f"the metric {metric} is not defined on {undefined}, {fault}; choose another metric, or another "
            "split (data options split, fractions and seed)"
        )
    if requested is not None or links:
        return metric, ()
    if undefined is not None:
        reason = f"{undefined} has one class only, so {UNITS[metric]} is not defined"
        metric = "accuracy"
    return metric, (f"metric {UNITS[metric]}: {reason}",) if reason else ()


def _choose_for_two_classes(y: Tensor, labels: tuple[str, ...], rows: str) -> tuple[str, str]:
    counts = torch.bincount(y.clamp_min(0), minlength=2)
    share = counts.min().item() / max(len(y), 1)
    what = f"of two classes the smaller one ({labels[int(counts.argmin())]}) has {100 * share:.0f} % of {rows}"
    if share < UNBALANCED:
        return "roc_auc", f"{what}, less than {100 * UNBALANCED:.0f} %"
    return "accuracy", what


def _find_undefined(encoding: Encoding, folds: Sequence[Mapping[str, Tensor]], metric: str) -> str | None:
    """The first split of validation and test whose targets do not define the metric."""
    for fold, splits in enumerate(folds, start=1):
        for name in ("val", "test"):
            y = splits[name]
            if len(y) and not is_defined(metric, y, len(encoding.labels) or len(encoding.targets)):
                return f"the {name} split" + (f" of fold {fold}" if len(folds) > 1 else "")
    return None
