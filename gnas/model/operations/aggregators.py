"""Aggregators of GAP: what a node receives from its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gnas.arch.operation import Code
from gnas.graph import Neighbors
from gnas.kernels.aggregate import inverse_degree, reduce, symmetric_scales
from gnas.model.operations.base import Operation, Reduction, Variant
from gnas.model.stacked import StackedLinear

SMALLEST_VARIANCE = 1e-5
RECEIVE = 'receive({{}}, edge_index, h.size(0), "{}")'  # exported code: what a node receives of its messages


def _means(sums: Sequence[Tensor], neighbors: Neighbors) -> list[Tensor]:
    return [one * inverse_degree(neighbors, one.dtype) for one in sums]


class NeighborSum(Operation):
    r"""Sum aggregator :math:`L_{sum}(H)_i = \sum_{j \in \mathcal{N}(i)} H_j`."""

    reduction = Reduction("sum of the", RECEIVE.format("sum"))

    def messages(self, h: Tensor) -> Tensor:
        """What is aggregated: H itself."""
        return h

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return reduce_together({"sum": h}, neighbors)["sum"]

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        return Code("The sum over neighbours.", reads="edge_index", value='aggregate(h, edge_index, "sum")')


class NeighborMean(Operation):
    r"""Mean aggregator :math:`L_{mean}(H)_i = \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)} H_j` (0 without any)."""

    reduction = Reduction("mean of the", RECEIVE.format("mean"), finish=lambda sums, near: _means(sums, near)[0])

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__(channels, count, variant)
        self.message = StackedLinear(count, channels, channels) if variant.transform_messages else None

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return reduce_together({"mean": self.messages(h)}, neighbors)["mean"]

    def messages(self, h: Tensor) -> Tensor:
        """What is aggregated: H itself, or ReLU(linear(H)) in the authors' code."""
        return h if self.message is None else F.relu(self.message(h))

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        return _neighbor_code("The mean over neighbours.", "mean", variant)


class NeighborMax(NeighborMean):
    r"""Max aggregator :math:`L_{max}(H)_i = \max_{j \in \mathcal{N}(i)} H_j`, channel by channel, 0 without neighbours."""

    reduction = Reduction("maximum of the", RECEIVE.format("max"), sums=())

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return reduce_together({"max": self.messages(h)}, neighbors)["max"]

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        return _neighbor_code("The maximum over neighbours.", "max", variant)


class NeighborSymmetric(Operation):
    r"""Symmetric aggregator :math:`L_{sym}(H)_i = \sum_{j \in \mathcal{N}(i)} H_j / \sqrt{d_i d_j}`: GCN's, without self loops.

    :math:`d_i` counts what a node receives and :math:`d_j` what it sends. Not one of the paper's: name it to use it.
    """

    reduction = Reduction(
        "sum, scaled by the degrees at both ends, of the",
        "receive_symmetric({}, edge_index, h.size(0))",
        sums=("scaled",),
        finish=lambda sums, near: sums[0] * symmetric_scales(near, sums[0].dtype)[1],
    )

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        sent, received = symmetric_scales(neighbors, h.dtype)
        return reduce_together({"sum": h * sent}, neighbors)["sum"] * received

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        return Code(
            "The sum over neighbours, scaled by the degrees at both ends: GCN's.",
            reads="edge_index",
            steps=(
                "one = torch.ones_like(h[:, :1])",
                'sent = aggregate(one, edge_index.flip(0), "sum").clamp(min=1).rsqrt()',
                'received = aggregate(one, edge_index, "sum").clamp(min=1).rsqrt()',
            ),
            value='aggregate(h * sent, edge_index, "sum") * received',
        )


class NeighborStd(Operation):
    r"""Standard deviation :math:`\sqrt{L_{mean}(H^2) - L_{mean}(H)^2}`, channel by channel, 0 without neighbours.

    As in PyG, variances up to 1e-5 count as 0. Not one of the paper's: name it to use it.
    """

    reduction = Reduction(
        "standard deviation of the",
        "receive_std({}, edge_index, h.size(0))",
        sums=("square", "value"),
        finish=lambda sums, near: standard_deviation(*_means(sums, near)),
    )

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        squares, mean = reduce_together({"mean": torch.cat([h.square(), h])}, neighbors)["mean"].chunk(2)
        return standard_deviation(squares, mean)

    @classmethod
    def export_code(cls, variant: Variant) -> Code:
        return Code(
            "The standard deviation over neighbours.",
            reads="edge_index",
            steps=('variance = aggregate(h * h, edge_index, "mean") - aggregate(h, edge_index, "mean").square()',),
            value="variance.clamp(min=1e-5).sqrt().masked_fill(variance <= 1e-5, 0.0)",
        )


def standard_deviation(squares: Tensor, mean: Tensor) -> Tensor:
    """The standard deviation from the means of squares and of values; as in PyG, small ones are 0 and have no gradient."""
    variance = squares - mean.square()
    return variance.clamp_min(SMALLEST_VARIANCE).sqrt().masked_fill(variance <= SMALLEST_VARIANCE, 0.0)


def _neighbor_code(doc: str, name: str, variant: Variant) -> Code:
    """The code of mean and max, whose messages the authors' code transforms."""
    if variant.transform_messages:
        value = f'aggregate(F.relu(self.message(h)), edge_index, "{name}")'
        return Code(doc, ("self.message = nn.Linear(channels, channels)",), "edge_index", value=value)
    return Code(doc, reads="edge_index", value=f'aggregate(h, edge_index, "{name}")')


def reduce_together(messages: Mapping[str, Tensor], neighbors: Neighbors) -> dict[str, Tensor]:
    """Aggregate stacks of messages under ``sum``, ``mean`` and ``max`` in one pass over the edges.

    The same tensor may stand under several names; it is then read once.
    """
    groups: list[Tensor] = []
    places: dict[str, int] = {}
    for name in ("sum", "mean", "max"):
        if name in messages:
            known = [k for k, g in enumerate(groups) if g is messages[name]]
            if not known:
                groups.append(messages[name])
            places[name] = known[0] if known else len(groups) - 1
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + group.size(0))
    added = [places[n] for n in ("sum", "mean") if n in places]
    sum_to = starts[max(added) + 1] if added else 0
    max_from = starts[places["max"]] if "max" in places else starts[-1]
    _, nodes, channels = groups[0].shape
    flat = torch.cat(groups).transpose(0, 1).reshape(nodes, -1) if len(groups) > 1 else _flat(groups[0])
    total, largest = reduce(flat, neighbors, sum_to * channels, max_from * channels)
    result = {}
    for name, place in places.items():
        first, count = starts[place], groups[place].size(0)
        if name == "max":
            result[name] = _unflat(largest, first - max_from, count, channels)
            continue
        value = _unflat(total, first, count, channels)
        result[name] = value if name == "sum" else value * inverse_degree(neighbors, value.dtype)
    return result


def _flat(h: Tensor) -> Tensor:
    return h.transpose(0, 1).reshape(h.size(1), -1)


def _unflat(values: Tensor, first: int, count: int, channels: int) -> Tensor:
    return values.view(values.size(0), -1, channels)[:, first : first + count].transpose(0, 1)


AGGREGATOR_TYPES: dict[str, type[Operation]] = {
    "sum": NeighborSum,
    "mean": NeighborMean,
    "max": NeighborMax,
    "symmetric": NeighborSymmetric,
    "std": NeighborStd,
}
