"""The plain PyG model that steps are compared with computes what our networks compute; the random graphs have the sizes
they are said to have."""

import numpy as np
import obvious
import pytest
import torch
from plain_layers import LAYERS, PlainHandMade, PlainRecipe
from plain_pyg import PlainNetwork, PlainSupernet, plain_network
from samples import assert_near, shake
from shapes import SHAPES, regular, synthetic, with_columns
from torch_geometric.data import Batch

from gnas.arch.space import SearchSpace
from gnas.data.benchmarks import find_facts
from gnas.graph import GraphBatch
from gnas.model import baselines
from gnas.model.cell import Cell
from gnas.model.network import Network
from gnas.model.supernet import Supernet
from gnas.model.task import Task

FEATURES = Task("graph", "regression", 2, in_channels=4)
NODES = Task("node", "classification", 3, in_channels=4, loss="weighted_cross_entropy", metric="class_accuracy")


@torch.no_grad()
def copied(plain: PlainNetwork, ours: torch.nn.Module) -> PlainNetwork:
    """The yardstick with the weights of our network."""
    plain.double()
    plain.encoder.load_state_dict(ours.encoder.linear.state_dict())
    plain.layers.load_state_dict(ours.head.layers.state_dict())
    for theirs, cell in zip(plain.cells, ours.cells, strict=True):
        theirs.fuse.weight.copy_(cell.fuse.weight[0].T)
        load_norm(theirs.norm, obvious.tensors(cell.norm, 0), "")
        found = obvious.places(cell)
        assert len(found) == len(theirs.operations)
        for (source, target, name), (own, after) in found.items():
            operation = theirs.operations[f"{source}-{target}-{name}"]
            if own:
                operation.operation.gate.weight.copy_(own["gate.weight"].T)
                operation.operation.gate.bias.copy_(own["gate.bias"][0])
            operation.linear.weight.copy_(after["linear.weight"].T)
            load_norm(operation.norm, after, "norm.")
    return plain


def load_norm(norm: torch.nn.BatchNorm1d, tensors: dict, prefix: str) -> None:
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(norm, name).copy_(tensors[prefix + name].flatten())


def with_targets(batch: Batch, task: Task) -> GraphBatch:
    generator = torch.Generator().manual_seed(3)
    rows = batch.num_nodes if task.level == "node" else batch.num_graphs
    if task.kind == "classification":
        batch.y = torch.randint(3, (rows,), generator=generator)
    else:
        batch.y = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    return GraphBatch.from_pyg(batch)


@pytest.mark.parametrize("task", [FEATURES, NODES], ids=["graph", "node"])
@pytest.mark.parametrize("training", [True, False])
def test_the_plain_supernet_equals_ours(batch: Batch, task: Task, training: bool) -> None:
    space, given = SearchSpace(2, 2), with_targets(batch, task)
    ours = shake(Supernet(space, task, 8, 2), 0).double().train(training)
    plain = copied(PlainSupernet(space, task, 8, 2), ours).train(training)
    with torch.no_grad():
        alphas = [alpha for cell in range(2) for alpha in ours.link_alphas(cell)]
        for mine, alpha in zip(plain.alphas, alphas, strict=True):
            mine.copy_(alpha)
    out, wanted = ours(given), plain(batch)
    assert_near(out, wanted, 1e-10)
    losses = task.loss_value(out, given), plain.loss(wanted, batch.y)
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)
    theirs = torch.autograd.grad(losses[1], list(plain.alphas))
    assert max(float(gradient.abs().max()) for gradient in theirs) > 0
    assert_near(by_link(ours, torch.autograd.grad(losses[0], ours.alphas())), list(theirs), 1e-9)


def by_link(supernet: Supernet, gradients: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Gradients of the alphas, link by link and cell by cell."""
    found = []
    for filters, aggregators in zip(*gradients, strict=True):
        rows = {False: iter(filters), True: iter(aggregators)}
        found += [next(rows[supernet.space.level(link.target) == 2]) for link in supernet.space.links()]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_plain_network_equals_ours(batch: Batch, seed: int) -> None:
    genotype = SearchSpace().sample(np.random.default_rng(seed), 2)
    given = with_targets(batch, FEATURES)
    ours = shake(Network(genotype, FEATURES, 8), 1).double().train()
    plain = copied(plain_network(genotype, FEATURES, 8), ours).train()
    out, wanted = ours(given), plain(batch)
    assert_near(out, wanted, 1e-10)
    (mine,) = torch.autograd.grad(FEATURES.loss_value(out, given), ours.encoder.linear.weight)
    (theirs,) = torch.autograd.grad(plain.loss(wanted, batch.y), plain.encoder.weight)
    assert_near(mine, theirs, 1e-9)


def load_linear(theirs: torch.nn.Linear, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    theirs.weight.copy_(weight)
    if bias is not None:
        theirs.bias.copy_(bias.flatten())


@torch.no_grad()
def copied_recipe(plain: PlainRecipe, ours: Network) -> PlainRecipe:
    """The plain recipe with the weights of our network."""
    plain.double()
    plain.head.layers.load_state_dict(ours.head.layers.state_dict())
    plain.encoder.x.weight.copy_(ours.encoder.weight)
    plain.encoder.walks.weight.copy_(ours.encoder.pe.linear.weight)
    load_norm(plain.encoder.norm, ours.encoder.pe.norm.state_dict(), "")
    plain.edge_encoder.attr.weight.copy_(ours.edge_encoder.weight)
    plain.edge_encoder.walks.weight.copy_(ours.edge_encoder.pe.weight)
    load_norm(plain.edge_encoder.norm, ours.edge_encoder.norm.state_dict(), "")
    for theirs, cell in zip(plain.layers, ours.cells, strict=True):
        copy_cell(theirs, cell)
    return plain


def copy_cell(theirs: torch.nn.Module, cell: Cell) -> None:
    (message,) = (one for stage in cell.in_order() for one in stage.messages.values())
    if theirs.gated:
        pairs = zip((theirs.receiver, theirs.sender), (0, 1), strict=True)
        for linear, part in pairs:
            load_linear(linear, cell.relation.nodes.weight.chunk(2)[part], cell.relation.nodes.bias.chunk(2)[part])
        load_linear(theirs.edge, cell.relation.edges.weight, None)
        load_linear(theirs.value, message.value.weight[0].T, message.value.bias)
        if theirs.edge_norm is not None:
            load_norm(theirs.edge_norm, cell.edge_norm.state_dict(), "")
    else:
        load_linear(theirs.edge, message.edge.weight[0].T, message.edge.bias)
        load_linear(theirs.second, cell.fuse_second.weight[0].T, None)
    load_linear(theirs.fuse, cell.fuse.weight[0].T, cell.fuse.bias)
    load_norm(theirs.norm, cell.norm.state_dict(), "")
    load_norm(theirs.last_norm, cell.ffn.norm.state_dict(), "")
    theirs.wide.load_state_dict(cell.ffn.first.state_dict())
    theirs.narrow.load_state_dict(cell.ffn.second.state_dict())


@pytest.mark.parametrize("name", ["gatedgcn+", "gin+"])
def test_the_plain_recipe_equals_ours(name: str) -> None:
    benchmark = with_columns("zinc", 4)
    task = benchmark.task
    ours = shake(baselines.build_recipe(name, task, 8, 3), 1).double().train()
    plain = copied_recipe(PlainRecipe(name, task, 8, 3, 0.0), ours).train()
    assert sum(p.numel() for p in plain.parameters()) == ours.num_weights()
    graphs = benchmark.train.batch()
    batch = Batch.from_data_list([benchmark.train[k] for k in range(4)])
    for key in ("node_pe", "edge_pe", "y"):
        batch[key] = batch[key].double()
    out, wanted = ours(graphs), plain(batch)
    assert_near(out, wanted, 1e-9)
    (mine,) = torch.autograd.grad(task.loss_value(out, graphs), ours.edge_encoder.weight)
    (theirs,) = torch.autograd.grad(plain.loss(wanted, batch.y), plain.edge_encoder.attr.weight)
    assert_near(mine, theirs, 1e-7)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shape", ["zinc", "pattern"])
def test_plain_hand_made_networks_have_as_many_weights(name: str, shape: str) -> None:
    task = find_facts(shape).task
    ours = baselines.build_baseline(name, task)
    assert sum(p.numel() for p in PlainHandMade(name, task, ours.channels, 4).parameters()) == ours.num_weights()


@pytest.mark.parametrize("shape", SHAPES)
def test_random_graphs_have_the_published_sizes(shape: str) -> None:
    facts, graphs = find_facts(shape), synthetic(shape, (200, 2, 2)).train
    assert graphs.num_nodes / 200 == pytest.approx(facts.nodes / sum(facts.graphs), rel=0.05)
    assert graphs.num_edges / 200 == pytest.approx(facts.edges, rel=0.06)
    assert facts.smallest <= int(graphs.node_counts.min()) <= int(graphs.node_counts.max()) <= facts.largest
    graph = torch.repeat_interleave(torch.arange(200), graphs.edge_counts)
    source, target = graphs.edge_index.long()
    assert bool((source != target).all())
    assert bool((torch.maximum(source, target) < graphs.node_counts[graph]).all())
    assert len(((graph * 1000 + source) * 1000 + target).unique()) == graphs.num_edges


def test_regular_graphs_have_the_degree_asked_for() -> None:
    graphs = regular(3, 20, 7).train
    assert graphs.node_counts.tolist() == [20] * 3
    assert graphs.batch().neighbors.degree().tolist() == [7] * 60
