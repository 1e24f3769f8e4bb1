"""Supernets over messages and edge states: relaxation, derivation, weights for derived networks."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from samples import assert_near, gradients, pad, shake
from torch import Tensor
from torch_geometric.data import Batch

from gnas.arch.space import SearchSpace
from gnas.arch.stack import StackSpace
from gnas.graph import GraphBatch
from gnas.model.network import Network
from gnas.model.supernet import Supernet
from gnas.model.task import Task

MESSAGES = ("plain", "edge", "gated", "attention", "pair")
SPACE = SearchSpace(
    2,
    2,
    aggregators=("identity", "mean", "sum", "max", "std"),
    variant="bare",
    messages=MESSAGES,
    stack=StackSpace(ffn=(True, False), edges=("updated", "kept"), mlp=(2, 1), readout=("mean_max", "sum")),
)
TASK = Task("graph", "regression", 2, in_channels=4, edge_channels=3)


def build(space: SearchSpace = SPACE, task: Task = TASK, **options) -> Supernet:
    return shake(Supernet(space, task, 4, 2, **options).double())


def with_edges(batch: Batch) -> GraphBatch:
    generator = torch.Generator().manual_seed(3)
    batch.edge_attr = torch.randn(batch.edge_index.size(1), 3, generator=generator, dtype=torch.float64)
    return dataclasses.replace(GraphBatch.from_pyg(batch), y=None)


@torch.no_grad()
def choose_only(supernet: Supernet) -> None:
    """Push each node's strongest candidate to a weight of 1, and all others of its link to 0; other links to zero."""
    chosen = [{choice.link for choice in cell} for cell in supernet.choices()]
    for cell, links in enumerate(chosen):
        for link, alpha in zip(supernet.links, supernet.link_alphas(cell), strict=True):
            names = [one.operation for one in links if (one.source, one.target) == (link.source, link.target)]
            alpha.fill_(-500.0)
            alpha[link.candidates.index(names[0] if names else "zero")] = 500.0


@pytest.mark.parametrize("training", [True, False])
def test_a_decided_supernet_is_the_network_it_derives(batch: Batch, training: bool) -> None:
    supernet = build().train(training)
    choose_only(supernet)
    genotype = supernet.genotype()
    assert genotype in SPACE
    assert genotype.stack == SPACE.stack.first()
    network = supernet.inherit_weights(genotype).train(training)
    graphs = with_edges(batch)
    assert_near(network(graphs), supernet(graphs), 1e-9)


def test_every_weight_and_alpha_gets_a_gradient(batch: Batch) -> None:
    supernet = build()
    graphs = with_edges(batch)
    found = torch.autograd.grad(supernet(graphs).square().sum(), list(supernet.parameters()), allow_unused=True)
    named = zip(supernet.named_parameters(), found, strict=True)
    assert [name for (name, _), grad in named if grad is None] == []
    assert all(bool(alpha.abs().sum() > 0) for alpha in gradients(supernet(graphs), supernet.alphas()))


def test_padding_changes_nothing(batch: Batch) -> None:
    plain, results = with_edges(batch), []
    assert plain.edge_attr is not None
    for padded in (False, True):
        graphs = plain
        if padded:
            graphs = dataclasses.replace(pad(plain), edge_attr=torch.cat([plain.edge_attr, 100 * plain.edge_attr[:4]]))
        supernet = build().train()
        out: Tensor = supernet(graphs)[:3]
        results.append([out, *gradients(out, list(supernet.parameters()))])
    assert_near(results[1], results[0], 1e-9)


def test_networks_with_other_choices_inherit_what_they_share(batch: Batch) -> None:
    supernet = build()
    genotype = supernet.genotype()
    other = dataclasses.replace(genotype, stack=dataclasses.replace(genotype.stack, ffn=False, edges="kept"))
    network = supernet.inherit_weights(other)
    assert isinstance(network, Network)
    assert network(with_edges(batch)).shape == (3, 2)


def test_other_readouts_inherit_all_but_the_head(batch: Batch) -> None:
    supernet = build()
    genotype = supernet.genotype()
    other = dataclasses.replace(genotype, stack=dataclasses.replace(genotype.stack, readout="sum", mlp=1))
    assert supernet.inherit_weights(other)(with_edges(batch)).shape == (3, 2)
