"""Every message with every aggregator against loops over nodes and edges, in float64."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from obvious import tensors
from samples import assert_near, gradients, pad, random_edges, shake
from torch import Tensor

from gnas.arch import gap
from gnas.arch.operation import AGGREGATORS, MESSAGES
from gnas.graph import GraphBatch
from gnas.model.cell import Cell
from gnas.model.operations import MESSAGE_TYPES, find_variant
from gnas.model.stage import CellConfig

NODES, CHANNELS, HEADS = 7, 6, 3
EDGES = random_edges(NODES, 15, seed=21)  # the last node has none
OPERATIONS = [f"{name}({message})" for name, message in product(AGGREGATORS, MESSAGE_TYPES)]


def values(rows: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, CHANNELS, generator=generator, dtype=torch.float64).requires_grad_()


def build(formula: str, edge_state: bool = True, **options) -> Cell:
    config = CellConfig(find_variant("bare"), edge_state=edge_state, **options)
    return shake(Cell.from_genotype(gap.to_cell(gap.parse(formula)), CHANNELS, config).double())


def relation(cell: Cell, x: Tensor, i: int, j: int, e: Tensor | None) -> Tensor:
    """r_ij = A x_i + B x_j + C e_ij."""
    weight, bias = cell.relation.nodes.weight, cell.relation.nodes.bias
    a, b = weight[:CHANNELS], weight[CHANNELS:]
    r = a @ x[i] + b @ x[j] + bias[:CHANNELS] + bias[CHANNELS:]
    return r if e is None else r + cell.relation.edges.weight @ e


def scores(cell: Cell, part: dict[str, Tensor], r: Tensor) -> Tensor:
    bent = torch.where(r > 0, r, 0.2 * r).view(HEADS, -1)
    return (bent * part["score"]).sum(1)


def dense(cell: Cell, name: str, h: Tensor, x: Tensor, e: Tensor | None, part: dict[str, Tensor]) -> Tensor:
    """One aggregation of messages, one node after another."""
    aggregator, message = name.removesuffix(")").split("(")
    received = [int((EDGES[1] == i).sum()) for i in range(NODES)]
    sent = [int((EDGES[0] == j).sum()) for j in range(NODES)]
    out = []
    for i in range(NODES):
        incoming = sorted((int(EDGES[0, k]), k) for k in range(EDGES.size(1)) if int(EDGES[1, k]) == i)
        if not incoming:
            out.append(torch.zeros(CHANNELS, dtype=torch.float64))
            continue
        rows, gates = [], []
        ends = [(j, None if e is None else e[k]) for j, k in incoming]
        if message == "attention":
            weights = torch.stack([scores(cell, part, relation(cell, x, i, j, one)) for j, one in ends]).softmax(0)
        for place, (j, one) in enumerate(ends):
            if message == "edge":
                row = h[j] if one is None else (h[j] + one @ part["edge.weight"] + part["edge.bias"][0]).relu()
            elif message == "pair":
                row = relation(cell, x, i, j, one)
            else:
                value = h[j] @ part["value.weight"] + part["value.bias"][0]
                if message == "gated":
                    gates.append(torch.sigmoid(relation(cell, x, i, j, one)))
                    row = gates[-1] * value
                else:
                    row = (weights[place][:, None] * value.view(HEADS, -1)).flatten()
            rows.append(row / math.sqrt(received[i] * sent[j]) if aggregator == "symmetric" else row)
        stacked = torch.stack(rows)
        if aggregator == "max":
            out.append(stacked.max(0).values)
        elif aggregator == "std":
            variance = stacked.square().mean(0) - stacked.mean(0).square()
            out.append(torch.where(variance > 1e-5, variance.clamp_min(1e-5).sqrt(), torch.zeros_like(variance)))
        elif aggregator == "mean" and message == "gated":
            out.append(stacked.sum(0) / (torch.stack(gates).sum(0) + 1e-6))
        elif aggregator == "mean" and message != "attention":
            out.append(stacked.mean(0))
        else:
            out.append(stacked.sum(0))
    return torch.stack(out)


def level_two(cell: Cell) -> dict[str, tuple[int, dict[str, Tensor]]]:
    """The node that each operation on level 2 computes, and its weights."""
    stage = next(stage for stage in cell.in_order() if stage.messages or set(stage.kinds) & set(OPERATIONS))
    return {key[2]: (key[1], tensors(*pairs[0])) for key, pairs in stage.places().items()}


def walk(cell: Cell, x: Tensor, e: Tensor | None) -> dict[int, Tensor]:
    batch = GraphBatch.from_edges(x, EDGES, edge_attr=e)
    related, x = cell._relate(x, batch, None, batch.edge_attr)
    return cell.walk(x, batch, None, related)


def test_every_message_has_a_module() -> None:
    assert set(MESSAGE_TYPES) == set(MESSAGES) - {"plain"}


@pytest.mark.parametrize("edge_state", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_message_and_aggregator_equals_the_loops(name: str, edge_state: bool) -> None:
    cell = build(f"[identity | {name}]", edge_state)
    x, e = values(NODES, 1), values(EDGES.size(1), 2) if edge_state else None
    target, part = level_two(cell)[name]
    out, wanted = walk(cell, x, e)[target], dense(cell, name, x, x, e, part)
    assert_near(out, wanted, 1e-10)
    leaves = [x, *([e] if e is not None else []), *cell.parameters()]
    assert_near(gradients(out, leaves), gradients(wanted, leaves), 1e-9)


@pytest.mark.parametrize("message", MESSAGE_TYPES)
def test_links_of_a_cell_are_evaluated_together(message: str) -> None:
    """Two latent nodes, all aggregators: the filters differ, the relation is shared."""
    names = [f"{name}({message})" for name in AGGREGATORS]
    formula = " | ".join(f"{name.removesuffix(')')}({inner}))" for name in names for inner in ("dense#1", "sparse#2"))
    cell = build(f"[{formula}]")
    x, e = values(NODES, 3), values(EDGES.size(1), 4)
    nodes = walk(cell, x, e)
    stage = next(stage for stage in cell.in_order() if stage.messages)
    assert len(stage.messages) == 1
    for (source, target, name), pairs in stage.places().items():
        assert_near(nodes[target], dense(cell, name, nodes[source], x, e, tensors(*pairs[0])), 1e-10)


@pytest.mark.parametrize("message", MESSAGE_TYPES)
def test_padding_changes_nothing(message: str) -> None:
    formula = "[" + " | ".join(f"{name}({message})" for name in AGGREGATORS) + "]"
    results = []
    for padded in (False, True):
        cell = build(formula, ffn=True, mlp=2).train()
        x, e = values(NODES, 5), values(EDGES.size(1), 6)
        batch = GraphBatch.from_edges(x, EDGES, edge_attr=e)
        state = batch.edge_attr
        if padded:
            batch, state = pad(batch), torch.cat([state, 100 * state[:4]])
        out = cell(batch.x, batch, None, None, state)[0][:NODES]
        buffers = [value for name, value in cell.named_buffers() if "running" in name]
        results.append([out, *gradients(out, [x, e, *cell.parameters()]), *buffers])
    assert_near(results[1], results[0], 1e-10)


@pytest.mark.parametrize("norm", [True, False])
def test_the_state_of_edges_is_updated_by_both_ends(norm: bool) -> None:
    config = CellConfig(find_variant("bare"), edge_state=True, norm=norm)
    genotype = gap.to_cell(gap.parse("[identity | mean(gated)]"))
    cell = shake(Cell.from_genotype(genotype, CHANNELS, config, updates_edges=True).double()).train()
    x, e = values(NODES, 7), values(EDGES.size(1), 8)
    batch = GraphBatch.from_edges(x, EDGES, edge_attr=e)
    found = cell(x, batch, None, None, batch.edge_attr)[1]
    r = torch.stack([relation(cell, x, int(i), int(j), one) for (j, i), one in zip(EDGES.T, e, strict=True)])
    if norm:
        r = (r - r.mean(0)) / (r.var(0, correction=0) + 1e-5).sqrt()
        r = r * cell.edge_norm.weight[0, 0] + cell.edge_norm.bias[0, 0]
    assert_near(found, (e + r.relu())[batch.edge_order], 1e-10)


def test_the_layer_after_a_cell_and_the_second_linear_map() -> None:
    cell = build("[identity | sum(edge)]", ffn=True, mlp=2).train()
    x, e = values(NODES, 9), values(EDGES.size(1), 10)
    batch = GraphBatch.from_edges(x, EDGES, edge_attr=e)
    nodes = cell.walk(x, batch, None, cell._relate(x, batch, None, batch.edge_attr)[0])

    def normal(h: Tensor, norm: torch.nn.Module) -> Tensor:
        h = (h - h.mean(0)) / (h.var(0, correction=0) + 1e-5).sqrt()
        return h * norm.weight[0, 0] + norm.bias[0, 0]

    h = torch.cat([nodes[node] for node in cell.outputs], 1)
    h = (h @ cell.fuse.weight[0] + cell.fuse.bias[0, 0]).relu() @ cell.fuse_second.weight[0]
    h = x + normal(h, cell.norm).relu()
    ffn = cell.ffn
    h = normal(h + ffn.second((h @ ffn.first.weight.T + ffn.first.bias).relu()), ffn.norm)
    assert_near(cell(x, batch, None, None, batch.edge_attr)[0], h, 1e-10)


def test_a_state_that_all_edges_share_is_one_row() -> None:
    cell = build("[sum(edge) | mean(gated) | max(pair) | sum(attention)]")
    x, row = values(NODES, 11), values(1, 12)
    batch = GraphBatch.from_edges(x, EDGES)
    out = cell(x, batch, None, None, row)[0]
    assert_near(cell(x, batch, None, None, row.expand(EDGES.size(1), -1))[0], out, 1e-12)


def test_a_node_without_neighbours_receives_zeros() -> None:
    cell = build("[" + " | ".join(OPERATIONS) + "]").eval()
    nodes = walk(cell, values(NODES, 13), values(EDGES.size(1), 14))
    assert all(bool((nodes[node][-1] == 0).all()) for node in cell.outputs)
