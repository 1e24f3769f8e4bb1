"""Progress on a terminal: one bar a stage, with the time left."""

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
from gnas.cli.stage import Stage, View
from gnas.run.words import duration


class Bars(View):
    """One bar a stage; those to come are there already, empty."""

    def __init__(self, screen: Screen) -> None:
        columns = (
            _Working(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[count]}", justify="right", markup=False),
            _Left(),
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
        over = stage.done >= stage.total  # then the next one is at work, though its first epoch is not over yet
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


class _Working(ProgressColumn):
    """Something that moves before the bar at work: its first epoch may take long."""

    def __init__(self) -> None:
        super().__init__()
        self.spinner = Spinner("dots", style="cyan")

    def render(self, task: BarTask) -> RenderableType:
        moves = task.fields["working"] and not task.finished
        return self.spinner.render(task.get_time()) if moves else Text(" ")


class _Left(ProgressColumn):
    """The time left, counting down between epochs; at the end the time it took."""

    def render(self, task: BarTask) -> Text:
        stage: Stage = task.fields["stage"]
        if stage.ended is not None and stage.started is not None:
            return Text(f"{duration(stage.ended - stage.started):>11}     ")
        left = stage.left(time.monotonic())
        return Text(f"{duration(left):>11} left" if left is not None else " " * 16, style="cyan")
