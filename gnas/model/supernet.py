"""The supernet: every link of every cell holds all its candidates, mixed by softmax(alpha)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.arch.space import SearchSpace, SpaceLink
from gnas.graph import GraphBatch
from gnas.model.cell import Cell, copy_shared
from gnas.model.initial import draw_normal
from gnas.model.network import CellModule, Network
from gnas.model.operations import find_variant
from gnas.model.plan import NetworkPlan
from gnas.model.stage import CellConfig, OperationTypes
from gnas.model.task import Task


@dataclass(frozen=True)
class Choice:
    """The decision at one node: its link, the strength of the link, and the margin over the second strongest."""

    link: Link
    strength: float
    margin: float


class Supernet(CellModule):
    """The continuous relaxation of a search space (paper, Continuous Relaxation and Optimization).

    Alphas are separate from the weights: ``alphas()`` and ``weights()`` never overlap. What is around the cells is the first
    choice of the space's stack.

    Args:
        space: The search space.
        task: What is predicted.
        channels: The width.
        num_cells: Number of cells.
        share_alphas: All cells have the same alphas.
        norm: Batch norm after every operation.
        fusion: How the outputs of a cell are joined: ``concat`` or ``sum``.
        dropout: The dropout rate.
        operations: Your own operations by name.

    >>> from gnas.model.supernet import Supernet
    >>> supernet = Supernet(gnas.SearchSpace(2, 2), data.task, channels=8, num_cells=2)
    >>> len(supernet.genotype().cells)
    2
    """

    def __init__(
        self,
        space: SearchSpace,
        task: Task,
        channels: int = 64,
        num_cells: int = 4,
        *,
        share_alphas: bool = False,
        norm: bool = True,
        fusion: str = "concat",
        dropout: float = 0.0,
        operations: OperationTypes | None = None,
    ) -> None:
        super().__init__()
        kind = find_variant(space.variant)
        self.space, self.task, self.channels, self.num_cells = space, task, channels, num_cells
        self.options = {"norm": norm, "fusion": fusion, "dropout": dropout, "operations": operations}
        self.links = space.links()
        plan = NetworkPlan.make([space.second_level] * num_cells, space.stack.first(), task)
        config = plan.configure(CellConfig(kind, norm, fusion, True, dropout, kind.search_slope, operations))

        def make(number: int, config: CellConfig) -> Cell:
            outputs = space.output_nodes()
            return Cell(self.links, outputs, channels, config, space.level, plan.updates[number])

        self.make_parts(plan, config, channels, make)
        rows = 1 if share_alphas else num_cells
        filters = [k for k in self.links if space.level(k.target) != 2]
        self.filter_alphas = nn.Parameter(draw_normal(rows, len(filters), len(space.filters), std=1e-3))
        self.aggregator_alphas = nn.Parameter(draw_normal(rows, space.nodes, len(space.second_level), std=1e-3))
        self.register_buffer("flat_order", _flat_order(self.links, space), persistent=False)

    flat_order: Tensor

    def alphas(self) -> list[nn.Parameter]:
        """Architecture parameters."""
        return [self.filter_alphas, self.aggregator_alphas]

    def weights(self) -> list[nn.Parameter]:
        """Model parameters."""
        mine = {id(a) for a in self.alphas()}
        return [p for p in self.parameters() if id(p) not in mine]

    def run(self, batch: GraphBatch) -> Tensor:
        return self.run_cells(batch, self.mixing().unbind())

    def mixing(self) -> Tensor:
        """softmax(alpha) of every candidate, ``[cells, candidates]``, in the order of ``space.links()``."""
        flat = torch.cat(
            [self.filter_alphas.softmax(-1).flatten(1), self.aggregator_alphas.softmax(-1).flatten(1)], dim=1
        )
        return flat.index_select(1, self.flat_order).expand(self.num_cells, -1)

    def link_alphas(self, cell: int) -> list[Tensor]:
        """Alphas of one cell, a vector for each of ``space.links()``."""
        row = cell if self.filter_alphas.size(0) > 1 else 0
        filters, aggregators = iter(self.filter_alphas[row]), iter(self.aggregator_alphas[row])
        return [next(aggregators if self.space.level(k.target) == 2 else filters) for k in self.links]

    @torch.no_grad()
    def choices(self) -> list[list[Choice]]:
        """For each cell and node the strongest non-zero operation on the strongest incoming link, and its margin."""
        return [_derive(self.links, [a.detach().cpu() for a in self.link_alphas(c)]) for c in range(self.num_cells)]

    def genotype(self) -> Genotype:
        """The genotype of the present alphas."""
        space = self.space
        cells = [
            CellGenotype(space.nodes, space.outputs, tuple(choice.link for choice in cell), space.output)
            for cell in self.choices()
        ]
        return Genotype(tuple(cells), space.variant, space.stack.first())

    def inherit_weights(self, genotype: Genotype) -> Network:
        """A network of this genotype with the supernet's weights, for quick evaluation.

        Parts that the supernet does not have, because another stack was chosen, keep their random weights.
        """
        network = Network(genotype, self.task, self.channels, **self.options)  # type: ignore[arg-type]
        network.to(self.filter_alphas.device, self.filter_alphas.dtype)
        for name in ("encoder", "edge_encoder", "head"):
            part, source = getattr(network, name), getattr(self, name)
            if part is not None and source is not None:
                copy_shared(part, source)
        for own, cell in zip(network.cells, self.cells, strict=True):
            cast(Cell, own).inherit(cast(Cell, cell))
        return network


def _flat_order(links: tuple[SpaceLink, ...], space: SearchSpace) -> Tensor:
    """Positions in [filter candidates..., aggregator candidates...] that restore the order of the links."""
    filters = [k for k in links if space.level(k.target) != 2]
    first_aggregator = len(filters) * len(space.filters)
    order: list[int] = []
    f, a = 0, first_aggregator
    for link in links:
        size = len(link.candidates)
        if space.level(link.target) == 2:
            order += range(a, a + size)
            a += size
        else:
            order += range(f, f + size)
            f += size
    return torch.tensor(order)


def _derive(links: tuple[SpaceLink, ...], alphas: list[Tensor]) -> list[Choice]:
    """Paper: keep the strongest non-zero operation of a link and the strongest incoming link of a node.

    The strength of an operation is its alpha itself, as in the authors' code; softmax values would rank the links of a
    node differently, because each link normalises over its own candidates.
    """
    best: dict[int, list[tuple[float, Link]]] = {}
    for link, alpha in zip(links, alphas, strict=True):
        for operation, strength in zip(link.candidates, alpha.tolist(), strict=True):
            if operation != "zero":
                best.setdefault(link.target, []).append((strength, Link(link.source, link.target, operation)))
    choices = []
    for target in sorted(best):
        ranked = sorted(best[target], key=lambda pair: -pair[0])
        margin = ranked[0][0] - ranked[1][0] if len(ranked) > 1 else float("inf")
        choices.append(Choice(ranked[0][1], ranked[0][0], margin))
    return choices
