"""Plots: labelled axes with directions, plain names, no global state, files written whole."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from folders import board, made_up_comparison, made_up_history

from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.report import plots
from gnas.report.axes import inline_svg, shorten_number
from gnas.report.progress import Racer
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.record import RoundRecord

HISTORY = made_up_history(12, 3)
GENOTYPE = Genotype.from_yaml(HISTORY[-1]["genotype"])


def texts(figure: Any) -> list[str]:
    """Every text that shows, after a drawing has placed the ticks."""
    from matplotlib.text import Text

    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def test_alphas_by_cell_with_every_candidate() -> None:
    figure = plots.draw_alphas(HISTORY, SearchSpace(), level=1)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["cell 1", "cell 2", "cell 3"]
    assert {"zero", "identity", "sparse", "dense", "epoch"} <= set(texts(figure))
    for axes in shown:
        totals = sum(line.get_ydata()[-1] for line in axes.get_lines())
        assert totals == pytest.approx(1.0)
    with pytest.raises(InputError, match="no alphas"):
        plots.draw_alphas([{"epoch": 1}], SearchSpace())


def test_counts_stack_up_to_the_places_of_level_two() -> None:
    figure = plots.draw_operation_counts(HISTORY)
    tops = [patch.get_data().values for patch in figure.axes[0].patches]
    assert list(tops[-1]) == [9] * 12
    assert "links on level 2" in texts(figure)


def test_distribution_counts_links_by_level() -> None:
    figure = plots.draw_operations({"one": GENOTYPE})
    heights = [[bar.get_height() for bar in axes.patches] for axes in figure.axes]
    assert [sum(each) for each in heights] == [18, 9]
    several = plots.draw_operations({"one": GENOTYPE, "_two": GENOTYPE, "$3$": GENOTYPE})
    assert {"one", "$3$"} <= set(texts(several))


def test_depth_against_the_number_of_cells() -> None:
    figure = plots.draw_depth(HISTORY, 3)
    assert {"message-passing depth (cells)", "number of cells: 3", "epoch"} <= set(texts(figure))
    rounds = plots.draw_depth_rounds([RoundRecord(8, 6, None, None), RoundRecord(6, None, None, None)])
    assert {"cells at the start", "searched depth", "round"} <= set(texts(rounds))


def test_curves_are_means_over_the_seeds_and_say_what_is_better() -> None:
    low = [{"epoch": 1, "val_metric": 1.0}, {"epoch": 2, "val_metric": None}]
    high = [{"epoch": 1, "val_metric": 3.0}]
    figure = plots.draw_training_curves({"a": [low, high], "b": [low]}, "mae")
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [2.0]
    assert "validation MAE (lower is better)" in texts(figure)
    figure = plots.draw_training_curves({"a": [low]}, "class_accuracy")
    assert "validation class-averaged accuracy % (higher is better)" in texts(figure)
    long = [{"epoch": epoch, "val_metric": 1.0} for epoch in range(1, 5001)]
    line = plots.draw_training_curves({"a": [long]}, "mae").axes[0].get_lines()[0]
    assert len(line.get_xdata()) <= 250
    assert line.get_xdata()[-1] == 5000


def test_leaderboard_has_the_best_on_top_and_no_spread_for_one_seed() -> None:
    figure = plots.draw_leaderboard(board())
    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["gnas", "gatedgcn", "gin", "gcn"]
    assert panel.yaxis_inverted()
    assert panel.get_xlabel() == "test MAE (lower is better)"
    assert len(panel.collections) == 4
    assert not plots.draw_leaderboard(board(seeds=1)).axes[0].collections


def test_cost_names_every_network_and_the_search() -> None:
    figure = plots.draw_cost(board(), 900.0)
    assert {"gnas", "gatedgcn", "gin", "gcn", "with search"} <= set(texts(figure))
    assert [shorten_number(value) for value in (0.5, 200, 5000, 2e6)] == ["0.5", "200", "5k", "2M"]


def test_files_are_written_whole(tmp_path: Path) -> None:
    figure = plots.draw_leaderboard(board())
    for name in ("a.svg", "b.png"):
        assert plots.save_plot(figure, tmp_path / name).stat().st_size > 1000
    ElementTree.fromstring((tmp_path / "a.svg").read_text())
    with pytest.raises(InputError, match=r"written as \.svg or \.png"):
        plots.save_plot(figure, tmp_path / "c.pdf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "b.png"]


def test_inline_plots_fetch_nothing_and_keep_texts_as_they_are() -> None:
    rows = (Row("<i>$a_1$&", 0.123456, 0.1, 2, 0.1, 10, 1, 1.0, 1.0), Row("_b", 0.2, 0.1, 2, 0.1, 10, 1, 1.0, 1.0))
    svg = inline_svg(plots.draw_leaderboard(Leaderboard("d", "mae", rows)), "one", "a <label>")
    root = ElementTree.fromstring(svg)
    assert "http" not in svg
    assert not list(root.iter("style"))
    assert root.get("aria-label") == "a <label>"
    assert {"<i>$a_1$&", "_b"} <= {text.text for text in root.iter("text")}
    other = inline_svg(plots.draw_leaderboard(board()), "two", "label")
    ids = [{element.get("id") for element in ElementTree.fromstring(one).iter()} - {None} for one in (svg, other)]
    assert not ids[0] & ids[1]


def test_plots_leave_no_global_state() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; from folders import board; from gnas.report import plots;"
        "assert 'matplotlib' not in sys.modules; plots.draw_leaderboard(board());"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    helpers = Path(__file__).parents[1] / "helpers"
    done = subprocess.run([sys.executable, "-c", code, str(helpers)], capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr


def test_lines_are_the_curves_of_the_strategies() -> None:
    one = made_up_comparison()
    figure = plots.draw_best_so_far(one)
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


def test_names_of_strategies_are_saved_as_they_are(tmp_path: Path) -> None:
    path = plots.save_plot(plots.draw_best_so_far(made_up_comparison()), tmp_path / "curves.svg")
    assert "$one_$hot" in path.read_text()


def racers(count: int) -> list[Racer]:
    """Candidates of two points each, best first; the last one failed at its start."""
    found = [Racer(f"{n}", f"network {n}", "drawn", [(2, 0.5 + n / 100), (6, 0.4 + n / 100)]) for n in range(count)]
    found[-1].points[0] = (2, 50.0)
    return found


def test_of_many_points_the_worst_are_not_shown() -> None:
    few, many = racers(3), racers(plots.MANY)
    assert plots.draw_race_curves(few, "mae").axes[0].get_ylim()[1] > 50, "each of few points counts"
    low, high = plots.draw_race_curves(many, "mae").axes[0].get_ylim()
    assert low < 0.4
    assert high < 1
