"""Every example runs and says what it promises."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "examples"
SAYS = {
    "molecules.py": (
        r"gnas \(found\)",
        r"\| (gin|gine|gatv2|gatedgcn|pna|gcn)\+? \|",
        r"exported: .*model\.py",
        r"10 predictions in predictions\.csv",
    ),
    "plain_pyg.py": (r"loss 0\.\d+ -> 0\.\d+; mean absolute error",),
    "depth.py": (r"average diameter .*; depth \d+ -> \d+", r"round 1: \d+ cells", r"\d+ weights"),
    "extend.py": (r"single-level:\n", r"best-of-two:\n"),
}


def test_all_examples_are_known() -> None:
    assert {file.name for file in FOLDER.glob("*.py")} == set(SAYS)
    listed = (FOLDER / "README.md").read_text()
    assert all(f"`{name}`" in listed for name in SAYS)


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.filterwarnings("ignore:epoch")
def test_example(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if name == "molecules.py":
        pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    if name != "plain_pyg.py":  # which must learn
        request.getfixturevalue("few_graphs")
    scope = runpy.run_path(str(FOLDER / name), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAYS[name]:
        assert re.search(words, said), said
    if name == "plain_pyg.py":
        learns(scope)


def learns(scope: dict[str, Any]) -> None:
    """The network of the plain loop is better than always answering the middle."""
    assert scope["losses"][-1] < scope["losses"][0] / 2
    left_out = torch.cat([graph.y for graph in scope["graphs"][200:]])
    assert float(scope["error"]) < 0.6 * (left_out - left_out.median()).abs().mean()
