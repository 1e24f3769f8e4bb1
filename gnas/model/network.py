"""The network of a genotype: a plain module that any PyG code can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnas.arch.architecture import Architecture
from gnas.arch.gap import genotype as genotype_from_formula
from gnas.arch.genotype import CellGenotype, Genotype
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.cell import Cell
from gnas.model.encoder import Encoder
from gnas.model.encodings import with_encodings
from gnas.model.head import Head
from gnas.model.operations import variant
from gnas.model.stage import CellConfig, OperationTypes
from gnas.model.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data


class GraphModule(nn.Module):
    """A module over graphs, called with a ``GraphBatch`` or PyG's ``(x, edge_index, batch)`` / ``Data`` / ``Batch``."""

    task: Task
    architecture: Architecture | None = None  # None: a class of yours, which no description can build again
    options: Mapping[str, Any] = {}  # the arguments of build_network, such as channels and dropout

    def forward(
        self, x: Tensor | Data | GraphBatch, edge_index: Tensor | None = None, batch: Tensor | None = None
    ) -> Tensor:
        if isinstance(x, GraphBatch):
            return self.run(with_encodings(x, self.task))
        if isinstance(x, Tensor):
            if edge_index is None:
                raise InputError("call the network with (x, edge_index), (x, edge_index, batch) or a PyG Data")
            graph = GraphBatch.from_edges(x, edge_index, batch)
        else:
            graph = GraphBatch.from_pyg(x)
        out = self.run(with_encodings(graph, self.task))
        if self.task.level == "edge" and graph.edge_order is not None:
            out = torch.empty_like(out).index_copy(0, graph.edge_order, out)
        return out

    def run(self, batch: GraphBatch) -> Tensor:
        """Outputs for a batch: one row for each graph, node or (sorted) edge."""
        raise TypeError(f"{type(self).__name__} must define run(batch)")

    def parts(self) -> list[nn.Module]:
        """The modules that ``engine="compiled"`` compiles one by one: the cells, or the whole network."""
        cells = getattr(self, "cells", None)
        return list(cells) if isinstance(cells, nn.ModuleList) else [self]

    def num_weights(self) -> int:
        """Number of trainable scalars."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class Network(GraphModule):
    """Encoder, one cell for each entry of the genotype, head."""

    def __init__(
        self,
        genotype: Genotype,
        task: Task,
        channels: int = 64,
        *,
        norm: bool = True,
        fusion: str = "concat",
        residual: bool = True,
        dropout: float = 0.0,
        operations: OperationTypes | None = None,
    ) -> None:
        super().__init__()
        kind = variant(genotype.variant)
        config = CellConfig(kind, norm, fusion, residual, dropout, kind.train_slope, operations)
        self.architecture = self.genotype = genotype
        self.task, self.channels = task, channels
        self.options = {"channels": channels, "dropout": dropout, "norm": norm, "fusion": fusion, "residual": residual}
        self.encoder = Encoder(task, channels)
        self.cells = nn.ModuleList(Cell.from_genotype(cell, channels, config) for cell in genotype)
        self.head = Head(task, channels, kind.equal_head)

    def run(self, batch: GraphBatch) -> Tensor:
        h = self.encoder(batch)
        for cell in self.cells:
            h = cell(h, batch)
        return self.head(h, batch)

    def extra_repr(self) -> str:
        return f"genotype={self.genotype.id}, depth={self.genotype.depth()}, channels={self.channels}"


class GAPConv(nn.Module):
    """One GAP cell used like any PyG layer: ``conv(x, edge_index)``.

    ``cell`` is a :class:`CellGenotype` or a formula such as ``"[identity | dense(sum(dense))]"``.
    """

    def __init__(self, channels: int, cell: CellGenotype | str, *, variant: str = "paper", **options: Any) -> None:
        super().__init__()
        from gnas.model.operations import variant as by_name

        self.genotype = genotype_from_formula(cell)[0] if isinstance(cell, str) else cell
        self.cell = Cell.from_genotype(self.genotype, channels, CellConfig(by_name(variant), **options))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.cell(x, GraphBatch.from_edges(x, edge_index))


def width_for(budget: int, build: Callable[[int], nn.Module], multiple: int = 1, limit: int = 4096) -> int:
    """The largest width (a multiple of ``multiple``) whose model has at most ``budget`` weights.

    >>> width_for(400_000, lambda channels: Network(genotype, task, channels))  # doctest: +SKIP
    """

    def weights(width: int) -> int:
        with torch.device("meta"):
            return sum(p.numel() for p in build(width).parameters())

    low, high = 1, limit // multiple
    if weights(multiple) > budget:
        raise InputError(f"no width fits {budget:,} weights: the narrowest ({multiple}) has {weights(multiple):,}")
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if weights(middle * multiple) <= budget else (low, middle - 1)
    return low * multiple
