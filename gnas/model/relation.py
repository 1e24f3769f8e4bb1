"""What an edge knows: the relation of its two ends and its own state."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gnas.kernels import fused
from gnas.model.edges import Edges
from gnas.model.stacked import apply_through


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
        self.nodes = nn.Linear(channels, 2 * channels)  # A and B in one product
        self.edges = nn.Linear(channels, channels, bias=False) if edge_state else None

    def forward(self, x: Tensor, edges: Edges, e: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """``r``, and ``x`` and ``e`` for whoever else reads them."""
        if self.edges is not None and e is not None and edges.have(e) and fused.joins(x, e):
            both, x = apply_through(self.nodes, x, fused.Around())
            r, e = apply_through(self.edges, e, fused.Around(ends=both, neighbors=edges.neighbors))
            return r, x, e
        receiver, sender = self.nodes(x).chunk(2, dim=1)
        r = edges.at_targets(receiver) + edges.at_sources(sender)
        return r if self.edges is None or e is None else r + self.edges(e), x, e
