"""Recipes: each equals PyG's layer, or the class of its own, with the same weights."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from samples import assert_near, random_edges, shake
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATv2Conv, GINEConv, PNAConv, ResGatedGraphConv

from gnas.arch.genotype import Link
from gnas.arch.hand_made import HandMade
from gnas.arch.recipes import RECIPES, expand_recipe
from gnas.arch.space import SearchSpace
from gnas.arch.stack import StackSpace
from gnas.graph import GraphBatch
from gnas.model.baselines import BASELINES, HAND_MADE, GatedGCN, build_baseline
from gnas.model.build import build_network
from gnas.model.network import GAPConv, Network
from gnas.model.task import Task

NODES, CHANNELS, COLUMNS = 9, 8, 3
EDGES = random_edges(NODES, 25, seed=3)
TASK = Task("graph", "regression", 2, categories=(5,))
BONDS = dataclasses.replace(TASK, edge_categories=(4, 2))
every = pytest.mark.parametrize("name", RECIPES)


def rows(count: int, columns: int, seed: int) -> Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, ATTR = rows(NODES, CHANNELS, 1), rows(EDGES.size(1), COLUMNS, 2)


def layer(formula: str, mlp: int = 1) -> GAPConv:
    """One cell without norm and residual: what is before its ReLU is a layer of PyG."""
    conv = GAPConv(CHANNELS, formula, variant="bare", edge_dim=COLUMNS, norm=False, residual=False, mlp=mlp).double()
    with torch.no_grad():
        conv.edge_encoder.weight.copy_(rows(CHANNELS, COLUMNS, 4))
        conv.edge_encoder.bias.copy_(rows(1, CHANNELS, 5)[0])
    return conv


def message(conv: GAPConv, name: str) -> nn.Module:
    return next(stage.messages[name] for stage in conv.cell.in_order() if name in stage.messages)


def encoded(conv: GAPConv) -> Tensor:
    """What PyG's layers get as edge_attr: the columns after our linear map."""
    return conv.edge_encoder(ATTR)


@torch.no_grad()
def test_gine() -> None:
    first, second = nn.Linear(CHANNELS, CHANNELS).double(), nn.Linear(CHANNELS, CHANNELS).double()
    theirs = GINEConv(nn.Sequential(first, nn.ReLU(), second), eps=0.25, edge_dim=CHANNELS).double()
    ours = layer(RECIPES["gine"].formula, mlp=2)
    edge = message(ours, "edge").edge
    edge.weight.copy_(theirs.lin.weight.T[None])
    edge.bias.copy_(theirs.lin.bias)
    ours.cell.fuse.weight.copy_(torch.cat([1.25 * first.weight.T, first.weight.T])[None])
    ours.cell.fuse.bias.copy_(first.bias)
    ours.cell.fuse_second.weight.copy_(second.weight.T[None])
    ours.cell.fuse_second.bias.copy_(second.bias)
    assert_near(ours(X, EDGES, ATTR), theirs(X, EDGES, encoded(ours)).relu(), 1e-10)


def copy_relation(conv: GAPConv, weights: list[Tensor], biases: list[Tensor], edge: Tensor) -> None:
    """Weights and biases: those of the receiver, then those of the sender."""
    relation = conv.cell.relation
    relation.nodes.weight.copy_(torch.cat(weights))
    relation.nodes.bias.copy_(torch.cat(biases))
    relation.edges.weight.copy_(edge)


@torch.no_grad()
def test_gated_sum_is_the_residual_gated_graph_convolution() -> None:
    theirs = ResGatedGraphConv(CHANNELS, CHANNELS, edge_dim=CHANNELS).double()
    ours = layer("[identity | sum(gated)]")
    # Theirs joins the columns of edges to both ends of a gate, and to the sender of a message; here messages do not.
    key, query, value = theirs.lin_key, theirs.lin_query, theirs.lin_value
    value.weight[:, CHANNELS:] = 0
    ends = [key.weight[:, :CHANNELS], query.weight[:, :CHANNELS]]
    copy_relation(ours, ends, [key.bias, query.bias], (key.weight + query.weight)[:, CHANNELS:])
    message(ours, "gated").value.weight.copy_(value.weight[:, :CHANNELS].T[None])
    message(ours, "gated").value.bias.copy_(value.bias)
    ours.cell.fuse.weight.copy_(torch.cat([theirs.lin_skip.weight.T, torch.eye(CHANNELS).double()])[None])
    ours.cell.fuse.bias.copy_(theirs.bias)
    assert_near(ours(X, EDGES, ATTR), theirs(X, EDGES, encoded(ours)).relu(), 1e-10)


@torch.no_grad()
def test_gatv2() -> None:
    heads = 4
    theirs = GATv2Conv(
        CHANNELS, CHANNELS // heads, heads, edge_dim=CHANNELS, add_self_loops=False, residual=True
    ).double()
    ours = layer(RECIPES["gatv2"].formula)
    to, source = theirs.lin_r, theirs.lin_l
    copy_relation(ours, [to.weight, source.weight], [to.bias, source.bias], theirs.lin_edge.weight)
    attention = message(ours, "attention")
    attention.value.weight.copy_(theirs.lin_l.weight.T[None])
    attention.value.bias.copy_(theirs.lin_l.bias)
    attention.score.copy_(theirs.att)
    ours.cell.fuse.weight.copy_(torch.cat([theirs.res.weight.T, torch.eye(CHANNELS).double()])[None])
    ours.cell.fuse.bias.copy_(theirs.bias)
    assert_near(ours(X, EDGES, ATTR), theirs(X, EDGES, encoded(ours)).relu(), 1e-10)


@torch.no_grad()
def test_pna() -> None:
    names = ["max", "mean", "std", "sum"]  # a cell has its branches in this order
    theirs = PNAConv(CHANNELS, CHANNELS, names, ["identity"], deg=torch.ones(9).long(), edge_dim=CHANNELS).double()
    ours = layer(RECIPES["pna"].formula)
    before, after = theirs.pre_nns[0][0], theirs.post_nns[0][0]
    receiver, sender, edge = before.weight.split(CHANNELS, dim=1)
    biases = [before.bias, edge @ theirs.edge_encoder.bias]
    copy_relation(ours, [receiver, sender], biases, edge @ theirs.edge_encoder.weight)
    ours.cell.fuse.weight.copy_((theirs.lin.weight @ after.weight).T[None])
    ours.cell.fuse.bias.copy_(theirs.lin.weight @ after.bias + theirs.lin.bias)
    assert_near(ours(X, EDGES, ATTR), theirs(X, EDGES, encoded(ours)).relu(), 1e-5)


@torch.no_grad()
def copy_gatedgcn(ours: Network, theirs: GatedGCN) -> None:
    ours.encoder.load_state_dict(theirs.encoder.state_dict())
    ours.head.load_state_dict(theirs.head.state_dict())
    source = ours.edge_encoder if theirs.task.reads_edges else ours.edge_encoder.constant
    source.load_state_dict(theirs.edge_encoder.state_dict())
    for cell, one in zip(ours.cells, theirs.layers, strict=True):
        own, receiver, value, sender = one.nodes.weight.split(CHANNELS)
        own_bias, receiver_bias, value_bias, sender_bias = one.nodes.bias.split(CHANNELS)
        cell.relation.nodes.weight.copy_(torch.cat([receiver, sender]))
        cell.relation.nodes.bias.copy_(torch.cat([receiver_bias + one.edges.bias, sender_bias]))
        cell.relation.edges.weight.copy_(one.edges.weight)
        gated = next(stage.messages["gated"] for stage in cell.in_order() if stage.messages)
        gated.value.weight.copy_(value.T[None])
        gated.value.bias.copy_(value_bias)
        cell.fuse.weight.copy_(torch.cat([own.T, torch.eye(CHANNELS).double()])[None])
        cell.norm.load_state_dict(one.norm.state_dict())
        cell.norm.running_mean.sub_(own_bias)  # ours has no bias before the norm
        if one.edge_norm is not None:
            cell.edge_norm.load_state_dict(one.edge_norm.state_dict())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("task", [TASK, BONDS], ids=["ends", "bonds"])
def test_gatedgcn(task: Task, training: bool) -> None:
    theirs = shake(GatedGCN(task, CHANNELS, 3).double()).train(training)
    ours = Network(expand_recipe("gatedgcn", 3), task, CHANNELS).double().train(training)
    copy_gatedgcn(ours, theirs)
    x = torch.arange(NODES)[:, None] % 5
    attr = torch.randint(0, 8, (EDGES.size(1), 1), generator=torch.Generator().manual_seed(1)) % torch.tensor([4, 2])
    batch = GraphBatch.from_edges(x, EDGES, edge_attr=attr)
    assert_near(ours(batch), theirs(batch), 1e-9)


@every
def test_recipes_are_built_by_name_and_from_their_description(name: str) -> None:
    network = build_network(HandMade(name, 2, 8), BONDS, dropout=0.1)
    assert network.architecture == HandMade(name, 2, 8)
    if name in BASELINES:
        return
    assert isinstance(network, Network)
    assert network.genotype == expand_recipe(name, 2)
    assert {cell.config.dropout for cell in network.cells} == {0.1}
    assert build_baseline(name, BONDS, num_layers=2, budget=20_000).num_weights() <= 20_000
    data = Data(
        x=torch.zeros(3, 1).long(), edge_index=torch.tensor([[0, 1], [1, 2]]), edge_attr=torch.ones(2, 2).long()
    )
    assert network(Batch.from_data_list([data, data])).shape == (2, 2)


@every
def test_recipes_are_in_the_space(name: str) -> None:
    """With ``identity``, which without a transform is ``skip``, each is a genotype of the space and the same network."""
    found = expand_recipe(name, 2)
    links = [Link(k.source, k.target, k.operation.replace("skip", "identity")) for k in found[0].links]
    cell = dataclasses.replace(found[0], links=tuple(links))
    same = dataclasses.replace(found, cells=(cell,) * 2)
    space = SearchSpace(
        cell.nodes,
        cell.outputs,
        variant="bare",
        messages=("plain", "edge", "gated", "attention", "pair"),
        aggregators=("identity", "mean", "sum", "max", "symmetric", "std"),
        stack=StackSpace(ffn=(True, False), mlp=(1, 2), edges=("kept", "updated")),
    )
    assert same in space
    ours, theirs = (Network(one, BONDS, CHANNELS).double().eval() for one in (same, found))
    ours.load_state_dict(theirs.state_dict())
    attr = torch.zeros(EDGES.size(1), 2).long()
    batch = GraphBatch.from_edges(torch.arange(NODES)[:, None] % 5, EDGES, edge_attr=attr)
    assert_near(ours(batch), theirs(batch), 1e-12)


def test_all_names() -> None:
    assert list(HAND_MADE)[:7] == list(BASELINES)
    assert set(HAND_MADE) == {*BASELINES, *RECIPES}
