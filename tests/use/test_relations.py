"""The estimator and prediction with networks that read edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gnas
from gnas.arch.genotype import Genotype


def rings(count: int = 30, bonds: bool = True) -> list[Data]:
    """Rings; the target is the number of edges of the first of two kinds."""
    graphs = []
    for k in range(count):
        n, generator = 4 + k % 4, torch.Generator().manual_seed(k)
        ends = torch.arange(n), (torch.arange(n) + 1) % n
        index = torch.stack([torch.cat(ends), torch.cat(ends[::-1])])
        kind = torch.randint(2, (n, 1), generator=generator).repeat(2, 1)
        graph = Data(torch.ones(n, 1).long(), index, y=kind.sum().float()[None])
        if bonds:
            graph.edge_attr = kind
        graphs.append(graph)
    return graphs


@pytest.fixture(scope="module")
def fitted() -> gnas.GNASRegressor:
    settings = {"messages": ("edge", "gated"), "aggregators": ("sum", "mean"), "nodes": 1, "search_batch": 8}
    sizes = {"cells": 2, "channels": 8, "search_epochs": 3, "epochs": 15, "batch": 8, "lr": 0.01}
    model = gnas.GNASRegressor(
        preset="wide", strategy="single-level", baselines=(), settings=settings, seeds=(1,), device="cpu", **sizes
    )
    return model.fit(rings())


def test_the_estimator_finds_a_network_that_reads_edges(fitted: gnas.GNASRegressor) -> None:
    genotype = fitted.genotype_
    assert isinstance(genotype, Genotype)
    assert genotype.messages() & {"edge", "gated"}
    assert (genotype.stack.ffn, genotype.stack.edges) == (True, "updated")


def test_predictions_depend_on_the_edges(fitted: gnas.GNASRegressor) -> None:
    graphs, others = rings(6), rings(6)
    for graph in others:
        graph.edge_attr = 1 - graph.edge_attr
    assert not np.allclose(fitted.predict(graphs), fitted.predict(others))


def test_graphs_without_the_columns_get_a_line(fitted: gnas.GNASRegressor) -> None:
    with pytest.raises(gnas.InputError, match="edge"):
        fitted.predict(rings(3, bonds=False))


def test_a_saved_estimator_predicts_the_same(fitted: gnas.GNASRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "saved")
    again = gnas.GNASRegressor.load(tmp_path / "saved")
    np.testing.assert_allclose(again.predict(rings(6)), fitted.predict(rings(6)), rtol=1e-6)
    np.testing.assert_allclose(
        gnas.predict(tmp_path / "saved", rings(6)).values.flatten(), fitted.predict(rings(6)).flatten(), rtol=1e-5
    )
