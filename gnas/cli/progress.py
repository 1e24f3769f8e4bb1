"""The progress of a job on the screen: its view, and counts of graphs or images."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from gnas.cli.screen import Screen
from gnas.cli.views import LONG_PAUSE, PAUSE, Bars, Lines
from gnas.run.words import duration
from gnas.training.stages import Clock, View


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
        with _count_bar(screen) as bars:
            task = bars.add_task(f"loading {name}", total=None)
            yield lambda what, done, total: bars.update(
                task, description=f"{name}: {what}", completed=done, total=total
            )
    else:
        yield _count_lines(screen, name, clock)


def _count_bar(screen: Screen) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24, complete_style="cyan"),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen.err,
        transient=True,
    )


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
