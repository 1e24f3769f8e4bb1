"""Metrics of a whole split; statistics of the norms taken anew, against batches normalised by hand."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import shake
from small import benchmark, builder, stop_after
from tiny import SPACE, tiny, untimed

from gnas.errors import InputError, Interrupted
from gnas.model import baselines
from gnas.model.network import GraphModule
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies import SingleLevel, search
from gnas.training.evaluation import PreciseNorms, evaluate, lag_behind, list_norms
from gnas.training.loop import make_generator
from gnas.training.store import GraphStore
from gnas.training.train import train

BENCH = benchmark()
CONFIG = TrainConfig(epochs=4, batch_size=5, precise_norms=2)


@pytest.mark.parametrize("made", ["network", "gin", "gatedgcn"])
def test_the_statistics_are_the_mean_over_the_batches(made: str) -> None:
    """By hand: what each norm is given in training mode, batch by batch, and its moments as numbers."""
    model = (
        builder(BENCH)() if made == "network" else baselines.build_baseline(made, BENCH.task, num_layers=2, budget=3000)
    )
    shake(model)
    store = GraphStore(BENCH.train)
    model.train()
    given: list[torch.Tensor] = []
    precise = PreciseNorms(model, store, 5, 2, "eager", "float32", None)
    first = list_norms(model)[0]
    hook = first.register_forward_pre_hook(lambda module, args: given.append(args[0].detach().double()))
    precise()
    hook.remove()
    assert len(given) in (0, 2)  # a hand-made network's norm is not called as a module
    assert model.training
    assert all(norm.training and norm.momentum == 0.1 for norm in list_norms(model))
    if given:
        means = torch.stack([h.mean(-2) for h in given]).mean(0)
        variances = torch.stack([h.var(-2, correction=1) for h in given]).mean(0)
        torch.testing.assert_close(first.running_mean.squeeze(-2).double(), means, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(first.running_var.squeeze(-2).double(), variances, rtol=1e-4, atol=1e-6)
    found = [norm.running_mean.clone() for norm in list_norms(model)]
    for norm in list_norms(model):
        norm.running_mean.fill_(7.0)
    precise()  # what stood there before plays no part
    assert all(torch.equal(norm.running_mean, old) for norm, old in zip(list_norms(model), found, strict=True))


def test_one_batch_makes_evaluation_equal_to_training_mode() -> None:
    """With the statistics of the very graphs that are evaluated, evaluation is what training mode computes on them."""
    model = builder(BENCH)()
    shake(model)
    store = GraphStore(BENCH.train)
    PreciseNorms(model, store, len(BENCH.train), 1, "eager", "float32", None)()
    planned = store.plan(len(BENCH.train), make_generator(0))[0]
    batch = store.batch(planned.ids, planned.capacity)
    as_trained = model.train()(batch)
    as_judged = model.eval()(batch)
    torch.testing.assert_close(as_judged, as_trained, rtol=0.05, atol=0.02)  # unbiased against biased variance


def test_training_evaluates_by_them_and_keeps_them() -> None:
    result = train(builder(BENCH), BENCH, CONFIG, 2)
    plain = train(builder(BENCH), BENCH, CONFIG.with_(precise_norms=0), 2)
    assert result.history[0]["train_loss"] == plain.history[0]["train_loss"]
    assert result.history[0]["val_loss"] != plain.history[0]["val_loss"]
    assert evaluate(result.network, BENCH.val)["metric"] == pytest.approx(result.val, rel=1e-5)
    assert evaluate(result.network, BENCH.test)["metric"] == pytest.approx(result.test, rel=1e-5)


@pytest.mark.parametrize("count", [2, 7])
def test_a_stopped_training_goes_on_to_the_same_result(count: int, tmp_path: Path) -> None:
    wanted = train(builder(BENCH), BENCH, CONFIG, 2)
    with Run(tmp_path / "run", {}) as run, pytest.raises(Interrupted):
        train(builder(BENCH), BENCH, CONFIG, 2, run=run, should_stop=stop_after(count))
    with Run(tmp_path / "run", {}, resume=True) as run:
        result = train(builder(BENCH), BENCH, CONFIG, 2, run=run)
    assert untimed(result.history) == untimed(wanted.history)
    assert (result.test, result.val) == (wanted.test, wanted.val)


def test_a_search_judges_its_supernet_by_them() -> None:
    told = {"epochs": 2, "batch_size": 4}
    with_, without = (
        search(tiny(), SPACE, SingleLevel(**told, precise_norms=count), channels=4, num_cells=1).history
        for count in (2, 0)
    )
    assert with_[0]["train_loss"] == without[0]["train_loss"]
    assert with_[0]["val_loss"] != without[0]["val_loss"]


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(InputError, match="precise_norms is -1"):
        TrainConfig(precise_norms=-1)
    with pytest.raises(InputError, match="precise_norms is -1"):
        SingleLevel(precise_norms=-1)


@pytest.mark.gpu
def test_a_recorded_step_takes_the_same_statistics() -> None:
    found = []
    for mode in ("eager", "auto"):
        torch.manual_seed(0)
        model = builder(BENCH)().cuda()
        precise = PreciseNorms(model, GraphStore(BENCH.train, "cuda"), 2, 8, mode, "float32", None)
        for _ in range(2):
            precise()
        with precise.engine.on_stream():
            found.append([norm.running_var.cpu() for norm in list_norms(model)])
    for eager, recorded in zip(*found, strict=True):
        torch.testing.assert_close(eager, recorded)


def slow(momentum: float) -> GraphModule:
    """A network whose running averages begin far off and follow the batches at this rate."""
    model = baselines.build_baseline("gin", BENCH.task, channels=8, num_layers=2)
    for norm in list_norms(model):
        norm.momentum = momentum
        norm.running_mean.fill_(4.0)
    return model


@pytest.mark.parametrize(
    ("momentum", "settings", "lags"), [(1e-5, {}, True), (0.1, {}, False), (1e-5, {"precise_norms": 2}, False)]
)
def test_running_averages_that_lag_are_told(momentum: float, settings: dict[str, int], lags: bool) -> None:
    config = TrainConfig(epochs=20, batch_size=5, lr=0.01).with_(**settings)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = train(lambda: slow(momentum), BENCH, config, 2)
    told = [str(one.message) for one in told if "precise_norms=16" in str(one.message)]
    assert result.norms_lag == lags == bool(told)
    if lags:
        batches = result.history[result.best_epoch - 1]["train_metric"]
        assert f"{batches:.4f} on its training batches, but {result.train:.4f}" in told[0]


@pytest.mark.parametrize(
    ("task", "batches", "evaluated", "lags"),
    [
        (Task("node", "classification", 3, in_channels=1), 64.4, 47.7, True),
        (Task("node", "classification", 3, in_channels=1), 60.0, 58.0, False),
        (Task("graph", "regression", 1, in_channels=1), 0.30, 0.36, True),
        (Task("graph", "regression", 1, in_channels=1), 0.36, 0.30, False),
    ],
)
def test_a_lag_is_an_evaluation_that_is_clearly_worse(task: Task, batches: float, evaluated: float, lags: bool) -> None:
    assert lag_behind(task, batches, evaluated) == lags


@pytest.mark.parametrize("metric", ["accuracy", "class_accuracy"])
def test_the_metric_does_not_depend_on_the_batch_size(metric: str) -> None:
    bench = benchmark("classification")
    model = shake(builder(replace(bench, task=replace(bench.task, metric=metric)))())
    figures = [evaluate(model, bench.test, size) for size in (1, 3, 7)]
    whole = evaluate(model, bench.test, 100)
    for one in figures:
        assert one["metric"] == pytest.approx(whole["metric"], abs=1e-3)
        assert one["loss"] == pytest.approx(whole["loss"], abs=1e-5)
    assert whole["metric_per_batch"] == pytest.approx(whole["metric"], abs=1e-3)
    assert abs(figures[0]["metric_per_batch"] - whole["metric"]) > 0.1
    out, y = model.eval()(bench.test.batch()), bench.test.y
    right = (out.argmax(1) == y).double()
    recalls = [right[y == c].mean() for c in range(3)]
    wanted = right.mean() if metric == "accuracy" else sum(recalls) / 3
    assert whole["metric"] == pytest.approx(100 * float(wanted), abs=1e-3)
