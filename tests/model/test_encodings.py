"""Encodings against a dense float64 computation and PyG's transforms, and the same whatever batch a graph is in."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import pad
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from gnas.arch import gap
from gnas.errors import InputError
from gnas.graph import GraphBatch, GraphSet
from gnas.model import encodings
from gnas.model.encoder import EdgeEncoder, Encoder, list_encodings
from gnas.model.encodings import fill_encodings, with_encodings
from gnas.model.network import Network
from gnas.model.task import Task

PLAIN = Task("graph", "regression", 1, (2,))
TASK = dataclasses.replace(PLAIN, walks=6, laplacian=3, edge_walks=5)


def graph(edges: list[tuple[int, int]], nodes: int) -> Data:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(x=torch.arange(nodes)[:, None] % 2, edge_index=index, y=torch.zeros(1), num_nodes=nodes)


def undirected(nodes: int, seed: int, share: float = 0.3) -> Data:
    torch.manual_seed(seed)
    edges = to_undirected(erdos_renyi_graph(nodes, share), num_nodes=nodes)
    return graph(edges.T.tolist(), nodes)


RING = [(i, (i + 1) % 6) for i in range(6)]
ODD = [
    graph([], 1),  # one node
    graph([(0, 0)], 1),  # that sends to itself
    graph([(0, 1), (1, 0)], 4),  # isolated nodes
    graph([(0, 1), (1, 2), (2, 0), (2, 3)], 4),  # directed, with a dead end
    graph([(0, 1), (0, 1), (1, 0), (1, 2), (2, 1), (2, 2)], 3),  # a repeated edge and a self-loop
    graph(RING + [(b, a) for a, b in RING], 6),  # equal eigenvalues
]
GRAPHS = [*ODD, undirected(12, 1), undirected(30, 2), undirected(5, 3, 1.0)]


def walk_matrix(data: Data) -> Tensor:
    adjacency = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    for source, target in data.edge_index.T.tolist():
        adjacency[source, target] += 1
    return adjacency / adjacency.sum(1, keepdim=True).clamp_min(1)


def by_hand(data: Data, steps: int) -> tuple[Tensor, Tensor]:
    """Diagonals of the powers, and their entries at the edges sorted by target and source."""
    walk, (source, target) = walk_matrix(data), data.edge_index
    order = torch.argsort(target * data.num_nodes + source, stable=True)
    powers = [torch.linalg.matrix_power(walk, k) for k in range(1, steps + 1)]
    return (
        torch.stack([p.diagonal() for p in powers], dim=1),
        torch.stack([p[source[order], target[order]] for p in powers], dim=1),
    )


def laplacian(data: Data) -> Tensor:
    adjacency = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    for source, target in data.edge_index.T.tolist():
        if source != target:
            adjacency[source, target] += 0.5
            adjacency[target, source] += 0.5
    scale = adjacency.sum(1).pow(-0.5)
    scale[scale.isinf()] = 0
    return torch.eye(data.num_nodes, dtype=torch.float64) - scale[:, None] * adjacency * scale


def filled(graphs: list[Data], task: Task = TASK) -> GraphSet:
    return fill_encodings(GraphSet.from_data(graphs), task)


@pytest.mark.parametrize("dense_nodes", [512, 0])
def test_walks_are_entries_of_matrix_powers(monkeypatch: pytest.MonkeyPatch, dense_nodes: int) -> None:
    monkeypatch.setattr(encodings, "DENSE_NODES", dense_nodes)  # 0: sparse products for every graph
    found = filled(GRAPHS)
    expected = [by_hand(data, 6) for data in GRAPHS]
    torch.testing.assert_close(found.node_pe[:, :6], torch.cat([a for a, _ in expected]).float())
    torch.testing.assert_close(found.edge_pe, torch.cat([b for _, b in expected])[:, :5].float())


def test_large_graphs_are_computed_in_blocks_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    data = undirected(60, 5)
    expected = filled([data])
    monkeypatch.setattr(encodings, "DENSE_NODES", 10)
    monkeypatch.setattr(encodings, "_BLOCK", 60)  # 8 columns at a time
    found = filled([data])
    assert torch.equal(found.node_pe[:, :6], expected.node_pe[:, :6])
    assert torch.equal(found.edge_pe, expected.edge_pe)


def test_walks_are_those_of_pyg() -> None:
    for data in (ODD[3], ODD[5], undirected(20, 4)):
        expected = AddRandomWalkPE(6, "pe")(data).pe
        torch.testing.assert_close(filled([data]).node_pe[:, :6], expected)


def test_eigenvectors_are_those_of_pyg_up_to_sign() -> None:
    for seed in range(4):
        data = undirected(15, seed)
        expected = AddLaplacianEigenvectorPE(3, "pe", is_undirected=True)(data).pe
        found = filled([data]).node_pe[:, 6:]
        torch.testing.assert_close(found.abs(), expected.abs(), atol=1e-4, rtol=1e-3)


def test_eigenvectors_solve_their_equation_and_small_graphs_have_zeros() -> None:
    found = filled(GRAPHS)
    for i, data in enumerate(GRAPHS):
        vectors = found.select([i]).node_pe[:, 6:].double()
        values, _ = torch.linalg.eigh(laplacian(data))
        count = min(3, data.num_nodes - 1)
        assert not vectors[:, count:].any()
        vectors = vectors[:, :count]
        residual = laplacian(data) @ vectors - vectors * values[1 : count + 1]
        assert residual.abs().max() < 1e-5 if count else True
        torch.testing.assert_close(vectors.T @ vectors, torch.eye(count, dtype=torch.float64), atol=1e-5, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(len(GRAPHS))), st.integers(1, len(GRAPHS)))
def test_a_graph_has_the_same_encodings_in_every_batch(order: list[int], count: int) -> None:
    alone = [filled([GRAPHS[i]]) for i in order[:count]]
    together = filled([GRAPHS[i] for i in order[:count]])
    assert torch.equal(together.node_pe[:, :6], torch.cat([g.node_pe[:, :6] for g in alone]))
    assert torch.equal(together.edge_pe, torch.cat([g.edge_pe for g in alone]))
    torch.testing.assert_close(
        together.node_pe[:, 6:], torch.cat([g.node_pe[:, 6:] for g in alone]), atol=1e-6, rtol=1e-5
    )


def test_a_batch_computes_what_the_data_was_prepared_with() -> None:
    prepared = filled(GRAPHS)
    batch = GraphBatch.from_pyg(Batch.from_data_list(GRAPHS))
    for one in (batch, pad(batch)):
        found = with_encodings(one, TASK)
        assert found.node_pe is not None
        assert found.edge_pe is not None
        assert len(found.node_pe) == one.num_nodes
        assert len(found.edge_pe) == len(one.neighbors.source)
        torch.testing.assert_close(found.node_pe[: prepared.num_nodes], prepared.node_pe)
        assert torch.equal(found.edge_pe[: prepared.num_edges], prepared.edge_pe)
    assert with_encodings(found, TASK) is found
    assert with_encodings(batch, PLAIN) is batch


def test_a_network_computes_its_encodings_itself() -> None:
    torch.manual_seed(0)
    network = Network(gap.approximate("gcn", 2), TASK, 8).eval()
    prepared = filled(GRAPHS).batch()
    batch = Batch.from_data_list(GRAPHS)
    expected = network(prepared)
    torch.testing.assert_close(network(batch.x, batch.edge_index, batch.batch), expected)
    torch.testing.assert_close(network(batch), expected)
    stripped = dataclasses.replace(prepared, node_pe=prepared.node_pe * 0)
    assert not torch.allclose(network(stripped), expected)


def test_an_encoder_reads_the_encodings_it_names() -> None:
    task = dataclasses.replace(
        TASK, structure=("size", "degree"), structure_center=(1.0, 2.0), structure_scale=(1.0, 3.0)
    )
    assert list_encodings(task) == ("size", "degree", "walks", "edge_walks", "laplacian")
    batch = filled(GRAPHS, task).batch()
    cases = [
        ((), (), 0, 0),
        (("degree",), ("degree",), 0, 0),
        (("laplacian", "size"), ("size",), 0, 3),
        (("structure", "walks"), ("size", "degree"), 6, 0),
        (None, ("size", "degree"), 6, 3),
    ]
    for names, structure, walks, vectors in cases:
        encoder = Encoder(task, 4, names)
        assert encoder.structure == structure
        read = (0, 0) if encoder.pe is None else (encoder.pe.walks, encoder.pe.laplacian)
        assert read == (walks, vectors)
        assert encoder(batch).shape == (batch.num_nodes, 4)
    only = Encoder(task, 4, ("laplacian",)).eval()
    by_hand = only._read(batch.x) + batch.node_pe[:, 6:] @ only.pe.linear.weight.T
    torch.testing.assert_close(only(batch), by_hand)
    assert EdgeEncoder(task, 4, ("walks",))(batch).shape == (1, 4)
    assert EdgeEncoder(task, 4)(batch).shape == (batch.neighbors.source.numel(), 4)


def test_signs_of_eigenvectors_are_drawn_in_training_and_fixed_in_evaluation() -> None:
    task = dataclasses.replace(PLAIN, laplacian=3)
    batch = filled(GRAPHS, task).batch()
    encoder = Encoder(task, 4)
    torch.manual_seed(1)
    assert not torch.equal(encoder(batch), encoder(batch))
    encoder.eval()
    assert torch.equal(encoder(batch), encoder(batch))


def test_a_graph_too_large_is_refused_with_the_encodings_that_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "LAPLACIAN_NODES", 10)
    with pytest.raises(InputError, match=r"laplacian is too costly .*: size, degree, walks, edge_walks$"):
        filled([undirected(12, 1)])
    monkeypatch.setattr(encodings, "DENSE_NODES", 10)
    monkeypatch.setattr(encodings, "WALK_PRODUCTS", 100)
    with pytest.raises(InputError, match=r"walks is too costly .*: size, degree$"):
        filled([undirected(12, 1)], dataclasses.replace(PLAIN, walks=4))
