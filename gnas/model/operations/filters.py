"""Filters of GAP: each node by itself, from its features and the cell's input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gnas.arch.operation import Code
from gnas.graph import Neighbors
from gnas.kernels import fused
from gnas.model.operations.base import Operation, Variant
from gnas.model.stacked import StackedLinear

GATE = "gate = torch.sigmoid(self.gate(torch.cat([h, x], dim=1)))"  # in exported code


class Filter(Operation):
    """A filter that can also be evaluated for one node tensor after the other, without a stack."""

    def each(self, sources: Sequence[Tensor], x: Tensor) -> list[Tensor]:
        """The results for each of the sources, ``[nodes, channels]``."""
        raise TypeError(f"{type(self).__name__} must define each(sources, x)")


class Identity(Filter):
    r"""Identity filter :math:`\mathcal{I}(H) = H`."""

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return h

    def each(self, sources: Sequence[Tensor], x: Tensor) -> list[Tensor]:
        return list(sources)

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        return Code("Identity filter: nothing but the transform.")


class SparseFilter(Filter):
    r"""Sparse filter :math:`\mathcal{F}_s(H) = Q H`, :math:`Q = \mathrm{diag}(\sigma(fc([H, H_{in}])))`: one gate per node.

    The authors' code computes the gate as :math:`\sigma(a \cdot \mathrm{ReLU}(W [H, H_{in}]))` (variant ``reference``).
    """

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__(channels, count, variant)
        self.gate = StackedLinear(count, 2 * channels, channels if variant.hidden_gate else 1)
        self.last = StackedLinear(count, channels, 1, bias=False) if variant.hidden_gate else None

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        gate = self.gate(with_input(h, x))
        if self.last is not None:
            gate = self.last(F.relu(gate))
        return torch.sigmoid(gate) * h

    def each(self, sources: Sequence[Tensor], x: Tensor) -> list[Tensor]:
        gates = _gates(self.gate, sources, x)
        if self.last is not None:
            gates = [F.relu(g) @ weight for g, weight in zip(gates, self.last.weight.unbind(), strict=True)]
        return [torch.sigmoid(g) * h for g, h in zip(gates, sources, strict=True)]

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        doc = "Sparse filter: one gate for each node, from the node and the cell's input x."
        if not variant.hidden_gate:
            return Code(doc, ("self.gate = nn.Linear(2 * channels, 1)",), "x", (GATE,), "gate * h")
        layers = ("self.gate = nn.Linear(2 * channels, channels)", "self.last = nn.Linear(channels, 1, bias=False)")
        hidden = "hidden = F.relu(self.gate(torch.cat([h, x], dim=1)))"
        return Code(doc, layers, "x", (hidden, "gate = torch.sigmoid(self.last(hidden))"), "gate * h")


class DenseFilter(Filter):
    r"""Dense filter :math:`\mathcal{F}_d(H) = Z \odot H`, :math:`Z = \sigma(fc([H, H_{in}]))`: one gate per node and channel."""

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__(channels, count, variant)
        self.gate = StackedLinear(count, 2 * channels, channels)

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return torch.sigmoid(self.gate(with_input(h, x))) * h

    def each(self, sources: Sequence[Tensor], x: Tensor) -> list[Tensor]:
        return [torch.sigmoid(g) * h for g, h in zip(_gates(self.gate, sources, x), sources, strict=True)]

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        doc = "Dense filter: one gate for each node and channel, from the node and the cell's input x."
        return Code(doc, ("self.gate = nn.Linear(2 * channels, channels)",), "x", (GATE,), "gate * h")


def _gates(linear: StackedLinear, sources: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """Linear maps of :math:`[H, H_{in}]`, one for each source."""
    assert linear.bias is not None
    maps = zip(sources, linear.weight.unbind(), linear.bias.unbind(), strict=True)
    return [fused.map_rows(with_input(h, x), weight, bias.squeeze(0)) for h, weight, bias in maps]


def with_input(h: Tensor, x: Tensor) -> Tensor:
    """:math:`[H, H_{in}]`, what gates are computed from."""
    # The gradient of expand is a sum, even over a single slice.
    given = x[None] if h.dim() > x.dim() and h.size(0) == 1 else x.expand_as(h)
    return torch.cat([h, given], dim=-1)


FILTER_TYPES = {"identity": Identity, "sparse": SparseFilter, "dense": DenseFilter, "skip": Identity}
