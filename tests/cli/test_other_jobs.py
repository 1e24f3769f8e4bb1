"""``gnas train``, ``gnas depth`` and ``gnas compare``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from terminal import Ended, gnas, one_line

SMALL = ("--preset", "fast", "--epochs", "2", "--channels", "4", "--batch", "8", "--device", "cpu")
SEARCHES = ("--preset", "fast", "--epochs", "1", "--channels", "4", "--set", "nodes=2", "--device", "cpu")


def test_train_a_formula_from_two_seeds(rings: Path) -> None:
    formula = "[identity | dense(sum(dense))]"
    ended = gnas("train", rings, "--formula", formula, "--cells", "2", *SMALL, "--seeds", "1,2", "--json")
    assert ended.code == 0, ended
    (row,) = ended.json["leaderboard"]["rows"]
    assert (row["name"], row["seeds"], row["depth"]) == ("gnas", 2, 2)
    assert Path(ended.json["run"], "genotype.yaml").exists()


def test_train_a_baseline_and_resume_it(rings: Path) -> None:
    words = ("train", rings, "--baseline", "gin", *SMALL, "--seed", "5", "--out", "run")
    first, second = gnas(*words, "--json"), gnas(*words, "--json", "--resume")
    assert (first.code, second.code) == (0, 0), (first, second)
    assert first.json == second.json
    assert json.loads(Path("run/trained/gin/seed-5/result.json").read_text())["epochs"] == 2


def test_train_the_network_of_a_run(rings: Path, finished: tuple[Path, Ended]) -> None:
    folder, _ = finished
    ended = gnas("train", rings, "--genotype", folder, *SMALL, "--out", "run")
    assert ended.code == 0, ended
    assert Path("run/genotype.yaml").read_text() == (folder / "genotype.yaml").read_text()


def test_train_wants_exactly_one_network(rings: Path) -> None:
    one_line(gnas("train", rings, *SMALL), 2, "name one network")
    one_line(gnas("train", rings, "--baseline", "gin", "--formula", "mean", *SMALL), 2, "name one network")
    one_line(gnas("train", rings, "--baseline", "gim", *SMALL), 2, "unknown baseline", "did you mean 'gin'")
    one_line(gnas("train", rings, "--formula", "median(", *SMALL), 2, "formula position")


def test_depth_settles_and_is_told(rings: Path) -> None:
    ended = gnas("depth", rings, *SEARCHES, "--cells", "2", "--out", "run")
    assert ended.code == 0, ended
    assert "round 1 (2 cells): 1 epoch in" in ended.err
    found = gnas("depth", rings, "--out", "run", "--resume", "--json").json
    assert found["trajectory"][0] == 2
    assert found["explanation"] in " ".join(ended.out.split())
    assert Path("run/report.html").exists()


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
    assert Path("board/leaderboard.md").read_text().count("\n") == 5


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
