"""The table and the curves of a race."""

from __future__ import annotations

import pytest

from gnas.report.race_view import MANY, Racer, draw_race_curves, racers_table


def racers(count: int, state: str = "in the race") -> list[Racer]:
    """Candidates of two points each, best first; the last one failed at its start."""
    found = [
        Racer(f"{n}", f"network {n}", "drawn", [(2, 0.5 + n / 100), (6, 0.4 + n / 100)], state) for n in range(count)
    ]
    found[-1].points[0] = (2, 50.0)
    return found


@pytest.mark.parametrize(
    ("states", "end"),
    [
        (("dropped", "in the race"), "1 is dropped."),
        (("in the race", "in the race"), "0 are dropped."),
        (("trained to the end", "dropped", "dropped"), "2 were not trained to the end."),
        (("trained to the end", "not trained to the end"), "1 was not trained to the end."),
    ],
)
def test_the_caption_counts(states: tuple[str, ...], end: str) -> None:
    found = racers(len(states))
    for one, state in zip(found, states, strict=True):
        one.state = state
    assert racers_table(found, "mae").caption == f"{len(states)} of {len(states)} candidates, best first. {end}"


def test_of_many_points_the_worst_are_not_shown() -> None:
    few, many = racers(3), racers(MANY)
    assert draw_race_curves(few, "mae").axes[0].get_ylim()[1] > 50, "each of few points counts"
    low, high = draw_race_curves(many, "mae").axes[0].get_ylim()
    assert low < 0.4
    assert high < 1
