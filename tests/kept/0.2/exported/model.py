"""A graph neural network for molecules: graph regression, found by gnas.

To use it::

    from model import load

    model = load()
    out = model(data.x, data.edge_index, data.edge_attr, data.batch)

It needs torch and safetensors.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

HERE = Path(__file__).parent
# The network learned standardised targets.
SCALE = 2.7726341266023544
CENTER = 5.0


def scatter(values: Tensor, index: Tensor, dim_size: int | None = None, reduce: str = "sum") -> Tensor:
    """The rows of ``values`` with the same ``index`` together; zeros where there are none."""
    count = index.max().item() + 1 if dim_size is None else dim_size
    torch._check(count >= 0)  # torch.export cannot know it
    shape = (count, *values.shape[1:])
    if reduce == "max":
        places = index.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
        found = values.new_full(shape, -torch.inf).scatter_reduce(0, places, values, "amax")
        return found.masked_fill(found == -torch.inf, 0.0)
    total = values.new_zeros(shape).index_add(0, index, values)
    if reduce == "sum":
        return total
    number = values.new_zeros(count).index_add(0, index, torch.ones_like(index).to(values)).clamp(min=1)
    return total / number.reshape(-1, *[1] * (values.dim() - 1))


def softmax(score: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Shares of the rows with the same ``index``, which add up to 1."""
    weight = (score - scatter(score.detach(), index, num_nodes, "max")[index]).exp()
    return weight / (scatter(weight, index, num_nodes)[index] + 1e-16)


def receive_std(messages: Tensor, edge_index: Tensor, count: int) -> Tensor:
    """The standard deviation of the messages to each node; small ones are 0."""
    squares = scatter(messages.square(), edge_index[1], dim_size=count, reduce="mean")
    variance = squares - scatter(messages, edge_index[1], dim_size=count, reduce="mean").square()
    return variance.clamp(min=1e-5).sqrt().masked_fill(variance <= 1e-5, 0.0)


class StdAttention(nn.Module):
    """The standard deviation of the senders' values by attention of 4 heads."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.value = nn.Linear(channels, channels)
        self.score = nn.Parameter(torch.zeros(4, channels // 4))

    def forward(self, h: Tensor, edge_index: Tensor, r: Tensor) -> Tensor:
        bent = F.leaky_relu(r, 0.2).unflatten(1, self.score.shape)
        score = (bent * self.score).sum(dim=2, keepdim=True)
        share = softmax(score, edge_index[1], num_nodes=h.size(0))
        value = self.value(h)[edge_index[0]].unflatten(1, self.score.shape)
        message = (share * value).flatten(1)
        return receive_std(message, edge_index, h.size(0))


class Relation(nn.Module):
    """What an edge knows, in each cell: a linear map of its two ends and its state."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.nodes = nn.Linear(channels, 2 * channels)
        self.edges = nn.Linear(channels, channels, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> Tensor:
        source, target = edge_index
        receiver, sender = self.nodes(x).chunk(2, dim=1)
        return receiver[target] + sender[source] + self.edges(e)


class Cell(nn.Module):
    """[identity | std(attention)]"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.relation = Relation(channels)
        self.std_attention_4 = StdAttention(channels)
        self.fuse = nn.Linear(2 * channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> Tensor:
        r = self.relation(x, edge_index, e)
        h4 = self.std_attention_4(x, edge_index, r)
        out = torch.cat([x, h4], dim=1)
        out = F.relu(self.norm(self.fuse(out)))
        return x + F.dropout(out, 0.2, self.training)


class Model(nn.Module):
    """Input to embeddings, one cell, readout, head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(33, 4)
        # One table for all input columns: each begins where the one before it ends.
        self.register_buffer("offsets", torch.tensor([0, 8, 13, 16, 18, 23, 27, 30]), persistent=False)
        self.edge_encoder = nn.Embedding(13, 4)
        self.register_buffer("edge_offsets", torch.tensor([0, 5, 7, 10]), persistent=False)
        self.cell_1 = Cell(4)
        self.head = nn.Sequential(
            nn.Linear(8, 2),
            nn.ReLU(),
            nn.Linear(2, 1),
            nn.ReLU(),
            nn.Linear(1, 1),
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        graph_attr: Tensor | None = None,
    ) -> Tensor:
        """The predicted value in its own unit, one row for each graph."""
        h = self.encoder(x.reshape(x.size(0), 8).long() + self.offsets).sum(dim=1)
        batch = edge_index.new_zeros(x.size(0)) if batch is None else batch
        if edge_attr is None:
            raise ValueError("this network reads edge_attr: [edges, 4]")
        rows = edge_attr.reshape(edge_index.size(1), 4).long() + self.edge_offsets
        e = self.edge_encoder(rows).sum(dim=1)
        h = self.cell_1(h, edge_index, e)
        pools = [scatter(h, batch, reduce=reduce) for reduce in ("mean", "max")]
        h = torch.cat(pools, dim=1)
        out = self.head(h)
        return out * SCALE + CENTER


def load(folder: str | Path = HERE) -> Model:
    """The trained network, ready to predict; ``folder`` holds weights.safetensors."""
    model = Model()
    model.load_state_dict(load_file(Path(folder) / "weights.safetensors"))
    return model.eval()
