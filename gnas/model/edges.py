"""The edges of a batch as rows of a tensor: what an edge reads at its ends, its relation, and what its receiver gathers.

Rows of edges fill the memory: the backward pass computes large ones again (``run_checkpointed``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gnas.graph import GraphBatch, Neighbors
from gnas.kernels import fused
from gnas.kernels.aggregate import aggregate, read_rows
from gnas.model.stacked import Linear, apply_through

LARGE = 2**26  # bytes of one row for each edge: 260,000 edges with 64 channels


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
            return read_rows(h, ends)
        return aggregate(h, ends, "sum")


@dataclass(frozen=True)
class EdgeInputs:
    """What the messages of a cell read of the edges."""

    edges: Edges
    r: Tensor | None = None  # [edges, channels]: the relation, if a message or the edge state needs it
    e: Tensor | None = None  # [edges, channels], or [1, channels] if all edges are alike: the state of the edges

    def relation(self) -> Tensor:
        """``r``, for messages that need it."""
        assert self.r is not None
        return self.r


class Relation(nn.Module):
    r"""The relation of a cell: :math:`r_{ij} = A x_i + B x_j + C e_{ij}`, where i receives and j sends.

    It is computed once per cell, from the cell's input; every gate and attention of the cell reads it.
    """

    def __init__(self, channels: int, edge_state: bool) -> None:
        super().__init__()
        self.nodes = Linear(channels, 2 * channels)  # A and B in one product
        self.edges = Linear(channels, channels, bias=False) if edge_state else None

    def forward(self, x: Tensor, edges: Edges, e: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """``r``, and ``x`` and ``e`` for the other functions that read them."""
        if self.edges is not None and e is not None and edges.have(e) and fused.joins(x, e):
            both, x = apply_through(self.nodes, x, fused.Around())
            r, e = apply_through(self.edges, e, fused.Around(ends=both, neighbors=edges.neighbors))
            return r, x, e
        receiver, sender = self.nodes(x).chunk(2, dim=1)
        r = edges.at_targets(receiver) + edges.at_sources(sender)
        return r if self.edges is None or e is None else r + self.edges(e), x, e


def is_large(edges: Edges, like: Tensor) -> bool:
    """Whether one row for each edge, as wide as the rows of ``like``, takes so much that it is not kept.

    A compiler chooses by itself what to compute again.
    """
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return edges.neighbors.source.numel() * like.size(-1) * like.element_size() >= LARGE


def run_checkpointed(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """``function(*arguments)``, of which only the arguments are kept: the backward pass calls it again.

    The results are the same bits. The function must not draw random numbers or change buffers.
    """
    return cast(Tensor, checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False))
