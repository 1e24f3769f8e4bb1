"""Encodings of the place of a node or an edge in its graph: random walks and eigenvectors of the Laplacian.

``P = D^-1 A`` is the matrix of a random walk along the edges, D the out-degrees. A node reads the diagonal of P, P^2, ...
(how likely the walk is back), an edge reads P, P^2, ... between its two ends. A repeated edge counts as often as it is
there; a node that sends to nobody has zeros. Eigenvectors are those of the symmetric normalised Laplacian
``I - D^-1/2 A D^-1/2``, without self-loops; edges are read in both directions.

All is computed in float64, graph by graph or in blocks of graphs of about one size, and rounded to float32. So the
encodings of a graph do not depend on the batch it is in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnas.errors import InputError
from gnas.graph import GraphBatch, GraphSet, Neighbors
from gnas.kernels.aggregate import aggregate
from gnas.model.task import Task

DENSE_NODES = 512  # larger graphs are computed with sparse products
LAPLACIAN_NODES = 3000  # all eigenvectors of a graph of this size take half a minute
WALK_PRODUCTS = 10**11  # of nodes, edges and steps: several minutes
_BLOCK = 2**19  # entries of a block of matrices: small enough for the caches of a CPU
_TIES = 1e-6  # far above the noise of float64, far below the differences that float32 shows in an eigenvector of one eigenvalue


@dataclass(frozen=True)
class FlatGraphs:
    """Edges with node numbers local to each graph, and pointers to where each graph begins."""

    source: Tensor
    target: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor

    @staticmethod
    def of_set(graphs: GraphSet) -> FlatGraphs:
        source, target = graphs.edge_index.long()
        return FlatGraphs(source, target, graphs.node_ptr, graphs.edge_ptr)

    @staticmethod
    def of_batch(batch: GraphBatch) -> FlatGraphs:
        near, node_ptr = batch.neighbors, batch.members.ptr.long()
        edge_ptr = near.ptr.long()[node_ptr]
        real = int(edge_ptr[-1])
        start = torch.repeat_interleave(node_ptr[:-1], edge_ptr.diff())
        return FlatGraphs(near.source[:real].long() - start, near.target[:real].long() - start, node_ptr, edge_ptr)


def fill_encodings(graphs: GraphSet, task: Task) -> GraphSet:
    """The graphs with the encodings that ``task`` reads and that they lack."""
    nodes, edges = _lacking(graphs, task)
    if not (nodes or edges):
        return graphs
    found = _compute(FlatGraphs.of_set(graphs), task, nodes, edges)
    return dataclasses.replace(graphs, **found)


def with_encodings(batch: GraphBatch, task: Task) -> GraphBatch:
    """The batch with the encodings that ``task`` reads and that it lacks. Sampled parts of a graph must bring theirs."""
    nodes, edges = _lacking(batch, task)
    if not (nodes or edges):
        return batch
    found = _compute(FlatGraphs.of_batch(batch), task, nodes, edges)
    rows = {"node_pe": batch.num_nodes, "edge_pe": batch.neighbors.source.numel()}
    padded: dict[str, Any] = {name: _extend(value, rows[name]) for name, value in found.items()}
    return dataclasses.replace(batch, **padded)


def _lacking(graphs: GraphSet | GraphBatch, task: Task) -> tuple[bool, bool]:
    nodes = bool(task.walks or task.laplacian) and graphs.node_pe is None
    return nodes, bool(task.edge_walks) and graphs.edge_pe is None


def _extend(value: Tensor, rows: int) -> Tensor:
    """Zeros for the rows of padding."""
    return torch.cat([value, value.new_zeros(rows - value.size(0), value.size(1))]) if value.size(0) < rows else value


@torch.no_grad()
def _compute(graphs: FlatGraphs, task: Task, nodes: bool, edges: bool) -> dict[str, Any]:
    check_sizes(graphs.node_ptr.diff(), graphs.edge_ptr.diff(), task)
    found: dict[str, Any] = {}
    at_nodes, at_edges = compute_walks(graphs, task.walks if nodes else 0, task.edge_walks if edges else 0)
    if nodes:
        found["node_pe"] = torch.cat([at_nodes, compute_eigenvectors(graphs, task.laplacian)], dim=1)
    if edges:
        found["edge_pe"] = at_edges
    return found


def check_sizes(nodes: Tensor, edges: Tensor, task: Task) -> None:
    """An error if a graph is too large for an encoding of the task; it names those that work there."""
    largest = int(nodes.max()) if nodes.numel() else 0
    works = ["size", "degree"]
    steps = max(task.walks, task.edge_walks)
    walks = walks_fit(nodes, edges, max(steps, 1))
    works += ["walks", "edge_walks"] if walks else []
    works += ["laplacian"] if largest <= LAPLACIAN_NODES else []
    name = "laplacian" if task.laplacian and "laplacian" not in works else "walks" if steps and not walks else ""
    if name:
        raise InputError(
            f"the encoding {name} is too costly for a graph of {largest:,} nodes and {int(edges.max()):,} edges; "
            f"set the data option encodings to some of these, which work there: {', '.join(works)}"
        )


def walks_fit(nodes: Tensor, edges: Tensor, steps: int) -> bool:
    """Whether walks of this length can be computed on every graph."""
    large = nodes > DENSE_NODES
    products = nodes[large].double() * edges[large].double() * steps
    return not products.numel() or float(products.max()) <= WALK_PRODUCTS


# -- random walks --------------------------------------------------------------------------------------------------


def compute_walks(graphs: FlatGraphs, node_steps: int, edge_steps: int) -> tuple[Tensor, Tensor]:
    """The diagonal of P^k for each node and P^k between the ends of each edge, k = 1, 2, ..., as float32."""
    at_nodes = torch.zeros(int(graphs.node_ptr[-1]), node_steps, device=graphs.source.device)
    at_edges = torch.zeros(graphs.source.numel(), edge_steps, device=graphs.source.device)
    if not (node_steps or edge_steps):
        return at_nodes, at_edges
    sizes = graphs.node_ptr.diff()
    for block in _blocks(sizes, torch.argsort(sizes, stable=True), exact=False):
        walk = _large_walk if int(sizes[block[-1]]) > DENSE_NODES else _dense_walks
        walk(graphs, block, at_nodes, at_edges)
    return at_nodes, at_edges


def _blocks(sizes: Tensor, order: Tensor, exact: bool) -> Iterator[Tensor]:
    """Graph numbers in blocks of about one size, or of exactly one; a graph larger than ``DENSE_NODES`` stands alone."""
    ordered, first = sizes[order].tolist(), 0
    while first < len(ordered):
        last = first + 1
        while last < len(ordered) and ordered[last] <= DENSE_NODES:
            if (last + 1 - first) * ordered[last] ** 2 > _BLOCK or (exact and ordered[last] != ordered[first]):
                break
            last += 1
        if ordered[last - 1]:
            yield order[first:last]
        first = last


def _rows(ptr: Tensor, block: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers of the graphs of a block one after another, and the place in the block that each row belongs to."""
    counts = ptr.diff()[block]
    place = torch.repeat_interleave(torch.arange(block.numel(), device=ptr.device), counts)
    within = torch.arange(place.numel(), device=ptr.device) - (counts.cumsum(0) - counts)[place]
    return ptr[block][place] + within, place


def _adjacency(graphs: FlatGraphs, block: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of edges between nodes, ``[graphs, width, width]``, and the rows and places of the edges in it."""
    edges, place = _rows(graphs.edge_ptr, block)
    at = (place * width + graphs.source[edges]) * width + graphs.target[edges]
    dense = torch.zeros(block.numel() * width * width, dtype=torch.float64, device=at.device)
    dense.index_add_(0, at, torch.ones_like(at, dtype=torch.float64))
    return dense.view(-1, width, width), edges, at


def _dense_walks(graphs: FlatGraphs, block: Tensor, at_nodes: Tensor, at_edges: Tensor) -> None:
    width = int(graphs.node_ptr.diff()[block].max())
    adjacency, edges, at = _adjacency(graphs, block, width)
    nodes, place = _rows(graphs.node_ptr, block)
    diagonal = (place * width + nodes - graphs.node_ptr[block][place]) * (width + 1) - place * width
    walk = adjacency / adjacency.sum(2, keepdim=True).clamp_min(1)
    power, node_steps, edge_steps = walk, at_nodes.size(1), at_edges.size(1)
    for step in range(max(node_steps, edge_steps)):
        power = torch.bmm(power, walk) if step else walk
        flat = power.view(-1)
        if step < node_steps:
            at_nodes[nodes, step] = flat[diagonal].float()
        if step < edge_steps:
            at_edges[edges, step] = flat[at].float()


def _large_walk(graphs: FlatGraphs, block: Tensor, at_nodes: Tensor, at_edges: Tensor) -> None:
    """The powers of one large P, a few columns at a time: ``P @ h`` is the mean of ``h`` over those a node sends to."""
    (nodes, _), (edges, _) = _rows(graphs.node_ptr, block), _rows(graphs.edge_ptr, block)
    size, source, target = nodes.numel(), graphs.source[edges], graphs.target[edges]
    receivers, _ = Neighbors.from_edges(torch.stack([target, source]), size, size)
    node_steps, edge_steps = at_nodes.size(1), at_edges.size(1)
    step_width = max(8, 8 * _BLOCK // size)
    for first in range(0, size, step_width):
        columns = torch.arange(first, min(first + step_width, size), device=source.device)
        power = torch.zeros(size, columns.numel(), dtype=torch.float64, device=source.device)
        power[columns, columns - first] = 1
        here = ((target >= first) & (target < first + step_width)).nonzero()[:, 0]
        for step in range(max(node_steps, edge_steps)):
            power = aggregate(power, receivers, "mean")
            if step < node_steps:
                at_nodes[nodes[columns], step] = power[columns, columns - first].float()
            if step < edge_steps:
                at_edges[edges[here], step] = power[source[here], target[here] - first].float()


# -- eigenvectors of the Laplacian ---------------------------------------------------------------------------------


def compute_eigenvectors(graphs: FlatGraphs, count: int) -> Tensor:
    """Eigenvectors 2 to ``count + 1`` of the Laplacian of each graph, as columns; zeros where a graph has fewer.

    Equal eigenvalues leave the choice of their vectors open, and every vector has two signs. A fixed weight on each node,
    added to the diagonal at a millionth, decides the first; the sum of a vector with these weights is positive.
    """
    found = torch.zeros(int(graphs.node_ptr[-1]), count, device=graphs.source.device)
    sizes = graphs.node_ptr.diff()
    for block in _blocks(sizes, torch.argsort(sizes, stable=True), exact=True) if count else ():
        size = int(sizes[block[0]])
        adjacency, _, _ = _adjacency(graphs, block, size)
        adjacency = (adjacency + adjacency.mT) / 2
        adjacency.diagonal(dim1=1, dim2=2).zero_()
        scale = adjacency.sum(2).rsqrt()
        scale.masked_fill_(scale.isinf(), 0)
        weights = torch.arange(1, size + 1, dtype=torch.float64, device=scale.device) * 0.6180339887498949 % 1
        laplacian = torch.diag(1 + _TIES * weights) - scale[:, :, None] * adjacency * scale[:, None, :]
        vectors = torch.linalg.eigh(laplacian).eigenvectors[:, :, 1 : count + 1]
        vectors = vectors * torch.where((vectors * weights[:, None]).sum(1, keepdim=True) < 0, -1.0, 1.0)
        nodes, _ = _rows(graphs.node_ptr, block)
        found[nodes, : vectors.size(2)] = vectors.flatten(0, 1).float()
    return found
