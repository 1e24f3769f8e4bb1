"""The atomic operations of GAP, one formula a class.

Every class evaluates a *stack* of ``count`` operations of its kind at once: ``h`` is ``[count, nodes, channels]``, one slice
for each operation, and parameters carry the same leading dimension. A single operation is a stack of one. ``x`` is the
cell's input H_in, ``[nodes, channels]``, which the filters use to compute their gates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas import distributed
from gnas.arch.formula import AGGREGATORS
from gnas.errors import choose
from gnas.graph import Neighbors
from gnas.kernels import fused
from gnas.kernels.aggregate import inverse_degree, reduce, symmetric_scales


@dataclass(frozen=True)
class Variant:
    """Where the paper, the authors' released code and the bare formulas differ inside a cell."""

    name: str
    bare: frozenset[str]  # operations that no linear-norm-activation follows
    transform_messages: bool  # Linear + ReLU before mean and max
    hidden_gate: bool  # sparse gate sigmoid(a . ReLU(W [h, h_in])) instead of sigmoid(fc([h, h_in]))
    search_slope: float  # slope of the cell's activation below zero, while searching
    train_slope: float  # and while training a found network
    equal_head: bool  # hidden widths of the head all equal


VARIANTS = {
    "paper": Variant("paper", frozenset({"skip"}), False, False, 0.0, 0.0, False),
    "reference": Variant("reference", frozenset({"skip", "identity"}), True, True, 0.1, 0.01, True),
    "bare": Variant(
        "bare", frozenset({"skip", "identity", "sparse", "dense", *AGGREGATORS}), False, False, 0.0, 0.0, False
    ),
}


def variant(name: str) -> Variant:
    """The variant of this name."""
    return VARIANTS[choose(name, VARIANTS, "variant")]


class StackedLinear(nn.Module):
    r"""``count`` linear maps side by side: :math:`y_k = h_k W_k + b_k`."""

    def __init__(self, count: int, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(count, 1, out_channels)) if bias else None
        bound = 1 / math.sqrt(in_channels)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, h: Tensor) -> Tensor:
        return fused.product(h, self.weight) if self.bias is None else torch.baddbmm(self.bias, h, self.weight)


class StackedBatchNorm(nn.Module):
    """Batch normalisation of ``[count, nodes, channels]`` over the real nodes, each stack slice on its own."""

    running_mean: Tensor
    running_var: Tensor
    tickets: Tensor

    def __init__(self, count: int, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(count, 1, channels))
        self.bias = nn.Parameter(torch.zeros(count, 1, channels))
        self.register_buffer("running_mean", torch.zeros(count, 1, channels))
        self.register_buffer("running_var", torch.ones(count, 1, channels))
        self.register_buffer(
            "tickets", torch.zeros(fused.tickets(count, channels), dtype=torch.int32), persistent=False
        )

    def forward(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        h = h.to(self.weight.dtype)  # in mixed precision h is shorter: too short for sums over all nodes
        if not self.training:
            scale = self.weight * torch.rsqrt(self.running_var + self.eps)
            return h * scale + (self.bias - self.running_mean * scale)
        if distributed.norms_are_shared():
            normal, mean, var, count = distributed.normalise(h, mask, self.eps)
            self._remember(mean, var, count)
            return normal * self.weight + self.bias
        mean, var, count = masked_moments(h, mask)
        self._remember(mean, var, count)
        scale = self.weight * torch.rsqrt(var + self.eps)
        return h * scale + (self.bias - mean * scale)

    @torch.no_grad()
    def _remember(self, mean: Tensor, var: Tensor, count: Tensor) -> None:
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * (count / (count - 1).clamp_min(1)), self.momentum)

    def relu_mix(
        self,
        y: Tensor,
        mask: Tensor | None,
        weights: Tensor | None,
        targets: fused.Groups,
        before: Sequence[Tensor] = (),
    ) -> Tensor:
        """Norm, ReLU and the weighted sum into targets, as one function: in training with its own backward pass, in
        evaluation without any (``fused.serves``).

        ``before``: what the targets hold already, one tensor each.
        """
        if distributed.norms_are_shared():
            with torch.autocast(y.device.type, enabled=False):
                mixed = _mixed(F.relu(StackedBatchNorm.forward(self, y, mask)), weights, targets)
            return mixed + torch.stack(tuple(before)) if before else mixed
        running = fused.Norm(self.running_mean, self.running_var, self.momentum, self.eps, mask, self.tickets)
        return fused.norm_relu_mix(y, self.weight, self.bias, weights, targets, running, before, self.training)


def _mixed(active: Tensor, weights: Tensor | None, targets: fused.Groups) -> Tensor:
    """The weighted sum of operations into their targets."""
    hits = (targets.of == torch.arange(targets.count, device=active.device)[:, None]).to(active.dtype)
    return ((hits if weights is None else hits * weights) @ active.flatten(1)).view(-1, *active.shape[1:])


def masked_moments(h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and biased variance over dimension 1 of the rows that ``mask`` keeps, and how many they are."""
    if mask is None:
        var, mean = torch.var_mean(h, dim=1, correction=0, keepdim=True)
        return mean, var, torch.tensor(float(h.size(1)), device=h.device, dtype=h.dtype)
    keep = mask.to(h.dtype)
    count = keep.sum().clamp_min(1)
    mean = (h * keep[:, None]).sum(1, keepdim=True) / count
    var = ((h - mean).square() * keep[:, None]).sum(1, keepdim=True) / count
    return mean, var, count


class Operation(nn.Module):
    """A stack of ``count`` operations of one kind. Subclass it to add your own: see docs/extending.md."""

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__()

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        raise TypeError(f"{type(self).__name__} must define forward(h, x, neighbors)")


class Identity(Operation):
    r"""Identity filter :math:`\mathcal{I}(H) = H`."""

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return h


class SparseFilter(Operation):
    r"""Sparse filter :math:`\mathcal{F}_s(H) = Q H`, :math:`Q = \mathrm{diag}(\sigma(fc([H, H_{in}])))`: one gate a node.

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


class DenseFilter(Operation):
    r"""Dense filter :math:`\mathcal{F}_d(H) = Z \odot H`, :math:`Z = \sigma(fc([H, H_{in}]))`: one gate a node and channel."""

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__(channels, count, variant)
        self.gate = StackedLinear(count, 2 * channels, channels)

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return torch.sigmoid(self.gate(with_input(h, x))) * h


def with_input(h: Tensor, x: Tensor) -> Tensor:
    """:math:`[H, H_{in}]`, what gates are computed from."""
    # The gradient of expand is a sum, even over a single slice.
    given = x[None] if h.dim() > x.dim() and h.size(0) == 1 else x.expand_as(h)
    return torch.cat([h, given], dim=-1)


class NeighborSum(Operation):
    r"""Sum aggregator :math:`L_{sum}(H)_i = \sum_{j \in \mathcal{N}(i)} H_j`."""

    def messages(self, h: Tensor) -> Tensor:
        """What is aggregated: H itself."""
        return h

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return reduce_together({"sum": h}, neighbors)["sum"]


class NeighborMean(Operation):
    r"""Mean aggregator :math:`L_{mean}(H)_i = \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)} H_j` (0 without any)."""

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__(channels, count, variant)
        self.message = StackedLinear(count, channels, channels) if variant.transform_messages else None

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return reduce_together({"mean": self.messages(h)}, neighbors)["mean"]

    def messages(self, h: Tensor) -> Tensor:
        """What is aggregated: H itself, or ReLU(linear(H)) in the authors' code."""
        return h if self.message is None else F.relu(self.message(h))


class NeighborMax(NeighborMean):
    r"""Max aggregator :math:`L_{max}(H)_i = \max_{j \in \mathcal{N}(i)} H_j`, channel by channel, 0 without neighbours."""

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        return reduce_together({"max": self.messages(h)}, neighbors)["max"]


class NeighborSymmetric(Operation):
    r"""Symmetric aggregator :math:`L_{sym}(H)_i = \sum_{j \in \mathcal{N}(i)} H_j / \sqrt{d_i d_j}`: GCN's, without self loops.

    :math:`d_i` counts what a node receives and :math:`d_j` what it sends. Not one of the paper's: ask for it.
    """

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        sent, received = symmetric_scales(neighbors, h.dtype)
        return reduce_together({"sum": h * sent}, neighbors)["sum"] * received


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


OPERATIONS: Mapping[str, Callable[..., Operation]] = {
    "identity": Identity,
    "skip": Identity,
    "sparse": SparseFilter,
    "dense": DenseFilter,
    "sum": NeighborSum,
    "mean": NeighborMean,
    "max": NeighborMax,
    "symmetric": NeighborSymmetric,
}
