"""Progress of what is counted: few lines on paper, a bar on a terminal, silence when asked."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gnas.cli.counting import counting
from gnas.cli.screen import Screen


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def counted(screen: Screen, count: int, pace: float) -> str:
    """What is printed while ``count`` things are counted, one each ``pace`` seconds."""
    text, clock = io.StringIO(), Clock()
    live = screen.live
    screen.err = Console(file=text, width=100, force_terminal=live, color_system=None)
    with counting(screen, "mnist", clock) as tell:
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
