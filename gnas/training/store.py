"""A split resident on the device, and batches assembled there: static shapes, no reads back to the host."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnas.errors import InputError
from gnas.graph import GraphBatch, GraphSet, Neighbors
from gnas.kernels.choice import uses_kernels


@dataclass(frozen=True)
class Capacity:
    """Shape of a batch. With padding it has at least one node more than its graphs: padding edges point at that node.

    An ``exact`` shape has no padding. It then differs between batches, which costs nothing on a CPU.
    """

    nodes: int
    edges: int
    exact: bool = False
    pairs: int = 0


@dataclass(frozen=True)
class Planned:
    """One batch of an epoch: the graphs in it (``len(store)`` marks an empty place) and its shape."""

    ids: Tensor
    capacity: Capacity


class Store:
    """A split as batches. A ``static`` store assembles batches from tensors that never move, so that a step can be recorded."""

    graphs: GraphSet
    device: torch.device
    static = True

    def __len__(self) -> int:
        """Number of items: graphs, or seed nodes."""
        raise TypeError("a store defines __len__()")

    @property
    def num_rows(self) -> int:
        """Number of target rows: ``GraphBatch.target_rows`` counts them."""
        raise TypeError("a store defines num_rows")

    def plan(
        self,
        batch_size: int,
        generator: torch.Generator | None = None,
        padded: bool | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> list[Planned]:
        """The batches of an epoch. Of each, the share of process ``share[0]`` of ``share[1]`` processes."""
        raise TypeError("a store defines plan()")

    def batch(self, ids: Tensor, capacity: Capacity) -> GraphBatch:
        """One planned batch."""
        raise TypeError("a store defines batch()")


class GraphStore(Store):
    """All graphs of a split on one device.

    Args:
        graphs: The graphs, such as ``benchmark.train``.
        device: The device on which batches are used.
        resident: Whether the graphs lie on the device. ``False``: they stay on the host, where batches are assembled and
            copied. ``None``: on the device if they fit into its memory.

    >>> store = gnas.GraphStore(gnas.load("cluster-mini").val)
    >>> sum(batch.num_graphs for batch in store.epoch(batch_size=32)) >= len(store)  # the last batch is filled up
    True
    """

    def __init__(self, graphs: GraphSet, device: torch.device | str = "cpu", resident: bool | None = None) -> None:
        if not len(graphs):
            raise InputError("this split has no graphs")
        self.graphs = graphs
        self.device = torch.device(device)
        self.resident = self.static = _fits(graphs, self.device) if resident is None else resident
        home = self.device if self.resident else torch.device("cpu")
        self.level = graphs.level
        self.node_counts = graphs.node_counts.clone()
        self.edge_counts = graphs.edge_counts.clone()
        self._buckets: dict[int, list[Capacity]] = {}

        def place(value: Tensor) -> Tensor:
            return value.to(home)

        zero = torch.zeros(1, dtype=torch.long)
        # An empty graph follows the last one, so that a short batch needs no special case.
        self.node_start = place(graphs.node_ptr)
        self.edge_start = place(graphs.edge_ptr)
        self.node_size = place(torch.cat([self.node_counts, zero]))
        self.edge_size = place(torch.cat([self.edge_counts, zero]))
        self.x = place(graphs.x)
        row_start, back, back_start = _sorted_both_ways(graphs)
        # One additional edge: padding reads a row even if no graph has an edge.
        self.source, self.target = place(torch.cat([graphs.edge_index, graphs.edge_index.new_zeros(2, 1)], dim=1))
        back = torch.cat([back, back.new_zeros(1)])
        self.row_start, self.back, self.back_start = place(row_start), place(back), place(back_start)
        y = graphs.y
        self.y = place(torch.cat([y, y.new_zeros(1, *y.shape[1:])]))
        mask = torch.ones(y.size(0), dtype=torch.bool) if graphs.mask is None else graphs.mask
        self.mask = place(torch.cat([mask, torch.zeros(1, dtype=torch.bool)]))

        def extend(value: Tensor | None) -> Tensor | None:
            return None if value is None else place(torch.cat([value, value.new_zeros(1, *value.shape[1:])]))

        self.edge_attr, self.edge_pe = extend(graphs.edge_attr), extend(graphs.edge_pe)
        self.graph_attr = extend(graphs.graph_attr)
        self.pos = None if graphs.pos is None else place(graphs.pos)
        self.node_pe = None if graphs.node_pe is None else place(graphs.node_pe)

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def num_rows(self) -> int:
        return self.graphs.y.size(0)

    # -- planning an epoch: on the host, from its counts  -------------------------------------------------

    def plan(
        self,
        batch_size: int,
        generator: torch.Generator | None = None,
        padded: bool | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> list[Planned]:
        """Every graph once, shuffled by ``generator`` (None: in order); the last batch is filled with empty places.

        Shapes are padded to few static ones (the default on a GPU) or exact (the default on a CPU).
        """
        padded = self.device.type == "cuda" if padded is None else padded
        count = len(self)
        batch_size = min(batch_size, count)
        rank, size = share
        if batch_size < size:
            raise InputError(
                f"a batch of {batch_size} cannot be shared by {size} processes; take fewer, or larger batches"
            )
        order = torch.arange(count) if generator is None else torch.randperm(count, generator=generator)
        batches = math.ceil(count / batch_size)
        ids = torch.full((batches * batch_size,), count)
        ids[:count] = order
        ids = ids.view(batches, batch_size)[:, rank::size].contiguous()
        nodes = torch.cat([self.node_counts, torch.zeros(1, dtype=torch.long)])[ids].sum(1)
        edges = torch.cat([self.edge_counts, torch.zeros(1, dtype=torch.long)])[ids].sum(1)
        home = self.x.device
        placed = ids.to(home, non_blocking=True)
        if not padded:
            return [Planned(placed[k], _exact(int(nodes[k]), int(edges[k]))) for k in range(batches)]
        width = ids.size(1)
        return [Planned(placed[k], self._capacity(width, int(nodes[k]), int(edges[k]))) for k in range(batches)]

    def _capacity(self, batch_size: int, nodes: int, edges: int) -> Capacity:
        for bucket in self.buckets(batch_size):
            if nodes < bucket.nodes and edges <= bucket.edges:
                return bucket
        raise AssertionError("the last bucket holds any batch")

    def buckets(self, batch_size: int) -> list[Capacity]:
        """Shapes for all batches of this size: one that fits almost every batch, and one that fits any."""
        if batch_size not in self._buckets:
            usual, worst = [], []
            for counts in (self.node_counts, self.edge_counts):
                total = counts.double()
                spread = float(total.std(correction=0)) * math.sqrt(batch_size)
                largest = int(counts.sort(descending=True).values[:batch_size].sum())
                typical = math.ceil(float(total.mean()) * batch_size + 3.5 * spread)
                usual.append(min(round_up(typical + 1), round_up(largest + 1)))
                worst.append(round_up(largest + 1))
            self._buckets[batch_size] = list(
                dict.fromkeys([Capacity(usual[0], usual[1]), Capacity(worst[0], worst[1])])
            )
        return self._buckets[batch_size]

    # -- assembling a batch: on the device, by gathers only  --------------------------------------------------------

    def batch(self, ids: Tensor, capacity: Capacity) -> GraphBatch:
        """The graphs ``ids`` as one batch padded to ``capacity``. Shapes depend only on the shapes of the arguments."""
        batch = self._assemble(ids, capacity)
        return batch if self.resident else move_batch(batch, self.device)

    def _assemble(self, ids: Tensor, capacity: Capacity) -> GraphBatch:
        at = self._layout(ids, capacity)
        neighbors = Neighbors(at.source, at.target, at.ptr, at.back, at.back_ptr)
        members = Neighbors(at.place, at.graph, at.graph_ptr, at.place, at.member)
        y, mask, rows = self._targets(ids, at)
        node, edge = at.node, at.edge
        return GraphBatch(
            self.x[node],
            neighbors,
            members,
            y,
            None if capacity.exact else at.node_real,
            mask,
            None if self.edge_attr is None else self.edge_attr[edge],
            None if self.pos is None else self.pos[node],
            None if self.node_pe is None else self.node_pe[node],
            None if self.edge_pe is None else self.edge_pe[edge],
            None if self.graph_attr is None else self.graph_attr[at.rows],
            rows,
        )

    def _layout(self, ids: Tensor, capacity: Capacity) -> Layout:
        flat = (self.source, self.target, self.back, self.row_start, self.back_start)
        if uses_kernels(ids):
            from gnas.kernels.triton_batches import build_layout

            sizes = (self.node_size, self.edge_size, self.node_start, self.edge_start)
            return Layout(**build_layout(ids, *sizes, flat, capacity.nodes, capacity.edges))
        if capacity.exact:
            return self._exact_layout(ids, capacity)
        nodes, edges = Places(self.node_size[ids], capacity.nodes), Places(self.edge_size[ids], capacity.edges)
        count, total = ids.numel(), edges.ptr[-1]
        node = nodes.rows(self.node_start, ids)
        edge = edges.rows(self.edge_start, ids)
        dummy = capacity.nodes - 1
        shift = nodes.ptr[:-1][edges.graph]
        first_edge = edges.ptr[:-1][nodes.graph]
        each = torch.arange(capacity.nodes + 1, device=ids.device)
        return Layout(
            node=node,
            node_real=nodes.real,
            graph=torch.where(nodes.real, nodes.graph, count).int(),
            place=nodes.place.int(),
            member=torch.minimum(each, nodes.ptr[-1]).int(),
            ptr=_pointers(first_edge + self.row_start[node], nodes.real, total),
            back_ptr=_pointers(first_edge + self.back_start[node], nodes.real, total),
            edge=edge,
            edge_real=edges.real,
            source=torch.where(edges.real, self.source[edge] + shift, dummy).int(),
            target=torch.where(edges.real, self.target[edge] + shift, dummy).int(),
            back=torch.where(edges.real, self.back[edge] + edges.ptr[:-1][edges.graph], edges.place).int(),
            graph_ptr=torch.cat([nodes.ptr, nodes.ptr[-1:]]).int(),
            rows=torch.cat([ids, ids.new_full((1,), len(self))]),
        )

    def _exact_layout(self, ids: Tensor, capacity: Capacity) -> Layout:
        """The same where nothing is padding, in about half the time."""

        def repeat(values: Tensor, counts: Tensor, size: int) -> Tensor:
            return torch.repeat_interleave(values, counts, output_size=size)

        counts, edge_counts = self.node_size[ids], self.edge_size[ids]
        ptr, edge_ptr = ((torch.cat([n.new_zeros(1), n.cumsum(0)])) for n in (counts, edge_counts))
        each = torch.arange(max(capacity.nodes, capacity.edges, ids.numel()) + 1, device=ids.device)
        place = each[: capacity.nodes]
        node = place + repeat(self.node_start[ids] - ptr[:-1], counts, capacity.nodes)
        edge = each[: capacity.edges] + repeat(self.edge_start[ids] - edge_ptr[:-1], edge_counts, capacity.edges)
        shift = repeat(ptr[:-1].int(), edge_counts, capacity.edges)
        first = repeat(edge_ptr[:-1].int(), counts, capacity.nodes)
        total, member = edge_ptr[-1:].int(), each[: capacity.nodes + 1].int()
        return Layout(
            node=node,
            node_real=torch.ones_like(node, dtype=torch.bool),
            graph=repeat(each[: ids.numel()].int(), counts, capacity.nodes),
            place=member[:-1],
            member=member,
            ptr=torch.cat([first + self.row_start[node], total]),
            back_ptr=torch.cat([first + self.back_start[node], total]),
            edge=edge,
            edge_real=torch.ones_like(edge, dtype=torch.bool),
            source=self.source[edge] + shift,
            target=self.target[edge] + shift,
            back=self.back[edge] + repeat(edge_ptr[:-1].int(), edge_counts, capacity.edges),
            graph_ptr=torch.cat([ptr, ptr[-1:]]).int(),
            rows=torch.cat([ids, ids.new_full((1,), len(self))]),
        )

    def _targets(self, ids: Tensor, at: Layout) -> tuple[Tensor, Tensor, Tensor]:
        if self.level == "graph":
            return self.y[at.rows], self.mask[at.rows], at.rows
        rows, real = (at.node, at.node_real) if self.level == "node" else (at.edge, at.edge_real)
        return self.y[rows], self.mask[rows] & real, torch.where(real, rows, self.num_rows)

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, padded: bool | None = None
    ) -> Iterator[GraphBatch]:
        """Batches that visit every graph exactly once."""
        for planned in self.plan(batch_size, generator, padded):
            yield self.batch(planned.ids, planned.capacity)


@dataclass(frozen=True)
class Layout:
    """Where each node and each edge of a batch comes from, and who sends to whom."""

    node: Tensor  # [N] row in the store; 0 for padding
    node_real: Tensor  # [N] whether it is not padding
    graph: Tensor  # [N] graph of each node; that behind the last for padding
    place: Tensor  # [N] 0, 1, 2, ...
    member: Tensor  # [N + 1] pointers of the nodes as senders to their graph
    ptr: Tensor  # as in Neighbors
    back_ptr: Tensor
    edge: Tensor  # [E] row in the store; 0 for padding
    edge_real: Tensor
    source: Tensor
    target: Tensor
    back: Tensor
    graph_ptr: Tensor  # [G + 2] first node of each graph, and of the dummy graph behind them
    rows: Tensor  # [G + 1] row of each graph, and of the dummy graph that owns the padding


class Places:
    """``size`` places, filled by one graph after another: the graph of each place, and whether the place is in use."""

    def __init__(self, counts: Tensor, size: int) -> None:
        self.ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        self.place = torch.arange(size, device=counts.device)
        self.real = self.place < self.ptr[-1]
        self.graph = torch.searchsorted(self.ptr[1:], self.place, right=True).clamp_max(counts.numel() - 1)

    def rows(self, start: Tensor, ids: Tensor) -> Tensor:
        """Row in the store of each place; padding reads row 0, which every store with a graph of one node has."""
        return torch.where(self.real, start[ids[self.graph]] + self.place - self.ptr[:-1][self.graph], 0)


def _pointers(starts: Tensor, real: Tensor, total: Tensor) -> Tensor:
    """Row pointers; rows of padding are empty and begin where the real edges end."""
    return torch.cat([torch.where(real, starts, total), total[None]]).int()


def _sorted_both_ways(graphs: GraphSet) -> tuple[Tensor, Tensor, Tensor]:
    """Per node its first incoming and first outgoing edge, per graph the edges sorted by sender; numbers within a graph."""
    shift = torch.repeat_interleave(graphs.node_ptr[:-1], graphs.edge_counts)
    first = torch.repeat_interleave(graphs.edge_ptr[:-1], graphs.edge_counts)
    source, target = graphs.edge_index[0] + shift, graphs.edge_index[1] + shift
    back = torch.argsort(source, stable=True)
    first_of_node = torch.repeat_interleave(graphs.edge_ptr[:-1], graphs.node_counts)

    def starts(owner: Tensor) -> Tensor:
        counts = torch.bincount(owner, minlength=graphs.num_nodes)
        return (counts.cumsum(0) - counts - first_of_node).int()

    return starts(target), (back - first).int(), starts(source)


def _exact(nodes: int, edges: int) -> Capacity:
    """A shape without padding. If the share of a process has no graph (in a short last batch), it is one padding node."""
    return Capacity(nodes, edges, True) if nodes else Capacity(1, 0)


def round_up(value: int) -> int:
    """Round up to a multiple of about 1/16 of the size: few different shapes, little padding."""
    step = max(8, 2 ** max(0, value.bit_length() - 5))
    return -(-value // step) * step


def _fits(graphs: GraphSet, device: torch.device) -> bool:
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return 2 * graphs.nbytes() < free


def move_batch(batch: GraphBatch, device: torch.device) -> GraphBatch:
    """The batch on another device. The copy is asynchronous."""
    changes: dict[str, Any] = {}
    for f in dataclasses.fields(batch):
        value = getattr(batch, f.name)
        if isinstance(value, Tensor):
            changes[f.name] = value.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else value
        elif isinstance(value, Neighbors):
            changes[f.name] = value.to(device)
    return dataclasses.replace(batch, **changes)
