"""Stages of a job: what is done, what is left, and what a view is shown."""

import pytest

from gnas.training.loop import Step
from gnas.training.stages import Stage, Stages, View, describe_record, repeat_for_folds, stage_key, train_stages


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Recorder(View):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def show(self, stage: Stage) -> None:
        self.calls.append(("show", stage.key))

    def step(self, stage: Stage) -> None:
        self.calls.append(("step", stage.where))

    def end(self, stage: Stage) -> None:
        self.calls.append(("end", stage.key))

    def close(self, failed: bool) -> None:
        self.calls.append(("close", failed))


def test_the_key_of_a_record() -> None:
    assert stage_key({}) == "search"
    assert stage_key({"stage": "round-2"}) == "round-2"
    assert stage_key({"model": "gin", "stage": "search"}) == "train gin"
    assert stage_key({"model": "gin", "fold": 3}) == "fold 3: train gin"
    folds = repeat_for_folds(train_stages(["gcn", "gin"], 5, 2), 2)
    assert [one.key for one in folds] == [f"fold {fold}: train {name}" for fold in (1, 2) for name in ("gcn", "gin")]


def test_the_time_that_is_left() -> None:
    """Ten of 50 epochs took 20 seconds: 40 epochs at two seconds each, less what passed since."""
    stage = Stage("search", "search", 50, started=0.0)
    for epoch in range(1, 11):
        stage.add_record({"epoch": epoch}, "mae", 2.0 * epoch)
    assert stage.seconds_left(20.0) == pytest.approx(80.0)
    assert stage.seconds_left(25.0) == pytest.approx(75.0)
    assert (stage.done, stage.total) == (10, 50)


def test_epochs_of_an_earlier_process_took_no_time() -> None:
    stage = Stage("search", "search", 50, started=0.0)
    for epoch in range(41, 46):
        stage.add_record({"epoch": epoch}, "mae", 1.0 * (epoch - 40))
    assert stage.skipped == 40
    assert stage.seconds_left(5.0) == pytest.approx(5.0)


def test_a_limit_of_time_decides_what_is_left() -> None:
    stage = Stage("search", "search", 50, limit=60.0, started=10.0)
    stage.add_record({"epoch": 1}, "mae", 25.0)
    assert stage.seconds_left(40.0) == 30.0
    assert stage.total == 4  # one epoch in a quarter of the time


def test_a_seed_that_has_stopped_early_counts_as_it_is() -> None:
    stage = Stage("train gin", "train gin", 10, seeds=2, is_training=True, started=0.0)
    stage.add_record({"epoch": 1, "seed": 1}, "mae", 1.0)
    for epoch in range(1, 7):
        stage.add_record({"epoch": epoch, "seed": 2}, "mae", 1.0 + epoch)
    assert stage.total == 1 + 10


@pytest.mark.parametrize(("metric", "best"), [("mae", "best val 0.2"), ("accuracy", "best val 40")])
def test_the_best_epoch_of_a_training_is_shown(metric: str, best: str) -> None:
    stage = Stage("train gin", "train gin", 10, is_training=True)
    for epoch, value in enumerate([0.3, 0.2, 0.4] if metric == "mae" else [30, 40, 20], start=1):
        stage.add_record({"epoch": epoch, "model": "gin", "val_metric": value}, metric, float(epoch))
    assert stage.note.startswith(best)


def test_a_record_in_words() -> None:
    assert describe_record({}, "mae") == ""
    assert describe_record({"val_metric": None, "depth": 3}, "mae") == "depth 3"
    found = describe_record({"best_val_metric": 0.25, "leader": "gin+", "tried": 5, "dropped": 2}, "mae")
    assert found.startswith("best val 0.25")
    assert found.endswith("by gin+, 5 tried, 2 dropped")


def test_stages_follow_each_other_and_unplanned_ones_are_added() -> None:
    view, clock = Recorder(), Clock()
    plan = [Stage("search", "search", 2), Stage("train gcn", "train gcn", 1, is_training=True)]
    with Stages(view, plan, "mae", clock=clock) as stages:
        stages.on_epoch({"epoch": 1})
        stages.on_epoch({"epoch": 2})
        stages.on_epoch({"epoch": 1, "model": "gnas"})
        assert [one.key for one in stages.plan] == ["search", "train gcn", "train gnas"]
        assert stages.plan[2].is_training
    shown = ["search", "search", "train gnas"]
    assert [key for kind, key in view.calls if kind == "show"] == shown
    assert [key for kind, key in view.calls if kind == "end"] == ["search", "train gnas"]
    assert view.calls[-1] == ("close", False)


def test_a_job_that_fails_says_so() -> None:
    view = Recorder()
    with pytest.raises(KeyError), Stages(view, [Stage("search", "search", 2)], "mae"):
        raise KeyError
    assert view.calls == [("close", True)]


def test_a_long_epoch_shows_its_place() -> None:
    view, clock = Recorder(), Clock()
    with Stages(view, [Stage("search", "search", 4)], "mae", clock=clock) as stages:
        stages.on_step(Step({"stage": "search"}, 0, 4, 1, 8))
        clock.now += 3.0
        stages.on_step(Step({"stage": "search"}, 0, 4, 4, 8))
        assert stages.plan[0].reached == 0.5
    assert ("step", "step 4 of 8") in view.calls
