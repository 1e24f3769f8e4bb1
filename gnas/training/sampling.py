"""Neighbour sampling for graphs that are too large for one batch: seed nodes with some of their neighbours, hop by hop."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnas.data.benchmark import ALL, check_sample_neighbors
from gnas.errors import InputError
from gnas.graph import GraphBatch, GraphSet, Neighbors
from gnas.training.links import LinkStore
from gnas.training.store import Capacity, GraphStore, Planned, Store, move_batch

if TYPE_CHECKING:
    from torch_geometric.sampler import NodeSamplerInput, SamplerOutput


@dataclass(frozen=True)
class Sample:
    """A part of a graph: its nodes, seeds first, and its edges sorted by receiver, numbered within the part."""

    node: Tensor  # numbers in the whole graph
    source: Tensor
    target: Tensor
    edge: Tensor  # positions among the whole graph's sorted edges
    nodes_of_hop: list[int]
    edges_of_hop: list[int]


class NeighborSampler:
    """At most ``num_neighbors[k]`` senders, drawn without replacement, of each node that hop ``k`` reached first.

    The rule of PyG's ``NeighborLoader``, on row pointers and in PyTorch operations: PyG's own sampler needs pyg-lib or
    torch-sparse, which are compiled for each version of torch. It also works in PyG's loaders, ``NodeLoader(data, sampler)``: it
    has the methods of PyG's ``BaseSampler``. It is not a subclass, which would import PyG for every training.

    Args:
        source: The senders of all edges, sorted by receiver.
        ptr: Where the senders of each node begin.
        num_neighbors: Neighbours per hop; -1: all of them.

    >>> import torch
    >>> from gnas.training.sampling import NeighborSampler
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> sampler = NeighborSampler.from_edges(edge_index, num_nodes=3, num_neighbors=(10, 5))
    """

    def __init__(self, source: Tensor, ptr: Tensor, num_neighbors: Sequence[int]) -> None:
        self.source, self.ptr, self.num_neighbors = source, ptr, check_sample_neighbors(num_neighbors) or (ALL,)
        self._place = torch.full((ptr.numel() - 1,), -1, dtype=torch.int32)

    @staticmethod
    def from_edges(edge_index: Tensor, num_nodes: int, num_neighbors: Sequence[int]) -> NeighborSampler:
        """For edges in any order; ``edge_permutation`` then says where each sorted edge stood."""
        neighbors, order = Neighbors.from_edges(edge_index, num_nodes, num_nodes)
        sampler = NeighborSampler(neighbors.source, neighbors.ptr.long(), num_neighbors)
        sampler._order = order
        return sampler

    _order: Tensor | None = None

    @property
    def edge_permutation(self) -> Tensor | None:
        return self._order

    def sample(self, seeds: Tensor, generator: torch.Generator | None = None) -> Sample:
        """The neighbourhood of distinct ``seeds``. The cost depends on the number of draws, not on the graph or its degrees."""
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        nodes = [seeds]
        self._place[seeds] = torch.arange(seeds.numel(), dtype=torch.int32)
        first, found = 0, seeds.numel()
        for limit in self.num_neighbors:
            owner, edge = _draw(self.ptr, nodes[-1], limit, generator)
            sender = self.source[edge].long()
            new = sender[self._place[sender] < 0].unique()
            self._place[new] = torch.arange(found, found + new.numel(), dtype=torch.int32)
            parts.append((self._place[sender], (owner + first).int(), edge))
            nodes.append(new)
            first, found = found, found + new.numel()
        node = torch.cat(nodes)
        self._place[node] = -1
        source, target, edge = (torch.cat(column) for column in zip(*parts, strict=True))
        return Sample(node, source, target, edge, [n.numel() for n in nodes], [p[2].numel() for p in parts])

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """The method that PyG's loaders call."""
        from torch_geometric.sampler import SamplerOutput

        part = self.sample(index.node)
        return SamplerOutput(
            part.node,
            part.source.long(),
            part.target.long(),
            part.edge,
            num_sampled_nodes=part.nodes_of_hop,
            num_sampled_edges=part.edges_of_hop,
            metadata=(index.input_id, index.time),
        )

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        raise InputError("this sampler starts from nodes: use it with PyG's NodeLoader, not with a LinkLoader")


def _draw(ptr: Tensor, nodes: Tensor, limit: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """For each of ``nodes`` up to ``limit`` of its edges: the node's place in the list, and the edge's position."""
    start = ptr[nodes]
    degree = ptr[nodes + 1] - start
    counts = degree if limit == ALL else degree.clamp_max(limit)
    owner = torch.repeat_interleave(torch.arange(nodes.numel()), counts)
    within = torch.arange(owner.numel()) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    if limit != ALL:
        many = degree > limit
        row = many.cumsum(0) - 1
        chosen = _distinct(degree[many], limit, generator)
        drawn = many[owner]
        within[drawn] = chosen[row[owner[drawn]], within[drawn]]
    return owner, start[owner] + within


def _distinct(sizes: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """``count`` different numbers below each size, sorted: Floyd's algorithm for all rows at once.

    Its cost does not grow with the sizes: a hub with millions of neighbours is as cheap as any other node.
    """
    chosen = torch.empty(sizes.numel(), count, dtype=torch.long)
    for step in range(count):
        last = sizes - count + step
        drawn = (torch.rand(sizes.numel(), dtype=torch.float64, generator=generator) * (last + 1)).long()
        taken = (chosen[:, :step] == drawn[:, None]).any(1)
        chosen[:, step] = torch.where(taken, last, drawn)
    return chosen.sort(1).values


class SampledStore(Store):
    """A split of node targets on graphs that stay on the host: a batch is seed nodes with their sampled neighbourhood.

    Only seeds count, so an epoch counts every node of the split once. The seeds of a batch determine its draw: shuffled batches
    draw other neighbours each epoch, batches of an evaluation draw the same ones every time.
    """

    static = False

    def __init__(self, graphs: GraphSet, device: torch.device | str = "cpu") -> None:
        if graphs.level != "node":
            raise InputError(f"neighbours can be sampled for targets of nodes, not for those of {graphs.level}s")
        self.graphs, self.device = graphs, torch.device(device)
        rows = torch.arange(graphs.num_nodes)
        self.seeds = rows if graphs.mask is None else rows[graphs.mask]
        if not len(self.seeds):
            raise InputError("this split has no nodes")
        self.sampler = NeighborSampler(*_rows(graphs), graphs.sample_neighbors)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def num_rows(self) -> int:
        return len(self.seeds)

    def plan(
        self,
        batch_size: int,
        generator: torch.Generator | None = None,
        padded: bool | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> list[Planned]:
        """Every seed node once; ``ids`` are node numbers. A sample's shape is not known before it is drawn."""
        rank, size = share
        count = len(self)
        order = self.seeds if generator is None else self.seeds[torch.randperm(count, generator=generator)]
        batches = order.split(min(batch_size, count))
        return [Planned(ids[rank::size], Capacity(0, 0, True)) for ids in batches]

    def batch(self, ids: Tensor, capacity: Capacity) -> GraphBatch:
        """The seeds ``ids`` and their sampled neighbourhood."""
        # The share of a process in a short last batch can be empty: then it has one node that does not count.
        empty = not ids.numel()
        seeds = self.seeds[:1] if empty else ids
        part = self.sampler.sample(seeds, torch.Generator().manual_seed(zlib.crc32(seeds.numpy().tobytes())))
        graphs, count = self.graphs, part.node.numel()
        batch = GraphBatch(
            graphs.x[part.node],
            _neighbors(part),
            Neighbors.members(torch.zeros(count, dtype=torch.int32), 1),
            graphs.y[part.node],
            torch.zeros(count, dtype=torch.bool) if empty else None,
            torch.arange(count) < ids.numel(),
            None if graphs.edge_attr is None else graphs.edge_attr[part.edge],
            None if graphs.pos is None else graphs.pos[part.node],
            None if graphs.node_pe is None else graphs.node_pe[part.node],
            None if graphs.edge_pe is None else graphs.edge_pe[part.edge],
            target_rows=self._target_rows(ids, count),
        )
        return batch if self.device.type == "cpu" else move_batch(batch, self.device)

    def _target_rows(self, ids: Tensor, count: int) -> Tensor:
        """Seeds come first and are counted among all seeds; their neighbours are past the last one."""
        rows = torch.full((count,), len(self.seeds))
        rows[: ids.numel()] = torch.searchsorted(self.seeds, ids)
        return rows


def _rows(graphs: GraphSet) -> tuple[Tensor, Tensor]:
    """Senders and row pointers of all graphs in one numbering."""
    source, target = graphs.edge_index
    if len(graphs) > 1:
        shift = torch.repeat_interleave(graphs.node_ptr[:-1], graphs.edge_counts)
        source, target = source + shift, target + shift
    degree = torch.bincount(target, minlength=graphs.num_nodes)
    return source, torch.cat([degree.new_zeros(1), degree.cumsum(0)])


def _neighbors(part: Sample) -> Neighbors:
    count = part.node.numel()
    back = torch.argsort(part.source, stable=True).int()

    def pointers(owner: Tensor) -> Tensor:
        return torch.cat([owner.new_zeros(1), torch.bincount(owner, minlength=count).cumsum(0)]).int()

    return Neighbors(part.source, part.target, pointers(part.target), back, pointers(part.source))


def open_store(graphs: GraphSet, device: torch.device | str = "cpu") -> Store:
    """The store of a split: whole graphs, with pairs to score, or sampled neighbourhoods if the split requests them."""
    if graphs.level == "link":
        return LinkStore(graphs, device)
    return SampledStore(graphs, device) if graphs.sample_neighbors else GraphStore(graphs, device)
