"""MLP: every node on its own, no edges."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from gnas.graph import GraphBatch
from gnas.model.baselines.base import Baseline, make_layers
from gnas.model.class_code import ClassCode, LayersCode
from gnas.model.stacked import Linear
from gnas.model.task import Task


class MLP(Baseline):
    r"""Nodes without a graph: :math:`h_i' = \mathrm{ReLU}(W h_i + b)`, ``num_layers`` times.

    As in the benchmark there is no BatchNorm and no residual, and the encoder of continuous input is the first layer.
    """

    name = "mlp"
    widths: ClassVar = {4: (150, 150, 168), 16: (174, 174, 178)}

    def __init__(self, task: Task, channels: int = 150, num_layers: int = 4, dropout: float = 0.0) -> None:
        layers = make_layers(num_layers, lambda _: MLPLayer(channels, dropout))
        super().__init__(task, channels, layers if task.categories else layers[1:], dropout, num_layers=num_layers)
        self.dropout = dropout

    def run(self, batch: GraphBatch) -> Tensor:
        h = self.encoder(batch)
        if not self.task.categories:
            h = F.dropout(F.relu(h), self.dropout, self.training)
        for layer in self.layers:
            h = layer(h)
        return self.head(h, batch)

    def export_code(self) -> LayersCode:
        value = self.with_dropout("F.relu(self.linear(h))")
        linear = "self.linear = nn.Linear(channels, channels)"
        layer = ClassCode("MLPLayer", "A linear map of each node.", (linear,), steps=(f"return {value}",))
        before = () if self.task.categories else (f"h = {self.with_dropout('F.relu(h)')}",)
        return LayersCode((layer,) * len(self.layers), before)


class MLPLayer(nn.Module):
    """Linear, ReLU, dropout."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.linear = Linear(channels, channels)
        self.dropout = dropout

    def forward(self, h: Tensor) -> Tensor:
        return F.dropout(self.linear(h, relu=True), self.dropout, self.training)
