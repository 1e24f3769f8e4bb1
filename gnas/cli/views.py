"""Where the progress of a job is shown: moving bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.progress import Task as BarTask
from rich.spinner import Spinner
from rich.text import Text

from gnas.cli.screen import Screen
from gnas.run.words import duration
from gnas.training.stages import Clock, Stage, View

PAUSE = 2.0  # seconds between two lines
LONG_PAUSE = 10.0  # the same within an epoch


class Lines(View):
    """At most one line every two seconds, fewer within an epoch, and one at the end of each stage."""

    def __init__(self, screen: Screen, clock: Clock) -> None:
        self.screen, self.clock = screen, clock
        self.last = clock()

    def show(self, stage: Stage) -> None:
        if self.clock() - self.last >= PAUSE:
            self._line(stage, f"{stage.done} of {stage.total}")

    def step(self, stage: Stage) -> None:
        if stage.where and self.clock() - self.last >= LONG_PAUSE:
            self._line(stage, f"{min(stage.done + 1, stage.total)} of {stage.total}, {stage.where}")

    def end(self, stage: Stage) -> None:
        self.last = self.clock()
        self._print(f"{stage.label}: {stage.summary()}")

    def _line(self, stage: Stage, number: str) -> None:
        self.last = self.clock()
        left = stage.seconds_left(self.last)
        rest = f"; about {duration(left)} left" if left else ""
        note = f"; {stage.note}" if stage.note else ""
        self._print(f"{stage.label}: {stage.unit} {number}{note}{rest}")

    def _print(self, text: str) -> None:
        self.screen.err.print(text, soft_wrap=True)


class Bars(View):
    """One bar per stage; those to come are there already, empty."""

    def __init__(self, screen: Screen) -> None:
        columns = (
            _SpinnerColumn(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[count]}", justify="right", markup=False),
            _TimeColumn(),
            TextColumn("{task.fields[note]}", markup=False, style="dim"),
        )
        self.bars = Progress(*columns, console=screen.err, refresh_per_second=5)
        self.ids: dict[str, Any] = {}

    def begin(self, plan: Sequence[Stage]) -> None:
        for stage in plan:
            if stage.key not in self.ids:
                first = not self.ids
                self.ids[stage.key] = self.bars.add_task(
                    stage.label, total=stage.total, note="", count=_count(stage), stage=stage, working=first
                )
        self.bars.start()

    def show(self, stage: Stage) -> None:
        here = self.ids[stage.key]
        note = ", ".join(filter(None, (stage.note, stage.where)))
        self.bars.update(here, description=stage.label, completed=stage.reached, total=stage.total, note=note)
        self.bars.update(here, count=_count(stage))
        over = stage.done >= stage.total  # then the next stage runs, though its first epoch has not ended
        for task in self.bars.tasks:
            self.bars.update(task.id, working=task.id == here + over)

    def step(self, stage: Stage) -> None:
        self.show(stage)

    def end(self, stage: Stage) -> None:
        done = max(stage.done, 1)
        self.bars.update(self.ids[stage.key], completed=done, total=done, note=stage.note, count=f"{done}/{done}")

    def close(self, failed: bool) -> None:
        for task in self.bars.tasks:
            stage: Stage = task.fields["stage"]
            if not failed and not stage.done:
                self.bars.update(task.id, completed=stage.total, note="done before")
            self.bars.update(task.id, working=False)
        self.bars.stop()


def _count(stage: Stage) -> str:
    return f"{stage.done}/{stage.total}"


class _SpinnerColumn(ProgressColumn):
    """A spinner before the bar of the current stage: its first epoch may take long."""

    def __init__(self) -> None:
        super().__init__()
        self.spinner = Spinner("dots", style="cyan")

    def render(self, task: BarTask) -> RenderableType:
        moves = task.fields["working"] and not task.finished
        return self.spinner.render(task.get_time()) if moves else Text(" ")


class _TimeColumn(ProgressColumn):
    """The time left, counting down between epochs; at the end the time it took."""

    def render(self, task: BarTask) -> Text:
        stage: Stage = task.fields["stage"]
        if stage.ended is not None and stage.started is not None:
            return Text(f"{duration(stage.ended - stage.started):>11}     ")
        left = stage.seconds_left(time.monotonic())
        return Text(f"{duration(left):>11} left" if left is not None else " " * 16, style="cyan")
