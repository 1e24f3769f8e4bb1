"""``gnas report`` and ``gnas draw``: pages and drawings of a run."""

from __future__ import annotations

from pathlib import Path

from terminal import gnas, one_line


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
