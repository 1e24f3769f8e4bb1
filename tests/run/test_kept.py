"""Run folders, genotype files and exported models of earlier versions: every command still takes them."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from terminal import Ended, gnas

from gnas import load_genotype, load_model

KEPT = Path(__file__).parents[1] / "kept"
STATES = {
    **dict.fromkeys(("depth", "finished", "graphnas", "strategies"), "finished"),
    **dict.fromkeys(("stopped", "training-stopped"), "stopped"),
}
LATER_STATES = {**dict.fromkeys(("comparison", "depth", "folds", "race", "training"), "finished"), "stopped": "stopped"}


def copy_of(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folders of one version, which is also the current folder."""
    folder = tmp_path / "kept"
    shutil.copytree(KEPT / version, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    return folder


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return copy_of("0.1", tmp_path, monkeypatch)


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return copy_of("0.2", tmp_path, monkeypatch)


def test_folders_of_every_version_are_kept() -> None:
    released = re.findall(r"^## \[(\d+\.\d+)", (KEPT.parents[1] / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released
    assert {folder.name for folder in KEPT.glob("[0-9]*")} == {"0.1", *released}


def succeeds(*words: object) -> Ended:
    ended = gnas(*words)
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err
    return ended


def test_the_list_of_runs(kept: Path) -> None:
    runs = {run["folder"]: run for run in succeeds("runs", "list", ".", "--json").json["runs"]}
    assert {name: run["state"] for name, run in runs.items()} == STATES
    assert {run["dataset"] for run in runs.values()} == {"molecules"}
    assert (runs["finished"]["metric"], runs["finished"]["depth"]) == ("mae", 2)
    assert runs["finished"]["test"] == pytest.approx(1.5962, abs=1e-4)


@pytest.mark.parametrize("name", STATES)
def test_show_and_report(kept: Path, name: str) -> None:
    shown = succeeds("runs", "show", name, "--json").json
    assert shown["state"] == STATES[name]
    assert (shown["leaderboard"] is not None) == (name in ("finished", "graphnas"))
    assert (shown["formulas"] is not None) == (name in ("finished", "stopped", "depth"))
    assert succeeds("report", name).code == 0
    page = (kept / name / "report.html").read_text(encoding="utf-8")
    assert "molecules" in page
    assert f'class="state {STATES[name]}"' in page


def test_a_report_that_compares(kept: Path) -> None:
    succeeds("report", *STATES, "--out", "all.html")
    assert (kept / "all.html").exists()


def test_draw_and_genotype_files(kept: Path) -> None:
    for name in ("finished", "depth"):
        succeeds("draw", name)
        succeeds("draw", kept / name / "genotype.yaml", "-o", f"{name}.svg")
    assert load_genotype("finished/genotype.yaml").id == "5eb91fa624"


def test_predict_and_export(kept: Path) -> None:
    written = {}
    for name in ("finished", "exported", "graphnas"):
        found = ("--network", "gnas") if name == "finished" else ()  # gcn is better on validation
        succeeds("predict", name, "molecules.csv", "-o", f"{name}.csv", *found)
        written[name] = Path(f"{name}.csv").read_text().splitlines()
        assert len(written[name]) == 21
    assert written["finished"] == written["exported"]
    assert written["finished"][1].startswith("0,CCO,4.2298")
    succeeds("export", "finished", "--out", "again", "--network", "gnas")
    assert Path("again/weights.safetensors").read_bytes() == Path("exported/weights.safetensors").read_bytes()
    assert load_model("finished", "gcn", seed=95)[1].seed == 95
    succeeds("export", "finished", "--out", "best")
    for name in ("finished", "best"):
        succeeds("predict", name, "molecules.csv", "-o", f"{name}-best.csv")
    assert Path("finished-best.csv").read_text() == Path("best-best.csv").read_text()


def resume(name: str, command: str, *options: str) -> Ended:
    ended = succeeds(command, "molecules.csv", *options, "--device", "cpu", "--out", name, "--resume", "--json")
    assert ended.err.count("no fingerprint of its data") == 1, ended.err  # one warning per command
    return ended


def test_resume(kept: Path) -> None:
    """Stopped runs end as undisturbed ones did; finished ones are not repeated."""
    found = resume("stopped", "search").json
    assert found["genotype"] == "7f48d50f90"
    tests = {row["name"]: row["mean"] for row in found["leaderboard"]["rows"]}
    assert tests == pytest.approx({"gnas": 0.67270, "gcn": 1.88879}, abs=1e-4)
    trained = resume("training-stopped", "train", "--baseline", "gin", "--channels", "4").json
    assert trained["leaderboard"]["rows"][0]["name"] == "gin"
    before = Path("finished/trained/gnas/seed-41/result.json").read_text()
    board = json.loads(Path("finished/leaderboard.json").read_text())
    assert resume("finished", "search").json["leaderboard"] == board
    assert Path("finished/trained/gnas/seed-41/result.json").read_text() == before
    resume("depth", "depth")
    resume("strategies", "compare")
    resume("graphnas", "search")
    assert "fingerprint" not in Path("finished/config.yaml").read_text()  # its data was not checked


@pytest.mark.filterwarnings("ignore")
def test_compare_and_train_with_an_earlier_run(kept: Path) -> None:
    shared = ("--target", "logP", "--preset", "paper", "--epochs", "2", "--channels", "4", "--device", "cpu", "--json")
    words = ("compare", "molecules.csv", "--found", "finished", "--baselines", "gcn", "--seeds", "41,95")
    found = succeeds(*words, *shared, "--out", "compared").json
    assert {row["name"] for row in found["rows"]} == {"finished", "gcn"}
    assert not any("trained before" in row["remark"] for row in found["rows"])  # their data cannot be checked
    succeeds("train", "molecules.csv", "--genotype", "finished", *shared, "--seeds", "41", "--out", "trained-again")
    succeeds("search", "molecules.csv", "--settings", "finished", "--device", "cpu", "--out", "as-before")


# -- 0.2: races, ensembles, folds --------------------------------------------------------------------------------------


def test_the_list_of_runs_of_0_2(later: Path) -> None:
    runs = {run["folder"]: run for run in succeeds("runs", "list", ".", "--json").json["runs"]}
    assert {name: run["state"] for name, run in runs.items() if "/" not in name} == LATER_STATES


@pytest.mark.parametrize("name", LATER_STATES)
def test_show_and_report_of_0_2(later: Path, name: str) -> None:
    assert succeeds("runs", "show", name, "--json").json["state"] == LATER_STATES[name]
    succeeds("report", name)
    assert f'class="state {LATER_STATES[name]}"' in (later / name / "report.html").read_text(encoding="utf-8")


def read_predictions(file: str) -> dict[str, float]:
    with open(file, newline="") as rows:
        return {row["graph"]: float(row["prediction"]) for row in csv.DictReader(rows)}


def test_networks_of_0_2(later: Path) -> None:
    """The race's, its ensemble, a fold's, an export's: what they predicted, they predict."""
    found = ("--network", "gnas")
    for name, of, more in (
        *(("race", "race", found), ("exported", "exported", ()), ("ensemble", "race", ("--network", "ensemble"))),
        *(("fold", "folds/fold-1", found), ("training", "training", ())),
    ):
        succeeds("predict", of, "molecules.csv", "-o", f"{name}.csv", *more)
        assert len(Path(f"{name}.csv").read_text().splitlines()) == 21
    assert Path("race.csv").read_text() == Path("exported.csv").read_text()
    before, now = (read_predictions(file) for file in ("race/trained/gnas/seed-41/predictions.csv", "race.csv"))
    assert len(before) == 4  # of the validation and test splits
    assert {graph: now[graph] for graph in before} == pytest.approx(before, abs=1e-4)
    assert succeeds("evaluate", "race", "molecules.csv", *found, "--json").json
    succeeds("explain", "race", "molecules.csv", *found, "-o", "row.csv")
    succeeds("export", "race", "--out", "again", *found)
    assert Path("again/weights.safetensors").read_bytes() == Path("exported/weights.safetensors").read_bytes()
    for name in ("race", "depth", "race/genotype.yaml"):
        succeeds("draw", name, "-o", "drawn.svg", "--force")


def test_resume_of_0_2(later: Path) -> None:
    """A race that was stopped goes on with what it had tried; finished runs are not repeated."""
    tried = Path("stopped/search/history.jsonl").read_text()
    assert tried
    ended = succeeds("search", "molecules.csv", "--device", "cpu", "--out", "stopped", "--resume", "--json")
    assert Path("stopped/search/history.jsonl").read_text().startswith(tried)
    tests = {row["name"]: row["mean"] for row in ended.json["leaderboard"]["rows"]}
    assert tests.keys() == {"gnas", "gatedgcn"}  # later versions try other networks
    assert tests["gatedgcn"] == pytest.approx(4.49121, abs=1e-3)
    for name, command in (("race", "search"), ("folds", "search"), ("comparison", "compare"), ("depth", "depth")):
        files = {file: file.read_bytes() for file in Path(name).rglob("result.json")}
        more = ("--folds", "2") if name == "folds" else ()
        ended = succeeds(command, "molecules.csv", "--device", "cpu", "--out", name, "--resume", "--json", *more)
        assert "fingerprint" not in ended.err
        assert {file: file.read_bytes() for file in files} == files


def test_files_of_0_2_in_new_runs(later: Path) -> None:
    shared = ("--target", "logP", "--epochs", "2", "--cells", "1", "--channels", "4", "--device", "cpu", "--json")
    found = ("--found", "race", "--found", "comparison", "--baselines", "gcn", "--seeds", "41")
    board = succeeds("compare", "molecules.csv", *found[:2], *found[4:], *shared, "--out", "compared").json
    assert {row["name"] for row in board["rows"]} >= {"race", "gcn"}
    succeeds("train", "molecules.csv", "--genotype", "race", *shared, "--seeds", "41", "--out", "trained-again")
    succeeds("train", "graphs.safetensors", "--genotype", "race", *shared[2:], "--seeds", "41", "--out", "packed")
