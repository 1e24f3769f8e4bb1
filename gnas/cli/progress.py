"""How far a job is: moving bars on a terminal, a line now and then elsewhere. Fed with records of epochs, and with steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gnas.cli.bars import Bars
from gnas.cli.screen import Screen
from gnas.cli.stage import Record, Stage, View, summary
from gnas.run.words import duration
from gnas.training.loop import Step

Clock = Callable[[], float]
PAUSE = 2.0  # seconds between two plain lines
WITHIN = 10.0  # the same within an epoch
BLINK = 0.2  # seconds between two looks at steps: there may be hundreds a second


class Stages:
    """The parts of a job in order. Parts that were finished by an earlier process never report; they are passed over."""

    def __init__(
        self,
        screen: Screen,
        plan: Sequence[Stage],
        metric: str,
        *,
        side_by_side: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self.side_by_side = side_by_side  # several parts are at work at once, and end when all is over
        self.plan, self.metric, self.clock = list(plan), metric, clock
        self.view = View() if screen.quiet else Bars(screen) if screen.live else Lines(screen, clock)
        self.current: Stage | None = None
        self.shown = clock()

    def __enter__(self) -> Stages:
        self.since = self.clock()
        self.view.begin(self.plan)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self.side_by_side:
            for stage in (one for one in self.plan if one.started is not None):
                self._end(stage)
        elif kind is None:
            self._end_current()
        self.view.close(failed=kind is not None)

    def on_epoch(self, record: Record) -> None:
        """Take one record of the job."""
        key = f"train {record['model']}" if "model" in record else str(record.get("stage", "search"))
        stage = self._stage(key)
        stage.label = _label(stage, record)
        self._begin(stage)
        self.since = self.clock()
        stage.take(record, self.metric, self.since)
        self.view.show(stage)

    def on_step(self, step: Step) -> None:
        """Take one step of the job; shown now and then."""
        if step.folder is None:
            self._evaluating(step)
            return
        key, seed = place_of(step.folder)
        if not (key.startswith("round-") or any(stage.key == key for stage in self.plan)):
            return  # a job without stages of its own
        stage, now, share = self._stage(key), self.clock(), step.step / step.steps
        self._begin(stage)
        before, words = step.epoch, [f"step {step.step} of {step.steps}"]
        if stage.unit == "trial":  # what is an epoch elsewhere is a whole training here
            before, share = stage.done, (step.epoch + share) / step.epochs
            words.insert(0, f"epoch {step.epoch + 1} of {step.epochs}")
        stage.go_on(seed, before, share, now)
        self._show_step(stage, ", ".join(words))

    def _evaluating(self, step: Step) -> None:
        if self.current is not None:
            self._show_step(self.current, f"evaluating, batch {step.step} of {step.steps}")

    def _show_step(self, stage: Stage, where: str) -> None:
        now = self.clock()
        if now - self.shown >= BLINK:
            self.shown = now
            stage.where = where if now - self.since >= PAUSE else ""
            self.view.step(stage)

    def _begin(self, stage: Stage) -> None:
        if self.side_by_side:
            stage.started = self.since if stage.started is None else stage.started
        elif stage is not self.current:
            self._end_current()
            self.current, stage.started = stage, self.since

    def _stage(self, key: str) -> Stage:
        for stage in self.plan:
            if stage.key == key:
                return stage
        like = self.plan[0]  # a further round of a depth search
        self.plan.append(Stage(key, key.replace("-", " "), like.each, like.seeds, like.unit))
        self.view.begin(self.plan)
        return self.plan[-1]

    def _end_current(self) -> None:
        if self.current is not None:
            self._end(self.current)

    def _end(self, stage: Stage) -> None:
        stage.ended = stage.told
        self.view.end(stage)


def place_of(folder: Path) -> tuple[str, int | None]:
    """The stage that works in this folder of a run, and the seed.

    >>> place_of(Path("runs/mine/trained/gin/seed-41")), place_of(Path("runs/mine/search/trials/0001"))
    (('train gin', 41), ('search', None))
    """
    parts = ("", "", "", *folder.parts)
    if parts[-3] == "trained" or parts[-1].startswith("seed-"):  # a training, or one of several searches
        seed = parts[-1].removeprefix("seed-")
        key = f"train {parts[-2]}" if parts[-3] == "trained" else parts[-2]
        return key, int(seed) if seed.isdigit() else None
    if parts[-2] == "trials":
        return parts[-3], None
    return parts[-2] if parts[-1] == "supernet" else parts[-1], None


def _label(stage: Stage, record: Record) -> str:
    """The name of a stage; a round of a depth search tells its size with its first record."""
    return f"{stage.label} ({record['cells']} cells)" if "cells" in record and "(" not in stage.label else stage.label


class Lines(View):
    """At most a line every two seconds, fewer within an epoch, and one at the end of each stage."""

    def __init__(self, screen: Screen, clock: Clock) -> None:
        self.screen, self.clock = screen, clock
        self.last = clock()

    def show(self, stage: Stage) -> None:
        if self.clock() - self.last >= PAUSE:
            self._line(stage, f"{stage.done} of {stage.total}")

    def step(self, stage: Stage) -> None:
        if stage.where and self.clock() - self.last >= WITHIN:
            self._line(stage, f"{min(stage.done + 1, stage.total)} of {stage.total}, {stage.where}")

    def _line(self, stage: Stage, number: str) -> None:
        self.last = self.clock()
        left = stage.left(self.last)
        rest = f"; about {duration(left)} left" if left else ""
        note = f"; {stage.note}" if stage.note else ""
        self._print(f"{stage.label}: {stage.unit} {number}{note}{rest}")

    def end(self, stage: Stage) -> None:
        self.last = self.clock()
        self._print(f"{stage.label}: {summary(stage)}")

    def _print(self, text: str) -> None:
        self.screen.err.print(text, soft_wrap=True)
