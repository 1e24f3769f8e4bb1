"""GAT: Velickovic et al., Graph Attention Networks, ICLR 2018."""

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
from gnas.model.initial import draw_xavier
from gnas.model.stacked import BatchNorm, Linear
from gnas.model.task import Task

SLOPE = 0.2  # of the scores below zero


class GAT(Baseline):
    r"""Graph attention, ``heads`` heads of ``channels`` each.

    .. math::
        z = W h, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(a_s \cdot z_j + a_t \cdot z_i), \qquad
        h_i' = h_i + \mathrm{ELU}(\mathrm{BN}(\|_{heads} \sum_j \alpha_{ij} z_j))

    No self loops are added: PyG's ``GATConv(add_self_loops=False, bias=False)``. As in the benchmark the last layer has
    one head of the full width. ``dropout`` acts on each layer's input, not on the attention.
    """

    name = "gat"
    widths: ClassVar = {4: (18, 19, 19), 16: (22, 22, 22)}  # of each head

    def __init__(
        self, task: Task, channels: int = 18, num_layers: int = 4, dropout: float = 0.0, heads: int = 8
    ) -> None:
        width = heads * channels

        def layer(number: int) -> GATLayer:
            return GATLayer(width, heads if number < num_layers - 1 else 1, dropout)

        super().__init__(task, channels, make_layers(num_layers, layer), dropout, width=width, heads=heads)
        self.heads = heads

    def run(self, batch: GraphBatch) -> Tensor:
        h, edges = self.encoder(batch), Edges.of(batch)
        for layer in self.layers:
            h = layer(h, batch, edges)
        return self.head(h, batch)

    def export_code(self) -> LayersCode:
        layers = [self._layer_code("AttentionLayer", self.heads)] * (len(self.layers) - 1)
        return LayersCode((*layers, self._layer_code("LastLayer", 1)))

    def _layer_code(self, name: str, heads: int) -> ClassCode:
        shape = f"1, {heads}, channels // {heads}"
        return ClassCode(
            name,
            f"Attention over neighbours in {heads} head{'s' * (heads > 1)}, added to the node.",
            (
                "self.linear = nn.Linear(channels, channels, bias=False)",
                f"self.source = nn.Parameter(torch.zeros({shape}))",
                f"self.target = nn.Parameter(torch.zeros({shape}))",
                "self.norm = nn.BatchNorm1d(channels)",
            ),
            ("h", "edge_index"),
            (
                "source, target = edge_index",
                f"z = self.linear({self.with_dropout('h')}).unflatten(1, ({heads}, -1))",
                "score = (z * self.source).sum(dim=-1)[source] + (z * self.target).sum(dim=-1)[target]",
                f"weight = softmax(F.leaky_relu(score, {SLOPE}), target, h.size(0))",
                'out = receive(z[source] * weight[:, :, None], edge_index, h.size(0), "sum").flatten(1)',
                "return h + F.elu(self.norm(out))",
            ),
        )


class GATLayer(nn.Module):
    """Attention over incoming edges in several heads, batch norm, ELU, residual."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.linear = Linear(width, width, bias=False)
        self.source = nn.Parameter(torch.empty(1, heads, width // heads))
        self.target = nn.Parameter(torch.empty(1, heads, width // heads))
        self.norm = BatchNorm(width)
        for weight in (self.linear.weight, self.source, self.target):
            draw_xavier(weight)

    def forward(self, h: Tensor, batch: GraphBatch, edges: Edges) -> Tensor:
        out = self.attend(self.linear(F.dropout(h, self.dropout, self.training)), edges)
        return h + F.elu(self.norm(out, batch.node_mask))

    def attend(self, z: Tensor, edges: Edges) -> Tensor:
        """Attention-weighted mean over senders; zeros without any."""
        heads = z.unflatten(1, (self.heads, -1))
        from_source, from_target = (heads * self.source).sum(-1), (heads * self.target).sum(-1)
        score = F.leaky_relu(edges.at_sources(from_source) + edges.at_targets(from_target), SLOPE)
        # Softmax does not see a constant added at a node, so the largest score may go without a gradient.
        highest = aggregate(score.detach(), edges.incoming, "max")
        weight = torch.exp(score - edges.at_targets(highest))
        total, weights = weighted_sum(z, weight, edges.neighbors), aggregate(weight, edges.incoming, "sum")
        # The largest weight is 1: a sum below 1 is the 0 of a node without senders.
        return (total.view_as(heads) / weights.clamp_min(1)[:, :, None]).flatten(1)
