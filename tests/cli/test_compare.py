"""``gnas compare``: what is trained is collected, what is not equal is remarked, a comparison is extended."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from terminal import Ended, gnas

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
