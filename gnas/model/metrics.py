"""Metrics: what each one is called, which direction is better, and its value from predictions and targets.

A metric is a function of ``(values, y, mask)``. ``values`` are predicted values in the unit of the target (regression), or
probabilities of classes (classification) or of labels (multilabel): a row for each graph, node, edge or pair. ``y`` holds a class
number for each row, or ``[rows, targets]`` numbers; ``mask`` marks the entries that are known. The result has one value for
each target (or class), NaN where the known targets do not define it: a label of which only one class is known has no
ROC-AUC. Whether a value is defined depends on the targets alone, never on the predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Compute = Callable[[Tensor, Tensor, Tensor], Tensor]
KINDS = ("regression", "classification", "multilabel")


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        unit: Its name in tables, with its unit.
        higher_is_better: The direction.
        compute: The value of each target, or of each class.
        kinds: The kinds of task that it fits; ``link`` stands for tasks at level ``link``.
        pooled: The value of several targets counts every known entry once. Otherwise it is the mean over the targets.
        additive: It follows from sums over batches, so that an epoch need not keep its outputs.
        signed: It is at most 1 and can be negative.
        least_negative: The number of negative rows from which on it is defined.
    """

    unit: str
    higher_is_better: bool
    compute: Compute
    kinds: tuple[str, ...]
    pooled: bool = False
    additive: bool = False
    signed: bool = False
    least_negative: int = 0

    @property
    def is_percentage(self) -> bool:
        return self.unit.endswith("%")


@dataclass(frozen=True)
class MetricValue:
    """The value of a metric over a split, and that of each target; None where it is not defined."""

    value: float | None
    per_target: tuple[float | None, ...]


# -- regression -----------------------------------------------------------------------------------------------------


def mae(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute error."""
    return _mean((values - y).abs(), mask)


def rmse(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Root of the mean squared error."""
    return _mean((values - y).square(), mask).sqrt()


def r2(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """1 - squared error / squared deviation from the mean; NaN for a constant target."""
    spread = _mean((y - _mean(y, mask)).square(), mask)
    return torch.where(spread > 0, 1 - _mean((values - y).square(), mask) / spread, torch.nan)


def spearman(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Correlation of ranks; equal values have their mean rank. NaN for a constant target, 0 for constant predictions."""
    return _each(values, y, mask, _spearman)


def _spearman(values: Tensor, y: Tensor) -> Tensor:
    a, b = _ranks(values), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    if not bool(b.any()):
        return b.new_tensor(torch.nan)
    return (a * b).sum() / (a.square().sum() * b.square().sum()).sqrt().clamp_min(1e-300)


def _ranks(values: Tensor) -> Tensor:
    """Ranks from 1 in ascending order; equal values share the mean of their ranks."""
    _, place, counts = torch.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum(0) - (counts - 1) / 2).double()[place]


# -- classes and labels ---------------------------------------------------------------------------------------------


def accuracy(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Share of right classes, or of right labels at a probability of one half, in percent."""
    if y.dim() == 1:
        return 100 * _mean((values.argmax(-1) == y)[:, None].double(), mask[:, None])
    return 100 * _mean(((values > 0.5) == (y > 0.5)).double(), mask)


def class_accuracy(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Share of right rows of each class, in percent. A class without rows has 0, as in the benchmark it comes from."""
    hot, right = _one_hot(y, mask, values.size(-1)), (values.argmax(-1) == y).double()
    return 100 * (hot * right[:, None]).sum(0) / hot.sum(0).clamp_min(1)


def f1(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Harmonic mean of precision and recall, for each class or label.

    It is not defined for a class that is neither present nor predicted, nor for a label that is never present.
    """
    if y.dim() == 1:
        wanted, found = (_one_hot(one, mask, values.size(-1)) for one in (y, values.argmax(-1)))
        known = (wanted + found).sum(0) > 0
    else:
        wanted, found = ((one > 0.5).double() * mask for one in (y, values))
        known = wanted.sum(0) > 0
    score = 2 * (wanted * found).sum(0) / (wanted + found).sum(0).clamp_min(1)
    return torch.where(known, score, torch.nan)


def roc_auc(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Area under the receiver operating curve; of several classes, each against the rest."""
    return _each(*_against_rest(values, y, mask), _roc_auc)


def average_precision(values: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Precision at every threshold, weighted by the gain in recall; of several classes, each against the rest."""
    return _each(*_against_rest(values, y, mask), _average_precision)


def _roc_auc(values: Tensor, y: Tensor) -> Tensor:
    """The share of pairs of a positive and a negative row that are in order; equal values count one half."""
    positive, negative = _counts_by_value(values, y)
    below = negative.cumsum(0) - negative / 2
    pairs = positive.sum() * negative.sum()
    return torch.where(pairs > 0, (positive * below).sum() / pairs, torch.nan)


def _average_precision(values: Tensor, y: Tensor) -> Tensor:
    positive, negative = (one.flip(0) for one in _counts_by_value(values, y))
    precision = positive.cumsum(0) / (positive + negative).cumsum(0)
    both = (positive.sum() > 0) & (negative.sum() > 0)
    return torch.where(both, (positive * precision).sum() / positive.sum().clamp_min(1), torch.nan)


def hits_at(k: int) -> Compute:
    """Share of positive rows above the k-th best negative one, as OGB counts it; NaN for fewer than k negative rows."""

    def hits(values: Tensor, y: Tensor) -> Tensor:
        positive, negative = values[y > 0.5], values[y <= 0.5]
        if len(negative) < k or not len(positive):
            return values.new_tensor(torch.nan)
        return (positive > negative.topk(k).values[-1]).double().mean()

    return lambda values, y, mask: _each(values, y, mask, hits)


def _counts_by_value(values: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Positive and negative rows at each distinct value, in ascending order."""
    distinct, place = torch.unique(values, return_inverse=True)
    positive = torch.bincount(place, weights=(y > 0.5).double(), minlength=len(distinct))
    return positive, torch.bincount(place, minlength=len(distinct)).double() - positive


def _against_rest(values: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Classes as labels: one column for the second of two classes, else one for each class."""
    if y.dim() > 1:
        return values, y, mask
    if values.size(-1) == 2:
        return values[:, 1:], (y == 1).double()[:, None], mask[:, None]
    return values, _one_hot(y, mask, values.size(-1)), mask[:, None].expand(values.shape)


def _one_hot(y: Tensor, mask: Tensor, classes: int) -> Tensor:
    hot = y[:, None] == torch.arange(classes, device=y.device)
    return hot.double() * mask[:, None]


def _each(values: Tensor, y: Tensor, mask: Tensor, compute: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """``compute`` of the known entries of each column; NaN for a column without any."""
    columns = [(values[known, k], y[known, k]) for k, known in enumerate(mask.bool().unbind(1))]
    return torch.stack([compute(*one) if len(one[0]) else one[0].new_tensor(torch.nan) for one in columns])


def _mean(errors: Tensor, mask: Tensor) -> Tensor:
    """The mean of the known entries of each column; NaN where there is none."""
    return torch.where(mask > 0, errors, 0).sum(0) / mask.sum(0)


# -- the table ------------------------------------------------------------------------------------------------------

_REGRESSION, _CLASSES, _BOTH = ("regression",), ("classification",), ("classification", "multilabel")
_RANKED = (*_BOTH, "link")
METRIC_TABLE: Mapping[str, Metric] = {
    "mae": Metric("MAE", False, mae, _REGRESSION, pooled=True, additive=True),
    "rmse": Metric("RMSE", False, rmse, _REGRESSION, pooled=True, additive=True),
    "r2": Metric("R²", True, r2, _REGRESSION, signed=True),
    "spearman": Metric("Spearman", True, spearman, _REGRESSION, signed=True),
    "accuracy": Metric("accuracy %", True, accuracy, _BOTH, pooled=True, additive=True),
    "class_accuracy": Metric("class-averaged accuracy %", True, class_accuracy, _CLASSES, additive=True),
    "f1": Metric("F1", True, f1, _BOTH),
    "roc_auc": Metric("ROC-AUC", True, roc_auc, _RANKED),
    "average_precision": Metric("average precision", True, average_precision, _RANKED),
    **{f"hits@{k}": Metric(f"Hits@{k}", True, hits_at(k), ("link",), least_negative=k) for k in (10, 50, 100)},
}
METRICS = {kind: tuple(name for name, one in METRIC_TABLE.items() if kind in one.kinds) for kind in (*KINDS, "link")}
DEFAULT_METRICS = {"regression": "mae", "classification": "accuracy", "multilabel": "roc_auc", "link": "roc_auc"}
UNITS = {name: one.unit for name, one in METRIC_TABLE.items()}


def higher_is_better(metric: str) -> bool:
    """Whether a higher value is better; False for a name that is not in the table, as a file of others may hold."""
    return metric in METRIC_TABLE and METRIC_TABLE[metric].higher_is_better


def decimals(metric: str) -> int:
    """Number of decimals of a metric: two for percentages, four for everything else."""
    return 2 if is_percentage(metric) else 4


def is_percentage(metric: str) -> bool:
    """Whether values are percentages; False for a name that is not in the table."""
    return metric in METRIC_TABLE and METRIC_TABLE[metric].is_percentage


def compute_metric(metric: str, values: Tensor, y: Tensor, mask: Tensor | None = None) -> MetricValue:
    """The metric over all rows; see the head of this module for the arguments. ``mask``: None if all entries are known."""
    declared = METRIC_TABLE[metric]
    if y.dim() == 1 and y.is_floating_point():
        y = y[:, None]
    flat = y.dim() == 1
    values = values.double().reshape(len(y), -1)
    known = torch.ones_like(y, dtype=torch.bool) if mask is None else mask.bool()
    known = known if known.dim() == y.dim() else known[:, None].expand(y.shape)
    if not flat:
        known = known & torch.isfinite(y)
        y = torch.where(known, y, 0).double()
    weight = known.double()
    found = declared.compute(values, y, weight)
    if declared.pooled and not flat:
        whole = declared.compute(values.reshape(-1, 1), y.reshape(-1, 1), weight.reshape(-1, 1))
    else:
        whole = found.nanmean()
    return MetricValue(_finite(whole.item()), tuple(map(_finite, found.tolist())))


def compute_metrics(kind: str, values: Tensor, y: Tensor, mask: Tensor | None = None) -> dict[str, MetricValue]:
    """All metrics that fit the kind of task, or ``link``."""
    return {name: compute_metric(name, values, y, mask) for name in METRICS[kind]}


def name_per_target(found: Mapping[str, MetricValue], names: tuple[str, ...]) -> dict[str, dict[str, float | None]]:
    """Metrics of each target or class by its name; without metrics that have a single value."""
    several = {metric: one.per_target for metric, one in found.items() if len(one.per_target) > 1}
    return {metric: dict(zip(names, values, strict=True)) for metric, values in several.items()}


def _finite(value: float) -> float | None:
    return value if value == value else None
