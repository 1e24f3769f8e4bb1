"""Small graphs for all tests, and where the data lies."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from samples import INTERPRETED, random_graph
from terminal import leave_out_plots
from torch_geometric.data import Batch, Data

import gnas
from gnas.data.benchmark import Benchmark

FEW = 24

torch.set_num_threads(1)  # the graphs here are small: a second thread only waits
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the same in the processes that tests start


@pytest.fixture
def data_root() -> Path:
    """The folder of the datasets; a test that asks for it is marked ``data``."""
    root = os.environ.get("GNAS_DATA")
    if not root:
        pytest.skip("GNAS_DATA is not set: it names the folder that holds the data files")
    return Path(root)


@pytest.fixture(params=["triton"] if INTERPRETED else ["reference", "cpu"])
def forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each implementation of neighbour aggregation that can run here, forced."""
    monkeypatch.setenv("GNAS_AGGREGATE", request.param)
    return str(request.param)


@pytest.fixture
def graphs() -> list[Data]:
    """Three graphs: 9 nodes of which one is isolated, 1 node without edges, 6 nodes of which two are isolated."""
    return [random_graph(9, 20, seed=1), random_graph(1, 0, seed=2), random_graph(6, 11, seed=3, isolated=2)]


@pytest.fixture
def batch(graphs: list[Data]) -> Batch:
    """The three graphs as a PyG batch in float64; edges in no particular order."""
    return Batch.from_data_list(graphs)


@pytest.fixture
def few_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """``gnas.load`` gives as many graphs as it takes to run an example, not to find a network."""
    load = gnas.load

    def cut(*words: Any, **options: Any) -> Benchmark:
        found = load(*words, **options)
        if len(found.train) <= FEW:
            return found
        few = {name: split.select(range(min(FEW, len(split)))) for name, split in found.splits().items()}
        return dataclasses.replace(found, **few)

    monkeypatch.setattr(gnas, "load", cut)


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have empty plots."""
    leave_out_plots(monkeypatch)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked for a GPU skip elsewhere, saying so."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
