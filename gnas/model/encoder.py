"""Input columns to embeddings: of nodes, of edges, and of their encodings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.kernels import fused
from gnas.model.initial import draw_normal
from gnas.model.stacked import BatchNorm, Linear, apply_linear
from gnas.model.structure import compute_measures
from gnas.model.task import Task

MANY = 256  # categories; on a CPU a product with rows of so many takes longer than bags of an embedding


def embed_categories(x: Tensor, weight: Tensor, starts: Tensor) -> Tensor:
    """The sum of the embeddings of each row's categories; ``starts`` has the first row of ``weight`` of each column."""
    rows = x.long() + starts
    if x.device.type == "cpu" and rows.size(1) == 1 and not torch.compiler.is_compiling():
        return weight.index_select(0, rows.squeeze(1))  # a ninth of the time of a product, with its gradient
    if x.device.type == "cpu" and weight.size(0) > MANY:
        return F.embedding_bag(rows, weight, mode="sum")
    # A product with one-hot rows is deterministic on a GPU, unlike an embedding's backward, and fast if there are few.
    hot = rows.new_zeros(x.size(0), weight.size(0), dtype=weight.dtype)
    return hot.scatter_(1, rows, 1.0) @ weight


def add_linear(linear: nn.Linear, h: Tensor, before: Tensor | None) -> Tensor:
    """A linear map, added to ``before`` if there is something."""
    if fused.joins(h):
        return apply_linear(linear, h, fused.Around(before=None if before is None else before[None]))
    return linear(h) if before is None else before + linear(h)


def drop_entries(x: Tensor, rate: float) -> Tensor:
    """Dropout of the input. On a CPU the zeros of a sparse input, such as words, draw no random number: a third of the time."""
    if x.device.type == "cpu":
        filled = x.flatten().nonzero().squeeze(1)
        if 4 * filled.numel() < x.numel():
            kept = F.dropout(x.flatten()[filled], rate)
            return torch.zeros_like(x).view(-1).index_copy_(0, filled, kept).view_as(x)
    return F.dropout(x, rate)


def init_categories(categories: Sequence[int], other: Sequence[int], channels: int) -> Tensor:
    """Random embeddings of all categories. The last one of the columns ``other`` is never trained: it is zero."""
    weight = draw_normal(sum(categories), channels)
    for column in other:
        weight[sum(categories[: column + 1]) - 1] = 0
    return weight


def first_rows(categories: Sequence[int]) -> Tensor:
    """The first row of each column in the table of embeddings of all columns."""
    return torch.tensor([0, *itertools.accumulate(categories[:-1])])


def list_encodings(task: Task) -> tuple[str, ...]:
    """The names of all encodings that a task has."""
    columns = {"walks": task.walks, "edge_walks": task.edge_walks, "laplacian": task.laplacian}
    return (*task.structure, *(name for name, count in columns.items() if count))


class Encoder(nn.Module):
    """Input columns to node embeddings: a sum of embeddings for categories, a linear map for features.

    Linear maps of the measures that the task's ``structure`` names and of the encodings of nodes are added.
    ``encodings`` names those to read, of the task's (``structure``: all its measures); None: all. ``dropout`` is applied to
    features and to embeddings if the task is one of nodes with a linear head, as for one graph: its labels are few, and a
    network would learn the features of their nodes by heart.
    """

    def __init__(self, task: Task, channels: int, encodings: Sequence[str] | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout if task.of_one_graph else 0.0
        names = list_encodings(task) if encodings is None else encodings
        self.categories = task.categories
        if task.categories:
            self.weight = nn.Parameter(init_categories(task.categories, task.other, channels))
            self.register_buffer("starts", first_rows(task.categories), persistent=False)
        else:
            self.linear = Linear(task.in_channels, channels)
        chosen = [i for i, name in enumerate(task.structure) if {name, "structure"} & {*names}]
        self.structure = tuple(task.structure[i] for i in chosen)
        if self.structure:
            self.measured = Linear(len(self.structure), channels, bias=False)
            # Zeros at first: a random map of measures that all nodes have would hide a rare category.
            nn.init.zeros_(self.measured.weight)
            self.register_buffer("center", torch.tensor([task.structure_center[i] for i in chosen]), persistent=False)
            self.register_buffer("scale", torch.tensor([task.structure_scale[i] for i in chosen]), persistent=False)
        walks, laplacian = "walks" in names and task.walks > 0, "laplacian" in names and task.laplacian > 0
        self.pe = PositionEncoder(task, channels, walks, laplacian) if walks or laplacian else None

    starts: Tensor
    center: Tensor
    scale: Tensor

    def forward(self, batch: GraphBatch) -> Tensor:
        h = self._read(batch.x)
        if self.structure:
            around = (compute_measures(batch, self.structure, self.center.dtype) - self.center) / self.scale
            h = h + self.measured(around)
        h = h if self.pe is None else self.pe(batch, h)
        return F.dropout(h, self.dropout, self.training) if self.dropout else h

    def _read(self, x: Tensor) -> Tensor:
        columns = len(self.categories) or self.linear.in_features
        if x.dim() != 2 or x.size(1) != columns:
            # A wrong number of columns could be broadcast and give meaningless results.
            kind = f"categories ({', '.join(map(str, self.categories))} values)" if self.categories else "features"
            shape = "x".join(map(str, x.shape))
            raise InputError(f"x has shape {shape}; this network reads [nodes, {columns}]: {columns} columns of {kind}")
        if not self.categories:
            x = x.to(self.linear.weight.dtype)
            return self.linear(drop_entries(x, self.dropout) if self.dropout and self.training else x)
        return embed_categories(x, self.weight, self.starts)


class PositionEncoder(nn.Module):
    """A linear map of the encodings of nodes: the task's walks, normalised, and its eigenvectors of the Laplacian.

    The sign of an eigenvector is arbitrary. In training it is drawn anew, for each graph and vector.
    """

    def __init__(self, task: Task, channels: int, walks: bool = True, laplacian: bool = True) -> None:
        super().__init__()
        self.width, self.first_vector = task.walks + task.laplacian, task.walks
        self.walks, self.laplacian = task.walks if walks else 0, task.laplacian if laplacian else 0
        self.norm = BatchNorm(self.walks) if self.walks else None
        self.linear = Linear(self.walks + self.laplacian, channels, bias=False)

    def forward(self, batch: GraphBatch, h: Tensor) -> Tensor:
        """What is added to ``h``, and ``h``."""
        pe = batch.node_pe
        if pe is None or pe.size(1) != self.width:
            found = "none" if pe is None else str(pe.size(1))
            raise InputError(
                f"node_pe has {found} columns; this network reads {self.width}: {self.first_vector} of walks, then "
                f"{self.width - self.first_vector} of the Laplacian"
            )
        pe = pe.to(self.linear.weight.dtype)
        parts = [] if self.norm is None else [self.norm(pe[:, : self.walks], batch.node_mask)]
        if self.laplacian:
            vectors = pe[:, self.first_vector :]
            if self.training:
                signs = torch.randint(0, 2, (batch.num_graphs + 1, self.laplacian), device=pe.device) * 2 - 1
                vectors = vectors * signs.to(pe.dtype).index_select(0, batch.batch)
            parts.append(vectors)
        return add_linear(self.linear, parts[0] if len(parts) == 1 else torch.cat(parts, dim=1), h)


class EdgeEncoder(nn.Module):
    """Edge columns to edge embeddings, in the order of ``batch.neighbors``.

    Categories are embedded, features and the encodings of edges are mapped linearly. Without any of them every edge has
    the same embedding, as in the benchmark. ``encodings`` names those to read, of the task's; None: all.
    """

    def __init__(self, task: Task, channels: int, encodings: Sequence[str] | None = None) -> None:
        super().__init__()
        self.categories, self.features = task.edge_categories, task.edge_channels
        self.walks = task.edge_walks if encodings is None or "edge_walks" in encodings else 0
        if self.categories:
            self.weight = nn.Parameter(init_categories(self.categories, task.edge_other, channels))
            self.register_buffer("starts", first_rows(self.categories), persistent=False)
        if self.features:
            self.linear = Linear(self.features, channels)
        if self.walks:
            self.norm = BatchNorm(self.walks)
            self.pe = Linear(self.walks, channels, bias=False)
        if not (self.categories or self.features or self.walks):
            self.constant = nn.Linear(1, channels)

    starts: Tensor

    def forward(self, batch: GraphBatch) -> Tensor:
        """``[edges, channels]``, or ``[1, channels]`` if all edges have the same embedding."""
        e = None
        if self.categories or self.features:
            attr = self._attr(batch)
            if self.categories:
                e = embed_categories(attr, self.weight, self.starts)
            else:
                e = self.linear(attr.to(self.linear.weight.dtype))
        if self.walks:
            if batch.edge_pe is None or batch.edge_pe.size(1) != self.walks:
                raise InputError(
                    f"this network reads edge_pe of {self.walks} columns; the batch has none of this width"
                )
            neighbors = batch.neighbors
            real = None
            if batch.node_mask is not None:
                real = torch.arange(neighbors.source.numel(), device=neighbors.ptr.device) < neighbors.ptr[-1]
            walks = self.norm(batch.edge_pe.to(self.pe.weight.dtype), real)
            return add_linear(self.pe, walks, e)
        return self.constant(self.constant.weight.new_ones(1, 1)) if e is None else e

    def _attr(self, batch: GraphBatch) -> Tensor:
        columns = len(self.categories) or self.features
        attr = batch.edge_attr
        if attr is None:
            raise InputError(f"this network reads edge_attr: [edges, {columns}]; the batch has none")
        attr = attr[:, None] if attr.dim() == 1 else attr
        if attr.dim() != 2 or attr.size(1) != columns:
            raise InputError(f"edge_attr has shape {list(attr.shape)}; this network reads [edges, {columns}]")
        return attr
