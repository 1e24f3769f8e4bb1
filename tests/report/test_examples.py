"""The best and the worst test rows of a run, with drawings if its data is still there."""

import csv
import shutil
import sys
from pathlib import Path

import pytest
from terminal import gnas, leave_out_plots, write_molecules

from gnas.report.examples import find_examples
from gnas.run.record import read_run

TINY = (
    "--cells",
    "1",
    "--channels",
    "4",
    "--search-epochs",
    "1",
    "--epochs",
    "2",
    "--baselines",
    "none",
    "--seeds",
    "1",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("rdkit")
    place = tmp_path_factory.mktemp("molecules")
    data = write_molecules(place / "molecules.csv")
    with pytest.MonkeyPatch.context() as patch:
        leave_out_plots(patch)
        ended = gnas(
            "search", data, "--target", "logP", "--data", "fractions=0.5,0.2,0.3", *TINY, "--out", place / "run"
        )
    assert ended.code == 0, ended
    return place / "run"


def test_rows_are_those_with_the_smallest_and_largest_errors(run: Path) -> None:
    found = find_examples(read_run(run))
    assert found is not None
    with open(run / "trained" / "gnas" / "seed-1" / "predictions.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "test"]
    rows.sort(key=lambda row: abs(float(row["y"]) - float(row["prediction"])))
    assert [one.title for one in found.best] == [f"graph {row['graph']}" for row in rows[: len(found.best)]]
    assert found.worst[0].title == f"graph {rows[-1]['graph']}"
    lines = (run.parent / "molecules.csv").read_text().splitlines()[1:]
    for one in (*found.best, *found.worst):
        assert one.smiles == lines[int(one.title.split()[1])].split(",")[0]
        assert one.svg.startswith("<svg")
    assert (run / "report.html").read_text().count('class="plot graph"') == len(found.best) + len(found.worst)


def test_where_rdkit_cannot_draw_molecules_are_graphs(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without libraries of X11."""
    monkeypatch.delitem(sys.modules, "rdkit.Chem.Draw", raising=False)
    monkeypatch.setitem(sys.modules, "rdkit.Chem.Draw.rdMolDraw2D", None)
    found = find_examples(read_run(run))
    assert found is not None
    assert found.best[0].svg.startswith("<svg")
    assert "atom-0" not in found.best[0].svg
    assert "libxrender1" in gnas("doctor").out


def test_without_its_data_the_rows_are_not_drawn(run: Path, tmp_path: Path) -> None:
    data = run.parent / "molecules.csv"
    shutil.copy(data, tmp_path / "kept.csv")
    try:
        write_molecules(data, factor=2.0)  # other targets: another fingerprint
        found = find_examples(read_run(run))
        assert found is not None
        assert "has changed" in found.note
        assert not any(one.svg for one in (*found.best, *found.worst))
    finally:
        shutil.copy(tmp_path / "kept.csv", data)
