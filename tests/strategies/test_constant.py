"""A supernet that does not learn is noticed: the loss of a constant, the rate that is lowered, what the history says."""

import dataclasses
import math
import warnings

import pytest
import torch
from tiny import SPACE, tiny, untimed

from gnas.graph import GraphSet
from gnas.model.losses import class_weights
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.strategies import SearchResult, SingleLevel, search
from gnas.strategies.constant import ConstantWatch, constant_loss


def graphs(y: torch.Tensor) -> GraphSet:
    count = len(y)
    ptr = torch.arange(count + 1)
    nothing = torch.zeros(count + 1, dtype=torch.long)
    return GraphSet(torch.zeros(count, 1), torch.zeros(2, 0, dtype=torch.long), ptr, nothing, y)


def task(kind: str, outputs: int, loss: str, metric: str) -> Task:
    return Task("graph", kind, outputs, in_channels=1, loss=loss, metric=metric)


def test_regression_in_standard_units() -> None:
    train, val = graphs(torch.tensor([1.0, 2.0, 9.0])), graphs(torch.tensor([2.0, 6.0]))
    plain = task("regression", 1, "l1", "mae")
    assert constant_loss(plain, train, val) == pytest.approx(2.0)  # the median is 2
    scaled = dataclasses.replace(plain, center=(4.0,), scale=(2.0,))
    assert constant_loss(scaled, train, val) == pytest.approx(1.0)
    squares = task("regression", 1, "mse", "mae")
    assert constant_loss(squares, train, val) == pytest.approx((4 + 4) / 2)  # the mean is 4


def test_classes_and_labels() -> None:
    train = graphs(torch.tensor([0] * 30 + [1] * 10))
    plain = task("classification", 2, "cross_entropy", "accuracy")
    assert constant_loss(plain, train, train) == pytest.approx(0.5623, abs=2e-3)  # the entropy of 3/4
    labels = graphs(torch.tensor([[1.0, 0.0], [0.0, math.nan], [1.0, 0.0], [0.0, 1.0]]))
    bce = task("multilabel", 2, "bce", "roc_auc")
    wanted = (4 * math.log(2) + 3 * 0.6365) / 7
    assert constant_loss(bce, labels, labels) == pytest.approx(wanted, abs=1e-3)


def test_weighted_classes_are_equal_for_two() -> None:
    y = torch.tensor([0] * 30 + [1] * 10)
    weighted = task("classification", 2, "weighted_cross_entropy", "accuracy")
    weights = class_weights(y, torch.ones(40), 2, lambda value: value)[y].double()
    wanted = float((weights * math.log(2)).sum() / weights.sum())
    assert constant_loss(weighted, graphs(y), graphs(y)) == pytest.approx(wanted, abs=1e-3)


def test_a_rate_is_judged_after_some_epochs_and_steps() -> None:
    watch = ConstantWatch(1.0, 1.0, steps=30)
    assert [watch.judge(1.0, 1.0) for _ in range(5)] == [False, False, False, False, True]
    assert watch.lower()
    assert watch.factor == pytest.approx(0.1)
    assert not watch.judge(0.9, 1.5)  # it learns now, and is not judged again
    assert not any(watch.judge(2.0, 2.0) for _ in range(20))
    few = ConstantWatch(1.0, 1.0, steps=10)
    assert [few.judge(1.0, 1.0) for _ in range(10)].index(True) == 9


def find(rate: float, kind: str = "regression", **how: object) -> SearchResult:
    settings = SingleLevel(8, batch_size=2, lr=rate, clip=0.0, epoch_steps=25)
    return search(tiny(kind), SPACE, settings, channels=8, num_cells=1, **how)  # type: ignore[arg-type]


def test_a_supernet_that_does_not_learn_begins_anew_with_a_lower_rate() -> None:
    with pytest.warns(UserWarning, match="no better than a constant prediction after 5 epochs at rate .*begins anew"):
        result = find(3.0)
    told = [record for record in result.history if "not_learned" in record]
    assert told[0]["epoch"] == 5
    assert told[0]["not_learned"]["new_rate"] == pytest.approx(0.3)
    assert result.history[5]["lr"] < 0.11 * result.history[4]["lr"]


def test_a_search_that_learns_is_left_alone() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "epoch .* constant prediction")
        result = find(0.02, kind="classification")
    assert not any("not_learned" in record for record in result.history)


@pytest.mark.filterwarnings("ignore:epoch")
def test_it_resumes_to_the_same_result(tmp_path) -> None:
    wanted = find(3.0)
    count = iter(range(1000))
    with Run(tmp_path / "run", {}) as run, pytest.raises(Exception, match="stopped"):
        find(3.0, run=run, should_stop=lambda: next(count) > 160)  # after the rate was lowered
    with Run(tmp_path / "run", {}, resume=True) as run:
        found = find(3.0, run=run)
    assert untimed(found.history) == untimed(wanted.history)
