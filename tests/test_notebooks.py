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
@pytest.mark.parametrize("name", SHOWS)
def test_notebook(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
    nbformat = pytest.importorskip("nbformat", reason="nbformat reads notebooks")
    pytest.importorskip("ipykernel", reason="ipykernel is the process that runs notebooks")
    if name == "molecules.ipynb":
        pytest.importorskip("rdkit")
    for file in FOLDER.glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(FOLDER / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = "".join(
        str(value)
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        for value in output.get("data", {}).values()
    )
    for words in SHOWS[name]:
        assert words in shown, words
