"""GatedGCN: Bresson and Laurent, Residual Gated Graph ConvNets, 2017."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.graph import GraphBatch
from gnas.kernels.aggregate import aggregate, weighted_sum
from gnas.model.baselines.base import Baseline, make_layers
from gnas.model.class_code import ClassCode, LayersCode
from gnas.model.edges import Edges
from gnas.model.encoder import EdgeEncoder
from gnas.model.stacked import BatchNorm, Linear
from gnas.model.task import Task


class GatedGCN(Baseline):
    r"""Gated graph convolutions with an edge state.

    .. math::
        \hat e_{ij} = C e_{ij} + D h_i + E h_j, \qquad
        h_i' = h_i + \mathrm{ReLU}(\mathrm{BN}(A h_i + \frac{\sum_j \sigma(\hat e_{ij}) \odot B h_j}
        {\sum_j \sigma(\hat e_{ij}) + 10^{-6}})), \qquad
        e_{ij}' = e_{ij} + \mathrm{ReLU}(\mathrm{BN}(\hat e_{ij}))

    The edge state starts as an embedding of the edge's columns and encodings, or if the data has none as a linear map of
    the constant 1. There is one difference to the benchmark: nothing reads the
    edge state that leaves the last layer, so it is not computed, and its batch norm is left out.
    """

    edge_encoder: EdgeEncoder | nn.Linear
    name = "gatedgcn"
    widths: ClassVar = {4: (70, 70, 70), 16: (70, 78, 78)}  # 16 layers keep 70 on ZINC: the paper's 0.41M weights

    def __init__(self, task: Task, channels: int = 70, num_layers: int = 4, dropout: float = 0.0) -> None:
        def layer(number: int) -> GatedGCNLayer:
            return GatedGCNLayer(channels, dropout, last=number == num_layers - 1)

        super().__init__(task, channels, make_layers(num_layers, layer), dropout)
        self.edge_encoder = EdgeEncoder(task, channels) if task.reads_edges else nn.Linear(1, channels)

    def run(self, batch: GraphBatch) -> Tensor:
        h, edges = self.encoder(batch), Edges.of(batch)
        # Without columns the same row for every edge, until the first layer changes it.
        e = self.edge_encoder(batch if self.task.reads_edges else h.new_ones(1, 1))
        for layer in self.layers:
            h, e = layer(h, e, batch, edges)
        return self.head(h, batch)

    def export_code(self) -> LayersCode:
        layers = (
            "self.nodes = nn.Linear(channels, 4 * channels)",
            "self.edges = nn.Linear(channels, channels)",
            "self.norm = nn.BatchNorm1d(channels)",
        )
        steps = (
            "source, target = edge_index",
            "own, gate_target, value, gate_source = self.nodes(h).chunk(4, dim=1)",
            "gate = self.edges(e) + gate_target[target] + gate_source[source]",
            "weight = gate.sigmoid()",
            'total = receive(value[source] * weight, edge_index, h.size(0), "sum")',
            'weights = receive(weight, edge_index, h.size(0), "sum")',
            "out = F.relu(self.norm(own + total / (weights + 1e-6)))",
        )
        node, edge = self.with_dropout("h + out"), self.with_dropout("e + F.relu(self.edge_norm(gate))")
        doc = "Neighbours weighed by gates of the edges"
        reads = ("h", "edge_index", "e")
        last = ClassCode(
            "LastLayer", f"{doc}; nothing reads the edges after it.", layers, reads, (*steps, f"return {node}")
        )
        layer = ClassCode(
            "GatedLayer",
            f"{doc}, which change too.",
            (*layers, "self.edge_norm = nn.BatchNorm1d(channels)"),
            reads,
            (*steps, f"return {node}, {edge}"),
            "tuple[Tensor, Tensor]",
        )
        return LayersCode((*(layer,) * (len(self.layers) - 1), last))


class GatedGCNLayer(nn.Module):
    """Neighbours weighed by gates of the edges; batch norm, ReLU and residual for nodes and edges."""

    def __init__(self, channels: int, dropout: float, last: bool = False) -> None:
        super().__init__()
        self.channels, self.dropout = channels, dropout
        self.nodes = Linear(channels, 4 * channels)  # A, D, B and E of the formula in one product
        self.edges = Linear(channels, channels)  # C
        self.norm = BatchNorm(channels)
        self.edge_norm = None if last else BatchNorm(channels)

    def forward(self, h: Tensor, e: Tensor, batch: GraphBatch, edges: Edges) -> tuple[Tensor, Tensor]:
        d = self.channels
        own, gate_target, value, gate_source = self.nodes(h).split(d, dim=1)
        gate = self.edges(e) + edges.at_targets(gate_target) + edges.at_sources(gate_source)
        weight = torch.sigmoid(gate)
        total, weights = weighted_sum(value, weight, edges.neighbors), aggregate(weight, edges.incoming, "sum")
        out = self.norm.relu(own + total / (weights + 1e-6), batch.node_mask)
        h = F.dropout(h + out, self.dropout, self.training)
        if self.edge_norm is not None:
            e = F.dropout(e + self.edge_norm.relu(gate, edges.mask), self.dropout, self.training)
        return h, e
