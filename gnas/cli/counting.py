"""Progress of what is counted: graphs read, images cut. A bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from gnas.cli.progress import PAUSE, WITHIN, Clock
from gnas.cli.screen import Screen
from gnas.run.words import duration

Counted = Callable[[str, int, int], None]  # what, how many are done, of how many


@contextlib.contextmanager
def counting(screen: Screen, name: str, clock: Clock = time.monotonic) -> Iterator[Counted]:
    """Inside, what is given is told how far something is."""
    if screen.quiet:
        yield lambda what, done, total: None
    elif screen.live:
        with _bars(screen) as bars:
            task = bars.add_task(f"loading {name}", total=None)
            yield lambda what, done, total: bars.update(
                task, description=f"{name}: {what}", completed=done, total=total
            )
    else:
        yield _lines(screen, name, clock)


def _bars(screen: Screen) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24, complete_style="cyan"),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen.err,
        transient=True,
    )


def _lines(screen: Screen, name: str, clock: Clock) -> Counted:
    began: dict[str, float] = {}
    last = [clock() - WITHIN + PAUSE]  # the first line after two seconds, the others fewer

    def tell(what: str, done: int, total: int) -> None:
        now = clock()
        since = began.setdefault(what, now)
        if now - last[0] < WITHIN:
            return
        last[0] = now
        left = (now - since) / done * (total - done) if done and total > done else 0
        rest = f"; about {duration(left)} left" if left else ""
        screen.err.print(f"{name}: {what}, {done:,} of {total:,}{rest}", soft_wrap=True)

    return tell
