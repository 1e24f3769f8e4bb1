"""What the targets of the splits decide: the metric that selects, the scale of a regression, labels that say little."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gnas.data.encoding import Encoding, format_list
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.metrics import DEFAULT_METRICS, METRICS, UNITS, compute_metric

UNBALANCED = 0.25  # two classes are unbalanced if the smaller one has less than this share of train


def choose_metric(
    encoding: Encoding, splits: Mapping[str, GraphSet], requested: str | None
) -> tuple[str, tuple[str, ...]]:
    """The metric that selects: MAE, accuracy, or ROC-AUC for labels and for two unbalanced classes.

    The reason comes along where there was a choice. Validation and test must define the metric: a split with one class
    only has no ROC-AUC.
    """
    if requested is not None:
        if requested in METRICS["link" if encoding.level == "link" else encoding.kind]:
            _check_defined(encoding, splits, requested)
        return requested, ()
    metric, reason = DEFAULT_METRICS[encoding.kind], ""
    if encoding.level == "link":
        _check_defined(encoding, splits, metric)
        return metric, ()
    if encoding.kind == "multilabel":
        reason = "the mean over the labels of which both classes are known"
    if encoding.kind == "classification" and len(encoding.labels) == 2:
        metric, reason = _choose_for_two_classes(splits["train"].targets(), encoding.labels)
    undefined = _find_undefined(encoding, splits, metric)
    if undefined is not None:
        reason = f"the {undefined} split has one class only, so {UNITS[metric]} is not defined"
        metric = "accuracy"
    return metric, (f"metric {UNITS[metric]}: {reason}",) if reason else ()


def _choose_for_two_classes(y: Tensor, labels: tuple[str, ...]) -> tuple[str, str]:
    counts = torch.bincount(y.clamp_min(0), minlength=2)
    share = counts.min().item() / max(len(y), 1)
    what = f"of two classes the smaller one ({labels[int(counts.argmin())]}) has {100 * share:.0f} % of train"
    if share < UNBALANCED:
        return "roc_auc", f"{what}, less than {100 * UNBALANCED:.0f} %"
    return "accuracy", what


def _find_undefined(encoding: Encoding, splits: Mapping[str, GraphSet], metric: str) -> str | None:
    """The first split of validation and test whose targets do not define the metric."""
    for name in ("val", "test"):
        y = splits[name].targets()
        # Whether a metric is defined does not depend on the predictions.
        values = torch.zeros(len(y), len(encoding.labels) or len(encoding.targets))
        if len(y) and compute_metric(metric, values, y).value is None:
            return name
    return None


def _check_defined(encoding: Encoding, splits: Mapping[str, GraphSet], metric: str) -> None:
    undefined = _find_undefined(encoding, splits, metric)
    if undefined is not None:
        raise InputError(
            f"the metric {metric} is not defined on the {undefined} split, whose targets are {_name_fault(metric)}; choose "
            "another metric, or another split (data options split, fractions and seed)"
        )


def _name_fault(metric: str) -> str:
    return f"positive in all but fewer than {metric[5:]} rows" if metric.startswith("hits@") else "all equal"


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
