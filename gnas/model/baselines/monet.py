"""MoNet: Monti et al., Geometric Deep Learning on Graphs and Manifolds using Mixture Model CNNs, CVPR 2017."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.graph import GraphBatch
from gnas.kernels.aggregate import weighted_sum
from gnas.model.baselines.base import Baseline, make_layers
from gnas.model.class_code import ClassCode, LayersCode
from gnas.model.edges import Edges
from gnas.model.initial import draw_normal, draw_xavier
from gnas.model.stacked import BatchNorm, Linear
from gnas.model.task import Task


class MoNet(Baseline):
    r"""Mixture of ``kernels`` Gaussians over pseudo-coordinates of the edges, made from the in-degrees of their ends.

    .. math::
        u_{ij} = \tanh(V [(\deg_j + 1)^{-1/2}, (\deg_i + 1)^{-1/2}] + v), \qquad
        w_k(u) = \exp(-\tfrac12 \|\sigma_k^{-1} \odot (u - \mu_k)\|^2), \qquad
        h_i' = h_i + \mathrm{ReLU}(\mathrm{BN}(\sum_j \sum_k w_k(u_{ij}) W_k h_j)) + b

    The sum over j and k is PyG's ``GMMConv(aggr="add")`` on :math:`u`, without root weight and bias.
    """

    name = "monet"
    widths: ClassVar = {4: (90, 90, 90), 16: (101, 102, 101)}

    def __init__(
        self, task: Task, channels: int = 90, num_layers: int = 4, dropout: float = 0.0, kernels: int = 3
    ) -> None:
        layers = make_layers(num_layers, lambda _: MoNetLayer(channels, dropout, kernels))
        super().__init__(task, channels, layers, dropout, kernels=kernels)
        self.kernels = kernels

    def run(self, batch: GraphBatch) -> Tensor:
        h, edges = self.encoder(batch), Edges.of(batch)
        scale = (batch.neighbors.degree() + 1).to(h.dtype).rsqrt()[:, None]
        ends = torch.cat([edges.at_sources(scale), edges.at_targets(scale)], dim=1)
        for layer in self.layers:
            h = layer(h, ends, batch, edges)
        return self.head(h, batch)

    def export_code(self) -> LayersCode:
        kernels, shape = self.kernels, f"{self.kernels}, 2"
        layer = ClassCode(
            "MoNetLayer",
            f"Neighbours weighed by {kernels} Gaussians of the degrees at both ends, added to the node.",
            (
                "self.project = nn.Linear(2, 2)",
                f"self.mean = nn.Parameter(torch.zeros({shape}))",
                f"self.inverse_sigma = nn.Parameter(torch.ones({shape}))",
                f"self.linear = nn.Linear(channels, {kernels} * channels, bias=False)",
                "self.norm = nn.BatchNorm1d(channels)",
                "self.bias = nn.Parameter(torch.zeros(channels))",
            ),
            ("h", "edge_index", "ends"),
            (
                "u = torch.tanh(self.project(ends))[:, None]",
                "far = ((u - self.mean) * self.inverse_sigma).square()",
                "weight = torch.exp(-0.5 * (far[:, :, 0] + far[:, :, 1]))",
                f"z = self.linear(h).unflatten(1, ({kernels}, -1))",
                "messages = (z[edge_index[0]] * weight[:, :, None]).sum(dim=1)",
                'out = F.relu(self.norm(receive(messages, edge_index, h.size(0), "sum")))',
                f"return {self.with_dropout('h + out + self.bias')}",
            ),
        )
        before = (
            'scale = (aggregate(torch.ones_like(h[:, :1]), edge_index, "sum") + 1).rsqrt()',
            "ends = torch.cat([scale[edge_index[0]], scale[edge_index[1]]], dim=1)",
        )
        return LayersCode((layer,) * len(self.layers), before)


class MoNetLayer(nn.Module):
    """Gaussian-weighted sum over neighbours, batch norm, ReLU, residual, bias."""

    def __init__(self, channels: int, dropout: float, kernels: int) -> None:
        super().__init__()
        self.kernels, self.dropout = kernels, dropout
        self.project = nn.Linear(2, 2)
        self.mean = nn.Parameter(draw_normal(kernels, 2, std=0.1))
        self.inverse_sigma = nn.Parameter(torch.ones(kernels, 2))
        self.linear = Linear(channels, kernels * channels, bias=False)
        self.norm = BatchNorm(channels)
        self.bias = nn.Parameter(torch.zeros(channels))
        draw_xavier(self.linear.weight)

    def forward(self, h: Tensor, ends: Tensor, batch: GraphBatch, edges: Edges) -> Tensor:
        by_kernel = weighted_sum(self.linear(h), self.weights(ends), edges.neighbors)
        out = self.norm.relu(by_kernel.unflatten(1, (self.kernels, -1)).sum(1), batch.node_mask)
        return F.dropout(h + out + self.bias, self.dropout, self.training)

    def weights(self, ends: Tensor) -> Tensor:
        """Weight of each kernel on each edge: ``[edges, 2] -> [edges, kernels]``."""
        u = torch.tanh(self.project(ends))[:, None]
        return torch.exp(-0.5 * ((u - self.mean) * self.inverse_sigma).square().sum(-1))
