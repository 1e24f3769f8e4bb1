"""What the targets of the splits decide: the metric that selects, the scale of a regression, labels that say little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gnas.data.encoding import Encoding, format_list
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.metrics import DEFAULT_METRICS, METRIC_TABLE, METRICS, UNITS, is_defined

UNBALANCED = 0.25  # two classes are unbalanced if the smaller one has less than this share of train


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
    if requested is not None:
        if requested in METRICS["link" if encoding.level == "link" else encoding.kind]:
            _check_defined(encoding, folds, requested)
        return requested, ()
    metric, reason = DEFAULT_METRICS[encoding.kind], ""
    if encoding.level == "link":
        _check_defined(encoding, folds, metric)
        return metric, ()
    if encoding.kind == "multilabel":
        reason = "the mean over the labels of which both classes are known"
    if encoding.kind == "classification" and len(encoding.labels) == 2:
        y = folds[0]["train"] if len(folds) == 1 else torch.cat(list(folds[0].values()))
        metric, reason = _choose_for_two_classes(y, encoding.labels, "train" if len(folds) == 1 else "all rows")
    undefined = _find_undefined(encoding, folds, metric)
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


def _check_defined(encoding: Encoding, folds: Sequence[Mapping[str, Tensor]], metric: str) -> None:
    undefined = _find_undefined(encoding, folds, metric)
    if undefined is not None:
        raise InputError(
            f"the metric {metric} is not defined on {undefined}, {_name_fault(metric)}; choose another metric, or another "
            "split (data options split, fractions and seed)"
        )


def _name_fault(metric: str) -> str:
    least = METRIC_TABLE[metric].least_negative
    return f"which has fewer than {least} negative pairs" if least else "whose targets are all equal"


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
