"""Node embeddings to outputs."""

from __future__ import annotations

import itertools
from typing import cast

import torch
from torch import Tensor, nn

from gnas.arch.stack import READOUTS
from gnas.errors import InputError, choose
from gnas.graph import GraphBatch
from gnas.kernels import fused
from gnas.kernels.aggregate import aggregate
from gnas.model.stacked import Linear, apply_linear
from gnas.model.task import Task


class Head(nn.Module):
    """Node embeddings to outputs: readout over the graph (or the two ends of an edge or pair), then an MLP.

    Widths d, d/2, d/4, out as in the benchmark; ``equal=True`` keeps all hidden widths d with one layer more, as the
    authors' code does. A task with a ``linear`` head has no hidden layer. Features of whole graphs are joined to what was
    read out. ``readout`` replaces the task's.
    """

    def __init__(self, task: Task, channels: int, equal: bool = False, readout: str | None = None) -> None:
        super().__init__()
        self.task = task
        self.readout = choose(readout or task.readout, READOUTS, "readout")
        width = row_width(task, channels)
        if task.level == "graph":
            width = (2 if self.readout == "mean_max" else 1) * channels + task.graph_channels
        hidden = [channels] * 3 if equal else [max(channels // 2, 1), max(channels // 4, 1)]
        hidden = [] if task.head == "linear" else hidden
        sizes = [width, *hidden, task.num_outputs]
        self.layers = nn.ModuleList(Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        if self.task.level == "graph":
            h = read_out(h, batch, self.readout)
            h = join_graph_attr(h, batch, self.task.graph_channels)
        else:
            h = read_rows(h, batch, self.task)
        joined = fused.joins(h)
        for number, layer in enumerate(self.layers, start=1):
            last = number == len(self.layers)
            if joined:
                h = apply_linear(cast(nn.Linear, layer), h, fused.Around(relu=not last))
            else:
                h = layer(h, relu=not last)
        return h


class EachHead(nn.Module):
    r"""A sum of linear maps, one of what was read out of each layer: :math:`\sum_l (W_l \sum_i h_i^{(l)} + b_l)`.

    Graphs are read out by summing their nodes, whatever readout the task names.
    """

    readout = "sum"

    def __init__(self, task: Task, channels: int, count: int) -> None:
        super().__init__()
        self.task = task
        self.graph_channels = task.graph_channels if task.level == "graph" else 0
        width = row_width(task, channels) + self.graph_channels
        self.linears = nn.ModuleList(Linear(width, task.num_outputs) for _ in range(count))

    @property
    def layers(self) -> nn.ModuleList:
        return self.linears

    def forward(self, hidden: list[Tensor], batch: GraphBatch) -> Tensor:
        scores = [linear(self.read(h, batch)) for linear, h in zip(self.linears, hidden, strict=True)]
        return torch.stack(scores).sum(0)

    def read(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """One row for each graph, node, edge or pair."""
        if self.task.level == "graph":
            h = aggregate(h, batch.members, "sum")
            return join_graph_attr(h, batch, self.graph_channels)
        return read_rows(h, batch, self.task)


def row_width(task: Task, channels: int) -> int:
    """Columns of :func:`read_rows`."""
    return channels * {"edge": 2, "link": 2 if task.undirected else 3}.get(task.level, 1)


def read_rows(h: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    r"""A row for each node, edge or pair of nodes.

    An edge has :math:`(h_i, h_j)`. A pair has :math:`(h_i, h_j, h_i h_j)`, or :math:`(h_i h_j, |h_i - h_j|)` in undirected
    graphs, which does not depend on its order.
    """
    if task.level == "edge":
        edges = batch.neighbors
        return torch.cat([h.index_select(0, edges.source), h.index_select(0, edges.target)], dim=1)
    if task.level != "link":
        return h
    if batch.pairs is None:
        raise InputError(
            "this network scores pairs of nodes: call it with a Data that has edge_label_index, [2, pairs]"
        )
    first, second = h.index_select(0, batch.pairs[0]), h.index_select(0, batch.pairs[1])
    if task.undirected:
        return torch.cat([first * second, (first - second).abs()], dim=1)
    return torch.cat([first, second, first * second], dim=1)


def join_graph_attr(h: Tensor, batch: GraphBatch, columns: int) -> Tensor:
    """Rows of graphs with their features beside them; ``columns`` of 0: no features."""
    if not columns:
        return h
    attr = batch.graph_attr
    if attr is None or attr.dim() != 2 or attr.size(1) != columns:
        raise InputError(f"this network reads features of whole graphs: set graph_attr, [graphs, {columns}]")
    return torch.cat([h, attr.to(h.dtype)], dim=1)


def read_out(h: Tensor, batch: GraphBatch, readout: str) -> Tensor:
    """One row per graph from the rows of its nodes: ``mean``, ``sum``, ``max``, or ``mean_max``, which has both."""
    if readout != "mean_max":
        return aggregate(h, batch.members, readout)
    return torch.cat([aggregate(h, batch.members, name) for name in ("mean", "max")], dim=1)
