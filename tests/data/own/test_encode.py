"""New data is read as the data a network was trained on, and what comes out can be learned from."""

import networkx as nx
import pytest
import torch
from builders import assert_equal, citation_graph, one_line, path_graphs
from torch_geometric.data import Data

from gnas.data.own.load import encode_graphs, load_own
from gnas.model.encoder import Encoder
from gnas.model.head import Head
from gnas.training.store import GraphStore


def test_new_graphs_are_encoded_the_same():
    graphs = path_graphs(12, y=lambda i: torch.tensor([5 * (i % 2)]))
    for g in graphs:
        g.x = g.x * 100 - 50
    b = load_own(graphs, split="stratified")
    assert b.encoding.nodes[0].values == (-50, 50, 150)
    again = encode_graphs(graphs, b.encoding, b.task).graphs
    assert again.y.tolist() == [i % 2 for i in range(12)]
    assert set(again.x.flatten().tolist()) == {0, 1, 2}
    del graphs[0].y
    assert encode_graphs(graphs[:1], b.encoding, b.task).graphs.y.tolist() == [-1]
    assert encode_graphs(graphs[0], b.encoding, b.task).graphs.num_nodes == 3
    graphs[1].x[0] = 7
    with one_line("graph 0, node 0", "'x' is 7", "-50, 50, 150"):
        encode_graphs(graphs[1:2], b.encoding, b.task)
    graphs[2].y = torch.tensor([3])
    with one_line("graph 0: class '3' is not one of 0, 5"):
        encode_graphs(graphs[2:3], b.encoding, b.task)
    with one_line("already encoded"):
        encode_graphs(b, b.encoding, b.task)


def test_tensors_that_need_no_encoding():
    graphs = path_graphs(12)
    b = load_own(graphs)
    assert_equal(encode_graphs(graphs, None, b.task).graphs, encode_graphs(graphs, b.encoding, b.task).graphs)
    with one_line("x has 2 columns; this network reads 1"):
        encode_graphs([Data(x=torch.ones(2, 2), edge_index=torch.zeros(2, 0).long())], None, b.task)


@pytest.mark.parametrize("whole", [True, False])
def test_more_columns_than_the_network_knows_are_an_error(whole):
    graphs = path_graphs(12)
    for g in graphs:
        g.x = torch.rand(g.num_nodes, 2)
    b = load_own(graphs)
    wide = Data(x=torch.rand(3, 3), edge_index=torch.zeros(2, 0).long())
    with one_line("x has 3 columns; this network reads 2"):
        encode_graphs([wide], b.encoding if whole else None, b.task)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (path_graphs(12), {}),
        (path_graphs(12, y=lambda i: torch.tensor([i % 3])), {"split": "stratified"}),
        (path_graphs(12, y=lambda i: torch.rand(4 + i % 3 * 2)), {"level": "edge"}),
        (citation_graph(), {}),
        (nx.karate_club_graph(), {"target": "club"}),
    ],
)
def test_the_result_can_be_learned_from(data, options):
    b = load_own(data, **options)
    store = GraphStore(b.train)
    (planned,) = store.plan(len(b.train))
    batch = store.batch(planned.ids, planned.capacity)
    encoder, head = Encoder(b.task, 8), Head(b.task, 8)
    loss = b.task.loss_value(head(encoder(batch), batch), batch)
    loss.backward()
    assert loss.isfinite()
