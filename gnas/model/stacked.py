"""Layers for a stack of operations: every tensor has the leading dimension ``count``, one slice per operation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas import distributed
from gnas.kernels import fused


class Linear(nn.Linear):
    """``nn.Linear`` by the products of this package, where they are faster."""

    def forward(self, h: Tensor, relu: bool = False) -> Tensor:
        if h.dim() == 2 and fused.has_product(h, self.weight):
            return fused.affine(h, self.weight.t(), self.bias, relu=relu)
        out = super().forward(h)
        return F.relu(out) if relu else out


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
        if h.is_contiguous() and fused.joins(h):
            return fused.linear([h], self.weight, self.bias)
        return fused.affine(h, self.weight, self.bias)

    def beside(self, inputs: Sequence[Tensor]) -> Tensor:
        """The one map of inputs side by side, ``[1, rows, out]``."""
        if fused.can_map_beside(inputs):
            bias = None if self.bias is None else self.bias.flatten()
            return fused.affine_beside(inputs, self.weight.squeeze(0), bias)[None]
        return self(torch.cat(tuple(inputs), dim=1)[None])  # type: ignore[no-any-return]

    def wide(self, h: Tensor) -> Tensor:
        """All maps of one input as a single product: ``[rows, in] -> [rows, count * out]``."""
        weight, bias = self.wide_weights()
        if fused.has_product(h, weight):
            return fused.affine(h, weight, bias)
        return h @ weight if bias is None else torch.addmm(bias, h, weight)

    def wide_weights(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of :meth:`wide`."""
        return self.weight.transpose(0, 1).flatten(1), None if self.bias is None else self.bias.flatten()


def apply_linear(linear: nn.Linear, h: Tensor, around: fused.Around) -> Tensor:
    """A linear map of ``[rows, in]`` and what is ``around`` it, where ``fused.joins(h)``."""
    return fused.linear([h[None]], *as_stack(linear), around).squeeze(0)


def apply_through(linear: nn.Linear, h: Tensor, around: fused.Around) -> tuple[Tensor, Tensor]:
    """The same, and ``h`` for the other functions that read it (``fused.linear_through``)."""
    out, h = fused.linear_through([h[None]], *as_stack(linear), around)
    return out.squeeze(0), h.squeeze(0)


def as_stack(linear: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a stack of one."""
    return linear.weight.t()[None], None if linear.bias is None else linear.bias.view(1, 1, -1)


class StackedBatchNorm(nn.Module):
    """Batch normalisation of ``[count, nodes, channels]`` over the real nodes, each slice of the stack separately."""

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
            "tickets", torch.zeros(fused.count_tickets(count, channels), dtype=torch.int32), persistent=False
        )

    def forward(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        h = h.to(self.weight.dtype)  # the half precision of h is too low for sums over all nodes
        if not self.training:
            scale = self.weight * torch.rsqrt(self.running_var + self.eps)
            return h * scale + (self.bias - self.running_mean * scale)
        if distributed.norms_are_shared():
            normal, mean, var, count = distributed.normalise_over_processes(h, mask, self.eps)
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
        relu: bool = True,
        drop: fused.Drop = fused.NO_DROP,
    ) -> Tensor:
        """Norm, ReLU and the weighted sum into targets, as one function; ``relu=False``: without ReLU.

        In training it has its own backward pass, in evaluation none (``fused.serves``). ``before`` has one tensor per
        target, to which the result is added. ``drop``: dropout before that, where :meth:`can_drop`.
        """
        if weights is None and len(y) == 1 and drop == fused.NO_DROP and self.is_plain(y, mask):
            return self.plain(y.squeeze(0), 0, relu, before[0] if before else None)[None]
        if distributed.norms_are_shared():
            with torch.autocast(y.device.type, enabled=False):
                normal = StackedBatchNorm.forward(self, y, mask)
                mixed = _mixed(F.relu(normal) if relu else normal, weights, targets)
            return mixed + torch.stack(tuple(before)) if before else mixed
        running = fused.Norm(
            self.running_mean, self.running_var, self.momentum, self.eps, mask, self.tickets, relu, drop
        )
        return fused.norm_relu_mix(y, self.weight, self.bias, weights, targets, running, before, self.training)

    def is_plain(self, y: Tensor, mask: Tensor | None) -> bool:
        """Whether PyTorch's own batch norm serves best: on a CPU in training, where all of several rows count."""
        alone = self.training and mask is None and y.size(-2) > 1 and not distributed.norms_are_shared()
        return alone and fused.runs_plainly(y) and y.dtype == self.weight.dtype

    def plain(self, y: Tensor, row: int, relu: bool = True, before: Tensor | None = None) -> Tensor:
        """Norm and ReLU of ``[rows, channels]`` by one slice of the weights, added to ``before``, in PyTorch's operations."""
        weight, bias = (
            one.view(-1) if len(one) == 1 else one.unbind()[row].view(-1) for one in (self.weight, self.bias)
        )
        statistics = self.running_mean[row, 0], self.running_var[row, 0]
        out = F.batch_norm(y, *statistics, weight, bias, True, self.momentum, self.eps)
        out = F.relu_(out) if relu else out
        return out if before is None else before + out

    def can_drop(self, h: Tensor) -> bool:
        """Whether dropout can be a part of :meth:`relu_mix`."""
        return fused.has_kernels(h) and not distributed.norms_are_shared()


class BatchNorm(StackedBatchNorm):
    """Batch normalisation of ``[rows, channels]`` over the rows that ``mask`` keeps; no rows have no statistics."""

    def __init__(self, channels: int) -> None:
        super().__init__(1, channels)
        self.alone = fused.Groups([0])

    def forward(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        if fused.serves(self.training) and h.size(0):
            return self.relu_mix(h[None], mask, None, self.alone, relu=False).squeeze(0)
        return super().forward(h[None], mask)[0] if h.size(0) or distributed.norms_are_shared() else h

    def relu(self, h: Tensor, mask: Tensor | None = None, before: Tensor | None = None) -> Tensor:
        """The same and ReLU, added to ``before``; one fused function if there is one, which is faster on long edge lists."""
        if fused.serves(self.training) and h.size(0):
            return self.relu_mix(h[None], mask, None, self.alone, [] if before is None else [before]).squeeze(0)
        active = F.relu(self(h, mask))
        return active if before is None else before + active


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
