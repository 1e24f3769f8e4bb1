"""Compact splits: edges in order, arrays that fit together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnas.data.benchmarks.compact import Compact
from gnas.data.storage import BrokenFile


def test_edges_come_out_sorted_whatever_order_they_had() -> None:
    nodes, edges = np.array([3, 2]), np.array([4, 2])
    source, target, kind = np.array([1, 0, 2, 1, 1, 0]), np.array([2, 1, 1, 0, 0, 1]), np.array([5, 6, 5, 6, 7, 7])
    split = Compact.from_edges(nodes, edges, np.stack([source, target]), {}, {"bond": kind})
    graphs = split.graph_set(torch.zeros(5, 1), torch.zeros(2), "graph")
    assert graphs.edge_index.tolist() == [[1, 0, 2, 1, 1, 0], [0, 1, 1, 2, 0, 1]]
    assert split.columns["bond"].tolist() == [6, 6, 5, 5, 7, 7]
    assert graphs.edge_ptr.tolist() == [0, 4, 6]


def test_broken_arrays_do_not_fit_together() -> None:
    with pytest.raises(BrokenFile, match="fit together"):
        Compact(np.array([2]), np.array([1, 1]), np.array([0]), {})
    with pytest.raises(BrokenFile, match="neither graphs, nodes nor edges"):
        Compact(np.array([2]), np.array([1, 1]), np.array([1, 0]), {"x": np.zeros(3)})
