"""GatedGCN against loops over neighbours; PyG has no layer with its edge state and normalised gates."""

import torch
import torch.nn.functional as F
from samples import assert_near, gradients, shake
from torch import Tensor
from torch_geometric.data import Batch

from gnas.model.baselines import GatedGCN
from gnas.model.baselines.gatedgcn import GatedGCNLayer
from gnas.model.stacked import BatchNorm
from gnas.model.task import Task

TASK = Task("node", "regression", 2, in_channels=4)


def norm(h: Tensor, module: BatchNorm) -> Tensor:
    return F.batch_norm(h, None, None, module.weight.flatten(), module.bias.flatten(), training=True)


def dense_layer(layer: GatedGCNLayer, h: Tensor, e: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
    """Edge by edge and node by node, in the caller's order of edges."""
    (a, d, b, e_weight), (a0, d0, b0, e0) = layer.nodes.weight.chunk(4), layer.nodes.bias.chunk(4)
    gates = [
        layer.edges.weight @ state + layer.edges.bias + (d @ h[target] + d0) + (e_weight @ h[source] + e0)
        for state, source, target in zip(e, *edge_index, strict=True)
    ]
    rows = []
    for node in range(len(h)):
        total, weights = torch.zeros_like(h[0]), torch.zeros_like(h[0])
        for gate, source, target in zip(gates, *edge_index, strict=True):
            if target == node:
                weight = 1 / (1 + torch.exp(-gate))
                total, weights = total + weight * (b @ h[source] + b0), weights + weight
        rows.append(a @ h[node] + a0 + total / (weights + 1e-6))
    out = h + norm(torch.stack(rows), layer.norm).relu()
    return out, e if layer.edge_norm is None else e + norm(torch.stack(gates), layer.edge_norm).relu()


def test_dense(batch: Batch) -> None:
    network = shake(GatedGCN(TASK, 8, num_layers=3).double())
    h = network.encoder(batch)
    first = network.edge_encoder.weight[:, 0] + network.edge_encoder.bias
    e = first.expand(batch.edge_index.size(1), -1)
    for layer in network.layers:
        h, e = dense_layer(layer, h, e, batch.edge_index)
    found, wanted = network(batch), network.head(h, None)
    assert_near(found, wanted, 1e-11)
    weights = list(network.parameters())
    assert_near(gradients(found, weights), gradients(wanted, weights), 1e-10)


def test_the_last_layer_leaves_the_edges_alone() -> None:
    network = GatedGCN(TASK, 8, num_layers=3)
    assert [layer.edge_norm is None for layer in network.layers] == [False, False, True]
