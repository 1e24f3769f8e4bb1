"""One finished run that many tests look at, and a folder of their own for each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from terminal import TINY, Ended, gnas, write_graphs


@pytest.fixture(scope="session")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny dataset of a user's own."""
    return write_graphs(tmp_path_factory.mktemp("data") / "rings")


@pytest.fixture(scope="session")
def two_targets(rings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same graphs with two columns to choose from, whose names look like numbers, and no split."""
    folder = tmp_path_factory.mktemp("data") / "two"
    shutil.copytree(rings, folder)
    lines = (folder / "graphs.csv").read_text().splitlines()[1:]
    rows = [f"{number},{y},{1 - float(y):.6f}" for number, y, _ in (line.split(",") for line in lines)]
    (folder / "graphs.csv").write_text("\n".join(["graph_id,10,20", *rows]) + "\n")
    return folder


@pytest.fixture(scope="session")
def finished(rings: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """The run folder of a whole search, and what the command printed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    ended = gnas("search", rings, *TINY, "--out", folder)
    assert ended.code == 0, ended
    return folder, ended


@pytest.fixture
def copy(finished: tuple[Path, Ended]) -> Path:
    """A copy of the finished run that a test may change."""
    shutil.copytree(finished[0], Path("runs/one"))
    return Path("runs/one")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default folders such as runs/ land in the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("GNAS_DEBUG", raising=False)
    assert Path.cwd() != Path(os.environ.get("HOME", "/"))


@pytest.fixture(autouse=True)
def _plots_are_not_drawn(request: pytest.FixtureRequest) -> None:
    """Every search writes a report. Only tests marked ``plots`` draw its figures."""
    if "plots" not in request.keywords:
        request.getfixturevalue("no_plots")
