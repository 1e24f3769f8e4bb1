"""Hand-made networks and today's recipes in plain PyG: one module per layer, to compare with.

Layers are PyG's (``GCNConv``, ``GINConv``, ``SAGEConv``, ``GATConv``, ``GMMConv``) or, where PyG has no such layer, a
``MessagePassing`` of a few lines. Norms are ``nn.BatchNorm1d``. Nothing is fused or recorded. Tests
compare the recipes with the package's (outputs and gradients); those in tests/model/baselines compare the layers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from plain_pyg import PlainModel
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GMMConv,
    MessagePassing,
    SAGEConv,
    global_add_pool,
    global_mean_pool,
)
from torch_geometric.utils import degree, scatter

from gnas.model.task import Task

POOLS = {"sum": global_add_pool, "mean": global_mean_pool}


class Input(nn.Module):
    """Embeddings of nodes: of the category or the features, plus a linear map of the walks."""

    def __init__(self, task: Task, channels: int) -> None:
        super().__init__()
        self.categories = bool(task.categories)
        self.x = (
            nn.Embedding(task.categories[0], channels) if self.categories else nn.Linear(task.in_channels, channels)
        )
        self.norm = nn.BatchNorm1d(task.walks) if task.walks else None
        self.walks = nn.Linear(task.walks, channels, bias=False) if task.walks else None

    def forward(self, batch: Batch) -> Tensor:
        h = self.x(batch.x[:, 0] if self.categories else batch.x)
        return h if self.walks is None else h + self.walks(self.norm(batch.node_pe))


class EdgeInput(nn.Module):
    """Embeddings of edges: of the category, the features or a constant, plus a linear map of the walks."""

    def __init__(self, task: Task, channels: int) -> None:
        super().__init__()
        self.task = task
        self.walks = nn.Linear(task.edge_walks, channels, bias=False) if task.edge_walks else None
        self.norm = nn.BatchNorm1d(task.edge_walks) if task.edge_walks else None
        if task.edge_categories:
            self.attr: nn.Module = nn.Embedding(task.edge_categories[0], channels)
        elif task.edge_channels or not task.edge_walks:
            self.attr = nn.Linear(task.edge_channels or 1, channels)

    def forward(self, batch: Batch) -> Tensor:
        e = torch.zeros((), device=batch.edge_index.device)
        if self.task.edge_categories:
            e = self.attr(batch.edge_attr[:, 0])
        elif self.task.edge_channels:
            e = self.attr(batch.edge_attr)
        elif not self.task.edge_walks:
            e = self.attr(torch.ones(batch.edge_index.size(1), 1, device=batch.edge_index.device))
        return e if self.walks is None else e + self.walks(self.norm(batch.edge_pe))


class Output(nn.Module):
    """Read-out and an MLP."""

    def __init__(self, task: Task, channels: int) -> None:
        super().__init__()
        self.task = task
        sizes = [channels, max(channels // 2, 1), max(channels // 4, 1), task.num_outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, h: Tensor, batch: Batch) -> Tensor:
        if self.task.level == "graph":
            h = POOLS[self.task.readout](h, batch.batch, batch.num_graphs)
        for layer in self.layers[:-1]:
            h = F.relu(layer(h))
        return self.layers[-1](h)


class SumOutput(nn.Module):
    """GIN's: a linear map of the sum over nodes after every layer, all added."""

    def __init__(self, task: Task, channels: int, layers: int) -> None:
        super().__init__()
        self.graph = task.level == "graph"
        self.linears = nn.ModuleList(nn.Linear(channels, task.num_outputs) for _ in range(layers + 1))

    def forward(self, hidden: list[Tensor], batch: Batch) -> Tensor:
        read = [global_add_pool(h, batch.batch, batch.num_graphs) if self.graph else h for h in hidden]
        return torch.stack([linear(h) for linear, h in zip(self.linears, read, strict=True)]).sum(0)


class Gated(MessagePassing):
    """Senders' values through the gate of their edge, divided by the sum of the gates."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, edge_index: Tensor, value: Tensor, receiver: Tensor, sender: Tensor, e: Tensor) -> Tensor:
        self.relation = None
        out = self.propagate(edge_index, value=value, receiver=receiver, sender=sender, e=e)
        gates = scatter(torch.sigmoid(self.relation), edge_index[1], 0, value.size(0), "sum")
        return out / (gates + 1e-6)

    def message(self, value_j: Tensor, receiver_i: Tensor, sender_j: Tensor, e: Tensor) -> Tensor:
        self.relation = receiver_i + sender_j + e
        return torch.sigmoid(self.relation) * value_j


class EdgeSum(MessagePassing):
    """GINE's messages: ReLU of the sender plus the edge, summed."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, edge_index: Tensor, h: Tensor, e: Tensor) -> Tensor:
        return self.propagate(edge_index, h=h, e=e)

    def message(self, h_j: Tensor, e: Tensor) -> Tensor:
        return F.relu(h_j + e)


class RecipeLayer(nn.Module):
    """A layer of GatedGCN+ or GIN+: messages, fusion with the node itself, norm, residual, feed-forward layer."""

    def __init__(self, channels: int, dropout: float, gated: bool, last: bool) -> None:
        super().__init__()
        self.gated, self.dropout = gated, dropout
        self.conv = Gated() if gated else EdgeSum()
        self.edge = nn.Linear(channels, channels, bias=not gated)
        if gated:
            self.receiver, self.sender = nn.Linear(channels, channels), nn.Linear(channels, channels)
            self.value = nn.Linear(channels, channels)
            self.edge_norm = None if last else nn.BatchNorm1d(channels)
        self.fuse = nn.Linear(2 * channels, channels, bias=not gated)
        self.second = None if gated else nn.Linear(channels, channels, bias=False)
        self.norm, self.last_norm = nn.BatchNorm1d(channels), nn.BatchNorm1d(channels)
        self.wide, self.narrow = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        if self.gated:
            received = self.conv(edge_index, self.value(x), self.receiver(x), self.sender(x), self.edge(e))
            if self.edge_norm is not None:
                e = e + F.relu(self.edge_norm(self.conv.relation))
        else:
            received = self.conv(edge_index, x, self.edge(e))
        out = self.fuse(torch.cat([x, received], dim=1))
        out = F.relu(self.norm(out if self.second is None else self.second(F.relu(out))))
        h = x + self.drop(out)
        out = self.drop(self.narrow(self.drop(F.relu(self.wide(h)))))
        return self.last_norm(h + out), e

    def drop(self, h: Tensor) -> Tensor:
        return F.dropout(h, self.dropout, self.training) if self.dropout else h


class PlainRecipe(PlainModel):
    """GatedGCN+ or GIN+."""

    def __init__(self, name: str, task: Task, channels: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.task = task
        gated = name == "gatedgcn+"
        self.encoder, self.edge_encoder = Input(task, channels), EdgeInput(task, channels)
        self.layers = nn.ModuleList(RecipeLayer(channels, dropout, gated, n == layers - 1) for n in range(layers))
        self.head = Output(task, channels)

    def forward(self, batch: Batch) -> Tensor:
        h, e = self.encoder(batch), self.edge_encoder(batch)
        for layer in self.layers:
            h, e = layer(h, batch.edge_index, e)
        return self.head(h, batch)


class PlainHandMade(PlainModel):
    """One of the seven networks of the benchmark. Layers are called as ``layer(h, edge_index, columns of edges)``."""

    def __init__(self, name: str, task: Task, channels: int, layers: int) -> None:
        super().__init__()
        self.task, self.name = task, name
        width = 8 * channels if name == "gat" else channels
        self.encoder = Input(task, width)
        self.layers = nn.ModuleList(LAYERS[name](width, n == layers - 1) for n in range(layers))
        self.head = SumOutput(task, width, layers) if name == "gin" else Output(task, width)
        self.edge = nn.Linear(1, width) if name == "gatedgcn" else None

    def forward(self, batch: Batch) -> Tensor:
        hidden, more = [self.encoder(batch)], None
        if self.name == "monet":
            scale = (degree(batch.edge_index[1], batch.num_nodes) + 1).rsqrt().to(hidden[0].dtype)[:, None]
            more = torch.cat([scale[batch.edge_index[0]], scale[batch.edge_index[1]]], dim=1)
        if self.edge is not None:
            more = self.edge(self.edge.weight.new_ones(batch.edge_index.size(1), 1))
        for layer in self.layers:
            found = layer(hidden[-1], batch.edge_index, more)
            h, more = found if isinstance(found, tuple) else (found, more)
            hidden.append(h)
        return self.head(hidden if self.name == "gin" else hidden[-1], batch)


class MLPLayer(nn.Module):
    def __init__(self, channels: int, last: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, channels)

    def forward(self, h: Tensor, edge_index: Tensor, more: Tensor | None) -> Tensor:
        return F.relu(self.linear(h))


class ConvLayer(nn.Module):
    """A layer of PyG, batch norm, activation, residual."""

    def __init__(self, conv: nn.Module, width: int, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.conv, self.norm, self.activation = conv, nn.BatchNorm1d(width), activation

    def forward(self, h: Tensor, edge_index: Tensor, more: Tensor | None) -> Tensor:
        return h + self.activation(self.norm(self.conv(h, edge_index)))


class SageLayer(ConvLayer):
    def forward(self, h: Tensor, edge_index: Tensor, more: Tensor | None) -> Tensor:
        return h + self.norm(F.relu(self.conv(h, edge_index)))


class MoNetLayer(nn.Module):
    def __init__(self, channels: int, last: bool) -> None:
        super().__init__()
        self.project = nn.Linear(2, 2)
        self.conv = GMMConv(channels, channels, dim=2, kernel_size=3, aggr="add", root_weight=False, bias=False)
        self.conv.root = None  # PyG 2.7 reads it
        self.norm, self.bias = nn.BatchNorm1d(channels), nn.Parameter(torch.zeros(channels))

    def forward(self, h: Tensor, edge_index: Tensor, more: Tensor) -> Tensor:
        return h + F.relu(self.norm(self.conv(h, edge_index, torch.tanh(self.project(more))))) + self.bias


class GatedLayer(nn.Module):
    def __init__(self, channels: int, last: bool) -> None:
        super().__init__()
        self.own, self.value = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.receiver, self.sender = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.edge, self.conv, self.norm = nn.Linear(channels, channels), Gated(), nn.BatchNorm1d(channels)
        self.edge_norm = None if last else nn.BatchNorm1d(channels)

    def forward(self, h: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        received = self.conv(edge_index, self.value(h), self.receiver(h), self.sender(h), self.edge(e))
        if self.edge_norm is not None:
            e = e + F.relu(self.edge_norm(self.conv.relation))
        return h + F.relu(self.norm(self.own(h) + received)), e


def gcn_layer(channels: int, last: bool) -> nn.Module:
    return ConvLayer(GCNConv(channels, channels, add_self_loops=False), channels)


def gin_layer(channels: int, last: bool) -> nn.Module:
    first, second = nn.Linear(channels, channels), nn.Linear(channels, channels)
    return ConvLayer(
        GINConv(nn.Sequential(first, nn.BatchNorm1d(channels), nn.ReLU(), second), train_eps=True), channels
    )


def sage_layer(channels: int, last: bool) -> nn.Module:
    return SageLayer(SAGEConv(channels, channels, aggr="max", project=True, normalize=True), channels)


def gat_layer(width: int, last: bool) -> nn.Module:
    heads = 1 if last else 8
    return ConvLayer(GATConv(width, width // heads, heads, add_self_loops=False, bias=False), width, F.elu)


LAYERS: dict[str, Callable[[int, bool], nn.Module]] = {
    "mlp": MLPLayer,
    "gcn": gcn_layer,
    "gin": gin_layer,
    "graphsage": sage_layer,
    "gat": gat_layer,
    "gatedgcn": GatedLayer,
    "monet": MoNetLayer,
}
