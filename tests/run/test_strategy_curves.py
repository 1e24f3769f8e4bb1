"""Points of searches: curves and rows against a plain computation, and files that can be read again."""

import csv
import io
import json
from pathlib import Path

import pytest

from gnas.errors import InputError
from gnas.run.strategy_curves import Point, StrategyComparison


def points(strategy: str, seed: int, *told: tuple) -> list[Point]:
    """``told``: (epochs, seconds, val_metric, best)."""
    return [
        Point(strategy, seed, n, epochs, seconds, val, best, f"g{n}", n, 100 * n)
        for n, (epochs, seconds, val, best) in enumerate(told, start=1)
    ]


POINTS = (
    *points("a", 0, (5, 1.0, 0.9, 0.9), (10, 2.5, 1.1, 0.9), (15, 4.0, 0.3, 0.3)),
    *points("a", 1, (5, 2.0, None, None), (10, 3.0, 0.7, 0.7), (15, 5.0, 0.8, 0.7)),
    *points("b", 0, (8, 1.0, 0.4, 0.4), (14, 3.0, 0.2, 0.2)),
    *points("b", 1, (8, 1.5, 0.6, 0.6), (14, 3.5, 0.5, 0.5)),
)


def comparison(metric: str = "mae", found: tuple = POINTS) -> StrategyComparison:
    return StrategyComparison("rings", metric, {"epochs": 16}, "A rule.", found)


def test_a_curve_begins_where_every_seed_has_a_network() -> None:
    by_epochs = [(p.cost, p.mean, p.low, p.high) for p in comparison().curve("a")]
    assert by_epochs == [(10, pytest.approx(0.8), 0.7, 0.9), (15, pytest.approx(0.5), 0.3, 0.7)]
    by_seconds = [(p.cost, p.mean) for p in comparison().curve("a", "seconds")]
    assert by_seconds == [(3.0, pytest.approx(0.8)), (4.0, pytest.approx(0.5)), (5.0, pytest.approx(0.5))]


def test_a_seed_that_has_ended_keeps_its_last() -> None:
    found = [(p.cost, p.mean) for p in comparison().curve("b", "seconds")]
    assert found == [(1.5, 0.5), (3.0, pytest.approx(0.4)), (3.5, pytest.approx(0.35))]


def test_rows_are_means_over_the_seeds() -> None:
    best, other = comparison().rows()
    assert (best.strategy, best.best, best.std) == ("b", pytest.approx(0.35), pytest.approx(0.15))
    assert (best.halfway, best.epochs, best.seconds, best.networks) == (pytest.approx(0.5), 14, 3.25, 2)
    assert (best.num_weights, best.depth) == (200, 2)
    assert (other.best, other.halfway) == (pytest.approx(0.5), None)  # one seed had none when half was spent
    assert (other.num_weights, other.depth) == (250, 2.5)  # of the best network of each seed: its third, its second


def test_more_can_be_better() -> None:
    assert [row.strategy for row in comparison("accuracy").rows()] == ["a", "b"]


def test_a_strategy_without_a_network_has_no_row() -> None:
    failed = comparison(found=(*POINTS, *points("c", 0, (5, 1.0, None, None))))
    assert [row.strategy for row in failed.rows()] == ["b", "a"]
    assert failed.curve("c") == []
    with pytest.raises(InputError, match="unknown strategy 'd'; choose one of: a, b, c"):
        failed.curve("d")


def test_files(tmp_path: Path) -> None:
    one = comparison()
    one.save(tmp_path)
    assert StrategyComparison.load(tmp_path) == one
    rows = list(csv.DictReader(io.StringIO((tmp_path / "strategies.csv").read_text())))
    assert len(rows) == len(POINTS)
    assert rows[3]["val_metric"] == rows[3]["best"] == ""
    assert (rows[2]["strategy"], rows[2]["epochs"], rows[2]["best"]) == ("a", "15", "0.3")
    table = (tmp_path / "strategies.md").read_text().splitlines()
    assert table[0] == "rings, validation mae. A rule."
    assert table[4].startswith("| b | 0.3500 ± 0.1500 | 0.5000 | 2 | 2.0 | 14 |")
    assert json.loads((tmp_path / "strategies.json").read_text())["rows"][0]["strategy"] == "b"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"points": 3}', "\x00"])
def test_a_file_that_is_no_comparison(tmp_path: Path, text: str) -> None:
    (tmp_path / "strategies.json").write_text(text)
    with pytest.raises(InputError, match=r"strategies\.json: not a comparison"):
        StrategyComparison.load(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        StrategyComparison.load(tmp_path / "nowhere")
