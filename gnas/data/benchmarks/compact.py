"""A split of a benchmark as small integers: what is kept on disk, and what a ``GraphSet`` is made from in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gnas.data.encoding import Array
from gnas.data.storage import BrokenFile
from gnas.graph import GraphSet


@dataclass(frozen=True)
class Compact:
    """Graphs with edges in the order (graph, target, source): sender numbers, and how many senders each node has."""

    nodes: Array  # [G] nodes of each graph
    degree: Array  # [N] senders of each node
    source: Array  # [E] sender of each edge, local number
    columns: Mapping[str, Array]  # one row for each graph, node or edge

    def __post_init__(self) -> None:
        if self.degree.size != self.nodes.sum(dtype=np.int64) or self.source.size != self.degree.sum(dtype=np.int64):
            raise BrokenFile("node, degree and edge arrays do not fit together")
        rows = {self.nodes.size, self.degree.size, self.source.size}
        for name, column in self.columns.items():
            if len(column) not in rows:
                raise BrokenFile(f"{name} has {len(column)} rows, which is neither graphs, nodes nor edges")

    def __len__(self) -> int:
        return self.nodes.size

    def pointers(self) -> tuple[Array, Array]:
        """First node and first edge of each graph, with the totals at the end."""
        node_ptr = to_offsets(self.nodes)
        return node_ptr, to_offsets(self.degree)[node_ptr]

    def targets(self) -> Array:
        """Receiver of each edge, local number."""
        local = np.arange(self.degree.size) - np.repeat(to_offsets(self.nodes)[:-1], self.nodes)
        return np.repeat(local.astype(_small(self.nodes)), self.degree)

    def graph_set(
        self, x: Tensor, y: Tensor, level: str, edge_attr: Tensor | None = None, pos: Tensor | None = None
    ) -> GraphSet:
        """Flat tensors. The edges are in order already: sorting 60 million of them would cost 10 s and 3 GB."""
        node_ptr, edge_ptr = self.pointers()
        edge_index = torch.from_numpy(np.stack([self.source.astype(_small(self.nodes), copy=False), self.targets()]))
        ptrs = torch.from_numpy(node_ptr), torch.from_numpy(edge_ptr)
        return GraphSet(x, edge_index, *ptrs, y, level, edge_attr=edge_attr, pos=pos)

    def arrays(self, split: str) -> dict[str, Array]:
        """Named arrays for a prepared file."""
        named = {"nodes": self.nodes, "degree": self.degree, "source": self.source, **self.columns}
        return {f"{split}.{name}": value for name, value in named.items()}

    @staticmethod
    def from_arrays(split: str, arrays: Mapping[str, Array]) -> Compact:
        """The split back from its named arrays."""
        mine = {name.removeprefix(f"{split}."): v for name, v in arrays.items() if name.startswith(f"{split}.")}
        try:
            return Compact(mine.pop("nodes"), mine.pop("degree"), mine.pop("source"), mine)
        except KeyError as missing:
            raise BrokenFile(f"the array {split}.{missing.args[0]} is missing") from None

    @staticmethod
    def from_edges(
        nodes: Array, edges: Array, ends: Array, columns: Mapping[str, Array], along: Mapping[str, Array]
    ) -> Compact:
        """Sort edges whose ``ends``, [2, E], are in any order; ``edges`` counts those of each graph.

        ``columns`` are those of graphs and nodes, ``along`` those of edges, which are sorted too.
        """
        source, target = ends
        target = target + np.repeat(to_offsets(nodes)[:-1], edges)
        order = np.lexsort((source, target))
        carried = {name: value[order] for name, value in along.items()}
        return Compact._of(nodes, source[order], target, {**columns, **carried})

    @staticmethod
    def from_graphs(graphs: GraphSet, columns: Mapping[str, Array]) -> Compact:
        """From a ``GraphSet``, whose edges are in order."""
        source, target = graphs.edge_index.numpy()
        target = target + np.repeat(graphs.node_ptr[:-1].numpy(), graphs.edge_counts.numpy())
        return Compact._of(graphs.node_counts.numpy(), source, target, columns)

    @staticmethod
    def _of(nodes: Array, source: Array, target: Array, columns: Mapping[str, Array]) -> Compact:
        """From sources in order and targets numbered through all graphs."""
        small = np.uint8 if nodes.max(initial=0) <= 256 else np.int32
        degree = np.bincount(target, minlength=int(nodes.sum()))
        return Compact(nodes, degree.astype(small), source.astype(small), columns)


Splits = dict[str, Compact]


def to_offsets(counts: Array) -> Array:
    """Running totals of ``counts``, from 0."""
    return np.concatenate([[0], counts.cumsum(dtype=np.int64)])


def _small(nodes: Array) -> type[np.signedinteger]:
    return np.int16 if nodes.max(initial=0) < 2**15 else np.int32
