"""MoNet against loops over edges and PyG's layer."""

import torch
import torch.nn.functional as F
from obvious import dense_adjacency
from samples import assert_near, gradients, shake
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import GMMConv

from gnas.graph import GraphBatch
from gnas.model.baselines import MoNet
from gnas.model.baselines.monet import MoNetLayer
from gnas.model.edges import Edges
from gnas.model.task import Task

TASK = Task("node", "regression", 2, in_channels=4)


def mixture(layer: MoNetLayer, h: Tensor, edge_index: Tensor) -> Tensor:
    """Edge by edge and kernel by kernel."""
    degree = dense_adjacency(edge_index, len(h)).sum(1).to(h.dtype)
    out = [torch.zeros_like(h[0]) for _ in h]
    for source, target in edge_index.T.tolist():
        ends = torch.stack([(degree[source] + 1) ** -0.5, (degree[target] + 1) ** -0.5])
        u = torch.tanh(layer.project.weight @ ends + layer.project.bias)
        for k, weight in enumerate(layer.linear.weight.chunk(layer.kernels)):
            distance = ((u - layer.mean[k]) ** 2 * layer.inverse_sigma[k] ** 2).sum()
            out[target] = out[target] + torch.exp(-distance / 2) * (weight @ h[source])
    return torch.stack(out)


def test_dense(batch: Batch) -> None:
    network = shake(MoNet(TASK, 16, num_layers=2).double())
    h = network.encoder(batch)
    for layer in network.layers:
        out = mixture(layer, h, batch.edge_index)
        out = F.batch_norm(out, None, None, layer.norm.weight.flatten(), layer.norm.bias.flatten(), True).relu()
        h = h + out + layer.bias
    found, wanted = network(batch), network.head(h, None)
    assert_near(found, wanted, 1e-11)
    weights = list(network.parameters())
    assert_near(gradients(found, weights), gradients(wanted, weights), 1e-10)


def test_pyg(batch: Batch) -> None:
    layer = shake(MoNetLayer(16, 0.0, kernels=3).double()).eval()
    conv = GMMConv(16, 16, dim=2, kernel_size=3, aggr="add", bias=False).double()
    with torch.no_grad():
        conv.g.copy_(layer.linear.weight.T)
        conv.root.weight.zero_()
        conv.mu.copy_(layer.mean)
        conv.sigma.copy_(1 / layer.inverse_sigma)
    graph, h = GraphBatch.from_pyg(batch), torch.randn(len(batch.x), 16, dtype=torch.float64)
    ends = torch.rand(batch.edge_index.size(1), 2, dtype=torch.float64)
    u = torch.tanh(layer.project(ends))
    edge_index = torch.stack([graph.neighbors.source, graph.neighbors.target]).long()
    wanted = h + layer.norm(conv(h, edge_index, u)).relu() + layer.bias
    assert_near(layer(h, ends, graph, Edges.of(graph)), wanted, 1e-10)
