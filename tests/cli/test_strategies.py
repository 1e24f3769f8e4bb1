"""``gnas compare --strategies``: curves, files and a report; it goes on, grows, and refuses what makes no sense."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from terminal import gnas, one_line

from gnas.cli.strategies import ALL, strategy_names

SMALL = (
    *("--preset", "fast", "--cells", "1", "--channels", "4", "--set", "nodes=2", "--batch", "8"),
    *("--set", "search_batch=8", "--device", "cpu", "--track", "none"),
)
BUDGET = ("--budget-epochs", "6", "--trial-epochs", "2", "--derivations", "1")


@pytest.mark.plots
def test_points_are_kept_drawn_and_reported(rings: Path) -> None:
    words = ("compare", rings, *SMALL, "--out", "run")
    first = gnas(*words, *BUDGET, "--strategies", "single-level,random", "--seeds", "0,1", "--json")
    assert first.code == 0, first
    with open("run/strategies.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    told = [(row["strategy"], row["seed"], row["epochs"]) for row in rows]
    each = [[("single-level", seed, "6")] + [("random", seed, str(n)) for n in (2, 4, 6)] for seed in "01"]
    assert told == each[0] + each[1]
    assert Path("run/strategies.md").read_text().count("| random |") == 1
    assert Path("run/strategies.svg").read_text().startswith("<?xml")
    assert Path("run/strategies.png").read_bytes().startswith(b"\x89PNG")
    page = Path("run/report.html").read_text()
    assert "Of 2 strategies, " in page
    assert "Best network so far against cost" in page
    assert "Each strategy spent up to 6 epochs." in page
    assert json.loads(Path("run/result.json").read_text())["strategies"] == first.json["rows"]

    again = gnas(*words, "--resume")  # as it was begun; nothing is repeated
    assert again.code == 0, again
    assert "trial" not in again.err
    assert json.loads(Path("run/strategies.json").read_text())["points"] == first.json["points"]

    more = gnas(*words, "--resume", "--strategies", "random,evolution", "--seeds", "1", "--json")
    assert more.code == 0, more
    assert [row["strategy"] for row in more.json["points"]] == ["random"] * 3 + ["evolution"] * 3
    assert more.json["points"][:3] == first.json["points"][5:]
    assert "evolution, seed 1: 3 trials" in more.err
    assert "random" not in more.err
    one_line(gnas(*words, "--resume", "--trial-epochs", "3"), 2, "cannot resume with another search_budget")

    taken = gnas(
        "compare", rings, *SMALL, "--epochs", "1", "--found", "run/strategies/random/seed-0", "--baselines", "none"
    )
    assert taken.code == 0, taken  # each is a run folder with the best network in it


def test_three_seeds_and_the_settings_of_one_strategy(rings: Path) -> None:
    own = ("--set", "strategy_settings.evolution.population=1", "--set", "strategy_settings.evolution.sample=1")
    ended = gnas("compare", rings, *SMALL, *BUDGET, "--strategies", "evolution", *own, "--out", "run", "--json")
    assert ended.code == 0, ended
    assert sorted({point["seed"] for point in ended.json["points"]}) == [0, 1, 2]
    config = Path("run/strategies/evolution/seed-2/config.yaml").read_text()
    assert "population: 1" in config


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--strategies", "randm"), ("unknown strategy 'randm'", "did you mean 'random'")),
        (("--strategies", ","), ("--strategies names none",)),
        (("--strategies", "all", "--baselines", "gcn"), ("--baselines is not for --strategies",)),
        (("--strategies", "all", "--epochs", "3"), ("--epochs is not for --strategies",)),
        (("--baselines", "gcn", "--trial-epochs", "3"), ("--trial-epochs is only for --strategies",)),
        (("--strategies", "random", "--budget-epochs", "9"), ("a budget of 9 epochs is too small", "at least 44")),
        (
            ("--strategies", "random", "--set", "strategy_settings.random.epochs=3"),
            ("epochs of the strategy random is 3, but this budget makes it 10",),
        ),
        (
            ("--strategies", "random", "--set", "strategy_settings.rndm.lr=3"),
            ("unknown strategy 'rndm'", "did you mean 'random'"),
        ),
    ],
)
def test_refusals(rings: Path, words: tuple, said: tuple) -> None:
    one_line(gnas("compare", rings, *SMALL, *words, "--out", "run"), 2, *said)
    assert not Path("run").exists()


def test_names() -> None:
    assert strategy_names("all") == ALL
    assert strategy_names(" darts2, random random") == ("darts2", "random")


def test_baselines_at_any_depth(rings: Path) -> None:
    small = (
        "--preset",
        "fast",
        "--epochs",
        "1",
        "--batch",
        "24",
        "--budget",
        "9000",
        "--seeds",
        "1",
        "--track",
        "none",
    )
    for depth in ("2", "24"):
        words = ("compare", rings, *small, "--baselines", "gcn,gin", "--cells", depth, "--out", f"at-{depth}")
        ended = gnas(*words, "--device", "cpu", "--json")
        assert ended.code == 0, ended
        assert [row["depth"] for row in ended.json["rows"]] == [int(depth)] * 2
