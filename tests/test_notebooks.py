"""The notebooks of examples/ run from the first cell to the last, and results show themselves."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SHOWS = {  # texts that the displays of a notebook must hold
    "molecules.ipynb": ("GNASRegressor(", "<progress", "epochs in", "<svg", "model.py", "SMILES"),
    "one_graph.ipynb": ("Search result", "train gcn", "Run folder:", "torch.Size([180, 3])", "leaderboard.svg"),
    "own_space.ipynb": ("<svg", "Search result", "2 epochs in", "best epoch"),
}


def test_all_notebooks_are_known() -> None:
    assert {file.name for file in FOLDER.glob("*.ipynb")} == set(SHOWS)
    listed = (FOLDER / "README.md").read_text()
    assert all(f"`{name}`" in listed for name in SHOWS)


@pytest.mark.slow
def test_notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other in one process, whose start takes longer than most cells; each begins without names."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
    nbformat = pytest.importorskip("nbformat", reason="nbformat reads notebooks")
    pytest.importorskip("ipykernel", reason="ipykernel is the process that runs notebooks")
    pytest.importorskip("rdkit", reason="rdkit reads the molecules")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    new_cell, cells = nbformat.v4.new_code_cell, {}
    for name in SHOWS:
        place = tmp_path / name
        place.mkdir()
        for file in FOLDER.glob("*.csv"):
            (place / file.name).write_bytes(file.read_bytes())
        sources = [cell.source for cell in nbformat.read(FOLDER / name, as_version=4).cells if cell.cell_type == "code"]
        cells[name] = [new_cell(source) for source in ("%reset -f", f"%cd -q {place}", *sources)]
    whole = nbformat.v4.new_notebook(cells=[cell for part in cells.values() for cell in part])
    nbclient.NotebookClient(whole, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for name, part in cells.items():
        outputs = [output for cell in part for output in cell.get("outputs", ())]
        shown = "".join(str(value) for output in outputs for value in output.get("data", {}).values())
        for words in SHOWS[name]:
            assert words in shown, f"{name}: {words}"
