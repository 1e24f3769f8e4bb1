"""A cell: the walk through the three levels, the fusion of its outputs, norm and residual.

One class serves both ends of the search. A link carries one or several candidate operations: a supernet's cell has all
of them, mixed by weights it is handed; a found cell has one a link and needs no weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.errors import InputError, choose
from gnas.genotype import CellGenotype
from gnas.graph import GraphBatch, Neighbors
from gnas.operations import (
    OPERATIONS,
    NeighborMean,
    Operation,
    StackedBatchNorm,
    StackedLinear,
    Variant,
    reduce_together,
)
from gnas.space import SpaceLink

FUSIONS = ("concat", "sum", "mean", "max")
REDUCTIONS = ("sum", "mean", "max")
OperationTypes = Mapping[str, Callable[..., Operation]]


@dataclass(frozen=True)
class CellConfig:
    """How a cell is built around its links."""

    variant: Variant
    norm: bool = True
    fusion: str = "concat"
    residual: bool = True
    dropout: float = 0.0
    slope: float = 0.0
    operations: OperationTypes | None = None

    def __post_init__(self) -> None:
        choose(self.fusion, FUSIONS, "fusion")

    def operation(self, name: str) -> Callable[..., Operation]:
        known = {**OPERATIONS, **(self.operations or {})}
        return known[choose(name, known, "operation")]


@dataclass(frozen=True)
class Slot:
    """One candidate operation on one link; ``index`` is its place in the cell's flat list of mixing weights."""

    source: int
    target: int
    operation: str
    index: int


class Transform(nn.Module):
    """What follows each operation: linear, batch norm, ReLU, for a whole stack of operations."""

    def __init__(self, count: int, channels: int, norm: bool) -> None:
        super().__init__()
        self.linear = StackedLinear(count, channels, channels)
        self.norm = StackedBatchNorm(count, channels) if norm else None

    def forward(self, h: Tensor, mask: Tensor | None) -> Tensor:
        h = self.linear(h)
        return F.relu(h if self.norm is None else self.norm(h, mask))


class Stage(nn.Module):
    """Operations whose sources are known at the same moment, evaluated together."""

    def __init__(self, slots: Sequence[Slot], channels: int, config: CellConfig) -> None:
        super().__init__()
        bare = config.variant.bare
        kinds = list(dict.fromkeys(s.operation for s in slots))
        kinds.sort(key=lambda kind: kind in bare)  # stable: what a transform follows comes first
        self.slots = tuple(s for kind in kinds for s in slots if s.operation == kind)
        self.sources = {kind: [s.source for s in slots if s.operation == kind] for kind in kinds}
        self.targets = sorted({s.target for s in slots})
        self.kinds = nn.ModuleDict(
            {kind: config.operation(kind)(channels, len(self.sources[kind]), config.variant) for kind in kinds}
        )
        transformed = sum(s.operation not in bare for s in slots)
        self.transformed = transformed
        self.transform = Transform(transformed, channels, config.norm) if transformed else None
        self.single = len(self.slots) == len(self.targets)
        hits = torch.tensor([[s.target == t for s in self.slots] for t in self.targets])
        self.register_buffer("hits", hits.float(), persistent=False)
        self.register_buffer("order", torch.tensor([s.index for s in self.slots]), persistent=False)

    hits: Tensor
    order: Tensor

    def forward(
        self, nodes: Mapping[int, Tensor], x: Tensor, batch: GraphBatch, weights: Tensor | None
    ) -> list[Tensor]:
        """What the stage adds to each of its targets."""
        results = self.evaluate(nodes, x, batch)
        if weights is None and self.single:
            return [results[[s.target for s in self.slots].index(t)] for t in self.targets]
        mixing = self.hits.to(results.dtype)
        if weights is not None:
            mixing = mixing * weights.index_select(0, self.order)
        return list((mixing @ results.flatten(1)).view(-1, *results.shape[1:]))

    def evaluate(self, nodes: Mapping[int, Tensor], x: Tensor, batch: GraphBatch) -> Tensor:
        """Results of all operations, in the order of ``slots``: ``[slots, nodes, channels]``."""
        stacks: dict[tuple[int, ...], Tensor] = {}
        inputs = {kind: _stack(nodes, sources, stacks) for kind, sources in self.sources.items()}
        raw = self._aggregations(inputs, batch.neighbors)
        for kind, operation in self.kinds.items():
            if kind not in raw:
                raw[kind] = operation(inputs[kind], x, batch.neighbors)
        results = _cat([raw[kind] for kind in self.kinds])
        if self.transform is None:
            return results
        done = self.transform(results[: self.transformed], batch.node_mask)
        return done if self.transformed == len(self.slots) else torch.cat([done, results[self.transformed :]])

    def places(self) -> dict[tuple[int, int, str], list[tuple[nn.Module, int]]]:
        """Where each operation's parameters live: (module, row of its stack) pairs."""
        found: dict[tuple[int, int, str], list[tuple[nn.Module, int]]] = {}
        seen: dict[str, int] = {}
        for number, slot in enumerate(self.slots):
            row = seen.setdefault(slot.operation, 0)
            seen[slot.operation] += 1
            pairs: list[tuple[nn.Module, int]] = [(self.kinds[slot.operation], row)]
            if self.transform is not None and number < self.transformed:
                pairs.append((self.transform, number))
            found[slot.source, slot.target, slot.operation] = pairs
        return found

    def _aggregations(self, inputs: Mapping[str, Tensor], neighbors: Neighbors) -> dict[str, Tensor]:
        messages = {}
        for kind in self.kinds:
            operation = self.kinds[kind]
            if kind in REDUCTIONS and type(operation).__module__ == NeighborMean.__module__:
                messages[kind] = (
                    operation.messages(inputs[kind]) if isinstance(operation, NeighborMean) else inputs[kind]
                )
        return reduce_together(messages, neighbors) if messages else {}


def _stack(nodes: Mapping[int, Tensor], sources: Sequence[int], known: dict[tuple[int, ...], Tensor]) -> Tensor:
    """Latent nodes as one tensor, built once for all kinds of operation that read the same ones."""
    key = tuple(sources)
    if key not in known:
        same = len(set(key)) == 1
        known[key] = nodes[key[0]].expand(len(key), -1, -1) if same else torch.stack([nodes[s] for s in key])
    return known[key]


def _cat(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


class Cell(nn.Module):
    """One layer: ``nodes[j] = sum of operations on links into j``, outputs fused by FC-BN-ReLU, plus the input."""

    def __init__(
        self,
        links: Sequence[SpaceLink],
        outputs: Sequence[int],
        channels: int,
        config: CellConfig,
        level: Callable[[int], int],
    ) -> None:
        super().__init__()
        self.outputs, self.config = tuple(outputs), config
        slots = []
        for link in links:
            for operation in link.candidates:
                slots.append(Slot(link.source, link.target, operation, len(slots)))
        slots = [s for s in slots if s.operation != "zero"]
        self.stages = nn.ModuleList(Stage(group, channels, config) for group in _group(slots, level))
        width = channels * len(self.outputs) if config.fusion == "concat" else channels
        self.fuse = StackedLinear(1, width, channels)
        self.norm = StackedBatchNorm(1, channels) if config.norm else None

    @staticmethod
    def from_genotype(cell: CellGenotype, channels: int, config: CellConfig) -> Cell:
        """The cell a genotype describes; branches that never reach the output are left out."""
        live = set(cell.live())
        links = [SpaceLink(k.source, k.target, (k.operation,)) for k in cell.links if k.target in live]
        return Cell(links, cell.output_nodes(), channels, config, cell.level)

    def forward(self, x: Tensor, batch: GraphBatch, weights: Tensor | None = None) -> Tensor:
        nodes = self.walk(x, batch, weights)
        out = self.fuse(self._fused([nodes[j] for j in self.outputs])[None])
        out = out if self.norm is None else self.norm(out, batch.node_mask)
        out = F.leaky_relu(out, self.config.slope) if self.config.slope else F.relu(out)
        out = F.dropout(out[0], self.config.dropout, self.training)
        return x + out if self.config.residual else out

    def walk(self, x: Tensor, batch: GraphBatch, weights: Tensor | None = None) -> dict[int, Tensor]:
        """All latent nodes, the input being node 0."""
        nodes = {0: x}
        for stage in self.stages:
            for target, value in zip(stage.targets, stage(nodes, x, batch, weights), strict=True):
                nodes[target] = nodes[target] + value if target in nodes else value
        return nodes

    @torch.no_grad()
    def inherit(self, other: Cell) -> None:
        """Copy weights and running statistics from a cell that has, among others, all of this cell's operations."""
        theirs = {key: place for stage in other.stages for key, place in stage.places().items()}
        for stage in self.stages:
            for key, mine in stage.places().items():
                for (own, row), (source, source_row) in zip(mine, theirs[key], strict=True):
                    for name, value in source.state_dict().items():
                        own.state_dict()[name][row].copy_(value[source_row])
        columns = slice(None)
        if self.config.fusion == "concat":
            width = self.fuse.weight.size(1) // len(self.outputs)
            columns = torch.cat([torch.arange(width) + width * other.outputs.index(j) for j in self.outputs])
        self.fuse.weight.copy_(other.fuse.weight[:, columns])
        self.fuse.bias.copy_(other.fuse.bias)
        if self.norm is not None:
            self.norm.load_state_dict(other.norm.state_dict())

    def _fused(self, branches: list[Tensor]) -> Tensor:
        if self.config.fusion == "concat":
            return torch.cat(branches, dim=1)
        stacked = torch.stack(branches)
        return {"sum": stacked.sum, "mean": stacked.mean, "max": stacked.amax}[self.config.fusion](dim=0)


def _group(slots: Sequence[Slot], level: Callable[[int], int]) -> list[list[Slot]]:
    """Slots by the moment their source is complete, level by level: all aggregations fall into one stage, one pass."""
    rank = {0: 0}
    groups: dict[tuple[int, int], list[Slot]] = {}
    for slot in sorted(slots, key=lambda s: s.target):
        if slot.source not in rank:
            raise InputError(f"link {slot.source} -> {slot.target} starts at a node that nothing reaches")
        moment = rank[slot.source] if level(slot.source) == level(slot.target) else 0
        rank[slot.target] = max(rank.get(slot.target, 0), moment + 1)
        groups.setdefault((level(slot.target), moment), []).append(slot)
    return [groups[key] for key in sorted(groups)]
