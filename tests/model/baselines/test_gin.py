"""GIN against a dense adjacency matrix and PyG's layer."""

import torch
import torch.nn.functional as F
from obvious import dense_adjacency
from samples import assert_near, gradients, shake
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GINConv, global_add_pool

from gnas.graph import GraphBatch
from gnas.model.baselines import GIN
from gnas.model.stacked import BatchNorm
from gnas.model.task import Task


def norm(h: Tensor, module: BatchNorm) -> Tensor:
    return F.batch_norm(h, None, None, module.weight.flatten(), module.bias.flatten(), training=True)


def test_dense(batch: Batch) -> None:
    network = shake(GIN(Task("graph", "regression", 2, in_channels=4), 16, num_layers=2).double())
    dense = dense_adjacency(batch.edge_index, len(batch.x)).double()
    h = network.encoder(batch)
    hidden = [h]
    for layer in network.layers:
        out = (1 + layer.eps) * h + dense @ h
        out = norm(layer.first(out), layer.first_norm).relu()
        h = h + norm(layer.second(out), layer.norm).relu()
        hidden.append(h)
    wanted = sum(
        linear(global_add_pool(h, batch.batch)) for linear, h in zip(network.head.linears, hidden, strict=True)
    )
    found = network(batch)
    assert_near(found, wanted, 1e-11)
    weights = list(network.parameters())
    assert_near(gradients(found, weights), gradients(wanted, weights), 1e-10)


def test_pyg(batch: Batch) -> None:
    network = shake(GIN(Task("node", "regression", 2, in_channels=4), 16, num_layers=1).double()).eval()
    layer = network.layers[0]
    conv = GINConv(nn.Sequential(layer.first, layer.first_norm, nn.ReLU(), layer.second), train_eps=True).double()
    with torch.no_grad():
        conv.eps.copy_(layer.eps[0])
    h = network.encoder(batch)
    wanted = h + layer.norm(conv(h, batch.edge_index)).relu()
    assert_near(layer(h, GraphBatch.from_pyg(batch)), wanted, 1e-12)
