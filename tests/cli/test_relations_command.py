"""Messages, edge states and stacks through every command: search, report, drawing, export, prediction, depth."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from terminal import Ended, gnas, write_graphs

from gnas.arch import gap
from gnas.arch.architecture import load_genotype
from gnas.arch.genotype import Genotype
from gnas.report.pictures import build_frames
from gnas.run.record import read_run

SMALL = (
    *("--preset", "wide", "--strategy", "single-level", "--channels", "4", "--batch", "8", "--device", "cpu"),
    *("--set", "nodes=2", "--set", "messages=edge,gated", "--set", "aggregators=mean,sum,max"),
    *("--set", "readouts=sum", "--set", "search_batch=8", "--cells", "2"),
)


AROUND = "a feed-forward layer after every cell, read-out sum, edge states updated in every cell"


@pytest.fixture(scope="module")
def bonds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rings whose edges have a kind."""
    folder = write_graphs(tmp_path_factory.mktemp("data") / "bonds")
    with (folder / "edges.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    with (folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*header, "bond"], *([*row, "abc"[n % 3]] for n, row in enumerate(rows))])
    return folder


@pytest.fixture(scope="module")
def searched(bonds: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    out = tmp_path_factory.mktemp("runs") / "run"
    ended = gnas(
        "search", bonds, *SMALL, "--search-epochs", "3", "--epochs", "2", "--baselines", "gatedgcn+,gine", "--out", out
    )
    assert ended.code == 0, ended
    return out, ended


def genotype_of(run: Path) -> Genotype:
    found = load_genotype(run / "genotype.yaml")
    assert isinstance(found, Genotype)
    return found


def test_the_genotype_file_has_messages_and_stack(searched: tuple[Path, Ended]) -> None:
    found = genotype_of(searched[0])
    assert found.messages() <= {"edge", "gated"}
    assert (found.stack.ffn, found.stack.edges, found.stack.readout) == (True, "updated", "sum")
    assert "version: 2" in (searched[0] / "genotype.yaml").read_text()


def test_formulas_are_printed_and_can_be_read(searched: tuple[Path, Ended]) -> None:
    assert AROUND in searched[1].out.replace("\n", " ")
    for formula in genotype_of(searched[0]).formulas():
        assert formula in searched[1].out
        assert str(gap.parse(formula)) == formula


def test_the_slider_shows_the_messages_of_every_epoch(searched: tuple[Path, Ended]) -> None:
    frames = build_frames(read_run(searched[0]))
    assert len(frames.frames) >= 3
    for frame in frames.frames:
        for svg, formula in (frames.drawings[number] for number in frame.drawings):
            assert any(f"({name}" in formula and f"({name})" in svg for name in ("edge", "gated"))
    page = (searched[0] / "report.html").read_text()
    assert 'id="scrub"' in page
    assert AROUND in page


def test_a_drawing_names_the_messages(searched: tuple[Path, Ended]) -> None:
    assert gnas("draw", searched[0] / "genotype.yaml", "-o", "cell.svg").code == 0
    svg = Path("cell.svg").read_text()
    operations = {link.operation for cell in genotype_of(searched[0]) for link in cell.links if "(" in link.operation}
    assert operations
    assert all(operation in svg for operation in operations)
    assert "around the cells: a feed-forward layer" in svg


def test_prediction_and_export_read_the_edges(searched: tuple[Path, Ended], bonds: Path) -> None:
    assert gnas("predict", searched[0], bonds, "--network", "gnas", "-o", "predicted.csv").code == 0
    assert len(Path("predicted.csv").read_text().splitlines()) == 41
    assert gnas("export", searched[0], "--network", "gnas", "-o", "exported").code == 0
    assert "edge_attr" in Path("exported/model.py").read_text()
    assert f"around: {AROUND}" in Path("exported/README.md").read_text()


def test_new_data_without_the_column_of_edges_gets_a_line(searched: tuple[Path, Ended], tmp_path: Path) -> None:
    ended = gnas("predict", searched[0], write_graphs(tmp_path / "plain"), "--network", "gnas")
    assert ended.code == 2
    assert "bond" in ended.err or "edge" in ended.err


def test_the_depth_search_finds_messages(bonds: Path) -> None:
    ended = gnas("depth", bonds, *SMALL, "--search-epochs", "1", "--out", "deep")
    assert ended.code == 0, ended
    assert genotype_of(Path("deep")).messages() & {"edge", "gated"}


def test_without_edge_features_one_line_says_that_edge_messages_fall_away(tmp_path: Path) -> None:
    rings = write_graphs(tmp_path / "plain")
    words = ("--baselines", "gine,gin+,gcn+", "--data", "encodings=none", "--preset", "wide", "--cells", "1")
    ended = gnas("compare", rings, *words, "--epochs", "1", "--device", "cpu", "--out", "run")
    assert ended.code == 0, ended
    assert ended.err.count("the data has no edge features, so messages of the kind edge are plain") == 1


def test_every_hand_made_network_has_a_name(bonds: Path) -> None:
    ended = gnas("compare", bonds, "--baselines", "gin++", "--device", "cpu")
    assert ended.code == 2
    for name in ("gcn", "gin", "gatedgcn", "gine", "gatv2", "pna", "gcn+", "gin+", "gatedgcn+", "pna+"):
        assert name in ended.err.replace(";", ",").split(": ", 2)[2].replace("'", "").replace(",", " ").split()
