"""``gnas train``, ``gnas depth`` and ``gnas compare``."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from terminal import Ended, gnas, one_line

from gnas import load_genotype
from gnas.arch import shipped

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


def test_train_a_shipped_network_on_other_data(rings: Path) -> None:
    ended = gnas("train", rings, "--genotype", "zinc-4", *SMALL, "--seeds", "1", "--out", "run")
    assert ended.code == 0, ended
    assert load_genotype("run/genotype.yaml") == shipped.load_genotypes("zinc")[4]
    assert "recipe" not in ended.out


def test_train_a_shipped_network_as_it_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    shutil.copy(shipped.find_genotype_file("zinc-4"), tmp_path / "cluster-mini-4.yaml")
    recipe = "preset: paper\nbudget: 5000\nepochs: 3\nseeds: [7, 8]\ndropout: 0.1\ndata:\n  structure: [degree]\n"
    (tmp_path / "recipes" / "cluster-mini-4.yaml").write_text(recipe)
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    words = ("train", "cluster-mini", "--genotype", "cluster-mini-4", "--device", "cpu", "--out", "run")
    ended = gnas(*words, "--epochs", "1", "--resume")  # of which there is nothing yet
    assert ended.code == 0, ended
    assert "recipe   cluster-mini-4" in ended.out
    command = json.loads(Path("run/command.json").read_text())["settings"]
    told = {name: command["training"][name] for name in ("budget", "epochs", "seeds", "dropout")}
    assert told == {"budget": 5000, "epochs": 1, "seeds": [7, 8], "dropout": 0.1}
    assert (command["preset"], command["data"]) == ("paper", {"structure": ["degree"]})
    again = gnas(*words, "--resume", "--json")  # as it was begun, with one epoch
    assert again.code == 0, again
    assert json.loads(Path("run/command.json").read_text())["settings"] == command
    other = gnas(*words[:-1], "other", "--preset", "fast", "--epochs", "1", "--channels", "4")
    assert other.code == 0, other
    assert json.loads(Path("other/command.json").read_text())["settings"]["data"] == {"structure": ["auto"]}


def test_an_unknown_shipped_network(rings: Path) -> None:
    one_line(gnas("train", rings, "--genotype", "zinc-5", *SMALL), 2, "shipped genotype 'zinc-5'", "zinc-8")
    one_line(gnas("train", rings, "--genotype", "zinc-5.yaml", *SMALL), 2, "zinc-5.yaml: cannot be read")


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
