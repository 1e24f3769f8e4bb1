"""GCN against a dense adjacency matrix and PyG's layer."""

import pytest
import torch
import torch.nn.functional as F
from obvious import dense_adjacency
from samples import assert_near, gradients, shake
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv
from torch_geometric.utils import remove_self_loops, to_undirected

from gnas.errors import InputError
from gnas.model.baselines import GCN
from gnas.model.task import Task

TASK = Task("node", "regression", 2, in_channels=4)
ONE_GRAPH = Task("node", "regression", 2, in_channels=4, head="linear")


@pytest.mark.parametrize("normalization", ["symmetric", "mean"])
def test_dense(batch: Batch, normalization: str) -> None:
    network = shake(GCN(TASK, 16, num_layers=2, normalization=normalization).double())
    dense = dense_adjacency(batch.edge_index, len(batch.x)).double()
    received, sent = dense.sum(1).clamp_min(1), dense.sum(0).clamp_min(1)
    scaled = dense / received[:, None] if normalization == "mean" else dense / torch.outer(received, sent).sqrt()
    h = network.encoder(batch)
    for layer in network.layers:
        out = scaled @ h @ layer.linear.weight.T + layer.linear.bias
        h = h + F.batch_norm(out, None, None, layer.norm.weight.flatten(), layer.norm.bias.flatten(), True).relu()
    found, wanted = network(batch), network.head(h, None)
    assert_near(found, wanted, 1e-11)
    weights = list(network.parameters())
    assert_near(gradients(found, weights), gradients(wanted, weights), 1e-10)


def test_pyg_on_an_undirected_graph(batch: Batch) -> None:
    network = shake(GCN(TASK, 16, num_layers=1).double()).eval()
    conv = GCNConv(16, 16, add_self_loops=False).double()
    layer = network.layers[0]
    with torch.no_grad():
        conv.lin.weight.copy_(layer.linear.weight)
        conv.bias.copy_(layer.linear.bias)
    edge_index = to_undirected(batch.edge_index)
    h = network.encoder(batch)
    h = h + layer.norm(conv(h, edge_index)).relu()
    assert_near(network(batch.x, edge_index, batch.batch), network.head(h, None), 1e-12)


def test_unknown_normalization() -> None:
    with pytest.raises(InputError, match="unknown normalization 'sum'; choose one of: symmetric, mean"):
        GCN(TASK, normalization="sum")


@pytest.mark.parametrize("layers", [2, 3])
def test_the_original_network_is_a_stack_of_pygs_layers(batch: Batch, layers: int) -> None:
    network = shake(GCN(ONE_GRAPH, 16, num_layers=layers, original=True).double()).eval()
    maps = [network.encoder.linear, *network.layers, network.head.layers[0]]
    edge_index = to_undirected(remove_self_loops(batch.edge_index)[0])
    h = batch.x[:, :4].double()
    for number, one in enumerate(maps):
        conv = GCNConv(one.in_features, one.out_features).double()
        with torch.no_grad():
            one.bias.zero_()  # PyG adds it after the propagation
            conv.lin.weight.copy_(one.weight)
        h = conv(h if number == 0 else h.relu(), edge_index)
    assert_near(network(batch.x, edge_index, batch.batch), h, 1e-12)
    assert len(maps) == layers == network.architecture.num_layers


def test_the_original_network_is_for_nodes_of_one_graph() -> None:
    with pytest.raises(InputError, match="needs targets of nodes, a linear head"):
        GCN(TASK, original=True)
