"""Small graphs, padding and comparisons that many tests use."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable

import networkx as nx
import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gnas.graph import GraphBatch, GraphSet, Neighbors
from gnas.kernels.aggregate import aggregate
from gnas.model.operations import Operation

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # test_aggregate.py runs the tests of Triton's kernels so


def random_edges(num_nodes: int, num_edges: int, seed: int, isolated: int = 1) -> Tensor:
    """Different edges in random order; the last ``isolated`` nodes have none."""
    generator = torch.Generator().manual_seed(seed)
    ends = max(num_nodes - isolated, 0)
    pairs = torch.randperm(ends * ends, generator=generator)[:num_edges]
    return torch.stack([pairs // max(ends, 1), pairs % max(ends, 1)])


def padded_edges() -> Neighbors:
    """12 edges among 6 nodes, and 3 more that are padding."""
    real, _ = Neighbors.from_edges(random_edges(6, 12, seed=1), 6, 6)
    more = torch.zeros(3, dtype=torch.int32)
    return Neighbors(
        torch.cat([real.source, more]),
        torch.cat([real.target, more]),
        real.ptr,
        torch.cat([real.back, more + 12]),
        real.back_ptr,
    )


def random_graph(num_nodes: int, num_edges: int, seed: int, isolated: int = 1, channels: int = 4) -> Data:
    """Float64 features and, as ``categories``, two integer columns with 5 and 3 values."""
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, channels, generator=generator, dtype=torch.float64),
        categories=torch.randint(0, 15, (num_nodes, 1), generator=generator) % torch.tensor([5, 3]),
        edge_index=random_edges(num_nodes, num_edges, seed, isolated),
        y=torch.randn(1, generator=generator, dtype=torch.float64),
    )


def pad(batch: GraphBatch, nodes: int = 3, edges: int = 4) -> GraphBatch:
    """The same batch with padding behind it: nodes of one dummy graph, and edges among them that no pointer covers."""
    near, n, e = batch.neighbors, batch.num_nodes, batch.neighbors.source.numel()
    dummy = (n + torch.arange(edges) % nodes).int().sort().values
    neighbors = Neighbors(
        torch.cat([near.source, dummy]),
        torch.cat([near.target, dummy]),
        torch.cat([near.ptr, near.ptr[-1:].expand(nodes)]),
        torch.cat([near.back, torch.arange(e, e + edges, dtype=torch.int32)]),
        torch.cat([near.back_ptr, near.back_ptr[-1:].expand(nodes)]),
    )
    owner = torch.cat([batch.batch, torch.full((nodes,), batch.num_graphs, dtype=torch.int32)])
    return dataclasses.replace(
        batch,
        x=torch.cat([batch.x, 1 + batch.x[:1].expand(nodes, -1) % 2]),
        neighbors=neighbors,
        members=Neighbors.members(owner, batch.num_graphs + 1),
        node_mask=torch.arange(n + nodes) < n,
    )


def shake(module: nn.Module, seed: int = 0) -> nn.Module:
    """Random parameters and running statistics, so that no weight of 1 or bias of 0 hides a mistake.

    The head stays in its linear range: a dead head would hide everything before it.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        kept = module.state_dict()  # what is not is no weight: constants of the task
        for name, value in [*module.named_parameters(), *module.named_buffers()]:
            last = name.rsplit(".", 1)[-1]
            if name not in kept or not value.is_floating_point():
                continue
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            if name.startswith("head."):
                value.copy_(noise.abs() + 3 if last == "bias" else 0.1 * noise)
            else:
                value.copy_(noise.abs() + 0.5 if last == "running_var" else 0.5 * noise)
    return module


class OwnFilter(Operation):
    """A user's filter: tanh(H) times the cell's input."""

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return torch.tanh(h) * x


class OwnMedian(Operation):
    """A user's aggregator: the largest sender less the mean one."""

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return torch.stack([aggregate(one, neighbors, "max") - aggregate(one, neighbors, "mean") for one in h])


OWN = {"own_filter": OwnFilter, "own_median": OwnMedian}


def gradients(out: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random mix of the outputs; zeros where an input plays no part."""
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(99), dtype=torch.float64).to(out)
    found = torch.autograd.grad((out * probe).sum(), inputs, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for g, i in zip(found, inputs, strict=True)]


def assert_near(found: Tensor | list[Tensor], wanted: Tensor | list[Tensor], tolerance: float) -> None:
    """Equal within ``tolerance`` of the largest value wanted (or of 1, if that is larger)."""
    if isinstance(found, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_near(one, other, tolerance)
        return
    assert found.shape == wanted.shape
    scale = max(1.0, float(wanted.detach().abs().max())) if wanted.numel() else 1.0
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance * scale, check_dtype=False)


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """All values in one row."""
    return torch.cat([g.flatten() for g in tensors])


def leaf(*shape: int, seed: int, dtype: torch.dtype, device: str) -> Tensor:
    """Random values that take a gradient."""
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.to(dtype).to(device).requires_grad_()


def as_set(graphs: list[nx.Graph]) -> GraphSet:
    """Each graph's edges in one direction if it is directed, else in both."""
    nodes = np.cumsum([0, *(len(g) for g in graphs)])
    lists = [list(g.edges) if g.is_directed() else [p for a, b in g.edges for p in ((a, b), (b, a))] for g in graphs]
    edges = np.cumsum([0, *map(len, lists)])
    flat = torch.tensor([pair for pairs in lists for pair in pairs], dtype=torch.long).reshape(-1, 2).T
    x = torch.zeros(int(nodes[-1]), 1, dtype=torch.long)
    return GraphSet.build(x, flat, torch.from_numpy(nodes), torch.from_numpy(edges), torch.zeros(len(graphs)))
