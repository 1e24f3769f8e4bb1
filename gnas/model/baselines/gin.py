"""GIN: Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.graph import GraphBatch
from gnas.kernels.aggregate import aggregate
from gnas.model.baselines.base import Baseline, make_layers
from gnas.model.class_code import ClassCode, LayersCode
from gnas.model.head import EachHead
from gnas.model.stacked import BatchNorm, Linear
from gnas.model.task import Task


class GIN(Baseline):
    r"""Graph isomorphism network: :math:`h_i' = h_i + \mathrm{ReLU}(\mathrm{BN}(f((1 + \epsilon) h_i + \sum_j h_j)))`.

    :math:`f` is Linear-BN-ReLU-Linear and :math:`\epsilon` is learned: PyG's ``GINConv(f, train_eps=True)``. As in the
    benchmark the output is a sum of linear maps, one of the encoder's nodes and one of each layer's, and a graph is
    read out by summing its nodes, whatever readout the task names.
    """

    name = "gin"
    widths: ClassVar = {4: (110, 110, 110), 16: (124, 124, 120)}

    def __init__(self, task: Task, channels: int = 110, num_layers: int = 4, dropout: float = 0.0) -> None:
        layers = make_layers(num_layers, lambda _: GINLayer(channels, dropout))
        super().__init__(task, channels, layers, dropout, head=EachHead(task, channels, num_layers + 1))

    def run(self, batch: GraphBatch) -> Tensor:
        hidden = [self.encoder(batch)]
        for layer in self.layers:
            hidden.append(layer(hidden[-1], batch))
        return self.head(hidden, batch)

    def export_code(self) -> LayersCode:
        layer = ClassCode(
            "GINLayer",
            "The node and the sum of its neighbours through two linear maps, added to the node.",
            (
                "self.eps = nn.Parameter(torch.zeros(1))",
                "self.first = nn.Linear(channels, channels)",
                "self.first_norm = nn.BatchNorm1d(channels)",
                "self.second = nn.Linear(channels, channels)",
                "self.norm = nn.BatchNorm1d(channels)",
            ),
            ("h", "edge_index"),
            (
                'out = (1 + self.eps) * h + aggregate(h, edge_index, "sum")',
                "out = F.relu(self.first_norm(self.first(out)))",
                "out = F.relu(self.norm(self.second(out)))",
                f"return {self.with_dropout('h + out')}",
            ),
        )
        return LayersCode((layer,) * len(self.layers), each_is_read=True)


class GINLayer(nn.Module):
    """Own features and the neighbours' sum through a two-layer MLP, batch norm, ReLU, residual."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.first = Linear(channels, channels)
        self.first_norm = BatchNorm(channels)
        self.second = Linear(channels, channels)
        self.norm = BatchNorm(channels)
        self.dropout = dropout

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        out = (1 + self.eps) * h + aggregate(h, batch.neighbors, "sum")
        out = self.first_norm.relu(self.first(out), batch.node_mask)
        out = self.norm.relu(self.second(out), batch.node_mask)
        return F.dropout(h + out, self.dropout, self.training)
