"""Metrics: what each one is called, which direction is better, and its value from predictions and targets.

The values are those of scikit-learn, of ranks those of scipy; only Hits@K is counted here. ``values`` are predicted values in
the unit of the target (regression), or probabilities of classes (classification) or of labels (multilabel): a row for each
graph, node, edge or pair. ``y`` holds a class number for each row, or ``[rows, targets]`` numbers; ``mask`` marks the entries
that are known. There is a value for each target (or class), None where the known targets do not define it: a label of which
only one class is known has no ROC-AUC. The targets alone decide that, unless predictions are not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
Column = Callable[[Array, Array], float]  # of the known targets of one column and the values predicted for them
OfClasses = Callable[[Array, Array, int], Array]  # of class numbers, predicted ones and how many classes there are
KINDS = ("regression", "classification", "multilabel")


def _anything(y: Array) -> bool:
    return len(y) > 0


def _differ(y: Array) -> bool:
    return len(y) > 0 and bool(y.min() != y.max())


def _some_positive(y: Array) -> bool:
    return bool((y > 0.5).any())


def _at_least(negative: int) -> Callable[[Array], bool]:
    return lambda y: _some_positive(y) and int((y <= 0.5).sum()) >= negative


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        unit: Its name in tables, with its unit.
        higher_is_better: The direction.
        compute: The value of one target or label, or of one class against the rest.
        kinds: The kinds of task that it fits; ``link`` stands for tasks at level ``link``.
        defined: Whether the known targets of a column define it.
        of_classes: The value of each class from predicted classes, in the place of ``compute``.
        pooled: The value of several targets counts every known entry once. Otherwise it is the mean over the targets.
        additive: It follows from sums over batches, so that an epoch need not keep its outputs.
        signed: It is at most 1 and can be negative.
        least_negative: The number of negative rows from which on it is defined.
    """

    unit: str
    higher_is_better: bool
    compute: Column
    kinds: tuple[str, ...]
    defined: Callable[[Array], bool] = _anything
    of_classes: OfClasses | None = None
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


def _library() -> Any:
    """scikit-learn's metrics, imported when the first value is computed: that takes a second."""
    from sklearn import metrics

    return metrics


# -- regression -----------------------------------------------------------------------------------------------------


def mae(y: Array, values: Array) -> float:
    """Mean absolute error."""
    return _library().mean_absolute_error(y, values)


def rmse(y: Array, values: Array) -> float:
    """Root of the mean squared error."""
    return _library().root_mean_squared_error(y, values)


def r2(y: Array, values: Array) -> float:
    """1 - squared error / squared deviation from the mean."""
    return _library().r2_score(y, values)


def spearman(y: Array, values: Array) -> float:
    """Correlation of ranks; equal values have their mean rank. 0 for constant predictions, which tell nothing."""
    from scipy.stats import spearmanr

    return spearmanr(y, values).statistic if _differ(values) else 0.0


# -- classes and labels ---------------------------------------------------------------------------------------------


def accuracy(y: Array, values: Array) -> float:
    """Share of right labels at a probability of one half, in percent."""
    return 100 * _library().accuracy_score(y > 0.5, values > 0.5)


def f1(y: Array, values: Array) -> float:
    """Harmonic mean of precision and recall of a label at a probability of one half."""
    return _library().f1_score(y > 0.5, values > 0.5, zero_division=0)


def roc_auc(y: Array, values: Array) -> float:
    """Area under the receiver operating curve. It is that of ``roc_auc_score``, which takes three times as long for few rows."""
    metrics = _library()
    false_positive, true_positive, _ = metrics.roc_curve(y, values, drop_intermediate=False)
    return metrics.auc(false_positive, true_positive)


def average_precision(y: Array, values: Array) -> float:
    """Precision at every threshold, weighted by the gain in recall."""
    return _library().average_precision_score(y, values)


def hits_at(k: int) -> Column:
    """Share of positive rows above the k-th best negative one, as OGB counts it."""
    return lambda y, values: float((values[y > 0.5] > np.sort(values[y <= 0.5])[-k]).mean())


def accuracy_of_classes(y: Array, found: Array, count: int) -> Array:
    """Share of right rows, in percent."""
    return np.array([100 * _library().accuracy_score(y, found)])


def recall_of_classes(y: Array, found: Array, count: int) -> Array:
    """Share of right rows of each class, in percent. A class without rows has 0, as in the benchmark it comes from."""
    return 100 * _library().recall_score(y, found, labels=range(count), average=None, zero_division=0)


def f1_of_classes(y: Array, found: Array, count: int) -> Array:
    """Harmonic mean of precision and recall of each class; NaN for one that is neither present nor predicted."""
    return _library().f1_score(y, found, labels=range(count), average=None, zero_division=np.nan)


# -- the table ------------------------------------------------------------------------------------------------------

_REGRESSION, _CLASSES, _BOTH = ("regression",), ("classification",), ("classification", "multilabel")
_RANKED = (*_BOTH, "link")
METRIC_TABLE: Mapping[str, Metric] = {
    "mae": Metric("MAE", False, mae, _REGRESSION, pooled=True, additive=True),
    "rmse": Metric("RMSE", False, rmse, _REGRESSION, pooled=True, additive=True),
    "r2": Metric("R²", True, r2, _REGRESSION, _differ, signed=True),
    "spearman": Metric("Spearman", True, spearman, _REGRESSION, _differ, signed=True),
    "accuracy": Metric("accuracy %", True, accuracy, _BOTH, of_classes=accuracy_of_classes, pooled=True, additive=True),
    "class_accuracy": Metric(
        "class-averaged accuracy %", True, accuracy, _CLASSES, of_classes=recall_of_classes, additive=True
    ),
    "f1": Metric("F1", True, f1, _BOTH, _some_positive, f1_of_classes),
    "roc_auc": Metric("ROC-AUC", True, roc_auc, _RANKED, _differ),
    "average_precision": Metric("average precision", True, average_precision, _RANKED, _differ),
    **{
        f"hits@{k}": Metric(f"Hits@{k}", True, hits_at(k), ("link",), _at_least(k), least_negative=k)
        for k in (10, 50, 100)
    },
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
    import sklearn  # late, as in _library

    declared = METRIC_TABLE[metric]
    predicted = values.detach().cpu().double().numpy().reshape(len(y), -1)
    wanted, known = _known_targets(y, mask)
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):  # _measure looks at the values
        if wanted.ndim == 1 and declared.of_classes is not None:
            rows = predicted[known]
            if not len(rows) or not np.isfinite(rows).all():
                return MetricValue(None, ())
            found = declared.of_classes(wanted[known], rows.argmax(1), rows.shape[1]).tolist()
            return MetricValue(_mean(found), tuple(map(_finite, found)))
        columns = _split_columns(predicted, wanted, known)
        found = [_measure(declared, *column) for column in columns]
        whole = _mean(found)
        if declared.pooled and len(columns) > 1:
            every = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
            whole = _finite(_measure(declared, *every))
    return MetricValue(whole, tuple(map(_finite, found)))


def is_defined(metric: str, y: Tensor, outputs: int) -> bool:
    """Whether targets define a metric, for one target at least; ``outputs`` is the number of targets or classes."""
    declared = METRIC_TABLE[metric]
    wanted, known = _known_targets(y, None)
    if wanted.ndim == 1 and declared.of_classes is not None:
        return len(wanted) > 0
    return any(declared.defined(column) for column, _ in _split_columns(np.zeros((len(y), outputs)), wanted, known))


def _known_targets(y: Tensor, mask: Tensor | None) -> tuple[Array, Array]:
    """Class numbers ``[rows]`` or targets ``[rows, targets]``, and which of them are known."""
    wanted = y.detach().cpu().numpy()
    wanted = wanted[:, None] if wanted.ndim == 1 and wanted.dtype.kind == "f" else wanted
    known = np.ones(wanted.shape, bool) if mask is None else mask.detach().cpu().numpy().astype(bool)
    if wanted.ndim == 1:
        return wanted, known.reshape(-1)
    return wanted, np.broadcast_to(known.reshape(len(wanted), -1), wanted.shape) & np.isfinite(wanted)


def _split_columns(predicted: Array, wanted: Array, known: Array) -> list[tuple[Array, Array]]:
    """The known targets of each column and the values predicted for them.

    Of classes there is one column for the second of two, else one for each class, against the rest.
    """
    if wanted.ndim == 1:
        count = predicted.shape[1]
        chosen = [1] if count == 2 else list(range(count))
        return [((wanted[known] == k).astype(float), predicted[known, k]) for k in chosen]
    columns = zip(wanted.astype(float).T, predicted.T, known.T, strict=True)
    return [(y[rows], values[rows]) for y, values, rows in columns]


def _measure(declared: Metric, y: Array, values: Array) -> float:
    """The value of one column; NaN where the targets do not define it, and for predictions that are not finite."""
    if not declared.defined(y) or not np.isfinite(values).all():
        return math.nan
    return float(declared.compute(y, values))


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else None


def compute_metrics(kind: str, values: Tensor, y: Tensor, mask: Tensor | None = None) -> dict[str, MetricValue]:
    """All metrics that fit the kind of task, or ``link``."""
    return {name: compute_metric(name, values, y, mask) for name in METRICS[kind]}


def name_per_target(found: Mapping[str, MetricValue], names: tuple[str, ...]) -> dict[str, dict[str, float | None]]:
    """Metrics of each target or class by its name; without metrics that have a single value."""
    several = {metric: one.per_target for metric, one in found.items() if len(one.per_target) > 1}
    return {metric: dict(zip(names, values, strict=True)) for metric, values in several.items()}


def _finite(value: float) -> float | None:
    return value if value == value else None
