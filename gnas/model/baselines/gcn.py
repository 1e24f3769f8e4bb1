"""GCN: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from gnas.errors import choose
from gnas.graph import GraphBatch, Neighbors
from gnas.kernels.aggregate import aggregate, inverse_degree, symmetric_scales
from gnas.model.baselines.base import Baseline, stack
from gnas.model.stacked import BatchNorm
from gnas.model.task import Task

NORMALIZATIONS = ("symmetric", "mean")


class GCN(Baseline):
    r"""Graph convolutions: :math:`H' = H + \mathrm{ReLU}(\mathrm{BN}(D_{in}^{-1/2} A D_{out}^{-1/2} H W + b))`.

    No self loops are added. On an undirected graph this is PyG's ``GCNConv(add_self_loops=False)``; on a directed one
    senders are scaled by their out-degree, as in the benchmark. ``normalization="mean"`` takes the mean over neighbours
    instead, :math:`D_{in}^{-1} A`: the benchmark's first GCN, the one behind the figures that the paper quotes.
    """

    name = "gcn"
    widths: ClassVar = {4: (145, 146, 146), 16: (172, 172, 172)}

    def __init__(
        self,
        task: Task,
        channels: int = 146,
        num_layers: int = 4,
        dropout: float = 0.0,
        normalization: str = "symmetric",
    ) -> None:
        choose(normalization, NORMALIZATIONS, "normalization")
        layers = stack(num_layers, lambda _: GCNLayer(channels, dropout))
        super().__init__(task, channels, layers, dropout, normalization=normalization)
        self.normalization = normalization

    def run(self, batch: GraphBatch) -> Tensor:
        h = self.encoder(batch)
        sent, received = self.scales(batch.neighbors, h)
        for layer in self.layers:
            h = layer(h, batch, sent, received)
        return self.head(h, batch)

    def scales(self, neighbors: Neighbors, h: Tensor) -> tuple[Tensor | None, Tensor]:
        """What a node's message and what its sum of messages are multiplied by, as columns of ``h``'s type."""
        if self.normalization == "mean":
            return None, inverse_degree(neighbors, h.dtype)
        return symmetric_scales(neighbors, h.dtype)


class GCNLayer(nn.Module):
    """Scaled sum over neighbours, linear, batch norm, ReLU, residual."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, channels)
        self.norm = BatchNorm(channels)
        self.dropout = dropout

    def forward(self, h: Tensor, batch: GraphBatch, sent: Tensor | None, received: Tensor) -> Tensor:
        message = h if sent is None else h * sent
        out = self.linear(aggregate(message, batch.neighbors, "sum") * received)
        out = self.norm.relu(out, batch.node_mask)
        return F.dropout(h + out, self.dropout, self.training)
