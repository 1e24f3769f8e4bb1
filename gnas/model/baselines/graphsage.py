"""GraphSage: Hamilton, Ying and Leskovec, Inductive Representation Learning on Large Graphs, NeurIPS 2017."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.graph import GraphBatch
from gnas.kernels.aggregate import aggregate
from gnas.model.baselines.base import Baseline, make_layers
from gnas.model.class_code import ClassCode, LayersCode
from gnas.model.stacked import BatchNorm, Linear
from gnas.model.task import Task


class GraphSage(Baseline):
    r"""GraphSage with the max-pool aggregator.

    .. math::
        c_i = \max_j \mathrm{ReLU}(W_p h_j + b_p), \qquad
        u_i = W [h_i \,\|\, c_i] + b, \qquad
        h_i' = h_i + \mathrm{BN}(\mathrm{ReLU}(u_i / \|u_i\|_2))

    Up to :math:`u_i / \|u_i\|_2` this is PyG's ``SAGEConv(aggr="max", project=True, normalize=True)``.
    """

    name = "graphsage"
    widths: ClassVar = {4: (90, 89, 90), 16: (101, 101, 101)}

    def __init__(self, task: Task, channels: int = 90, num_layers: int = 4, dropout: float = 0.0) -> None:
        super().__init__(task, channels, make_layers(num_layers, lambda _: GraphSageLayer(channels, dropout)), dropout)

    def export_code(self) -> LayersCode:
        layer = ClassCode(
            "GraphSageLayer",
            "The node beside the maximum of its neighbours, of unit length, added to the node.",
            (
                "self.pool = nn.Linear(channels, channels)",
                "self.linear = nn.Linear(2 * channels, channels)",
                "self.norm = nn.BatchNorm1d(channels)",
            ),
            ("h", "edge_index"),
            (
                f"own = {self.with_dropout('h')}",
                'pooled = aggregate(F.relu(self.pool(own)), edge_index, "max")',
                "out = F.normalize(self.linear(torch.cat([own, pooled], dim=1)), dim=1)",
                "return h + self.norm(F.relu(out))",
            ),
        )
        return LayersCode((layer,) * len(self.layers))


class GraphSageLayer(nn.Module):
    """Max over transformed neighbours beside the node itself, linear, unit length, ReLU, batch norm, residual."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.pool = Linear(channels, channels)
        self.linear = Linear(2 * channels, channels)
        self.norm = BatchNorm(channels)
        self.dropout = dropout

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        own = F.dropout(h, self.dropout, self.training)
        pooled = aggregate(self.pool(own, relu=True), batch.neighbors, "max")
        out = F.normalize(self.linear(torch.cat([own, pooled], dim=1)), dim=1)
        return h + self.norm(F.relu(out), batch.node_mask)
