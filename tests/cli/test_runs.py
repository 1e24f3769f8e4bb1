"""``gnas runs``: list, show and delete run folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from terminal import gnas, one_line


def test_runs_list_and_show(copy: Path) -> None:
    listed = gnas("runs", "list", "--json").json["runs"]
    assert [(run["folder"], run["job"], run["state"]) for run in listed] == [("runs/one", "search", "finished")]
    assert "rings" in gnas("runs", "list").out
    shown = gnas("runs", "show", copy)
    assert "message-passing depth" in shown.out
    assert gnas("runs", "show", copy, "--json").json["leaderboard"]["metric"] == "mae"
    (copy / "result.json").unlink()
    assert gnas("runs", "list", "--json").json["runs"][0]["state"] == "stopped"


def test_runs_delete_asks(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_line(gnas("runs", "delete", copy), 2, "use --force to delete without asking")
    assert copy.exists()
    ended = gnas("runs", "delete", copy, "--force", "--json")
    assert (ended.code, ended.json["deleted"]) == (0, "runs/one")
    assert not copy.exists()


def test_only_runs_are_deleted(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("precious").mkdir()
    Path("precious/config.yaml").write_text("server: example.org\n")
    one_line(gnas("runs", "delete", "precious", "--force"), 2, "not a run folder")
    Path("link").symlink_to(copy.resolve())
    one_line(gnas("runs", "delete", "link", "--force"), 2, "a link")
    monkeypatch.chdir(copy / "search")
    one_line(gnas("runs", "delete", copy.resolve() if copy.is_absolute() else "../../one", "--force"), 2, "you are in")


def test_report_of_one_and_of_several(copy: Path) -> None:
    (copy / "report.html").unlink()
    ended = gnas("report", copy, "--json")
    assert (ended.code, ended.json["report"]) == (0, "runs/one/report.html")
    assert gnas("report", copy).code == 0  # its own page is written again
    assert gnas("report", copy, copy).code == 0
    one_line(gnas("report", copy, copy), 2, "comparison.html exists; --force overwrites it")
    assert gnas("report", copy, copy, "--force").code == 0


def test_draw(copy: Path) -> None:
    assert gnas("draw", copy).code == 0
    assert (copy / "genotype.svg").read_text().startswith("<svg")
    assert gnas("draw", copy / "genotype.yaml", "-o", "cell.png").code == 0
    assert Path("cell.png").read_bytes().startswith(b"\x89PNG")
    one_line(gnas("draw", copy, "-o", "cell.png"), 2, "cell.png exists; --force overwrites it")
    one_line(gnas("draw", copy, "-o", "cell.pdf"), 2, ".svg or .png")
    assert gnas("draw", "--formula", "[identity | mean]", "-o", "x.svg", "--json").json["formulas"] == [
        "[identity | mean]"
    ]
    one_line(gnas("draw"), 2, "name a genotype file")
