"""The network of a genotype: a plain module that any PyG code can call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnas.arch.architecture import Architecture
from gnas.arch.gap import genotype as genotype_from_formula
from gnas.arch.genotype import CellGenotype, Genotype
from gnas.errors import InputError
from gnas.graph import GraphBatch, Neighbors
from gnas.kernels.aggregate import convolve
from gnas.model.cell import Cell
from gnas.model.edges import Edges
from gnas.model.encoder import EdgeEncoder, Encoder
from gnas.model.encodings import with_encodings
from gnas.model.head import Head
from gnas.model.operations import find_variant
from gnas.model.plan import NetworkPlan
from gnas.model.stage import CellConfig, OperationTypes
from gnas.model.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

TELEPORT = 0.1  # share of its own output that a node keeps in every step of a propagation


class GraphModule(nn.Module):
    """A module over graphs, called with PyG's ``(x, edge_index, edge_attr, batch)``, ``Data`` or ``Batch``, or a ``GraphBatch``.

    A network that does not read ``edge_attr`` can also be called as ``(x, edge_index, batch)``.
    """

    task: Task
    architecture: Architecture | None = None  # None: a class of yours, which no description can build again
    options: Mapping[str, Any] = {}  # the arguments of build_network, such as channels and dropout

    def forward(
        self,
        x: Tensor | Data | GraphBatch,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        if isinstance(x, GraphBatch):
            return self.run(with_encodings(x, self.task))
        if isinstance(x, Tensor):
            if edge_index is None:
                raise InputError(
                    "call the network with (x, edge_index), (x, edge_index, edge_attr, batch) or a PyG Data"
                )
            if not (self.task.edge_categories or self.task.edge_channels):
                edge_attr, batch = None, edge_attr if batch is None else batch
            graph = GraphBatch.from_edges(x, edge_index, batch, edge_attr=edge_attr)
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


class CellModule(GraphModule):
    """What networks and supernets share: encoders of nodes and edges, cells, head."""

    plan: NetworkPlan
    encoder: Encoder
    edge_encoder: EdgeEncoder | None
    cells: nn.ModuleList
    head: Head

    def make_parts(
        self, plan: NetworkPlan, config: CellConfig, channels: int, make: Callable[[int, CellConfig], Cell]
    ) -> None:
        """Make the encoders, the cells and the head; ``make`` makes the cell of a number."""
        self.plan = plan
        self.encoder = Encoder(self.task, channels, plan.encodings, config.dropout)
        self.cells = nn.ModuleList(make(number, config) for number in range(len(plan.updates)))
        self.head = Head(self.task, channels, config.variant.equal_head, plan.stack.readout)
        self.edge_encoder = EdgeEncoder(self.task, channels, plan.encodings) if plan.edge_state else None

    def run_cells(self, batch: GraphBatch, mixing: Iterable[Tensor | None]) -> Tensor:
        """Outputs for a batch; ``mixing`` has the weights of the candidates for each cell."""
        h = self.encoder(batch)
        edges = Edges.of(batch) if self.plan.messages else None
        e = None if self.edge_encoder is None else self.edge_encoder(batch)
        for cell, weights in zip(self.cells, mixing, strict=True):
            h, e = cell(h, batch, weights, edges, e)
        return propagate(self.head(h, batch), batch.neighbors, self.plan.stack.propagation)


def propagate(out: Tensor, neighbors: Neighbors, steps: int) -> Tensor:
    r""":math:`Z \leftarrow (1 - t)\, \hat{A} Z + t H`, ``steps`` times from :math:`Z = H`: PyG's ``APPNP(steps, alpha=t)``.

    Gasteiger, Bojchevski and Günnemann, Predict then Propagate: Graph Neural Networks meet Personalized PageRank, ICLR 2019.
    """
    spread = out
    for _ in range(steps):
        spread = (1 - TELEPORT) * convolve(spread, neighbors) + TELEPORT * out
    return spread


class Network(CellModule):
    """An architecture as an ordinary ``nn.Module``: encoder, one cell for each entry of the genotype, head.

    It is called with PyG's tensors, ``network(x, edge_index, batch)``, or with a PyG batch. The genotype's stack says what is
    around the cells.

    Args:
        genotype: The architecture.
        task: What goes in and out; ``gnas.load(...).task``.
        channels: The width.
        norm: Batch norm after every operation.
        fusion: How the outputs of a cell are joined: ``concat`` or ``sum``.
        residual: Each cell adds its input.
        dropout: The dropout rate, after every cell.
        operations: Your own operations by name.

    >>> network = gnas.Network(gnas.gap.approximate("gin", num_cells=2), data.task, channels=16)
    >>> network(data.test[0].x, data.test[0].edge_index).shape[1]
    4
    """

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
        kind = find_variant(genotype.variant)
        self.architecture = self.genotype = genotype
        self.task, self.channels = task, channels
        self.options = {"channels": channels, "dropout": dropout, "norm": norm, "fusion": fusion, "residual": residual}
        plan = NetworkPlan.make([cell.aggregations() for cell in genotype], genotype.stack, task)
        config = plan.configure(CellConfig(kind, norm, fusion, residual, dropout, kind.train_slope, operations))

        def make(number: int, config: CellConfig) -> Cell:
            return Cell.from_genotype(genotype[number], channels, config, plan.updates[number])

        self.make_parts(plan, config, channels, make)

    def run(self, batch: GraphBatch) -> Tensor:
        return self.run_cells(batch, [None] * len(self.cells))

    def extra_repr(self) -> str:
        return f"genotype={self.genotype.id}, depth={self.genotype.depth()}, channels={self.channels}"


class GAPConv(nn.Module):
    """One GAP cell used like any PyG layer: ``conv(x, edge_index)`` or ``conv(x, edge_index, edge_attr)``.

    Args:
        channels: The width of input and output.
        cell: A :class:`CellGenotype`, or a formula such as ``"[identity | dense(sum(dense))]"``.
        variant: The variant of the modules.
        edge_dim: The columns of ``edge_attr``, which messages read after a linear map; None: there is no ``edge_attr``.
        options: Further arguments of the cell, such as ``norm``, ``fusion`` and ``operations``.

    >>> import torch
    >>> conv = gnas.GAPConv(16, "[identity | dense(sum(dense))]")
    >>> conv(torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        channels: int,
        cell: CellGenotype | str,
        *,
        variant: str = "paper",
        edge_dim: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.genotype = genotype_from_formula(cell)[0] if isinstance(cell, str) else cell
        config = CellConfig(find_variant(variant), edge_state=edge_dim is not None, **options)
        self.cell = Cell.from_genotype(self.genotype, channels, config)
        self.edge_dim = edge_dim
        self.edge_encoder = None if edge_dim is None else nn.Linear(edge_dim, channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        e = None
        if self.edge_encoder is not None:
            if edge_attr is None or edge_attr.dim() != 2 or edge_attr.size(1) != self.edge_dim:
                raise InputError(
                    f"this layer reads edge_attr: [edges, {self.edge_dim}]; call it with (x, edge_index, edge_attr)"
                )
            batch = GraphBatch.from_edges(x, edge_index, edge_attr=edge_attr)
            assert batch.edge_attr is not None
            e = self.edge_encoder(batch.edge_attr)
        else:
            batch = GraphBatch.from_edges(x, edge_index)
        out: Tensor = self.cell(x, batch, None, None, e)[0]
        return out


def width_for(budget: int, build: Callable[[int], nn.Module], multiple: int = 1, limit: int = 4096) -> int:
    """The largest width whose model has at most ``budget`` weights.

    Args:
        budget: The largest number of weights.
        build: Makes a model of a width.
        multiple: Widths are multiples of this number.
        limit: The largest width.

    >>> gnas.width_for(10_000, lambda channels: gnas.Network(genotype, data.task, channels), multiple=4)
    24
    """

    def weights(width: int) -> int:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the network that is built warns
            return sum(p.numel() for p in build(width).parameters())

    low, high, count = 1, limit // multiple, weights(multiple)
    if count > budget:
        raise InputError(f"no width fits {budget:,} weights: the narrowest ({multiple}) has {count:,}")
    bisect = False
    while low < high:
        # The number of weights grows as the square of the width.
        guess = (low + high + 1) // 2 if bisect else int(low * math.sqrt(budget / max(count, 1)))
        middle = min(max(guess, low + 1), high)
        found = weights(middle * multiple)
        bisect = found > budget
        low, high, count = (low, middle - 1, count) if bisect else (middle, high, found)
    return low * multiple
