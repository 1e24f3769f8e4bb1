"""Numbers for people: durations, metrics and counts."""

import pytest

from gnas.printed import format_count
from gnas.run.words import duration, format_metric, format_spread, join_words, name_metric


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (125, "2 min 5 s"),
        (3599.7, "1 h"),
        (12_000, "3 h 20 min"),
        (86_380, "1 d"),
        (200_000, "2 d 8 h"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds).replace("\u00a0", " ") == text


def test_figures() -> None:
    assert format_metric("mae", 0.27604) == "0.2760"
    assert format_metric("accuracy", 98.016) == "98.02"
    assert format_metric("mae", None) == format_metric("mae", float("nan")) == "–"
    assert name_metric("class_accuracy", 74.77).replace("\u00a0", " ") == "74.77 % class-averaged accuracy"
    assert format_spread("mae", 0.3, 0.1, 1) == "0.3000"
    assert format_spread("mae", 0.3, 0.1, 2) == "0.3000 ± 0.1000"
    assert format_count(1, "cell") == "1 cell"
    assert join_words(["a", "b", "c"]) == "a, b and c"
    assert join_words([]) == ""
