"""Columns of edges, ``edge_weight``, ``z`` and ``pos`` reach the task and new data, or are named as unused."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gnas
from gnas.data.own.load import encode_graphs
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.encoder import EdgeEncoder

RING = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])


def graphs(**attributes: object) -> list[Data]:
    torch.manual_seed(0)
    found = []
    for i in range(12):
        data = Data(x=torch.randint(0, 3, (3, 1)), edge_index=RING, y=torch.tensor([float(i)]))
        for name, make in attributes.items():
            data[name] = make(i)
        found.append(data)
    return found


def kinds(i: int) -> torch.Tensor:
    return torch.tensor([[k % 3, (k + i) % 2] for k in range(6)])


def lengths(i: int) -> torch.Tensor:
    return torch.arange(6) * 0.5 + i


def test_categories_of_edges_stay_categories() -> None:
    found = gnas.load(graphs(edge_attr=kinds))
    assert found.task.edge_categories == (3, 2)
    assert found.task.edge_channels == 0
    assert found.task.reads_edges
    assert not found.train.edge_attr.is_floating_point()
    batch = found.train.batch()
    assert EdgeEncoder(found.task, 4)(batch).shape == (len(batch.neighbors.source), 4)


def test_numbers_and_weights_of_edges_are_features() -> None:
    found = gnas.load(graphs(edge_attr=kinds, edge_weight=lengths))
    assert found.task.edge_channels == 3 + 2 + 1
    assert [c.name for c in found.encoding.edges] == ["edge_attr0", "edge_attr1", "edge_weight"]
    weights = found.train.edge_attr[:, -1].double()  # standardised over train; categories are one-hot
    torch.testing.assert_close(weights.mean(), torch.tensor(0.0, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(weights.std(correction=0), torch.tensor(1.0, dtype=torch.float64))
    assert set(found.train.edge_attr[:, :-1].unique().tolist()) == {0.0, 1.0}


def test_networkx_weights() -> None:
    rings = [nx.cycle_graph(4) for _ in range(10)]
    for i, ring in enumerate(rings):
        ring.graph["y"] = float(i)
        nx.set_node_attributes(ring, 1, "kind")
        nx.set_edge_attributes(ring, 0.25 * i, "weight")
    found = gnas.load(rings)
    assert [c.name for c in found.encoding.edges] == ["weight"]
    assert found.task.edge_channels == 1


def test_edges_can_be_left_out() -> None:
    found = gnas.load(graphs(edge_attr=kinds), edges="none")
    assert not found.task.reads_edges
    assert found.train.edge_attr is None
    assert "2 edge columns (edge_attr0, edge_attr1): edges=none" in str(found.describe())
    with pytest.raises(InputError, match="edges have no columns"):
        gnas.load(graphs(), edges="yes")
    with pytest.raises(InputError, match="edges is 'maybe'; choose yes"):
        gnas.load(graphs(), edges="maybe")


def test_atom_numbers_are_node_columns() -> None:
    alone = graphs(z=lambda i: torch.tensor([1, 6, 8]))
    for data in alone:
        del data.x
    assert [c.name for c in gnas.load(alone).encoding.nodes] == ["z"]
    joined = gnas.load(graphs(z=lambda i: torch.tensor([1, 6, 8])))
    assert [c.name for c in joined.encoding.nodes] == ["x", "z"]
    assert len(joined.task.categories) == 2


def test_positions_are_features_if_requested() -> None:
    data = graphs(pos=lambda i: torch.rand(3, 2))
    plain = gnas.load(data)
    assert plain.task.categories == (3,)
    assert "pos (2 columns): stored but not used; the data option pos=yes" in str(plain.describe())
    found = gnas.load(data, pos=True)
    assert found.task.in_channels == 3 + 2
    assert "not used" not in str(found.describe())
    new = encode_graphs(data, found.encoding, found.task).graphs
    torch.testing.assert_close(new.x[:, 3:], torch.cat([one.pos for one in data]))
    with pytest.raises(InputError, match="no positions"):
        gnas.load(graphs(), pos=True)


def test_new_data_is_read_as_the_training_data_was(tmp_path: Path) -> None:
    data = graphs(edge_attr=kinds, edge_weight=lengths)
    found = gnas.load(data, encodings="walks:3,edge_walks:2")
    new = encode_graphs(data, found.encoding, found.task).graphs
    assert new.edge_attr.shape == (12 * 6, 6)
    assert new.node_pe.shape == (36, 3)
    assert new.edge_pe.shape == (72, 2)
    stored = load_benchmark(save_benchmark(found, tmp_path / "b.safetensors"))
    assert stored.task == found.task
    assert torch.equal(stored.train.edge_attr, found.train.edge_attr)
    with pytest.raises(InputError, match="no column 'edge_weight'"):
        encode_graphs(graphs(edge_attr=kinds), found.encoding, found.task)


def test_a_file_with_wrong_edges_is_refused(tmp_path: Path) -> None:
    found = gnas.load(graphs(edge_attr=kinds))
    found.val.edge_attr[0, 0] = 9
    with pytest.raises(InputError, match=r"val: edge_attr holds categories outside \[3, 2\]"):
        load_benchmark(save_benchmark(found, tmp_path / "b.safetensors"))


def test_published_benchmarks_read_edges_if_requested() -> None:
    plain, found = gnas.load("molecules-mini"), gnas.load("molecules-mini", edges="yes")
    assert not plain.task.reads_edges
    assert found.task.edge_categories == (4,)
    assert set(found.train.edge_attr.unique().tolist()) <= {1, 2, 3}
    none = gnas.load("cluster-mini", edges=True)
    assert not none.task.reads_edges
    assert any("no columns of edges" in note for note in none.notes)


def test_an_edge_encoder_embeds_the_sum_of_categories() -> None:
    found = gnas.load(graphs(edge_attr=kinds))
    encoder = EdgeEncoder(found.task, 4)
    batch = GraphBatch.from_edges(torch.zeros(3, 1, dtype=torch.long), RING, edge_attr=kinds(1))
    rows = np.asarray(kinds(1))[batch.edge_order]
    by_hand = torch.stack([encoder.weight[a] + encoder.weight[3 + b] for a, b in rows.tolist()])
    torch.testing.assert_close(encoder(batch), by_hand)
