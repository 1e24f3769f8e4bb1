"""A loop stopped after any step goes on bit for bit; a loss that is not finite is named; padding changes nothing."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small import benchmark, builder, stop_after
from tiny import SPACE, untimed
from torch import Tensor

from gnas.errors import Interrupted
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies import Darts, SearchProblem, SingleLevel
from gnas.strategies.base import SearchContext
from gnas.strategies.darts import DartsSearch
from gnas.strategies.single_level import SingleLevelSearch
from gnas.training.loop import EpochLoop, Step, steps_per_epoch, watch_steps
from gnas.training.meter import Meter, NotFinite
from gnas.training.store import GraphStore
from gnas.training.train import Trainer

BENCH = benchmark()
EPOCHS = 3
SMALL = {"epochs": EPOCHS, "batch_size": 3}
KINDS = ("trainer", "single-level", "darts1", "darts2")
pytestmark = pytest.mark.filterwarnings("ignore:epoch .*collapse")
STEPS = {"trainer": 4, **dict.fromkeys(KINDS[1:], 2)}  # of an epoch; the searches see half of the 12 graphs


def loop(
    kind: str, run: Run | None = None, should_stop: Callable[[], bool] | None = None, dropout: float = 0.3
) -> EpochLoop:
    if kind == "trainer":
        torch.manual_seed(3)
        config = TrainConfig(**SMALL, ema=0.9, clip=1.0, schedule="cosine", warmup=1)
        stores = {name: GraphStore(split) for name, split in BENCH.splits().items()}
        model = builder(BENCH, dropout=dropout)()
        return Trainer(model, config, 3, torch.device("cpu"), stores, run, should_stop=should_stop)
    problem = SearchProblem(BENCH.train, BENCH.val, BENCH.task, SPACE, 4, 1)
    context = SearchContext(3, run=run, should_stop=should_stop)
    if kind == "single-level":
        return SingleLevelSearch(SingleLevel(**SMALL), problem, context)
    return DartsSearch(Darts(order=int(kind[-1]), **SMALL), problem, context)


def finish(one: EpochLoop) -> EpochLoop:
    for _ in one.steps():
        pass
    return one


def flat(state: object) -> list[object]:
    """Leaves of nested state; tensors as bytes."""
    if isinstance(state, Tensor):
        return [state.dtype, state.detach().reshape(-1).view(torch.uint8).tolist()]
    if isinstance(state, dict):
        return [leaf for key, value in state.items() for leaf in (key, *flat(value))]
    return [leaf for value in state for leaf in flat(value)] if isinstance(state, list | tuple) else [repr(state)]


@functools.cache
def whole(kind: str) -> EpochLoop:
    """A loop that nobody stops and that has no folder."""
    return finish(loop(kind))


@pytest.mark.parametrize(
    ("kind", "step"), [(kind, step) for kind in KINDS for step in range(1, EPOCHS * STEPS[kind] + 1)]
)
def test_stopped_after_any_step_it_goes_on(kind: str, step: int, tmp_path: Path) -> None:
    with Run(tmp_path, {}) as run:
        epoch, within = divmod(step - 1, STEPS[kind])
        with pytest.raises(Interrupted, match=rf"stopped at epoch {epoch + 1}, step {within + 1}"):
            finish(loop(kind, run, stop_after(step)))
        torch.manual_seed(99)  # whatever happened in between
        assert len(run.history()) == epoch
        again = finish(loop(kind, run))
        assert untimed(again.history) == untimed(run.history()) == untimed(whole(kind).history)
        assert flat(again.state()) == flat(whole(kind).state())
        seconds = [record["seconds"] for record in again.history]
        assert seconds == sorted(seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_after_every_step(kind: str, tmp_path: Path) -> None:
    with Run(tmp_path, {}) as run:
        for _ in range(EPOCHS * STEPS[kind]):
            with pytest.raises(Interrupted):
                finish(loop(kind, run, stop_after(1)))
        again = finish(loop(kind, run))
        assert untimed(again.history) == untimed(whole(kind).history)
        assert flat(again.state()) == flat(whole(kind).state())


@pytest.mark.parametrize("kind", KINDS)
def test_a_watcher_is_told_every_step_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    heard: list[Step] = []
    with Run(tmp_path, {}) as run, watch_steps(heard.append):
        one = finish(loop(kind, run))
    steps, told = STEPS[kind], [step for step in heard if step.labels is not None]
    assert {step.epoch for step in heard if step.labels is None} == set(range(EPOCHS))  # evaluations are told, too
    wanted = [Step({}, epoch, EPOCHS, step, steps) for epoch in range(EPOCHS) for step in range(1, steps + 1)]
    assert told == wanted
    assert flat(one.state()) == flat(whole(kind).state())
    count = len(heard)
    finish(loop(kind))
    assert len(heard) == count  # outside, nobody is told


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_loop_does_nothing_more(kind: str, tmp_path: Path) -> None:
    with Run(tmp_path, {}) as run:
        first = finish(loop(kind, run))
        assert untimed(first.history) == untimed(whole(kind).history)
        asked: list[int] = []
        again = finish(loop(kind, run, lambda: bool(asked.append(1))))
        assert not asked
        assert again.history == first.history
        assert flat(again.state()) == flat(first.state())


def test_the_seed_decides() -> None:
    other = loop("single-level")
    other.generator.manual_seed(4)
    assert untimed(finish(other).history) != untimed(whole("single-level").history)


# -- losses that are not finite ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_is_not_finite(kind: str, value: float, tmp_path: Path) -> None:
    with Run(tmp_path, {}) as run:
        one = loop(kind, run)
        step, calls = one.engine.step, 0

        def spoiled(*planned: object) -> None:
            nonlocal calls
            calls += 1
            step(*planned)
            if calls == STEPS[kind] + 2:  # the second batch of the second epoch
                one.meter.losses[one.meter.at - 1] = value

        one.engine.step = spoiled
        message = "not finite at epoch 2, batch 2; the last good checkpoint is kept: lower the learning rate, or clip"
        with pytest.raises(NotFinite, match=message):
            finish(one)
        assert run.load_state()["position"]["epoch"] == 1
        again = finish(loop(kind, run))
        assert untimed(again.history) == untimed(whole(kind).history)


def test_weights_that_overflow_are_noticed() -> None:
    one = loop("trainer")
    with torch.no_grad():
        one.model.head.layers[-1].bias.fill_(float("nan"))
    with pytest.raises(NotFinite, match="epoch 1, batch 1;"):
        finish(one)


def test_meter_counts_on_and_starts_again() -> None:
    meter = Meter(BENCH.task, torch.device("cpu"), 2)
    batch = BENCH.val.batch()
    out = batch.y[:, None] + 0.5
    for _ in range(2):
        meter.reset()
        for loss in (0.5, 0.25):
            meter.add(out, batch, torch.tensor(loss))
        found = meter.read(0)
        assert (found["loss"], found["metric"]) == (pytest.approx(0.375), pytest.approx(0.5))
        assert meter.losses.tolist() == [0.5, 0.25]


@pytest.mark.parametrize(("size", "wanted"), [(1, 12), (5, 3), (12, 1), (100, 1)])
def test_steps_per_epoch(size: int, wanted: int) -> None:
    store = GraphStore(BENCH.train)
    assert steps_per_epoch(store, size) == wanted == len(store.plan(size))


# -- static shapes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind: str, monkeypatch) -> None:
    """As on a GPU: every batch padded to a static shape."""
    plan, padding = GraphStore.plan, 0

    def padded(self, batch_size, generator=None, padded=None, share=(0, 1)):
        nonlocal padding
        found = plan(self, batch_size, generator, True)
        padding += sum(p.capacity.nodes for p in found) - self.graphs.num_nodes
        return found

    monkeypatch.setattr(GraphStore, "plan", padded)
    found = finish(loop(kind, dropout=0.0))
    assert padding > 0
    monkeypatch.setattr(GraphStore, "plan", plan)
    wanted = finish(loop(kind, dropout=0.0))
    for a, b in zip(found.history, wanted.history, strict=True):
        for name in ("train_loss", "val_loss", "train_metric", "val_metric"):
            assert a[name] == pytest.approx(b[name], abs=1e-5), name
