"""``gnas export``, ``predict`` and ``explain`` with the network of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from terminal import TINY, gnas, one_line


def test_export_and_predict(copy: Path, rings: Path) -> None:
    if not list(copy.rglob("model.json")):
        pytest.skip("runs keep no model.json yet")
    ended = gnas("export", copy, "--json")
    assert ended.code == 0, ended
    assert "model.py" in ended.json["files"]
    for folder in (copy, copy / "export"):
        ended = gnas("predict", folder, rings, "-o", "predictions.csv", "--force", "--json")
        assert ended.code == 0, ended
        assert ended.json["rows"] == 40
    one_line(gnas("predict", copy, rings), 2, "predictions.csv exists")
    one_line(gnas("export", copy), 2, "export")


def test_predict_leaves_out_what_is_no_molecule_if_asked() -> None:
    pytest.importorskip("rdkit")
    Path("molecules.csv").write_text("smiles,y\n" + "".join(f"{'C' * (k % 5 + 1)}O,{k}\n" for k in range(30)))
    Path("new.csv").write_text("smiles\nCCO\nC1CC\nCBr\nCO\n")
    assert gnas("search", "molecules.csv", *TINY, "--out", "run").code == 0
    one_line(gnas("predict", "run", "new.csv"), 2, "new.csv line 3", "does not parse", "skip_bad")
    assert not Path("predictions.csv").exists()
    ended = gnas("predict", "run", "new.csv", "--skip-bad")
    assert ended.code == 0, ended
    assert "1 row skipped, their SMILES do not parse: new.csv line 3" in ended.out
    assert "'Br' is not in the training data and is read as 'other' (new.csv line 4)" in ended.out
    rows = [line.split(",")[:2] for line in Path("predictions.csv").read_text().splitlines()]
    assert rows == [["graph", "smiles"], ["0", "CCO"], ["2", "CBr"], ["3", "CO"]]


def test_explain(copy: Path, rings: Path) -> None:
    ended = gnas("explain", copy, rings, "--row", 3, "--row", 5, "-o", "why.html")
    assert ended.code == 0, ended
    assert "why.html, why.csv" in ended.out
    assert Path("why.html").read_text().count("<figure") == 2
    assert gnas("explain", copy, rings, "-o", "why.html").code == 2  # it is there
    assert "no row 99" in gnas("explain", copy, rings, "--row", 99, "-o", "other.svg").err
