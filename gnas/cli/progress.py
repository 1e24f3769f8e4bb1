"""How far a job is: moving bars on a terminal, a line now and then elsewhere. Fed with the records of ``on_epoch``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gnas.cli.bars import Bars
from gnas.cli.screen import Screen
from gnas.cli.stage import Record, Stage, View, summary
from gnas.report.words import duration

Clock = Callable[[], float]
PAUSE = 2.0  # seconds between two plain lines


class Stages:
    """The parts of a job in order. Parts that were finished by an earlier process never report; they are passed over."""

    def __init__(self, screen: Screen, plan: Sequence[Stage], metric: str, *, clock: Clock = time.monotonic) -> None:
        self.plan, self.metric, self.clock = list(plan), metric, clock
        self.view = View() if screen.quiet else Bars(screen) if screen.live else Lines(screen, clock)
        self.current: Stage | None = None

    def __enter__(self) -> Stages:
        self.since = self.clock()
        self.view.begin(self.plan)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._end_current()
        self.view.close(failed=kind is not None)

    def on_epoch(self, record: Record) -> None:
        """Take one record of the job."""
        stage = self._stage(record)
        stage.label = _label(stage, record)
        if stage is not self.current:
            self._end_current()
            self.current, stage.started = stage, self.since
        self.since = self.clock()
        stage.take(record, self.metric, self.since)
        self.view.show(stage)

    def _stage(self, record: Record) -> Stage:
        key = f"train {record['model']}" if "model" in record else str(record.get("stage", "search"))
        for stage in self.plan:
            if stage.key == key:
                return stage
        like = self.plan[0]  # a further round of a depth search
        self.plan.append(Stage(key, key.replace("-", " "), like.each, like.seeds, like.unit))
        self.view.begin(self.plan)
        return self.plan[-1]

    def _end_current(self) -> None:
        if self.current is not None:
            self.current.ended = self.since
            self.view.end(self.current)


def _label(stage: Stage, record: Record) -> str:
    """The name of a stage; a round of a depth search tells its size with its first record."""
    return f"{stage.label} ({record['cells']} cells)" if "cells" in record and "(" not in stage.label else stage.label


class Lines(View):
    """At most a line every two seconds, and one at the end of each stage."""

    def __init__(self, screen: Screen, clock: Clock) -> None:
        self.screen, self.clock = screen, clock
        self.last = clock()

    def show(self, stage: Stage) -> None:
        now = self.clock()
        if now - self.last < PAUSE:
            return
        self.last = now
        left = stage.left(now)
        rest = f"; about {duration(left)} left" if left else ""
        note = f"; {stage.note}" if stage.note else ""
        self._print(f"{stage.label}: {stage.unit} {stage.done} of {stage.total}{note}{rest}")

    def end(self, stage: Stage) -> None:
        self.last = self.clock()
        self._print(f"{stage.label}: {summary(stage)}")

    def _print(self, text: str) -> None:
        self.screen.err.print(text, soft_wrap=True)
