"""Progress: the time left, few lines on paper, bars on a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from gnas.cli.progress import Bars, choose_view, count_progress
from gnas.cli.screen import Screen, number_cells, to_json_numbers
from gnas.training.loop import Step
from gnas.training.stages import Stage, Stages, View


class Clock:
    """A clock that stands still until it is told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def record(epoch: int, **more: Any) -> dict[str, Any]:
    return {"stage": "search", "epoch": epoch, "val_metric": 0.5, "depth": 2, **more}


def paper() -> tuple[Screen, io.StringIO]:
    screen, text = Screen(), io.StringIO()
    screen.err = Console(file=text, width=100, highlight=False)
    return screen, text


def test_lines_come_at_most_every_two_seconds() -> None:
    clock, (screen, text) = Clock(), paper()
    plan = [Stage("search", "search", 100), Stage("train gin", "train gin", 10)]
    with Stages(choose_view(screen, clock), plan, "mae", clock=clock) as stages:
        for epoch in range(1, 101):
            clock.now += 0.125
            stages.on_epoch(record(epoch))
        clock.now += 0.5
        stages.on_epoch({"stage": "train", "model": "gin", "seed": 1, "epoch": 1, "val_metric": 0.25})
    lines = text.getvalue().replace("\xa0", " ").splitlines()
    assert lines[0] == "search: epoch 16 of 100; val 0.5000, depth 2; about 10 s left"
    assert lines[-2:] == [
        "search: 100 epochs in 12 s; val 0.5000, depth 2",
        "train gin: 1 epoch in 0.5 s; best val 0.2500",
    ]
    assert len(lines) == 8


def test_parts_side_by_side_end_once_each_with_their_own_time() -> None:
    clock, (screen, text) = Clock(), paper()
    plan = [Stage("train gcn", "train gcn", 2), Stage("train gin", "train gin", 2), Stage("train mlp", "train mlp", 2)]
    with Stages(choose_view(screen, clock), plan, "mae", side_by_side=True, clock=clock) as stages:
        for name, epoch, value in (("gin", 1, 0.25), ("gcn", 1, 0.5), ("gin", 2, 0.75), ("gcn", 2, 0.125)):
            clock.now += 0.4
            stages.on_epoch({"stage": "train", "model": name, "seed": 1, "epoch": epoch, "val_metric": value})
    lines = text.getvalue().replace("\xa0", " ").splitlines()
    assert lines == ["train gcn: 2 epochs in 1.2 s; best val 0.1250", "train gin: 2 epochs in 1.2 s; best val 0.2500"]


def test_time_left_after_a_resume_counts_only_what_was_done_now() -> None:
    stage = Stage("search", "search", 50, started=0.0)
    stage.add_record(record(41), "mae", 2.0)
    assert stage.seconds_left(2.0) == 18.0
    assert stage.seconds_left(5.0) == 15.0  # it counts down between epochs
    assert stage.seconds_left(99.0) == 0.0


def test_a_seed_that_stopped_early_shortens_the_rest() -> None:
    stage = Stage("train gin", "train gin", 50, seeds=2, started=0.0)
    for epoch in range(1, 11):
        stage.add_record(record(epoch, seed=1), "mae", float(epoch))
    assert stage.total == 100
    for epoch in range(1, 6):
        stage.add_record(record(epoch, seed=2), "mae", 10.0 + epoch)
    assert (stage.done, stage.total) == (15, 60)


def test_a_failed_job_ends_no_stage() -> None:
    screen, text = paper()
    try:
        with Stages(choose_view(screen, Clock()), [Stage("search", "search", 9)], "mae", clock=Clock()) as stages:
            stages.on_epoch(record(1))
            raise RuntimeError
    except RuntimeError:
        pass
    assert text.getvalue() == ""


def test_bars_on_a_terminal() -> None:
    screen, text = Screen(), io.StringIO()
    screen.err = Console(file=text, force_terminal=True, width=100, color_system=None)
    screen.out = Console(file=text, force_terminal=True, width=100)
    assert screen.live
    plan = [Stage("search", "search", 4), Stage("train gnas", "train gnas", 3), Stage("train gcn", "train gcn", 3)]
    with Stages(choose_view(screen), plan, "accuracy") as stages:
        assert isinstance(stages.view, Bars)
        for epoch in (1, 2, 3, 4):
            stages.on_epoch(record(epoch, val_metric=77.777))
        stages.on_epoch({"model": "gcn", "seed": 1, "epoch": 2, "val_metric": 50.0})
    last = text.getvalue().split("\r")[-1] or text.getvalue()
    assert "4/4" in text.getvalue()
    assert "val 77.78, depth 2" in text.getvalue()
    assert "done before" in text.getvalue(), last  # gnas never reported: an earlier process had trained it


def test_a_round_that_was_not_planned_gets_its_own_stage() -> None:
    clock, (screen, text) = Clock(), paper()
    with Stages(choose_view(screen, clock), [Stage("round-1", "round 1", 5)], "mae", clock=clock) as stages:
        stages.on_epoch({"stage": "round-1", "cells": 6, "epoch": 1, "val_metric": 1.0})
        stages.on_epoch({"stage": "round-2", "cells": 4, "epoch": 1, "val_metric": 1.0})
    assert [line.split(":")[0] for line in text.getvalue().splitlines()] == ["round 1 (6 cells)", "round 2 (4 cells)"]


def test_quiet_shows_nothing() -> None:
    with Stages(choose_view(Screen(quiet=True)), [Stage("search", "search", 1)], "mae") as stages:
        assert type(stages.view) is View
        stages.on_epoch(record(1))


def test_equal_cells_share_a_line() -> None:
    assert number_cells(("mean", "mean", "sum", "mean")) == [
        ("cells 1-2", "mean"),
        ("cell 3", "sum"),
        ("cell 4", "mean"),
    ]


def test_json_has_no_numbers_that_are_none() -> None:
    assert to_json_numbers({"a": [float("nan"), 1.5, (float("inf"),)], 2: True}) == {
        "a": [None, 1.5, [None]],
        "2": True,
    }


def step(epoch: int, number: int, steps: int = 100, **labels: Any) -> Step:
    return Step(labels, epoch, 10, number, steps)


def test_a_long_epoch_tells_how_far_it_is() -> None:
    clock, (screen, text) = Clock(), paper()
    with Stages(choose_view(screen, clock), [Stage("search", "search", 10)], "mae", clock=clock) as stages:
        for epoch in range(2):
            for number in range(1, 101):
                clock.now += 0.25
                stages.on_step(step(epoch, number))
            stages.on_epoch(record(epoch + 1))
    lines = text.getvalue().replace("\xa0", " ").splitlines()
    assert lines[:3] == [
        "search: epoch 1 of 10, step 40 of 100; about 4 min left",
        "search: epoch 1 of 10, step 80 of 100; about 3 min 50 s left",
        "search: epoch 1 of 10; val 0.5000, depth 2; about 3 min 45 s left",
    ]
    assert lines[-1] == "search: 2 epochs in 50 s; val 0.5000, depth 2"


def test_short_epochs_tell_nothing_of_their_steps() -> None:
    clock, (screen, text) = Clock(), paper()
    with Stages(choose_view(screen, clock), [Stage("search", "search", 10)], "mae", clock=clock) as stages:
        for epoch in range(10):
            for number in range(1, 101):
                clock.now += 0.015625
                stages.on_step(step(epoch, number))
            stages.on_epoch(record(epoch + 1))
    assert "step" not in text.getvalue()


def test_steps_of_a_resumed_run_and_of_seeds_at_once() -> None:
    clock, (screen, _) = Clock(), paper()
    stage = Stage("train gin", "train gin", 10, seeds=2)
    with Stages(choose_view(screen, clock), [Stage("search", "search", 5), stage], "mae", clock=clock) as stages:
        clock.now += 3
        stages.on_step(step(4, 50, model="gin", seed=1))
        stages.on_step(step(4, 25, model="gin", seed=2))
        assert stages.current is stage
        assert (stage.done, stage.reached, stage.skipped, stage.total) == (8, 8.75, 8, 20)
        assert stage.seconds_left(clock.now) == 3 / 0.75 * (20 - 8.75)
        stages.on_epoch({"model": "gin", "seed": 1, "epoch": 5, "val_metric": 1.0})
        assert (stage.done, stage.reached) == (9, 9.25)


def test_steps_of_trials_are_shares_of_a_trial() -> None:
    clock, (screen, _) = Clock(), paper()
    stage = Stage("search", "search", 20, unit="trial")
    with Stages(choose_view(screen, clock), [stage], "mae", clock=clock) as stages:
        stages.on_step(step(5, 50, stage="search"))
        assert (stage.done, stage.reached) == (0, 0.55)
        stages.on_epoch(record(1))
        assert stage.reached == 1
        stages.on_step(step(0, 50, stage="unknown"))  # of a job that is not ours
        assert stage.reached == 1


def test_bars_move_within_an_epoch() -> None:
    screen, text = Screen(), io.StringIO()
    screen.err = screen.out = Console(file=text, force_terminal=True, width=120, color_system=None)
    clock = Clock()
    with Stages(choose_view(screen, clock), [Stage("search", "search", 4)], "mae", clock=clock) as stages:
        clock.now += 3
        stages.on_step(step(0, 50))
        bar = stages.view.bars.tasks[0]
        assert (bar.completed, bar.fields["count"], bar.fields["note"]) == (0.5, "0/4", "step 50 of 100")


def test_a_long_evaluation_is_told() -> None:
    clock, (screen, text) = Clock(), paper()
    with Stages(choose_view(screen, clock), [Stage("search", "search", 1)], "mae", clock=clock) as stages:
        stages.on_step(Step(None, 0, 0, 1, 80))  # of nothing we know yet
        stages.on_step(step(0, 100))
        for number in range(1, 81):
            clock.now += 0.25
            stages.on_step(Step(None, 0, 0, number, 80))
        stages.on_epoch(record(1))
    lines = text.getvalue().splitlines()
    assert [line for line in lines if "evaluating" in line] == [
        "search: epoch 1 of 1, evaluating, batch 40 of 80",
        "search: epoch 1 of 1, evaluating, batch 80 of 80",
    ]


def counted(screen: Screen, count: int, pace: float) -> str:
    """What is printed while ``count`` things are counted, one each ``pace`` seconds."""
    text, clock = io.StringIO(), Clock()
    live = screen.live
    screen.err = Console(file=text, width=100, force_terminal=live, color_system=None)
    with count_progress(screen, "mnist", clock) as tell:
        tell("images", 0, count)
        for number in range(1, count + 1):
            clock.now += pace
            tell("images", number, count)
    return text.getvalue().replace("\xa0", " ")


def test_lines_where_nothing_can_move() -> None:
    lines = counted(Screen(), 48, 0.5).splitlines()
    assert lines == [
        "mnist: images, 4 of 48; about 22 s left",
        "mnist: images, 24 of 48; about 12 s left",
        "mnist: images, 44 of 48; about 2.0 s left",
    ]


def test_what_is_quick_says_nothing() -> None:
    assert counted(Screen(), 10, 0.1) == ""


def test_quiet_says_nothing() -> None:
    assert counted(Screen(quiet=True), 100, 1.0) == ""


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "live", property(lambda self: True))
    shown = counted(Screen(), 5, 1.0)
    assert "mnist: images" in shown
    assert "5/5" in shown
