"""``gnas compare --found``: trainings are collected if they are of the same data, and never otherwise."""

from __future__ import annotations

from pathlib import Path

import yaml
from terminal import TINY, Ended, gnas, one_line, write_molecules


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
