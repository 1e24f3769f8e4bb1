"""What the seven hand-made networks share: the frame, batch norm over real rows, and edges as senders and receivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas import distributed
from gnas.arch.hand_made import HandMade
from gnas.errors import InputError
from gnas.graph import GraphBatch, Neighbors
from gnas.kernels import fused
from gnas.kernels.aggregate import aggregate
from gnas.model.network import GraphModule
from gnas.model.stacked import StackedBatchNorm
from gnas.model.task import Encoder, Head, Task


class Baseline(GraphModule):
    """Encoder, layers one after another, head. A subclass hands over its layers, called as ``layer(h, batch)``.

    ``name`` is the name to build it by. ``widths`` holds the benchmark's widths by number of layers: for ZINC, for
    PATTERN and CLUSTER, for MNIST and CIFAR10. A subclass without a name of its own cannot be built from a description.
    """

    name: ClassVar[str] = ""
    widths: ClassVar[Mapping[int, tuple[int, int, int]]] = {}

    def __init__(
        self,
        task: Task,
        channels: int,
        layers: nn.ModuleList,
        dropout: float = 0.0,
        *,
        width: int | None = None,
        head: nn.Module | None = None,
        num_layers: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.task, self.channels = task, channels
        width = width or channels
        if vars(type(self)).get("name"):
            self.architecture = HandMade(self.name, num_layers or len(layers), channels, options=options)
        self.options = {"dropout": dropout}
        self.encoder = Encoder(task, width)
        self.layers = layers
        self.head = Head(task, width) if head is None else head

    def run(self, batch: GraphBatch) -> Tensor:
        h = self.encoder(batch)
        for layer in self.layers:
            h = layer(h, batch)
        return self.head(h, batch)


def stack(num_layers: int, make: Callable[[int], nn.Module]) -> nn.ModuleList:
    """``make(0)``, ``make(1)``, ... as a list of modules."""
    if num_layers < 1:
        raise InputError(f"a network needs at least one layer, not {num_layers}")
    return nn.ModuleList(make(number) for number in range(num_layers))


class BatchNorm(StackedBatchNorm):
    """Batch normalisation of ``[rows, channels]`` over the rows that ``mask`` keeps; no rows have no statistics."""

    def __init__(self, channels: int) -> None:
        super().__init__(1, channels)
        self.alone = fused.Groups([0])

    def forward(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(h[None], mask)[0] if h.size(0) or distributed.norms_are_shared() else h

    def relu(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        """The same and ReLU as one function where that serves: on long edge lists this is most of the time."""
        if fused.serves(self.training) and h.size(0):
            return self.relu_mix(h[None], mask, None, self.alone)[0]
        return F.relu(self(h, mask))


@dataclass(frozen=True)
class Edges:
    """The edges of a batch as rows of a tensor: what each reads at its two ends, and what its receiver gathers from it.

    Reading is an aggregation with one sender a row, so its gradient, too, is summed along sorted edges: deterministic,
    without atomics. Padding edges read zeros and reach no node.
    """

    neighbors: Neighbors  # each node receives from the nodes its edges come from
    sources: Neighbors  # each edge receives from its source
    targets: Neighbors  # each edge receives from its target
    incoming: Neighbors  # each node receives from the edges that lead to it
    mask: Tensor | None  # [E] bool; None: every edge is real

    @staticmethod
    def of(batch: GraphBatch) -> Edges:
        """The edges of ``batch``, in its sorted order."""
        n = batch.neighbors
        count = torch.arange(n.source.numel() + 1, device=n.source.device, dtype=torch.int32)
        each, ptr = count[:-1], torch.minimum(count, n.ptr[-1])
        return Edges(
            n,
            Neighbors(n.source, each, ptr, n.back, n.back_ptr),
            Neighbors(n.target, each, ptr, each, n.ptr),
            Neighbors(each, n.target, n.ptr, each, ptr),
            None if batch.node_mask is None else each < n.ptr[-1],
        )

    def at_sources(self, h: Tensor) -> Tensor:
        """``h[source]``: ``[nodes, C] -> [edges, C]``."""
        return aggregate(h, self.sources, "sum")

    def at_targets(self, h: Tensor) -> Tensor:
        """``h[target]``: ``[nodes, C] -> [edges, C]``."""
        return aggregate(h, self.targets, "sum")
