"""The recipes GCN+, GIN+, GatedGCN+ and PNA+ equal networks made of PyG's layers, with the same weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from samples import assert_near, random_edges, shake
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, MessagePassing, ResGatedGraphConv, global_mean_pool
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_undirected

from gnas.arch.recipes import expand_recipe
from gnas.model.cell import Cell
from gnas.model.network import Network
from gnas.model.task import Task

C, LAYERS = 8, 3
TASK = Task("graph", "regression", 2, categories=(5,), edge_categories=(4,))


class GcnConv(MessagePassing):
    """GCN whose messages read the edge, as in OGB's examples: ReLU(x_j + W e), scaled by both degrees."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.own, self.sum, self.edge = (
            nn.Linear(C, C, bias=False),
            nn.Linear(C, C, bias=False),
            nn.Linear(C, C),
        )

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, None]:
        edge_index, scale = gcn_norm(edge_index, None, x.size(0), add_self_loops=False, dtype=x.dtype)
        return self.own(x) + self.sum(self.propagate(edge_index, x=x, e=self.edge(e), scale=scale)), None

    def message(self, x_j: Tensor, e: Tensor, scale: Tensor) -> Tensor:
        return scale[:, None] * F.relu(x_j + e)

    def copy_to(self, cell: Cell, blocks: dict[str, int]) -> None:
        copy_edge(cell, "symmetric(edge)", self.edge)
        copy_fusion(cell, blocks, {"identity": self.own.weight, "symmetric(edge)": self.sum.weight})


class GinConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = nn.Sequential(nn.Linear(C, C), nn.ReLU(), nn.Linear(C, C, bias=False))
        self.conv = GINEConv(layers, edge_dim=C)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, None]:
        return self.conv(x, edge_index, e), None

    def copy_to(self, cell: Cell, blocks: dict[str, int]) -> None:
        first, _, second = self.conv.nn
        copy_edge(cell, "sum(edge)", self.conv.lin)
        copy_fusion(cell, blocks, {"identity": (1 + self.conv.eps) * first.weight, "sum(edge)": first.weight})
        cell.fuse.bias.copy_(first.bias)
        cell.fuse_second.weight.copy_(second.weight.T[None])


class PnaConv(nn.Module):
    """One GINE for each aggregator, and the node itself."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(C, C, bias=False)
        self.convs = nn.ModuleDict({name: self._conv(name) for name in ("sum", "mean", "max")})

    def _conv(self, name: str) -> GINEConv:
        return GINEConv(nn.Linear(C, C, bias=False), edge_dim=C, aggr=name)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, None]:
        return self.own(x) + sum(conv(x, edge_index, e) for conv in self.convs.values()), None

    def copy_to(self, cell: Cell, blocks: dict[str, int]) -> None:
        for name, conv in self.convs.items():
            copy_edge(cell, f"{name}(edge)", conv.lin)
        weights = {f"{name}(edge)": conv.nn.weight for name, conv in self.convs.items()}
        own = self.own.weight + sum((1 + conv.eps) * conv.nn.weight for conv in self.convs.values())
        copy_fusion(cell, blocks, {"identity": own, **weights})


class GatedConv(nn.Module):
    """The residual gated layer of PyG over the sum of its gates, which is the same layer with values of 1."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.own = nn.Linear(C, C, bias=False)
        self.conv = ResGatedGraphConv(C, C, edge_dim=C, root_weight=False, bias=False)
        self.edge_norm = None if last else nn.BatchNorm1d(C)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        conv, (source, target) = self.conv, edge_index
        gates = ResGatedGraphConv(C, C, edge_dim=C, root_weight=False, bias=False).to(x)
        gates.lin_key, gates.lin_query = conv.lin_key, conv.lin_query
        nn.init.zeros_(gates.lin_value.weight)
        nn.init.ones_(gates.lin_value.bias)
        r = conv.lin_key(torch.cat([x[target], e], 1)) + conv.lin_query(torch.cat([x[source], e], 1))
        out = self.own(x) + conv(x, edge_index, e) / (gates(x, edge_index, e) + 1e-6)
        return out, e if self.edge_norm is None else e + F.relu(self.edge_norm(r))

    def copy_to(self, cell: Cell, blocks: dict[str, int]) -> None:
        key, query, value = self.conv.lin_key, self.conv.lin_query, self.conv.lin_value
        value.weight[:, C:] = 0  # in the space a value reads the sender alone
        cell.relation.nodes.weight.copy_(torch.cat([key.weight[:, :C], query.weight[:, :C]]))
        cell.relation.nodes.bias.copy_(torch.cat([key.bias, query.bias]))
        cell.relation.edges.weight.copy_((key.weight + query.weight)[:, C:])
        message, row = find_message(cell, "mean(gated)")
        message.value.weight[row] = value.weight[:, :C].T
        message.value.bias[row] = value.bias
        copy_fusion(cell, blocks, {"identity": self.own.weight, "mean(gated)": torch.eye(C)})
        if self.edge_norm is not None:
            copy_norm(cell.edge_norm, self.edge_norm)


CONVS: dict[str, Callable[[bool], nn.Module]] = {
    "gcn+": lambda last: GcnConv(),
    "gin+": lambda last: GinConv(),
    "gatedgcn+": GatedConv,
    "pna+": lambda last: PnaConv(),
}


class PlainLayer(nn.Module):
    """What GNN+ has around a layer: norm, ReLU, residual, feed-forward layer with residual, norm."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm, self.last = conv, nn.BatchNorm1d(C), nn.BatchNorm1d(C)
        self.ffn = nn.Sequential(nn.Linear(C, 2 * C), nn.ReLU(), nn.Linear(2 * C, C))

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        out, state = self.conv(x, edge_index, e)
        h = x + F.relu(self.norm(out))
        return self.last(h + self.ffn(h)), e if state is None else state


class PlainNetwork(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.nodes, self.edges = nn.Embedding(5, C), nn.Embedding(4, C)
        self.layers = nn.ModuleList(PlainLayer(CONVS[name](n == LAYERS - 1)) for n in range(LAYERS))
        self.head = nn.Sequential(nn.Linear(C, 4), nn.ReLU(), nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 2))

    def forward(self, batch: Batch) -> Tensor:
        h, e = self.nodes(batch.x[:, 0]), self.edges(batch.edge_attr[:, 0])
        for layer in self.layers:
            h, e = layer(h, batch.edge_index, e)
        return self.head(global_mean_pool(h, batch.batch))


def find_message(cell: Cell, operation: str) -> tuple[nn.Module, int]:
    """The module of a message and its row there."""
    found = {key[2]: places for stage in cell.in_order() for key, places in stage.places().items()}
    return found[operation][0]


def copy_edge(cell: Cell, operation: str, linear: nn.Linear) -> None:
    message, row = find_message(cell, operation)
    message.edge.weight[row] = linear.weight.T
    message.edge.bias[row] = linear.bias


def copy_fusion(cell: Cell, blocks: dict[str, int], weights: dict[str, Tensor]) -> None:
    assert set(blocks) == set(weights)
    for name, weight in weights.items():
        cell.fuse.weight[0, blocks[name] * C : (blocks[name] + 1) * C] = weight.T


def copy_norm(ours: nn.Module, theirs: nn.BatchNorm1d) -> None:
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(ours, name).copy_(getattr(theirs, name))


@torch.no_grad()
def copy_weights(ours: Network, theirs: PlainNetwork) -> None:
    ours.encoder.weight.copy_(theirs.nodes.weight)
    ours.edge_encoder.weight.copy_(theirs.edges.weight)
    blocks = {path[-1]: number for number, path in enumerate(ours.genotype[0].paths())}
    for cell, layer in zip(ours.cells, theirs.layers, strict=True):
        layer.conv.copy_to(cell, blocks)
        copy_norm(cell.norm, layer.norm)
        copy_norm(cell.ffn.norm, layer.last)
        cell.ffn.first.load_state_dict(layer.ffn[0].state_dict())
        cell.ffn.second.load_state_dict(layer.ffn[2].state_dict())
    for mine, layer in zip(ours.head.layers, theirs.head[::2], strict=True):
        mine.load_state_dict(layer.state_dict())


def molecules() -> Batch:
    """Three graphs with edges both ways."""
    graphs = []
    for seed in (1, 2, 3):
        generator = torch.Generator().manual_seed(seed)
        edges = to_undirected(random_edges(6, 9, seed))
        attr = torch.randint(4, (edges.size(1), 1), generator=generator)
        graphs.append(Data(torch.randint(5, (6, 1), generator=generator), edges, attr))
    return Batch.from_data_list(graphs)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CONVS)
def test_recipes_equal_networks_of_pygs_layers(name: str, training: bool) -> None:
    theirs = shake(PlainNetwork(name).double()).train(training)
    ours = Network(expand_recipe(name, LAYERS), TASK, C).double().train(training)
    copy_weights(ours, theirs)
    batch = molecules()
    out, wanted = ours(batch), theirs(batch)
    assert_near(out, wanted, 1e-9)
    mine, other = ours.edge_encoder.weight, theirs.edges.weight
    found, expected = torch.autograd.grad(out.square().sum(), mine), torch.autograd.grad(wanted.square().sum(), other)
    assert float(expected[0].abs().max()) > 0
    assert_near(list(found), list(expected), 1e-8)
