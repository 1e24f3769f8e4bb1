"""Heads: read-outs of graphs, rows of edges and pairs, and the MLP behind them."""

import dataclasses
import itertools

import pytest
import torch
from samples import assert_near, pad
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool

from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.head import EachHead, Head, read_out, read_rows
from gnas.model.task import Task

POOLS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", [*POOLS, "mean_max"])
def test_a_readout_is_that_of_pyg(batch: Batch, name: str, padded: bool) -> None:
    graph = GraphBatch.from_pyg(batch)
    whole = pad(graph) if padded else graph
    wanted = [POOLS[one](batch.x, batch.batch) for one in name.split("_")]
    assert_near(read_out(whole.x, whole, name)[: batch.num_graphs], torch.cat(wanted, 1), 1e-12)


@pytest.mark.parametrize(("equal", "widths"), [(False, [8, 4, 2, 3]), (True, [8, 8, 8, 8, 3])])
def test_the_widths_of_the_layers(equal: bool, widths: list[int]) -> None:
    head = Head(Task("graph", "regression", 3, in_channels=4), 8, equal=equal)
    found = [(one.in_features, one.out_features) for one in head.layers]
    assert found == list(itertools.pairwise(widths))


def test_a_linear_head_is_one_map(batch: Batch) -> None:
    task = Task("node", "classification", 3, in_channels=4, head="linear")
    head, graph = Head(task, 4).double(), GraphBatch.from_pyg(batch)
    (only,) = head.layers
    assert_near(head(graph.x, graph), graph.x @ only.weight.T + only.bias, 1e-12)


def test_rows_of_edges_and_of_pairs(batch: Batch) -> None:
    graph = GraphBatch.from_pyg(batch)
    source, target = (ends.long() for ends in (graph.neighbors.source, graph.neighbors.target))
    edge = Task("edge", "regression", 1, in_channels=4)
    assert torch.equal(read_rows(graph.x, graph, edge), torch.cat([graph.x[source], graph.x[target]], 1))
    pairs = torch.tensor([[0, 3, 2], [1, 0, 2]])
    both = dataclasses.replace(graph, pairs=pairs)
    turned = dataclasses.replace(graph, pairs=pairs.flip(0))
    link = Task("link", "multilabel", 1, in_channels=4, undirected=True)
    a, b = graph.x[pairs[0]], graph.x[pairs[1]]
    assert torch.equal(read_rows(graph.x, both, link), torch.cat([a * b, (a - b).abs()], 1))
    assert torch.equal(read_rows(graph.x, both, link), read_rows(graph.x, turned, link))
    directed = dataclasses.replace(link, undirected=False)
    assert torch.equal(read_rows(graph.x, both, directed), torch.cat([a, b, a * b], 1))
    with pytest.raises(InputError, match="edge_label_index"):
        read_rows(graph.x, graph, link)


def test_features_of_graphs_are_joined_to_what_was_read_out(batch: Batch) -> None:
    task = Task("graph", "regression", 1, in_channels=4, graph_channels=2, head="linear")
    graph = GraphBatch.from_pyg(batch)
    attr = torch.randn(batch.num_graphs, 2, dtype=torch.float64)
    head = Head(task, 4).double()
    wanted = (
        torch.cat([global_mean_pool(batch.x, batch.batch), attr], 1) @ head.layers[0].weight.T + head.layers[0].bias
    )
    assert_near(head(graph.x, dataclasses.replace(graph, graph_attr=attr)), wanted, 1e-12)
    for wrong in (None, attr[:, :1]):
        with pytest.raises(InputError, match=r"set graph_attr, \[graphs, 2\]"):
            head(graph.x, dataclasses.replace(graph, graph_attr=wrong))


def test_a_head_of_every_layer_is_a_sum_of_maps(batch: Batch) -> None:
    graph = GraphBatch.from_pyg(batch)
    head = EachHead(Task("graph", "regression", 2, in_channels=4), 4, 3).double()
    hidden = [graph.x, graph.x.square(), graph.x.sin()]
    pooled = [global_add_pool(h, batch.batch) for h in hidden]
    wanted = sum(h @ one.weight.T + one.bias for h, one in zip(pooled, head.linears, strict=True))
    assert_near(head(hidden, graph), wanted, 1e-12)


def test_an_unknown_readout_is_an_error_with_the_choices() -> None:
    with pytest.raises(InputError, match=r"unknown readout 'median'; choose one of: mean, sum, max, mean_max"):
        Head(Task("graph", "regression", 1, in_channels=4), 8, readout="median")
