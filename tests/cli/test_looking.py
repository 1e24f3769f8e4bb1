"""``gnas runs``, ``report``, ``draw``, ``export``, ``predict``, ``explain`` and ``doctor``: looking at what is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from terminal import TINY, Ended, gnas, one_line


@pytest.fixture
def copy(finished: tuple[Path, Ended]) -> Path:
    """A copy of the finished run to do with as one likes."""
    shutil.copytree(finished[0], Path("runs/one"))
    return Path("runs/one")


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


def test_doctor() -> None:
    ended = gnas("doctor", "--json")
    names = {finding["what"] for finding in ended.json["findings"]}
    assert {"python", "torch", "gnas", "threads", "aggregate", "fused", "trial", "data root", "disk", "extras"} <= names
    assert ended.code == (0 if ended.json["ok"] else 1)
    assert "a small network runs on" in gnas("doctor").out


def test_doctor_sees_a_gpu_that_torch_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setattr("gnas.cli.doctor._nvidia", lambda: "NVIDIA H200")
    ended = gnas("doctor")
    assert ended.code == 1
    assert "NVIDIA H200, but torch" in ended.out
    assert "reinstall torch with CUDA" in ended.out


def test_explain(copy: Path, rings: Path) -> None:
    ended = gnas("explain", copy, rings, "--row", 3, "--row", 5, "-o", "why.html")
    assert ended.code == 0, ended
    assert "why.html, why.csv" in ended.out
    assert Path("why.html").read_text().count("<figure") == 2
    assert gnas("explain", copy, rings, "-o", "why.html").code == 2  # it is there
    assert "no row 99" in gnas("explain", copy, rings, "--row", 99, "-o", "other.svg").err
