"""What the seven hand-made networks share: the frame, batch norm over real rows, and edges as senders and receivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from gnas.arch.hand_made import HandMade
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.class_code import LayersCode
from gnas.model.encoder import EdgeEncoder, Encoder
from gnas.model.head import EachHead, Head
from gnas.model.network import GraphModule
from gnas.model.task import Task


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
        head: EachHead | None = None,
        num_layers: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.task, self.channels = task, channels
        width = width or channels
        if vars(type(self)).get("name"):
            self.architecture = HandMade(self.name, num_layers or len(layers), channels, options=options)
        self.options = {"dropout": dropout}
        self.width = width
        self.encoder = Encoder(task, width, dropout=dropout)
        self.edge_encoder: EdgeEncoder | nn.Linear | None = None
        self.layers = layers
        self.head: Head | EachHead = Head(task, width) if head is None else head

    def run(self, batch: GraphBatch) -> Tensor:
        h = self.encoder(batch)
        for layer in self.layers:
            h = layer(h, batch)
        return self.head(h, batch)

    def export_code(self) -> LayersCode:
        """The layers as code, for the export."""
        raise InputError(f"{type(self).__name__} does not declare export_code; predict with gnas")

    def with_dropout(self, value: str) -> str:
        """The code of a value with dropout, if there is any."""
        rate = self.options["dropout"]
        return f"F.dropout({value}, {rate!r}, self.training)" if rate else value


def make_layers(num_layers: int, make: Callable[[int], nn.Module]) -> nn.ModuleList:
    """``make(0)``, ``make(1)``, ... as a list of modules."""
    if num_layers < 1:
        raise InputError(f"a network needs at least one layer, not {num_layers}")
    return nn.ModuleList(make(number) for number in range(num_layers))
