"""The progress of a job: moving bars on a terminal, a line now and then elsewhere; and counts of graphs or images."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
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
                first, count = not self.ids, f"{stage.done}/{stage.total}"
                self.ids[stage.key] = self.bars.add_task(
                    stage.label, total=stage.total, note="", count=count, stage=stage, working=first
                )
        self.bars.start()

    def show(self, stage: Stage) -> None:
        here = self.ids[stage.key]
        note = ", ".join(filter(None, (stage.note, stage.where)))
        self.bars.update(here, description=stage.label, completed=stage.reached, total=stage.total, note=note)
        self.bars.update(here, count=f"{stage.done}/{stage.total}")
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


def choose_view(screen: Screen, clock: Clock = time.monotonic) -> View:
    """Moving bars on a terminal, a line now and then elsewhere, nothing if the screen is quiet."""
    return View() if screen.quiet else Bars(screen) if screen.live else Lines(screen, clock)


OnCount = Callable[[str, int, int], None]  # what is counted, how many are done, of how many


@contextlib.contextmanager
def count_progress(screen: Screen, name: str, clock: Clock = time.monotonic) -> Iterator[OnCount]:
    """Inside, the value is called with counts, such as of graphs: a bar on a terminal, a line now and then elsewhere."""
    if screen.quiet:
        yield lambda what, done, total: None
    elif screen.live:
        bar = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(24, complete_style="cyan"))
        ends = (MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*bar, *ends, console=screen.err, transient=True) as bars:
            task = bars.add_task(f"loading {name}", total=None)
            yield lambda what, done, total: bars.update(
                task, description=f"{name}: {what}", completed=done, total=total
            )
    else:
        yield _count_lines(screen, name, clock)


def _count_lines(screen: Screen, name: str, clock: Clock) -> OnCount:
    started: dict[str, float] = {}
    last = [clock() - LONG_PAUSE + PAUSE]  # the first line after two seconds, the others fewer

    def on_count(what: str, done: int, total: int) -> None:
        now = clock()
        since = started.setdefault(what, now)
        if now - last[0] < LONG_PAUSE:
            return
        last[0] = now
        left = (now - since) / done * (total - done) if done and total > done else 0
        rest = f"; about {duration(left)} left" if left else ""
        screen.err.print(f"{name}: {what}, {done:,} of {total:,}{rest}", soft_wrap=True)

    return on_count
