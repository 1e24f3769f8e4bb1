"""``gnas compare --found``: trainings are collected if they are of the same data, and never otherwise."""

from __future__ import annotations

from pathlib import Path

import yaml
from terminal import TINY, Ended, gnas, write_molecules


def compare(target: str, out: str) -> Ended:
    words = ("--found", "run", "--baselines", "gcn", "--preset", "fast", "--epochs", "3", "--batch", "8")
    ended = gnas("compare", "data.csv", "--target", target, *words, "--device", "cpu", "--out", out)
    assert ended.code == 0, ended
    return ended


def search() -> None:
    write_molecules(Path("data.csv"))
    assert gnas("search", "data.csv", "--target", "logP", *TINY, "--out", "run").code == 0


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
