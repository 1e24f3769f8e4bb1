"""Graphs as flat tensors: sorted edges and pointers against loops in plain Python, sets against their own graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import random_edges, random_graph
from torch_geometric.data import Batch, Data

from gnas.errors import InputError
from gnas.graph import GraphBatch, GraphSet, Neighbors


@st.composite
def edges(draw):
    senders, receivers = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pair = st.tuples(st.integers(0, senders - 1), st.integers(0, receivers - 1))
    return senders, receivers, draw(st.lists(pair, max_size=15))


@given(edges())
@settings(max_examples=60, deadline=None)
def test_neighbors_list_the_senders_of_each_receiver_in_order(drawn) -> None:
    senders, receivers, pairs = drawn
    neighbors, order = Neighbors.from_edges(torch.tensor(pairs).view(-1, 2).long().T, senders, receivers)
    assert (neighbors.num_senders, neighbors.num_receivers) == (senders, receivers)
    sent = torch.stack([neighbors.source, neighbors.target], dim=1)
    assert [list(pairs[k]) for k in order.tolist()] == sent.tolist()
    for receiver in range(receivers):
        first, last = neighbors.ptr[receiver : receiver + 2].tolist()
        assert neighbors.source[first:last].tolist() == sorted(s for s, t in pairs if t == receiver)
    assert neighbors.degree().tolist() == [sum(t == r for _, t in pairs) for r in range(receivers)]
    for sender in range(senders):
        first, last = neighbors.back_ptr[sender : sender + 2].tolist()
        back = neighbors.back[first:last].long()
        assert set(neighbors.source[back].tolist()) <= {sender}
        assert neighbors.target[back].tolist() == sorted(t for s, t in pairs if s == sender)


def test_equal_edges_keep_the_callers_order() -> None:
    _, order = Neighbors.from_edges(torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0]]), 2, 2)
    assert order.tolist() == [1, 0, 2, 3]


def test_members_send_to_their_graph_and_a_graph_may_have_none() -> None:
    members = Neighbors.members(torch.tensor([0, 0, 2]), 4)
    assert members.degree().tolist() == [2, 0, 1, 0]
    assert members.source.tolist() == members.back.tolist() == [0, 1, 2]
    assert members.num_senders == 3


def test_to_moves_every_tensor() -> None:
    neighbors, _ = Neighbors.from_edges(random_edges(5, 8, seed=0), 5, 5)
    assert {t.device.type for t in vars(neighbors.to("meta")).values()} == {"meta"}


def test_batch_from_pyg_tensors(batch: Batch) -> None:
    ours = GraphBatch.from_pyg(batch)
    assert (ours.num_nodes, ours.num_graphs) == (16, 3)
    assert ours.batch.tolist() == batch.batch.tolist()
    assert torch.equal(ours.y, batch.y)
    sent = torch.stack([ours.neighbors.source, ours.neighbors.target])
    assert torch.equal(sent.long(), batch.edge_index[:, ours.edge_order])


def test_batch_of_one_graph_and_flat_features() -> None:
    ours = GraphBatch.from_edges(torch.tensor([3, 1]), torch.tensor([[0], [1]]))
    assert ours.x.shape == (2, 1)
    assert (ours.num_graphs, ours.batch.tolist()) == (1, [0, 0])


def test_trailing_empty_graphs_of_a_pyg_batch_are_kept() -> None:
    empty = Data(x=torch.zeros(0, 4, dtype=torch.float64), edge_index=torch.zeros(2, 0, dtype=torch.long))
    pair = Data(x=torch.ones(2, 4, dtype=torch.float64), edge_index=torch.tensor([[0], [1]]))
    ours = GraphBatch.from_pyg(Batch.from_data_list([pair, empty]))
    assert (ours.num_graphs, ours.members.degree().tolist()) == (2, [2, 0])


def test_a_graph_without_features_is_refused() -> None:
    with pytest.raises(InputError, match=r"no node features: set data\.x"):
        GraphBatch.from_pyg(Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=2))


@pytest.mark.parametrize(
    ("edge_index", "batch", "message"),
    [
        ([[0, 3], [1, 1]], [0, 0, 0], "names nodes 0 to 3; the graph has 3"),
        ([[0, -1], [1, 1]], [0, 0, 0], "names nodes -1 to 1"),
        ([[0, 1, 2]], [0, 0, 0], r"shape \[1, 3\]"),
        ([[0], [1]], [0, 1, 0], "ascending order"),
        ([[0], [1]], [0, 0], "one graph number for each node"),
    ],
)
def test_bad_edges_are_refused_before_a_kernel_sees_them(edge_index: list, batch: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphBatch.from_edges(torch.zeros(3, 1), torch.tensor(edge_index), torch.tensor(batch))


# -- sets -----------------------------------------------------------------------------------------------------------


def rich(level: str) -> list[Data]:
    """Graphs whose every row can be told apart, edges unsorted; one has no edges, one no nodes."""
    found = []
    for k, (nodes, count) in enumerate([(5, 9), (1, 0), (0, 0), (4, 6)]):
        data = random_graph(nodes, count, seed=k, isolated=0)
        data.edge_attr = 100.0 * k + 10 * data.edge_index[0] + data.edge_index[1] / 10
        data.pos = torch.rand(nodes, 2)
        rows = {"graph": 1, "node": nodes, "edge": count}[level]
        data.y = data.edge_attr.clone() if level == "edge" else 100.0 * k + torch.arange(rows)
        found.append(data)
    return found


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_a_set_gives_back_its_graphs(level: str) -> None:
    graphs = rich(level)
    ours = GraphSet.from_data(graphs, level)
    assert (len(ours), ours.num_nodes, ours.num_edges) == (4, 10, 15)
    assert ours.node_counts.tolist() == [5, 1, 0, 4]
    assert ours.edge_counts.tolist() == [9, 0, 0, 6]
    for wanted, found in zip(graphs, (ours[k] for k in range(4)), strict=True):
        source, target = wanted.edge_index
        order = torch.argsort(target * 10 + source)
        assert torch.equal(found.edge_index, wanted.edge_index[:, order])
        assert torch.equal(found.edge_attr, wanted.edge_attr[order])
        assert torch.equal(found.y, wanted.y[order] if level == "edge" else wanted.y)
        assert torch.equal(found.x, wanted.x)
        assert torch.equal(found.pos, wanted.pos)
    assert torch.equal(ours[-1].x, graphs[-1].x)
    with pytest.raises(IndexError):
        ours[4]


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_select_takes_whole_graphs_in_the_order_asked(level: str) -> None:
    ours = GraphSet.from_data(rich(level), level)
    chosen = ours.select([3, 0, 3])
    assert len(chosen) == 3
    for place, number in enumerate([3, 0, 3]):
        one, other = chosen[place], ours[number]
        assert all(torch.equal(one[key], other[key]) for key in ("x", "edge_index", "y", "edge_attr", "pos"))


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_batch_of_a_set_is_the_pyg_batch_and_rows_stay_aligned(level: str) -> None:
    graphs = rich(level)
    ours = GraphSet.from_data(graphs, level).batch()
    theirs = GraphBatch.from_pyg(Batch.from_data_list(graphs))
    for name in ("source", "target", "ptr", "back", "back_ptr"):
        assert torch.equal(getattr(ours.neighbors, name), getattr(theirs.neighbors, name))
        assert torch.equal(getattr(ours.members, name), getattr(theirs.members, name))
    source, target = ours.neighbors.source.long(), ours.neighbors.target.long()
    graph = ours.batch[source].long()
    start = torch.tensor([0, 5, 6, 6])[graph]
    mark = 100.0 * graph + 10 * (source - start) + (target - start) / 10
    torch.testing.assert_close(ours.edge_attr, mark)
    if level == "edge":
        torch.testing.assert_close(ours.y, mark)


def test_mask_follows_its_rows() -> None:
    graphs = rich("node")
    x, y = torch.cat([g.x for g in graphs]), torch.cat([g.y for g in graphs])
    flat = GraphSet.from_data(graphs, "node")
    mask = torch.arange(10) % 3 == 0
    ours = GraphSet.build(x, flat.edge_index, flat.node_ptr, flat.edge_ptr, y, "node", mask=mask)
    assert ours[3]["mask"].tolist() == mask[6:].tolist()
    assert torch.equal(ours.batch().target_mask, mask)


def test_node_numbers_are_small_integers_until_a_graph_is_large() -> None:
    edge_index = torch.tensor([[40_000, 0], [1, 39_999]])
    ptr = torch.tensor([0, 2])
    large = GraphSet.build(torch.zeros(40_001), edge_index, torch.tensor([0, 40_001]), ptr, torch.zeros(1))
    assert large.edge_index.dtype == torch.int32
    assert large[0].edge_index.T.tolist() == [[40_000, 1], [0, 39_999]]
    assert GraphSet.from_data(rich("graph")).edge_index.dtype == torch.int16
    assert large.nbytes() == 40_001 * 4 + 4 * 4 + 2 * 8 + 2 * 8 + 4


@pytest.mark.parametrize("missing", ["x", "y"])
def test_a_set_says_what_is_missing(missing: str) -> None:
    graphs = rich("graph")
    graphs[1][missing] = None
    with pytest.raises(InputError, match=f"{missing} is missing"):
        GraphSet.from_data(graphs)
