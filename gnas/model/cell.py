"""A cell: the walk through the three levels, the fusion of its outputs, norm and residual, and what may follow.

One class serves supernets and networks. A link has one or several candidate operations: the cell of a supernet has all of
them, mixed by weights that it is called with; the cell of a genotype has one per link and needs no weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.arch.genotype import CellGenotype
from gnas.arch.space import SpaceLink
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.kernels import fused
from gnas.model.edges import EdgeInputs, Edges, Relation
from gnas.model.operations import MESSAGE_TYPES
from gnas.model.stacked import BatchNorm, Linear, StackedBatchNorm, StackedLinear, as_stack
from gnas.model.stage import CellConfig, Slot, Stage


class Cell(nn.Module):
    """One layer: ``nodes[j] = sum of operations on links into j``, outputs fused by FC-BN-ReLU, plus the input.

    ``updates_edges``: whether it gives the edges a new state, ``e' = e + ReLU(BN(r))``; else they keep theirs.
    """

    def __init__(
        self,
        links: Sequence[SpaceLink],
        outputs: Sequence[int],
        channels: int,
        config: CellConfig,
        level: Callable[[int], int],
        updates_edges: bool = False,
    ) -> None:
        super().__init__()
        self.outputs, self.config = tuple(outputs), config
        candidates = [(link, operation) for link in links for operation in link.candidates]
        slots = [Slot(k.source, k.target, name, n) for n, (k, name) in enumerate(candidates) if name != "zero"]
        stages = [Stage(group, channels, config) for group in _group(slots, level)]
        self.stages = nn.ModuleList(stages)
        width = channels * len(self.outputs) if config.fusion == "concat" else channels
        self.fuse = StackedLinear(1, width, channels, bias=config.mlp > 1 or not config.norm)
        self.fuse_second = StackedLinear(1, channels, channels, bias=not config.norm) if config.mlp > 1 else None
        self.norm = StackedBatchNorm(1, channels) if config.norm else None
        self.messages = frozenset(name for stage in stages for name in stage.messages)
        related = updates_edges or any(MESSAGE_TYPES[name].reads_relation for name in self.messages)
        self.relation = Relation(channels, config.edge_state) if related else None
        self.updates_edges = updates_edges
        self.edge_norm = BatchNorm(channels) if updates_edges and config.norm else None
        self.ffn = FeedForward(channels, config.dropout, config.norm) if config.ffn else None
        self.alone = fused.Groups([0])
        # A cell's flat mixing weights, regrouped so that each stage reads a slice.
        self.register_buffer(
            "order", torch.tensor([s.index for stage in stages for s in stage.slots]), persistent=False
        )
        self.sizes = [len(stage.slots) for stage in stages]

    order: Tensor

    @staticmethod
    def from_genotype(cell: CellGenotype, channels: int, config: CellConfig, updates_edges: bool = False) -> Cell:
        """The cell a genotype describes; branches that do not reach the output are left out."""
        live = set(cell.live())
        links = [SpaceLink(k.source, k.target, (k.operation,)) for k in cell.links if k.target in live]
        return Cell(links, cell.output_nodes(), channels, config, cell.level, updates_edges)

    def forward(
        self,
        x: Tensor,
        batch: GraphBatch,
        weights: Tensor | None = None,
        edges: Edges | None = None,
        e: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The node embeddings after this cell, and the state of the edges.

        Args:
            x: The node embeddings before it, ``[nodes, channels]``.
            batch: The graphs.
            weights: One number for each candidate of each link, in the order the links were given.
            edges: The edges of ``batch``, if the caller has them.
            e: The state of the edges, ``[edges, channels]`` or ``[1, channels]``.
        """
        related, x = self._relate(x, batch, edges, e) if self.messages or self.updates_edges else (None, x)
        nodes = self.walk(x, batch, weights, related)
        out, x = self._fuse([nodes[j] for j in self.outputs], x)
        dropped = self.config.dropout > 0 and self.training
        drops: tuple[fused.Drop, ...] = ()
        if dropped and self.norm is not None and not self.config.slope and self.norm.can_drop(out):
            drops, dropped = fused.draw_drops(self.config.dropout, 3, out), False
        added = self.config.residual and not dropped  # by the norm itself
        out = self._activated(out, batch.node_mask, x if added else None, *drops[:1]).squeeze(0)
        out = F.dropout(out, self.config.dropout) if dropped else out
        out = x + out if self.config.residual and not added else out
        out = out if self.ffn is None else self.ffn(out, batch.node_mask, drops[1:])
        return out, self._updated(e if related is None else related.e, related)

    def _fuse(self, branches: list[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        """The linear maps of the outputs, ``[1, nodes, channels]``, and ``x`` for the other functions that read it."""
        second = self.fuse_second
        if fused.joins(*branches):
            apart = self.config.fusion == "concat" and len(branches) <= 2
            inputs = branches if apart else [self._fused(branches)]
            around = fused.Around(relu=second is not None)
            given = ([one[None] for one in inputs], self.fuse.weight, self.fuse.bias, around)
            if inputs[0] is x:
                out, x = fused.linear_through(*given)
                x = x.squeeze(0)
            else:
                out = fused.linear(*given)
        else:
            apart = self.config.fusion == "concat"
            out = self.fuse.beside(branches) if apart else self.fuse(self._fused(branches)[None])
            out = out if second is None else F.relu(out)
        return out if second is None else second(out), x

    def _relate(self, x: Tensor, batch: GraphBatch, edges: Edges | None, e: Tensor | None) -> tuple[EdgeInputs, Tensor]:
        """What the messages read of the edges, and ``x`` for the other functions that read it."""
        edges, r = Edges.of(batch) if edges is None else edges, None
        if self.relation is not None:
            r, x, e = self.relation(x, edges, e)
        return EdgeInputs(edges, r, e), x

    def _updated(self, e: Tensor | None, related: EdgeInputs | None) -> Tensor | None:
        """The state of the edges after this cell."""
        if not self.updates_edges or related is None:
            return e
        r = related.relation()
        if self.edge_norm is None:
            return F.relu(r) if e is None else e + F.relu(r)
        own = e is not None and e.shape == r.shape  # otherwise one state serves all edges
        new = self.edge_norm.relu(r, related.edges.mask, e if own else None)
        return new if own or e is None else e + new

    def walk(
        self, x: Tensor, batch: GraphBatch, weights: Tensor | None = None, related: EdgeInputs | None = None
    ) -> dict[int, Tensor]:
        """All latent nodes, the input being node 0."""
        nodes = {0: x}
        shares: Sequence[Tensor | None] = [None] * len(self.sizes)
        if weights is not None:
            shares = weights.index_select(0, self.order).split(self.sizes)
        for stage, share in zip(self.in_order(), shares, strict=True):
            nodes.update(zip(stage.targets, stage(nodes, x, batch, share, related), strict=True))
        return nodes

    def in_order(self) -> list[Stage]:
        """The stages, first to last."""
        return cast("list[Stage]", list(self.stages))

    def _activated(
        self, out: Tensor, mask: Tensor | None, before: Tensor | None, drop: fused.Drop = fused.NO_DROP
    ) -> Tensor:
        """Norm and activation of ``[1, nodes, channels]``, added to ``before``."""
        norm = self.norm
        if norm is not None and fused.serves(self.training) and not self.config.slope:
            return norm.relu_mix(out, mask, None, self.alone, [] if before is None else [before], drop=drop)
        out = out if norm is None else norm(out, mask)
        out = F.leaky_relu(out, self.config.slope) if self.config.slope else F.relu(out)
        return out if before is None else before + out

    @torch.no_grad()
    def inherit(self, other: Cell) -> None:
        """Copy weights and running statistics from a cell that has, among others, all of this cell's operations."""
        theirs = {key: place for stage in other.in_order() for key, place in stage.places().items()}
        for stage in self.in_order():
            for key, mine in stage.places().items():
                for (own, row), (source, source_row) in zip(mine, theirs[key], strict=True):
                    for name, value in source.state_dict().items():
                        own.state_dict()[name][row].copy_(value[source_row])
        weight: Tensor = other.fuse.weight
        if self.config.fusion == "concat":
            blocks = weight.chunk(len(other.outputs), dim=1)
            weight = torch.cat([blocks[other.outputs.index(j)] for j in self.outputs], dim=1)
        self.fuse.weight.copy_(weight)
        if self.fuse.bias is not None and other.fuse.bias is not None:
            self.fuse.bias.copy_(other.fuse.bias)
        for name in ("fuse_second", "norm", "relation", "edge_norm", "ffn"):
            own, theirs_too = getattr(self, name), getattr(other, name)
            if own is not None and theirs_too is not None:
                copy_shared(own, theirs_too)

    def _fused(self, branches: list[Tensor]) -> Tensor:
        if self.config.fusion == "concat":
            return torch.cat(branches, dim=1)
        stacked = torch.stack(branches)
        if self.config.fusion == "max":
            return stacked.amax(0)
        return stacked.sum(0) if self.config.fusion == "sum" else stacked.mean(0)


@torch.no_grad()
def copy_shared(own: nn.Module, source: nn.Module) -> None:
    """Copy the weights and statistics that have the same name and shape in both modules."""
    theirs = source.state_dict()
    for name, value in own.state_dict().items():
        if name in theirs and theirs[name].shape == value.shape:
            value.copy_(theirs[name])


def _group(slots: Sequence[Slot], level: Callable[[int], int]) -> list[list[Slot]]:
    """Slots in order of when their source is complete, level by level. All aggregations are in one stage: one pass."""
    rank = {0: 0}
    groups: dict[tuple[int, int], list[Slot]] = {}
    for slot in sorted(slots, key=lambda s: s.target):
        if slot.source not in rank:
            raise InputError(f"link {slot.source} -> {slot.target} starts at a node that nothing reaches")
        moment = rank[slot.source] if level(slot.source) == level(slot.target) else 0
        rank[slot.target] = max(rank.get(slot.target, 0), moment + 1)
        groups.setdefault((level(slot.target), moment), []).append(slot)
    return [groups[key] for key in sorted(groups)]


class FeedForward(nn.Module):
    r"""Two linear layers, residual and norm after them: :math:`\mathrm{BN}(h + W_2\,\mathrm{ReLU}(W_1 h))`, as in GNN+.

    The hidden layer is twice as wide. Dropout acts after each of the two layers.
    """

    def __init__(self, channels: int, dropout: float, norm: bool) -> None:
        super().__init__()
        self.first = Linear(channels, 2 * channels)
        self.second = Linear(2 * channels, channels)
        self.norm = BatchNorm(channels) if norm else None
        self.dropout = dropout

    def forward(self, h: Tensor, mask: Tensor | None, drops: tuple[fused.Drop, ...] = ()) -> Tensor:
        """``drops``: dropout after each of the two, if it was drawn already."""
        if fused.joins(h):
            rate = self.dropout if self.training else 0.0
            maps = (as_stack(self.first), as_stack(self.second))
            out = fused.feed_forward(h[None], *maps, drops or fused.draw_drops(rate, 2, h)).squeeze(0)
        else:
            hidden = self._dropped(self.first(h, relu=True))
            out = h + self._dropped(self.second(hidden))
        return out if self.norm is None else self.norm(out, mask)

    def _dropped(self, h: Tensor) -> Tensor:
        return F.dropout(h, self.dropout, self.training) if self.dropout else h
