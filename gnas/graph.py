"""Graphs as flat tensors: a set of graphs at rest (GraphSet), a batch a network reads (GraphBatch), and who sends to
whom (Neighbors)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnas.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Neighbors:
    """Senders of every receiver, edges sorted by receiver, with row pointers both ways.

    ``source[ptr[r]:ptr[r+1]]`` are the senders of receiver ``r``. ``back`` lists edge positions sorted by sender, so that a
    gradient can be summed for each sender without atomics. Pointers may leave trailing (padding) edges uncovered.
    """

    source: Tensor  # [E]
    target: Tensor  # [E], non-decreasing
    ptr: Tensor  # [receivers + 1]
    back: Tensor  # [E]
    back_ptr: Tensor  # [senders + 1]

    @property
    def num_receivers(self) -> int:
        return self.ptr.numel() - 1

    @property
    def num_senders(self) -> int:
        return self.back_ptr.numel() - 1

    def degree(self) -> Tensor:
        """Number of senders of each receiver."""
        return self.ptr.diff()

    def to(self, device: torch.device | str) -> Neighbors:
        return Neighbors(*(getattr(self, f.name).to(device, non_blocking=True) for f in dataclasses.fields(self)))

    @staticmethod
    def from_edges(edge_index: Tensor, num_senders: int, num_receivers: int) -> tuple[Neighbors, Tensor]:
        """Sort edges by (receiver, sender); also returns the order, to carry edge data along."""
        source, target = edge_index
        order = torch.argsort(target.long() * num_senders + source.long(), stable=True)
        source, target = source[order].int(), target[order].int()
        back = torch.argsort(source, stable=True).int()
        return Neighbors(
            source, target, _pointers(target, num_receivers), back, _pointers(source[back], num_senders)
        ), order

    @staticmethod
    def members(batch: Tensor, num_graphs: int) -> Neighbors:
        """Nodes as senders to the graph they belong to; ``batch`` must be non-decreasing."""
        each = torch.arange(batch.numel() + 1, device=batch.device, dtype=torch.int32)
        return Neighbors(each[:-1], batch.int(), _pointers(batch, num_graphs), each[:-1], each)


def _pointers(sorted_ids: Tensor, size: int) -> Tensor:
    edges = torch.arange(size + 1, device=sorted_ids.device, dtype=sorted_ids.dtype)
    return torch.searchsorted(sorted_ids.contiguous(), edges).int()


@dataclass(frozen=True)
class GraphBatch:
    """What a network reads: several graphs as one. Padding, if any, comes last, with one dummy graph that owns it.

    Networks also take PyG's tensors or batches, so you rarely make one yourself.

    Args:
        x: Categories (whole numbers) or features of the nodes, one row each.
        neighbors: The edges, sorted by target.
        members: Which nodes belong to which graph.
        y: Targets: one row for each graph, node, edge or pair.
        node_mask: Real nodes; None: all of them.
        target_mask: Rows of ``y`` that count; None: all of them.
        edge_attr, pos: Columns of edges; positions of nodes.
        node_pe, edge_pe: Encodings of nodes (walks, then Laplacian eigenvectors) and of edges (walks between the two ends).
        graph_attr: Columns of whole graphs, standardised.
        target_rows: The row of the split's targets that each row of ``y`` is.
        edge_order: The place of each sorted edge in the caller's ``edge_index``.
        pairs: Pairs of nodes that a link task scores: PyG's ``edge_label_index``.

    >>> batch = gnas.GraphBatch.from_pyg(data.test[0])
    >>> network(batch).shape == network(data.test[0].x, data.test[0].edge_index).shape
    True
    """

    x: Tensor  # [N, F] categories (integer) or features (float)
    neighbors: Neighbors
    members: Neighbors
    y: Tensor | None = None  # one row for each graph, node, edge or pair
    node_mask: Tensor | None = None  # [N] bool; None: every node is real
    target_mask: Tensor | None = None  # rows of y that count; None: all of them
    edge_attr: Tensor | None = None
    pos: Tensor | None = None
    node_pe: Tensor | None = None  # [N, P] encodings of nodes: walks, then Laplacian eigenvectors
    edge_pe: Tensor | None = None  # [E, Q] encodings of edges: walks between the two ends
    graph_attr: Tensor | None = None  # [G, F] features of whole graphs, standardised
    target_rows: Tensor | None = None  # row of the split's targets that each row of y is; padding is past the last one
    edge_order: Tensor | None = None  # position of each sorted edge in the caller's edge_index
    pairs: Tensor | None = None  # [2, R] pairs of nodes that a link task scores: PyG's edge_label_index

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_graphs(self) -> int:
        return self.members.num_receivers

    @property
    def batch(self) -> Tensor:
        return self.members.target

    @staticmethod
    def from_edges(
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
        edge_attr: Tensor | None = None,
    ) -> GraphBatch:
        """A batch from PyG's tensors: ``x``, ``edge_index``, ``edge_attr`` and, for several graphs, ``batch``."""
        if x.dim() == 1:
            x = x[:, None]
        if batch is None:
            batch, num_graphs = torch.zeros(x.size(0), dtype=torch.long, device=x.device), 1
        if not torch.compiler.is_compiling():
            _check_edges(edge_index, batch, x.size(0))
        if num_graphs is None:
            num_graphs = int(batch.max()) + 1 if batch.numel() else 0
        if edge_attr is not None and edge_attr.size(0) != edge_index.size(1):
            raise InputError(f"edge_attr has {edge_attr.size(0)} rows; edge_index has {edge_index.size(1)} edges")
        neighbors, order = Neighbors.from_edges(edge_index, x.size(0), x.size(0))
        members = Neighbors.members(batch, num_graphs)
        edge_attr = None if edge_attr is None else edge_attr[order]
        return GraphBatch(x, neighbors, members, edge_attr=edge_attr, edge_order=order)

    @staticmethod
    def from_pyg(data: Data) -> GraphBatch:
        """A batch from a PyG ``Data`` or ``Batch``."""
        if data.x is None:
            raise InputError("the graph has no node features: set data.x (categories as integers, or floats)")
        batch = GraphBatch.from_edges(
            data.x, data.edge_index, getattr(data, "batch", None), getattr(data, "num_graphs", 1), data.edge_attr
        )
        pairs = getattr(data, "edge_label_index", None)
        if pairs is not None and pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < batch.num_nodes:
            raise InputError(
                f"edge_label_index names nodes {int(pairs.min())} to {int(pairs.max())} of {batch.num_nodes}"
            )
        return dataclasses.replace(batch, y=data.y, graph_attr=getattr(data, "graph_attr", None), pairs=pairs)


def _check_edges(edge_index: Tensor, batch: Tensor, num_nodes: int) -> None:
    """Refuse what the kernels, which trust their input, would read out of bounds."""
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index has the shape {list(edge_index.shape)}; [2, edges] is needed")
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        low, high = int(edge_index.min()), int(edge_index.max())
        raise InputError(f"edge_index names nodes {low} to {high}; the graph has {num_nodes}, counted from 0")
    if batch.shape != (num_nodes,) or bool((batch.diff() < 0).any()):
        raise InputError("batch must hold one graph number for each node, in ascending order")


@dataclass(frozen=True)
class GraphSet:
    """Many graphs at rest: flat tensors, node numbers local to each graph, edges sorted by (graph, target, source).

    Args:
        x: Categories (whole numbers) or features of all nodes, one row each.
        edge_index: Sources and targets of all edges, numbered within their graph.
        node_ptr, edge_ptr: Where the nodes and edges of each graph begin.
        y: A row for each graph, node, edge or, at level ``link``, for each of the ``pairs``.
        level: What ``y`` has its rows for.
        mask: The rows that belong to this split when several splits share one graph (transductive data).
        edge_attr, pos: Columns of edges; positions of nodes.
        node_pe, edge_pe: Encodings of nodes and edges.
        graph_attr: Columns of whole graphs.
        sample_neighbors: Batches are sampled neighbourhoods with this many neighbours per hop
            (``gnas.training.sampling``), instead of whole graphs.
        rows: The row of the user's data that each row of ``y`` came from.
        pairs, pair_ptr: Pairs of nodes that a link task scores, and where those of each graph begin.
        draw_negatives: Training draws new negative pairs in every pass.

    >>> graphs = gnas.load("cluster-mini").train
    >>> len(graphs), graphs.x.size(0) == graphs.num_nodes
    (240, True)
    >>> graphs[0]  # one graph as PyG's Data  # doctest: +ELLIPSIS
    Data(...)
    """

    x: Tensor  # [N, F]
    edge_index: Tensor  # [2, E] (source, target), local numbers
    node_ptr: Tensor  # [G + 1]
    edge_ptr: Tensor  # [G + 1]
    y: Tensor
    level: str = "graph"
    mask: Tensor | None = None
    edge_attr: Tensor | None = None
    pos: Tensor | None = None
    node_pe: Tensor | None = None  # [N, P] encodings of nodes: walks, then Laplacian eigenvectors
    edge_pe: Tensor | None = None  # [E, Q] encodings of edges: walks between the two ends
    graph_attr: Tensor | None = None  # [G, F] features of whole graphs, standardised
    sample_neighbors: tuple[int, ...] = ()
    rows: Tensor | None = None  # [G] number of each graph in the source; None: not known
    pairs: Tensor | None = None  # [2, R] grouped by graph, local numbers; messages do not use them
    pair_ptr: Tensor | None = None  # [G + 1]
    draw_negatives: bool = False  # a training draws new pairs with y = 0 in every pass

    def __len__(self) -> int:
        return self.node_ptr.numel() - 1

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def node_counts(self) -> Tensor:
        return self.node_ptr.diff()

    @property
    def edge_counts(self) -> Tensor:
        return self.edge_ptr.diff()

    @property
    def pair_counts(self) -> Tensor:
        """Pairs of each graph."""
        return torch.zeros_like(self.node_counts) if self.pair_ptr is None else self.pair_ptr.diff()

    @property
    def num_targets(self) -> int:
        """Target rows that belong to the split."""
        return self.y.size(0) if self.mask is None else int(self.mask.sum())

    def targets(self) -> Tensor:
        """Targets that belong to the split."""
        return self.y if self.mask is None else self.y[self.mask]

    def nbytes(self) -> int:
        """Bytes that the tensors take."""
        tensors = (getattr(self, f.name) for f in dataclasses.fields(self))
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))

    @staticmethod
    def build(
        x: Tensor,
        edge_index: Tensor,
        node_ptr: Tensor,
        edge_ptr: Tensor,
        y: Tensor,
        level: str = "graph",
        mask: Tensor | None = None,
        edge_attr: Tensor | None = None,
        pos: Tensor | None = None,
        graph_attr: Tensor | None = None,
    ) -> GraphSet:
        """A set of graphs from flat tensors whose edges are in any order; see the class for the arguments.

        The edges of each graph are sorted by (target, source), and node numbers are stored as small integers.
        """
        node_ptr, edge_ptr = node_ptr.long(), edge_ptr.long()
        graph = torch.repeat_interleave(torch.arange(edge_ptr.numel() - 1), edge_ptr.diff())
        largest = int(node_ptr.diff().max()) if node_ptr.numel() > 1 else 0
        small = torch.int16 if largest < 2**15 else torch.int32
        if x.dim() == 1:
            x = x[:, None]
        source, target = edge_index.long()
        order = torch.argsort((graph * largest + target) * largest + source, stable=True)
        if level == "edge":
            y, mask = y[order], None if mask is None else mask[order]
        edge_attr = None if edge_attr is None else edge_attr[order]
        edges = edge_index[:, order].to(small)
        return GraphSet(x, edges, node_ptr, edge_ptr, y, level, mask, edge_attr, pos, graph_attr=graph_attr)

    @staticmethod
    def from_data(graphs: Sequence[Data], level: str = "graph") -> GraphSet:
        """From PyG ``Data`` objects, in order."""
        nodes = torch.tensor([0] + [int(g.num_nodes or 0) for g in graphs]).cumsum(0)
        edges = torch.tensor([0] + [g.edge_index.size(1) for g in graphs]).cumsum(0)

        def rows(name: str) -> Tensor | None:
            values = [value for g in graphs if (value := getattr(g, name, None)) is not None]
            if len(values) < len(graphs):
                return None
            return torch.cat([v.reshape(1) if v.dim() == 0 else v for v in values])

        x, y = rows("x"), rows("y")
        if x is None or y is None:
            raise InputError(f"every graph needs x and y; {'x' if x is None else 'y'} is missing in at least one")
        edge_index = torch.cat([g.edge_index for g in graphs], dim=1)
        return GraphSet.build(x, edge_index, nodes, edges, y, level, edge_attr=rows("edge_attr"), pos=rows("pos"))

    def __getitem__(self, index: int) -> Data:
        """One graph as a PyG ``Data``."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        from torch_geometric.data import Data  # late: it takes as long to import as torch itself

        one = self.select(torch.tensor([index % len(self)]))
        data = Data(x=one.x, edge_index=one.edge_index.long(), y=one.y)
        for name in ("mask", "edge_attr", "pos", "node_pe", "edge_pe", "graph_attr"):
            value = getattr(one, name)
            if value is not None:
                data[name] = value
        if one.pairs is not None:
            data.edge_label_index, data.edge_label = one.pairs.long(), one.y
        return data

    def select(self, ids: Tensor | Sequence[int]) -> GraphSet:
        """The graphs with these numbers, in this order."""
        ids = torch.as_tensor(ids, dtype=torch.long)
        nodes, node_ptr = _rows(self.node_ptr, ids)
        edges, edge_ptr = _rows(self.edge_ptr, ids)
        pairs, pair_ptr = (None, None) if self.pair_ptr is None else _rows(self.pair_ptr, ids)
        rows = {"graph": ids, "node": nodes, "edge": edges, "link": pairs}[self.level]
        assert rows is not None, "graphs at level link have pairs"

        def take(value: Tensor | None, index: Tensor) -> Tensor | None:
            return None if value is None else value[index]

        return GraphSet(
            self.x[nodes],
            self.edge_index[:, edges],
            node_ptr,
            edge_ptr,
            self.y[rows],
            self.level,
            take(self.mask, rows),
            take(self.edge_attr, edges),
            take(self.pos, nodes),
            take(self.node_pe, nodes),
            take(self.edge_pe, edges),
            take(self.graph_attr, ids),
            self.sample_neighbors,
            take(self.rows, ids),
            None if self.pairs is None or pairs is None else self.pairs[:, pairs],
            pair_ptr,
            self.draw_negatives,
        )

    def select_pairs(self, keep: Tensor) -> GraphSet:
        """The same graphs with the pairs that the mask ``keep`` marks."""
        assert self.pairs is not None, "graphs at level link have pairs"
        graph = torch.repeat_interleave(torch.arange(len(self)), self.pair_counts)[keep]
        ptr = torch.cat([graph.new_zeros(1), torch.bincount(graph, minlength=len(self)).cumsum(0)])
        return dataclasses.replace(self, pairs=self.pairs[:, keep], pair_ptr=ptr, y=self.y[keep], mask=None)

    def batch(self) -> GraphBatch:
        """All graphs of this set as one batch, unpadded."""
        graph = torch.repeat_interleave(torch.arange(len(self)), self.node_counts)
        shift = torch.repeat_interleave(self.node_ptr[:-1], self.edge_counts)
        edge_index = self.edge_index.long() + shift
        neighbors, _ = Neighbors.from_edges(edge_index, self.num_nodes, self.num_nodes)
        members = Neighbors.members(graph, len(self))
        kept = {name: getattr(self, name) for name in ("edge_attr", "pos", "node_pe", "edge_pe", "graph_attr")}
        if self.pairs is not None:
            kept["pairs"] = self.pairs.long() + torch.repeat_interleave(self.node_ptr[:-1], self.pair_counts)
        return GraphBatch(self.x, neighbors, members, self.y, target_mask=self.mask, **kept)


def _rows(ptr: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers of the chosen graphs one after another, and the pointers of the result."""
    counts = ptr.diff()[ids]
    new_ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    within = torch.arange(int(new_ptr[-1])) - torch.repeat_interleave(new_ptr[:-1], counts)
    return torch.repeat_interleave(ptr[:-1][ids], counts) + within, new_ptr
