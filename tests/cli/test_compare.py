"""``gnas compare``: trainings of the same data are collected, what is not equal is remarked; strategies under one budget."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml
from terminal import TINY, Ended, gnas, one_line, write_molecules

from gnas.cli.compare import ALL, strategy_names

SMALL = ("--preset", "fast", "--epochs", "2", "--channels", "4", "--batch", "8", "--device", "cpu")


def test_compare_collects_what_is_trained(rings: Path, finished: tuple[Path, Ended]) -> None:
    folder, _ = finished
    same = ("--settings", folder / "config.yaml")
    ended = gnas("compare", rings, *same, "--found", folder, "--baselines", "gcn,gat", "--out", "board", "--json")
    assert ended.code == 0, ended
    rows = {row["name"]: row for row in ended.json["rows"]}
    assert set(rows) == {"run", "gcn", "gat"}
    assert ["trained before" in rows[name]["remark"] for name in ("run", "gcn", "gat")] == [True, True, False]
    assert "train gat: 3 epochs" in ended.err
    assert "train gcn" not in ended.err
    before = {row["name"]: row["mean"] for row in json.loads((folder / "leaderboard.json").read_text())["rows"]}
    assert (rows["run"]["mean"], rows["gcn"]["mean"]) == (before["gnas"], before["gcn"])
    with open("board/leaderboard.csv", newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == [row["name"] for row in ended.json["rows"]]
        assert Path("board/leaderboard.md").read_text().count("\n") == 11  # and the other metrics


def test_compare_remarks_what_is_not_equal(rings: Path, finished: tuple[Path, Ended]) -> None:
    folder, _ = finished
    words = ("--preset", "fast", "--epochs", "1", "--batch", "8", "--seeds", "1")
    ended = gnas("compare", rings, *words, "--found", folder, "--baselines", "none", "--budget", "100000", "--json")
    assert ended.code == 0, ended
    assert "% weights" in ended.json["rows"][0]["remark"]


def test_compare_extends_a_comparison(rings: Path) -> None:
    words = ("compare", rings, *SMALL, "--budget", "500", "--cells", "1", "--out", "board", "--seeds", "1")
    assert gnas(*words, "--baselines", "mlp").code == 0
    ended = gnas(*words, "--baselines", "mlp,gcn", "--resume", "--json")
    assert ended.code == 0, ended
    assert {row["name"] for row in ended.json["rows"]} == {"mlp", "gcn"}
    assert "train mlp" not in ended.err


def compare(target: str, out: str) -> Ended:
    words = ("--found", "run", "--baselines", "gcn", "--preset", "fast", "--epochs", "3", "--batch", "8")
    ended = gnas("compare", "data.csv", "--target", target, *words, "--device", "cpu", "--out", out)
    assert ended.code == 0, ended
    return ended


def search(*more: str) -> None:
    write_molecules(Path("data.csv"))
    assert gnas("search", "data.csv", "--target", "logP", *TINY, "--out", "run", *more).code == 0


def test_trainings_of_the_same_data_are_collected() -> None:
    search()
    assert compare("logP", "same").out.count("trained before") == 2


def test_trainings_of_another_target_are_not_collected() -> None:
    search()
    ended = compare("tpsa", "other")
    assert "trained before" not in ended.out
    assert "run: its trainings are of other data; they are not used, the networks are trained anew" in ended.out


def test_trainings_of_a_file_that_has_changed_are_not_collected() -> None:
    search()
    write_molecules(Path("data.csv"), 10.0)
    assert "trained before" not in compare("logP", "other").out


def test_trainings_without_a_fingerprint_are_not_collected() -> None:
    search()
    for file in Path("run").rglob("config.yaml"):
        config = yaml.safe_load(file.read_text())
        config.pop("fingerprint", None)
        file.write_text(yaml.safe_dump(config))
    ended = compare("logP", "other")
    assert "trained before" not in ended.out
    assert "run: its trainings have no fingerprint of their data; they are not used" in ended.out


def test_a_run_is_not_resumed_on_a_file_that_has_changed(tmp_path: Path) -> None:
    """It ended well, with a leaderboard of both datasets."""
    url = ("--sync", f"file://{tmp_path}/shared")
    search(*url)
    board = Path("run/leaderboard.json").read_bytes()
    whole = Path("data.csv").read_bytes()
    write_molecules(Path("other/data.csv"), 10.0)  # the same name in another folder
    write_molecules(Path("data.csv"), 10.0)
    words = ("--target", "logP", *TINY, "--resume")
    for data, out, more in (("data.csv", "run", ()), ("other/data.csv", "run", ()), ("data.csv", "elsewhere", url)):
        one_line(gnas("search", data, *words, "--out", out, *more), 2, "cannot resume", "fingerprint")
    assert Path("run/leaderboard.json").read_bytes() == board
    Path("other/data.csv").write_bytes(whole)  # the same data by another path
    assert gnas("search", "other/data.csv", *words, "--out", "run").code == 0
    assert Path("run/leaderboard.json").read_bytes() == board


SEARCHES = (
    *("--preset", "fast", "--cells", "1", "--channels", "4", "--set", "nodes=2", "--batch", "8"),
    *("--set", "search_batch=8", "--device", "cpu", "--track", "none"),
)
BUDGET = ("--budget-epochs", "6", "--trial-epochs", "2", "--derivations", "1")


@pytest.mark.plots
def test_points_are_kept_drawn_and_reported(rings: Path) -> None:
    words = ("compare", rings, *SEARCHES, "--out", "run")
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
        "compare", rings, *SEARCHES, "--epochs", "1", "--found", "run/strategies/random/seed-0", "--baselines", "none"
    )
    assert taken.code == 0, taken  # each is a run folder with the best network in it


def test_three_seeds_and_the_settings_of_one_strategy(rings: Path) -> None:
    own = ("--set", "strategy_settings.evolution.population=1", "--set", "strategy_settings.evolution.sample=1")
    ended = gnas("compare", rings, *SEARCHES, *BUDGET, "--strategies", "evolution", *own, "--out", "run", "--json")
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
    one_line(gnas("compare", rings, *SEARCHES, *words, "--out", "run"), 2, *said)
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
