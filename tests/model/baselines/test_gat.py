"""GAT against loops over heads and neighbours and PyG's layer."""

import pytest
import torch
import torch.nn.functional as F
from samples import assert_near, gradients, shake
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import GATConv

from gnas.graph import GraphBatch
from gnas.model.baselines import GAT
from gnas.model.baselines.gat import GATLayer
from gnas.model.edges import Edges
from gnas.model.task import Task

TASK = Task("node", "regression", 2, in_channels=4)


def attention(layer: GATLayer, h: Tensor, edge_index: Tensor) -> Tensor:
    """One node and one head at a time."""
    z = (h @ layer.linear.weight.T).view(len(h), layer.heads, -1)
    rows = []
    for node in range(len(h)):
        senders = edge_index[0, edge_index[1] == node]
        parts = []
        for head in range(layer.heads):
            score = z[senders, head] @ layer.source[0, head] + z[node, head] @ layer.target[0, head]
            parts.append(F.leaky_relu(score, 0.2).softmax(0) @ z[senders, head])
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def test_dense(batch: Batch) -> None:
    network = shake(GAT(TASK, 4, num_layers=3, heads=4).double())
    assert [layer.heads for layer in network.layers] == [4, 4, 1]
    h = network.encoder(batch)
    for layer in network.layers:
        out = attention(layer, h, batch.edge_index)
        h = h + F.elu(F.batch_norm(out, None, None, layer.norm.weight.flatten(), layer.norm.bias.flatten(), True))
    found, wanted = network(batch), network.head(h, None)
    assert_near(found, wanted, 1e-11)
    weights = list(network.parameters())
    assert_near(gradients(found, weights), gradients(wanted, weights), 1e-10)


@pytest.mark.parametrize("heads", [1, 4])
def test_pyg(batch: Batch, heads: int) -> None:
    layer = shake(GATLayer(16, heads, 0.0).double()).eval()
    conv = GATConv(16, 16 // heads, heads, add_self_loops=False, bias=False).double()
    with torch.no_grad():
        conv.lin.weight.copy_(layer.linear.weight)
        conv.att_src.copy_(layer.source)
        conv.att_dst.copy_(layer.target)
    graph, h = GraphBatch.from_pyg(batch), torch.randn(len(batch.x), 16, dtype=torch.float64)
    wanted = h + F.elu(layer.norm(conv(h, batch.edge_index)))
    assert_near(layer(h, graph, Edges.of(graph)), wanted, 1e-12)


def test_large_scores_do_not_overflow(batch: Batch) -> None:
    network = GAT(TASK, 4, num_layers=2, heads=4).double()
    with torch.no_grad():
        for layer in network.layers:
            layer.source.mul_(1e4)
    out = network(batch)
    assert all(bool(torch.isfinite(g).all()) for g in [out, *gradients(out, list(network.parameters()))])
