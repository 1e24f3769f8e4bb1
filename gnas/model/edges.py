"""The edges of a batch as rows of a tensor: what an edge reads at its ends, and what a node receives from its edges."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnas.graph import GraphBatch, Neighbors
from gnas.kernels.aggregate import aggregate


@dataclass(frozen=True)
class Edges:
    """The edges of a batch as rows of a tensor: what each reads at its two ends, and what its receiver gathers from it.

    On a GPU, reading is an aggregation with one sender per row, so its gradient, too, is summed along sorted edges:
    deterministic, without atomics. On a CPU, PyTorch's own gather is faster. Padding edges read zeros and reach no node.
    """

    neighbors: Neighbors  # each node receives from the nodes its edges come from
    sources: Neighbors  # each edge receives from its source
    targets: Neighbors  # each edge receives from its target
    incoming: Neighbors  # each node receives from the edges that lead to it
    mask: Tensor | None  # [E] bool; None: every edge is real

    @staticmethod
    def of(batch: GraphBatch) -> Edges:
        """The edges of ``batch``, in its sorted order."""
        n = batch.neighbors
        count = torch.arange(n.source.numel() + 1, device=n.source.device, dtype=torch.int32)
        each, ptr = count[:-1], torch.minimum(count, n.ptr[-1])
        return Edges(
            n,
            Neighbors(n.source, each, ptr, n.back, n.back_ptr),
            Neighbors(n.target, each, ptr, each, n.ptr),
            Neighbors(each, n.target, n.ptr, each, ptr),
            None if batch.node_mask is None else each < n.ptr[-1],
        )

    def have(self, e: Tensor) -> bool:
        """Whether ``e`` has a row for each edge."""
        return e.size(0) == self.neighbors.source.numel()

    def at_sources(self, h: Tensor) -> Tensor:
        """``h[source]``: ``[nodes, C] -> [edges, C]``."""
        return self._read(h, self.sources)

    def at_targets(self, h: Tensor) -> Tensor:
        """``h[target]``: ``[nodes, C] -> [edges, C]``."""
        return self._read(h, self.targets)

    def _read(self, h: Tensor, ends: Neighbors) -> Tensor:
        if h.device.type == "cpu" and self.mask is None:
            return h.index_select(0, ends.source)
        return aggregate(h, ends, "sum")
