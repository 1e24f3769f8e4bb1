"""Large messages are computed again in the backward pass: equal results, less memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from samples import assert_near, gradients, random_edges, shake
from torch import Tensor, nn

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.arch.stack import Stack, StackSpace
from gnas.graph import GraphBatch
from gnas.model import edges as edges_module
from gnas.model.network import Network
from gnas.model.supernet import Supernet
from gnas.model.task import Task

MESSAGES = ("plain", "edge", "gated", "attention", "pair")
TASK = Task("node", "classification", 3, in_channels=4, edge_channels=3)
STACK = Stack(ffn=True, edges="updated")
AGGREGATORS = ("identity", "mean", "sum", "max", "symmetric", "std")
FORMULA = "[identity | mean(gated) | max(gated(sparse)) | std(attention) | sum(edge) | symmetric(pair)]"
NODES, EDGES = 40, random_edges(40, 400, seed=3)


def network(variant: str) -> nn.Module:
    return Network(Genotype(gap.genotype(FORMULA, 2).cells, variant, STACK), TASK, 8)


def supernet(variant: str) -> nn.Module:
    stack = StackSpace(ffn=(True,), edges=("updated",))
    space = SearchSpace(2, 2, aggregators=AGGREGATORS, variant=variant, messages=MESSAGES, stack=stack)
    return Supernet(space, TASK, 8, 2)


def graphs() -> GraphBatch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(NODES, 4, generator=generator, dtype=torch.float64)
    attr = torch.randn(EDGES.size(1), 3, generator=generator, dtype=torch.float64)
    return GraphBatch.from_edges(x, EDGES, edge_attr=attr)


def evaluate(make, variant: str) -> tuple[list[Tensor], int]:
    """Outputs, gradients and statistics, and the bytes that are kept for the backward pass."""
    model = shake(make(variant).double()).train()
    own = {one.untyped_storage().data_ptr() for one in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(value: Tensor) -> Tensor:
        if value.untyped_storage().data_ptr() not in own:
            kept[value.untyped_storage().data_ptr()] = value
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        out = model(graphs())
    size = sum(value.untyped_storage().nbytes() for value in kept.values())
    statistics = [value for name, value in model.named_buffers() if "running" in name]
    return [out, *gradients(out, list(model.parameters())), *statistics], size


@pytest.mark.parametrize("variant", ["bare", "paper"])
@pytest.mark.parametrize("make", [network, supernet])
def test_large_messages_are_computed_again(make, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, usual = evaluate(make, variant)
    monkeypatch.setattr(edges_module, "LARGE", 0)
    again, less = evaluate(make, variant)
    assert_near(again, kept, 1e-10)
    assert less < 0.6 * usual


def test_the_number_of_edges_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    edges, x = edges_module.Edges.of(graphs()), torch.zeros(NODES, 8)
    assert not edges_module.is_large(edges, x)
    monkeypatch.setattr(edges_module, "LARGE", EDGES.size(1) * 8 * 4)
    assert edges_module.is_large(edges, x)
    assert not edges_module.is_large(edges, x[:, :4])
    with torch.no_grad():
        assert not edges_module.is_large(edges, x)


def test_mixed_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for large in (2**60, 0):
        monkeypatch.setattr(edges_module, "LARGE", large)
        model = shake(supernet("bare")).train()
        batch = graphs()
        assert batch.edge_attr is not None
        batch = replace(batch, x=batch.x.float(), edge_attr=batch.edge_attr.float())
        with torch.autocast("cpu", torch.bfloat16):
            out = model(batch)
        out.float().square().sum().backward()
        results.append([out.float(), *(one.grad for one in model.parameters() if one.grad is not None)])
    assert_near(results[1], results[0], 0.1)
