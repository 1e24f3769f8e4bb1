"""Every metric against scikit-learn (scipy for ranks): ties, blanks, missing classes."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from gnas.model.metrics import (
    DEFAULT_METRICS,
    KINDS,
    METRIC_TABLE,
    METRICS,
    UNITS,
    MetricValue,
    compute_metric,
    compute_metrics,
    decimals,
    higher_is_better,
    is_defined,
)

Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
ONE = settings(max_examples=60, deadline=None)


@st.composite
def columns(draw: st.DrawFn, labels: bool) -> Sample:
    """Predictions, targets and known entries of several targets; few distinct values, so that there are ties."""
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    rows, targets = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    values = rng.integers(0, 6, (rows, targets)) / 5 if draw(st.booleans()) else rng.random((rows, targets))
    y = rng.integers(0, 2, (rows, targets)).astype(float) if labels else rng.integers(-3, 4, (rows, targets)) / 2
    return values, y, rng.random((rows, targets)) < draw(st.sampled_from([1.0, 0.7, 0.2]))


@st.composite
def classes(draw: st.DrawFn) -> Sample:
    """Probabilities of classes, classes and rows that count."""
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    rows, count = draw(st.integers(2, 30)), draw(st.integers(2, 5))
    scores = rng.integers(0, 3, (rows, count)) if draw(st.booleans()) else rng.normal(size=(rows, count))
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return p, rng.integers(0, count, rows), np.concatenate([[True, True], rng.random(rows - 2) < 0.8])


def compute(name: str, sample: Sample, blank: bool = True) -> MetricValue:
    values, y, known = sample
    if y.ndim == 2 and blank:  # blanks as NaN; otherwise as a mask
        return compute_metric(name, torch.tensor(values), torch.tensor(np.where(known, y, np.nan)))
    return compute_metric(name, torch.tensor(values), torch.tensor(y), torch.tensor(known))


def per_target(sample: Sample, metric: Callable[[np.ndarray, np.ndarray], float | None]) -> list[float | None]:
    """scikit-learn's value of each column."""
    values, y, known = sample
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            metric(y[rows, k], values[rows, k]) if rows.any() else None for k, rows in enumerate(known.T.astype(bool))
        ]


def assert_same(found: MetricValue, wanted: list[float | None], pooled: float | None = None) -> None:
    """Equal values per target, and their mean, or the pooled value."""
    assert [one is None for one in found.per_target] == [one is None for one in wanted]
    defined = [one for one in wanted if one is not None]
    assert [one for one in found.per_target if one is not None] == pytest.approx(defined, rel=1e-9, abs=1e-12)
    mean = (sum(defined) / len(defined) if defined else None) if pooled is None else pooled
    assert found.value == (None if mean is None else pytest.approx(mean, rel=1e-9, abs=1e-12))


def only(defined: Callable[[np.ndarray], bool], metric: Callable) -> Callable[[np.ndarray, np.ndarray], float | None]:
    """None where the targets do not define the metric."""
    return lambda y, values: float(metric(y, values)) if defined(y) else None


def both(y: np.ndarray) -> bool:
    return len(np.unique(y)) == 2


def spearman(y: np.ndarray, values: np.ndarray) -> float:
    """scipy has NaN for constant predictions, which tell nothing: 0."""
    return 0.0 if len(np.unique(values)) == 1 else stats.spearmanr(values, y).statistic


REGRESSION = {
    "mae": only(lambda y: len(y) > 0, sk.mean_absolute_error),
    "rmse": only(lambda y: len(y) > 0, sk.root_mean_squared_error),
    "r2": only(lambda y: len(np.unique(y)) > 1, sk.r2_score),
    "spearman": only(lambda y: len(np.unique(y)) > 1, spearman),
}
LABELS = {
    "accuracy": only(lambda y: len(y) > 0, lambda y, p: 100 * sk.accuracy_score(y, p > 0.5)),
    "f1": only(lambda y: y.sum() > 0, lambda y, p: sk.f1_score(y, p > 0.5, zero_division=0)),
    "roc_auc": only(both, sk.roc_auc_score),
    "average_precision": only(both, sk.average_precision_score),
}


@given(columns(labels=False), st.sampled_from(sorted(REGRESSION)), st.booleans())
@ONE
def test_regression(sample: Sample, name: str, blank: bool) -> None:
    values, y, known = sample
    pooled = REGRESSION[name](y[known], values[known]) if METRIC_TABLE[name].pooled and known.any() else None
    assert_same(compute(name, sample, blank), per_target(sample, REGRESSION[name]), pooled)


@given(columns(labels=True), st.sampled_from(sorted(LABELS)), st.booleans())
@ONE
def test_labels(sample: Sample, name: str, blank: bool) -> None:
    values, y, known = sample
    pooled = LABELS[name](y[known], values[known]) if METRIC_TABLE[name].pooled and known.any() else None
    assert_same(compute(name, sample, blank), per_target(sample, LABELS[name]), pooled)


@given(classes())
@ONE
def test_classes(sample: Sample) -> None:
    p, y, known = sample
    count, p_known, y_known = p.shape[1], p[known], y[known]
    found = p_known.argmax(1)
    assert compute("accuracy", sample).value == pytest.approx(100 * sk.accuracy_score(y_known, found))
    assert compute("f1", sample).value == pytest.approx(sk.f1_score(y_known, found, average="macro", zero_division=0))
    recalls = sk.recall_score(y_known, found, labels=range(count), average=None, zero_division=0)
    assert compute("class_accuracy", sample).per_target == pytest.approx(100 * recalls)
    assert compute("class_accuracy", sample).value == pytest.approx(100 * recalls.mean())
    for name in ("roc_auc", "average_precision"):
        if count == 2:
            wanted = [LABELS[name](y_known, p_known[:, 1])]
        else:
            wanted = [LABELS[name]((y_known == k).astype(int), p_known[:, k]) for k in range(count)]
        assert_same(compute(name, sample), wanted)


def test_several_classes_as_scikit_learn_computes_them_at_once() -> None:
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 4, 60), rng.dirichlet(np.ones(4), 60)
    sample = (p, y, np.ones(60, bool))
    assert compute("roc_auc", sample).value == pytest.approx(sk.roc_auc_score(y, p, multi_class="ovr"))
    assert compute("average_precision", sample).value == pytest.approx(sk.average_precision_score(y, p))
    assert compute("class_accuracy", sample).value == pytest.approx(100 * sk.balanced_accuracy_score(y, p.argmax(1)))


def test_a_label_with_one_class_is_skipped() -> None:
    nan = float("nan")
    y = torch.tensor([[0.0, 1, nan], [1, 1, nan], [0, nan, nan]])
    found = compute_metrics("multilabel", torch.rand(3, 3), y)
    assert set(found) == {"accuracy", "f1", "roc_auc", "average_precision"}
    assert [one is None for one in found["roc_auc"].per_target] == [False, True, True]
    assert found["roc_auc"].value == found["roc_auc"].per_target[0]
    assert [one is None for one in found["f1"].per_target] == [False, False, True]
    assert compute_metric("roc_auc", torch.rand(3, 3), torch.full((3, 3), nan)).value is None


@given(columns(labels=True), st.sampled_from(["f1", "roc_auc", "average_precision"]))
@ONE
def test_targets_alone_decide_what_is_defined(sample: Sample, name: str) -> None:
    values, y, known = sample
    other = compute(name, (np.zeros_like(values), y, known))
    assert [v is None for v in other.per_target] == [v is None for v in compute(name, sample).per_target]


def test_the_table_holds_unit_direction_and_decimals() -> None:
    assert [decimals(name) for name in ("mae", "accuracy", "roc_auc")] == [4, 2, 4]
    assert [name for name in UNITS if not higher_is_better(name)] == ["mae", "rmse"]
    assert {kind: METRICS[kind].count(DEFAULT_METRICS[kind]) for kind in KINDS} == dict.fromkeys(KINDS, 1)


@given(columns(labels=True), st.sampled_from([*sorted(LABELS), "r2", "spearman", "hits@10"]))
@ONE
def test_is_defined_agrees_with_the_value(sample: Sample, name: str) -> None:
    values, y, known = sample
    y = torch.tensor(np.where(known, y, np.nan))
    assert is_defined(name, y, y.size(1)) == (compute_metric(name, torch.tensor(values), y).value is not None)


def test_predictions_that_are_not_finite_have_no_value() -> None:
    values, y = torch.tensor([[0.1], [torch.inf], [0.3], [0.2]]), torch.tensor([0.0, 1, 1, 0])
    assert [compute_metric(name, values, y).value for name in ("mae", "r2", "roc_auc", "f1")] == [None] * 4
    assert compute_metric("f1", torch.full((3, 2), torch.nan), torch.tensor([0, 1, 1])).value is None
