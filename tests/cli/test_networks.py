"""``gnas train``: one network by its genotype, its formula or its name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from terminal import Ended, gnas, one_line

from gnas import load_genotype
from gnas.arch import shipped

SMALL = ("--preset", "fast", "--epochs", "2", "--channels", "4", "--batch", "8", "--device", "cpu")


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
