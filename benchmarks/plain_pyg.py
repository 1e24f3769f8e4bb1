"""The model to compare with: the same networks in plain PyG, one module per operation, run one after another.

A filter is a linear gate, an aggregation is PyG's ``MessagePassing``, each followed by ``nn.Linear``, ``nn.BatchNorm1d`` and
ReLU, over an unpadded PyG ``Batch``. Nothing is grouped, fused or recorded. The variant is
``paper``. A test compares it with the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import MessagePassing, global_mean_pool

from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace, SpaceLink
from gnas.model.task import Task


class Gate(nn.Module):
    """Sparse filter (one gate per node) or dense filter (one per node and channel)."""

    def __init__(self, channels: int, gates: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * channels, gates)

    def forward(self, h: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(torch.cat([h, x], dim=-1))) * h


class Same(nn.Module):
    """Identity."""

    def forward(self, h: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        return h


class Neighbours(MessagePassing):
    """Sum, mean or max over the senders."""

    def forward(self, h: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=h)

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class PlainOperation(nn.Module):
    """An operation and what follows it: linear, batch norm, ReLU."""

    def __init__(self, name: str, channels: int) -> None:
        super().__init__()
        if name in ("sum", "mean", "max"):
            self.operation: nn.Module = Neighbours(aggr=name)
        else:
            self.operation = Same() if name == "identity" else Gate(channels, 1 if name == "sparse" else channels)
        self.linear = nn.Linear(channels, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, h: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.relu(self.norm(self.linear(self.operation(h, x, edge_index))))


class PlainCell(nn.Module):
    """The walk through a cell, link by link and candidate by candidate."""

    def __init__(self, links: Iterable[SpaceLink], outputs: Sequence[int], channels: int) -> None:
        super().__init__()
        self.links, self.outputs = tuple(links), tuple(outputs)
        self.operations = nn.ModuleDict(
            {
                f"{link.source}-{link.target}-{name}": PlainOperation(name, channels)
                for link in self.links
                for name in link.candidates
                if name != "zero"
            }
        )
        self.fuse = nn.Linear(channels * len(self.outputs), channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor, edge_index: Tensor, mixing: Sequence[Tensor] | None = None) -> Tensor:
        nodes = {0: x}
        for number, link in enumerate(self.links):
            for place, name in enumerate(link.candidates):
                if name == "zero":
                    continue
                value = self.operations[f"{link.source}-{link.target}-{name}"](nodes[link.source], x, edge_index)
                if mixing is not None:
                    value = mixing[number][place] * value
                nodes[link.target] = nodes[link.target] + value if link.target in nodes else value
        out = self.norm(self.fuse(torch.cat([nodes[j] for j in self.outputs], dim=-1)))
        return x + F.relu(out)


class PlainModel(nn.Module):
    """A network that knows the loss of its task."""

    task: Task

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        if self.task.kind == "regression":
            return F.l1_loss(out, y.view_as(out))
        if self.task.loss == "cross_entropy":
            return F.cross_entropy(out, y)
        counts = torch.bincount(y, minlength=self.task.num_outputs)
        return F.cross_entropy(out, y, weight=((len(y) - counts) / len(y) * (counts > 0)).to(out.dtype))


class PlainNetwork(PlainModel):
    """Encoder, cells, head."""

    def __init__(self, cells: Iterable[PlainCell], task: Task, channels: int) -> None:
        super().__init__()
        self.task = task
        self.encoder = (
            nn.Embedding(task.categories[0], channels) if task.categories else nn.Linear(task.in_channels, channels)
        )
        self.cells = nn.ModuleList(cells)
        sizes = [channels, max(channels // 2, 1), max(channels // 4, 1), task.num_outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def mixings(self) -> Iterable[list[Tensor] | None]:
        """The share of every candidate of every link, for each cell; none in a found network."""
        return [None] * len(self.cells)

    def forward(self, batch: Batch) -> Tensor:
        h = self.encoder(batch.x[:, 0] if self.task.categories else batch.x)
        for cell, mixing in zip(self.cells, self.mixings(), strict=True):
            h = cell(h, batch.edge_index, mixing)
        if self.task.level == "graph":
            h = global_mean_pool(h, batch.batch, batch.num_graphs)
        for layer in self.layers[:-1]:
            h = F.relu(layer(h))
        return self.layers[-1](h)


class PlainSupernet(PlainNetwork):
    """All candidates of a search space, mixed by softmax(alpha)."""

    def __init__(self, space: SearchSpace, task: Task, channels: int, num_cells: int) -> None:
        links, outputs = space.links(), space.output_nodes()
        super().__init__((PlainCell(links, outputs, channels) for _ in range(num_cells)), task, channels)
        self.alphas = nn.ParameterList(
            1e-3 * torch.randn(len(link.candidates)) for _ in range(num_cells) for link in links
        )

    def mixings(self) -> Iterable[list[Tensor] | None]:
        each = len(self.alphas) // len(self.cells)
        shares = [alpha.softmax(-1) for alpha in self.alphas]
        return [list(shares[k * each : (k + 1) * each]) for k in range(len(self.cells))]

    def weights(self) -> list[nn.Parameter]:
        mine = {id(alpha) for alpha in self.alphas}
        return [p for p in self.parameters() if id(p) not in mine]


def plain_network(genotype: Genotype, task: Task, channels: int) -> PlainNetwork:
    """The network of a genotype; branches that never reach the output are left out."""
    cells = []
    for cell in genotype:
        live = set(cell.live())
        links = [SpaceLink(k.source, k.target, (k.operation,)) for k in cell.links if k.target in live]
        cells.append(PlainCell(links, cell.output_nodes(), channels))
    return PlainNetwork(cells, task, channels)


class PlainSearchStep:
    """One single-level step with PyTorch's own optimisers at the paper's rates: one loss, one backward pass."""

    def __init__(self, supernet: PlainSupernet) -> None:
        self.supernet = supernet
        self.weights = supernet.weights()
        self.sgd = torch.optim.SGD(self.weights, lr=0.025, momentum=0.9, weight_decay=3e-4)
        self.adam = torch.optim.Adam(list(supernet.alphas), lr=3e-4, betas=(0.5, 0.999), weight_decay=1e-3)

    def __call__(self, batch: Batch) -> None:
        self.sgd.zero_grad()
        self.adam.zero_grad()
        self.supernet.loss(self.supernet(batch), batch.y).backward()
        nn.utils.clip_grad_norm_(self.weights, 5.0)
        self.sgd.step()
        self.adam.step()


class PlainTrainStep:
    """One step of training with PyTorch's Adam, or AdamW if there is a weight decay; ``clip`` of 0 clips nothing."""

    def __init__(self, network: PlainModel, weight_decay: float = 0.0, clip: float = 0.0) -> None:
        self.network, self.clip = network, clip
        kind = torch.optim.AdamW if weight_decay else torch.optim.Adam
        self.optimizer = kind(network.parameters(), lr=1e-3, weight_decay=weight_decay)

    def __call__(self, batch: Batch) -> None:
        self.optimizer.zero_grad()
        self.network.loss(self.network(batch), batch.y).backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimizer.step()
