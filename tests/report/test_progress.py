"""The table of a race."""

from __future__ import annotations

import pytest

from gnas.report.progress import Racer, racers_table


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
    found = [Racer(str(n), f"network {n}", "drawn", [(2, 0.5)], state) for n, state in enumerate(states)]
    assert racers_table(found, "mae").caption == f"{len(states)} of {len(states)} candidates, best first. {end}"
