"""A graph neural network for molecules: graph regression, found by gnas.

To use it::

    from model import load

    model = load()
    out = model(data.x, data.edge_index, data.batch)

It needs torch, torch-geometric and safetensors.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
from torch_geometric.utils import scatter

HERE = Path(__file__).parent
# The network learned standardised targets.
SCALE = 2.7726341266023544
CENTER = 5.0


def aggregate(h: Tensor, edge_index: Tensor, reduce: str) -> Tensor:
    """What each node gets from the nodes that point to it; zeros if there are none."""
    source, target = edge_index
    return scatter(h[source], target, dim_size=h.size(0), reduce=reduce)


class Transform(nn.Module):
    """What follows an operation: linear map, batch norm, ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, h: Tensor) -> Tensor:
        return F.relu(self.norm(self.linear(h)))


class Identity(nn.Module):
    """Identity filter: nothing but the transform."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.transform = Transform(channels)

    def forward(self, h: Tensor) -> Tensor:
        return self.transform(h)


class Sparse(nn.Module):
    """Sparse filter: one gate for each node, from the node and the cell's input x."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * channels, 1)
        self.transform = Transform(channels)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(torch.cat([h, x], dim=1)))
        return self.transform(gate * h)


class Dense(nn.Module):
    """Dense filter: one gate for each node and channel, from the node and the cell's input x."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * channels, channels)
        self.transform = Transform(channels)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(torch.cat([h, x], dim=1)))
        return self.transform(gate * h)


class Sum(nn.Module):
    """The sum over neighbours."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.transform = Transform(channels)

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return self.transform(aggregate(h, edge_index, "sum"))


class Mean(nn.Module):
    """The mean over neighbours."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.transform = Transform(channels)

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return self.transform(aggregate(h, edge_index, "mean"))


class Max(nn.Module):
    """The maximum over neighbours."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.transform = Transform(channels)

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return self.transform(aggregate(h, edge_index, "max"))


class Cell1(nn.Module):
    """[identity(max(dense(dense))) | dense#1(mean(identity)) | identity(dense#1(mean(identity)))]"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dense_1 = Dense(channels)
        self.dense_2 = Dense(channels)
        self.identity_3 = Identity(channels)
        self.max_5 = Max(channels)
        self.mean_6 = Mean(channels)
        self.dense_7 = Dense(channels)
        self.identity_8 = Identity(channels)
        self.identity_9 = Identity(channels)
        self.fuse = nn.Linear(3 * channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h1 = self.dense_1(x, x)
        h2 = self.dense_2(h1, x)
        h3 = self.identity_3(x)
        h5 = self.max_5(h2, edge_index)
        h6 = self.mean_6(h3, edge_index)
        h7 = self.dense_7(h6, x)
        h8 = self.identity_8(h7)
        h9 = self.identity_9(h5)
        out = torch.cat([h7, h8, h9], dim=1)
        return x + F.relu(self.norm(self.fuse(out)))


class Cell2(nn.Module):
    """[identity(sum#1(sparse)) | identity(sum#1(sparse)) | sparse(sum#1(sparse))]"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.sparse_2 = Sparse(channels)
        self.sum_5 = Sum(channels)
        self.identity_7 = Identity(channels)
        self.identity_8 = Identity(channels)
        self.sparse_9 = Sparse(channels)
        self.fuse = nn.Linear(3 * channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h2 = self.sparse_2(x, x)
        h5 = self.sum_5(h2, edge_index)
        h7 = self.identity_7(h5)
        h8 = self.identity_8(h5)
        h9 = self.sparse_9(h5, x)
        out = torch.cat([h7, h8, h9], dim=1)
        return x + F.relu(self.norm(self.fuse(out)))


class Model(nn.Module):
    """Input to embeddings, 2 cells, readout, head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(9, 4)
        self.cell_1 = Cell1(4)
        self.cell_2 = Cell2(4)
        self.head = nn.Sequential(
            nn.Linear(4, 2),
            nn.ReLU(),
            nn.Linear(2, 1),
            nn.ReLU(),
            nn.Linear(1, 1),
        )

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        """The predicted value in its own unit, one row for each graph."""
        h = self.encoder(x.reshape(len(x)).long())
        batch = edge_index.new_zeros(len(x)) if batch is None else batch
        h = self.cell_1(h, edge_index)
        h = self.cell_2(h, edge_index)
        h = scatter(h, batch, reduce="mean")
        out = self.head(h)
        return out * SCALE + CENTER


def load(folder: str | Path = HERE) -> Model:
    """The trained network, ready to predict; ``folder`` holds weights.safetensors."""
    model = Model()
    model.load_state_dict(load_file(Path(folder) / "weights.safetensors"))
    return model.eval()
