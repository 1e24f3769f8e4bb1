"""The plot, the table and the sentence of a comparison of strategies show what its points say."""

from pathlib import Path

import pytest

from gnas.report import plots
from gnas.report.answer import answer
from gnas.report.record import read_job
from gnas.run.folder import Run
from gnas.run.strategy_curves import Point, StrategyComparison


def comparison(metric: str = "mae") -> StrategyComparison:
    """Two strategies, two seeds; one of a network's trainings failed."""
    told = {
        ("random", 0): ((5, 1.0, 0.9), (10, 2.0, 0.5)),
        ("random", 1): ((5, 1.5, None), (10, 2.5, 0.7)),
        ("$one_$hot", 0): ((8, 4.0, 0.4),),
        ("$one_$hot", 1): ((8, 5.0, 0.6),),
    }
    points = []
    for (name, seed), run in told.items():
        best = None
        for number, (epochs, seconds, val) in enumerate(run, start=1):
            best = val if best is None else min(best, val)
            points.append(Point(name, seed, number, epochs, seconds, val, best, f"g{number}", 2, 1000))
    return StrategyComparison("rings", metric, {"epochs": 10}, "A rule.", tuple(points))


def test_lines_are_the_curves() -> None:
    one = comparison()
    figure = plots.best_so_far(one)
    epochs, seconds = figure.axes
    for panel, cost in ((epochs, "epochs"), (seconds, "seconds")):
        assert panel.get_xlabel().endswith(cost)
        for line, name in zip(panel.get_lines(), one.strategies(), strict=True):
            curve = one.curve(name, cost)
            assert list(line.get_xdata()) == [point.cost for point in curve]
            assert list(line.get_ydata()) == pytest.approx([point.mean for point in curve])
            assert line.get_drawstyle() == "steps-post"
    styles = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in epochs.get_lines()}
    assert len(styles) == 2
    assert "lower is better" in epochs.get_title(loc="left")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["random", "$one_$hot"]


def test_it_is_saved_with_names_as_they_are(tmp_path: Path) -> None:
    path = plots.save(plots.best_so_far(comparison()), tmp_path / "curves.svg")
    assert "$one_$hot" in path.read_text()


def test_table_and_answer(tmp_path: Path) -> None:
    one = comparison()
    texts = one.table().texts()
    assert [row[0] for row in texts] == ["$one_$hot", "random"]
    assert [row[1] for row in texts] == ["0.5000 ± 0.1000", "0.6000 ± 0.1000"]
    assert texts[1][2] == "–"  # at half the budget one seed had nothing
    with Run(tmp_path, {"job": "compare", "dataset": "rings"}) as run:
        one.save(tmp_path)
        run.write_json("result", {})
    (sentence,) = answer(read_job(tmp_path))
    assert sentence == (
        "Of 2 strategies, $one_$hot found the best network by validation within 10 epochs: MAE\u00a00.5000 ± 0.1000 over 2 seeds."
    )
