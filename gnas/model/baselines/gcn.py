"""GCN: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from gnas.errors import InputError, choose
from gnas.graph import GraphBatch, Neighbors
from gnas.kernels.aggregate import aggregate, convolve, inverse_degree, symmetric_scales
from gnas.model.baselines.base import Baseline, make_layers
from gnas.model.class_code import ClassCode, LayersCode
from gnas.model.stacked import BatchNorm, Linear
from gnas.model.task import Task

NORMALIZATIONS = ("symmetric", "mean")


class GCN(Baseline):
    r"""Graph convolutions: :math:`H' = H + \mathrm{ReLU}(\mathrm{BN}(D_{in}^{-1/2} A D_{out}^{-1/2} H W + b))`.

    No self loops are added. On an undirected graph this is PyG's ``GCNConv(add_self_loops=False)``; on a directed one
    senders are scaled by their out-degree, as in the benchmark. ``normalization="mean"`` takes the mean over neighbours
    instead, :math:`D_{in}^{-1} A`: the benchmark's first GCN, the one behind the figures that the paper quotes.

    ``original=True`` is the network of the authors, with which one graph is trained: the maps of the encoder, of ``num_layers -
    2`` layers and of the head, each with a propagation over self loops too, ReLU and dropout between them; no batch norm and no
    residual. Up to the place of the biases this is a stack of PyG's ``GCNConv``. It needs targets of nodes with a linear head.
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
        original: bool = False,
    ) -> None:
        choose(normalization, NORMALIZATIONS, "normalization")
        if original and not (task.of_one_graph and normalization == "symmetric"):
            raise InputError("gcn original=True needs targets of nodes, a linear head and normalization symmetric")
        options: dict[str, Any] = {"original": True} if original else {"normalization": normalization}
        make = (lambda _: Linear(channels, channels)) if original else (lambda _: GCNLayer(channels, dropout))
        layers = make_layers(num_layers, make)
        super().__init__(task, channels, layers[2:] if original else layers, dropout, num_layers=num_layers, **options)
        self.normalization, self.original, self.dropout, self.num_layers = normalization, original, dropout, num_layers

    def run(self, batch: GraphBatch) -> Tensor:
        h = self.encoder(batch)
        if self.original:
            return self._run_original(h, batch)
        sent, received = self.scales(batch.neighbors, h)
        for layer in self.layers:
            h = layer(h, batch, sent, received)
        return self.head(h, batch)

    def _run_original(self, h: Tensor, batch: GraphBatch) -> Tensor:
        h = F.relu(convolve(h, batch.neighbors)) if self.num_layers > 1 else h
        for layer in self.layers:
            h = F.relu(convolve(layer(F.dropout(h, self.dropout, self.training)), batch.neighbors))
        return convolve(self.head(h, batch), batch.neighbors)

    def export_code(self) -> LayersCode:
        if self.original:
            layer = ClassCode(
                "GCNLayer",
                "A linear map and a propagation.",
                ("self.linear = nn.Linear(channels, channels)",),
                ("h", "edge_index"),
                (f"return F.relu(convolve(self.linear({self.with_dropout('h')}), edge_index))",),
            )
            before = ("h = F.relu(convolve(h, edge_index))",) if self.num_layers > 1 else ()
            return LayersCode((layer,) * len(self.layers), before, convolved=True)
        received = "receive_symmetric(h[edge_index[0]], edge_index, h.size(0))"
        received = 'aggregate(h, edge_index, "mean")' if self.normalization == "mean" else received
        layer = ClassCode(
            "GCNLayer",
            "The scaled sum of the neighbours through a linear map, added to the node.",
            ("self.linear = nn.Linear(channels, channels)", "self.norm = nn.BatchNorm1d(channels)"),
            ("h", "edge_index"),
            (f"out = F.relu(self.norm(self.linear({received})))", f"return {self.with_dropout('h + out')}"),
        )
        return LayersCode((layer,) * len(self.layers))

    def scales(self, neighbors: Neighbors, h: Tensor) -> tuple[Tensor | None, Tensor]:
        """What a node's message and what its sum of messages are multiplied by, as columns of ``h``'s type."""
        if self.normalization == "mean":
            return None, inverse_degree(neighbors, h.dtype)
        return symmetric_scales(neighbors, h.dtype)


class GCNLayer(nn.Module):
    """Scaled sum over neighbours, linear, batch norm, ReLU, residual."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.linear = Linear(channels, channels)
        self.norm = BatchNorm(channels)
        self.dropout = dropout

    def forward(self, h: Tensor, batch: GraphBatch, sent: Tensor | None, received: Tensor) -> Tensor:
        message = h if sent is None else h * sent
        out = self.linear(aggregate(message, batch.neighbors, "sum") * received)
        out = self.norm.relu(out, batch.node_mask)
        return F.dropout(h + out, self.dropout, self.training)
