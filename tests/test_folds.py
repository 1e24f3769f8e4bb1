"""Runs over folds: every row is tested once, figures are means over the folds, and a stopped run resumes to the same."""

import csv
import dataclasses
import json
import shutil
import statistics

import pytest
import torch
from builders import one_line, path_graphs
from small import stop_after
from typer.testing import CliRunner

from gnas.cli import app
from gnas.data import load
from gnas.errors import Interrupted
from gnas.folds import compare_folds, count_folds, search_folds
from gnas.jobs import open_runner
from gnas.report.examples import find_examples
from gnas.report.html import write_report
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.models import choose_fold, choose_network, load_model
from gnas.run.record import read_run
from gnas.run.settings import Settings
from gnas.workflow import make_baseline_candidate

SMALL = {"nodes": 2, "cells": 1, "channels": 4, "search_epochs": 1, "search_batch": 8, "epochs": 2, "batch": 8}
SETTINGS = Settings.resolve(**SMALL, seeds=(1, 2), baselines=("gcn",))
GRAPHS = path_graphs(24, y=lambda i: torch.tensor([float(i % 5)]))
pytestmark = pytest.mark.filterwarnings("ignore:epoch .*collapse")


def load_fold(fold):
    return load(GRAPHS, folds=3, fold=fold, name="paths")


def timeless(board):
    return [dataclasses.replace(row, seconds=0, seconds_per_epoch=0) for row in board.rows]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    heard = []
    found = search_folds(load_fold, 3, SETTINGS, tmp_path_factory.mktemp("folds") / "run", on_epoch=heard.append)
    return found, heard


def test_a_row_is_the_mean_and_spread_over_the_folds(searched):
    found, heard = searched
    assert {record["fold"] for record in heard} == {1, 2, 3}
    for row in found.leaderboard.rows:
        means = [next(one.mean for one in board.rows if one.name == row.name) for board in found.folds]
        assert (row.mean, row.std) == (statistics.fmean(means), statistics.pstdev(means))
        assert (row.folds, row.seeds) == (3, 2)
    saved = json.loads((found.folder / "leaderboard.json").read_text())
    assert Leaderboard.from_dict(saved) == found.leaderboard
    assert "over the folds" in found.leaderboard.table().caption
    assert found.leaderboard.to_csv().splitlines()[0].split(",")[3] == "folds"
    tested = []
    for fold in range(1, 4):
        with open(found.folder / f"fold-{fold}" / "split.csv", newline="") as file:
            tested += [int(row["graph"]) for row in csv.DictReader(file) if row["split"] == "test"]
    assert sorted(tested) == list(range(24))


@pytest.mark.usefixtures("no_plots")
def test_the_network_handed_back_is_that_of_the_best_validation_fold(searched):
    found, _ = searched
    vals = [next(row.val for row in board.rows if row.name == "gnas") for board in found.folds]
    assert found.best == choose_fold(found.folder, "gnas") == vals.index(min(vals)) + 1
    _, info = load_model(found.folder, "gnas")
    assert info.folder.parts[-4] == f"fold-{found.best}"
    with one_line("unknown trained network", "gcn"):
        load_model(found.folder, "gat")
    page = write_report(found.folder).read_text()
    assert "over 3 folds" in page
    assert f"fold {found.best}, which has the best validation result" in page


def test_a_stopped_run_resumes_to_the_same(searched, tmp_path):
    with pytest.raises(Interrupted):
        search_folds(load_fold, 3, SETTINGS, tmp_path / "run", should_stop=stop_after(12))
    again = search_folds(load_fold, 3, SETTINGS, tmp_path / "run", resume=True)
    assert timeless(again.leaderboard) == timeless(searched[0].leaderboard)
    heard = []
    search_folds(load_fold, 3, SETTINGS, tmp_path / "run", resume=True, on_epoch=heard.append)
    assert heard == []


def test_workers_compare_the_same(tmp_path):
    entries = [make_baseline_candidate("gcn", load_fold(1), 1, channels=4)]
    here = compare_folds(load_fold, 3, entries, SETTINGS, tmp_path / "here")
    with open_runner(tmp_path / "there", "local:2") as runner:
        there = compare_folds(load_fold, 3, entries, SETTINGS, tmp_path / "there", runner=runner)
    assert timeless(here.leaderboard) == timeless(there.leaderboard)
    assert here.genotype is None


def test_folds_are_a_data_option():
    assert count_folds(SETTINGS) == 0
    assert count_folds(SETTINGS.changed({"data": {"folds": "4"}})) == 4
    assert count_folds(SETTINGS.changed({"data": {"folds": 4, "fold": 2}})) == 0


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'C' * (i % 6 + 1)}{'O' * (i % 2)},{i % 6 + i % 2 / 2}\n" for i in range(24))
    (tmp_path / "m.csv").write_text("smiles,y\n" + rows)
    words = ["--folds", "2", "--epochs", "1", "--seeds", "1", "--channels", "4", "--cells", "1", "--device", "cpu"]
    done = CliRunner().invoke(app, ["compare", "m.csv", "--baselines", "gcn", *words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["leaderboard"]["rows"][0]["folds"], len(found["folds"])) == (2, 2)
    again = CliRunner().invoke(app, ["compare", "m.csv", "--resume", "--json", "--device", "cpu"])
    assert json.loads(again.stdout)["leaderboard"] == found["leaderboard"]
    refused = CliRunner().invoke(app, ["compare", "cluster-mini", "--baselines", "gcn", *words])
    assert refused.exit_code == 2
    assert "splits of its own; --folds needs your own data" in refused.output


def test_a_network_that_some_folds_lack_is_not_ranked():
    def row(name, mean, val, found=False):
        return Row(name, mean, 0.0, 1, val, 10, 1, 1.0, 1.0, found, remark=f"rate {mean}")

    boards = [
        Leaderboard("paths", "mae", (row("gcn", 0.1, 0.3), row("gnas", 0.4, 0.2, True), row("gin", 0.9, 0.2))),
        Leaderboard("paths", "mae", (row("gat", 0.3, 0.5), row("gnas", 0.6, 0.4, True), row("gin", 0.5, 0.6))),
    ]
    rows = Leaderboard.over_folds(boards).rows
    assert [(one.name, one.folds) for one in rows] == [
        ("gnas", 2),
        ("hand-made", 2),
        ("gin", 2),
        ("gcn", 1),
        ("gat", 1),
    ]
    assert rows[1].mean == pytest.approx(0.6)  # gin in the first fold, gat in the second, by validation
    assert rows[0].remark == "settings differ between the folds"
    assert rows[3].remark == "in 1 of 2 folds: not ranked"


def test_the_default_network_is_one_of_all_folds(searched, tmp_path):
    """A network that one fold alone has is not handed back, however good it is there."""
    folder = tmp_path / "run"
    shutil.copytree(searched[0].folder, folder)
    for fold in (2, 3):
        shutil.rmtree(folder / f"fold-{fold}" / "trained" / "gcn")
    for result in (folder / "fold-1" / "trained" / "gcn").rglob("result.json"):
        result.write_text(json.dumps(json.loads(result.read_text()) | {"val": 0.0}))
    assert choose_network(folder) == "gnas"


def test_the_report_draws_examples_of_the_fold_that_predicts(tmp_path):
    """The rows of its test split are found in the data of its own fold."""
    rows = "".join(f"{'C' * (i % 6 + 1)}{'O' * (i % 2)},{i % 6 + i % 2 / 2}\n" for i in range(24))
    (tmp_path / "m.csv").write_text("smiles,y\n" + rows)
    (tmp_path / "run").mkdir()
    settings = SETTINGS.changed({"data": {"folds": 3}})
    search_folds(lambda fold: load(tmp_path / "m.csv", folds=3, fold=fold), 3, settings, tmp_path / "run")
    (tmp_path / "run" / "command.json").write_text(json.dumps({"dataset": str(tmp_path / "m.csv")}))
    for fold in (1, 2, 3):  # whichever fold predicts
        for training in (tmp_path / "run").glob("fold-*/trained/*/*/result.json"):
            mine = f"fold-{fold}" in training.parts
            training.write_text(json.dumps(json.loads(training.read_text()) | {"val": 0.0 if mine else 9.0}))
        found = find_examples(read_run(tmp_path / "run"))
        assert found is not None
        assert not found.note
        assert all(one.svg and one.smiles for one in (*found.best, *found.worst))
