"""Sums over neighbours with a weight on each edge: attention, Gaussian kernels, gates. No message is ever materialised."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnas.graph import Neighbors
from gnas.kernels.choice import calls_directly, import_aggregate


def weighted_sum(x: Tensor, weight: Tensor, neighbors: Neighbors) -> Tensor:
    r"""Weighted sum over the senders of each receiver: ``[senders, H * D]`` and ``[edges, H]`` to ``[receivers, H * D]``.

    .. math:: y_{ihd} = \sum_{j \to i} w_{ji,h}\, x_{jhd}

    Each of the H weights of an edge serves D channels in a row: a head of attention, or with D = 1 a gate of its own.
    """
    n, dtype = neighbors, torch.promote_types(x.dtype, weight.dtype)
    x, weight = x.to(dtype).contiguous(), weight.to(dtype).contiguous()
    if calls_directly(x):
        return _Weighted.apply(x, weight, n)  # type: ignore[no-untyped-call, no-any-return]
    out: Tensor = torch.ops.gnas.weighted(x, weight, n.source, n.target, n.ptr, n.back, n.back_ptr)
    return out


class _Weighted(torch.autograd.Function):
    """The same on a CPU, without the dispatcher."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, near: Neighbors) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(x, weight)
        ctx.near = near
        out: Tensor = import_aggregate(x.device).sum_weighted(x, weight, near.source, near.ptr, None)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        return *_gradients(grad.contiguous(), x, weight, ctx.near), None


def _gradients(grad: Tensor, x: Tensor, weight: Tensor, near: Neighbors) -> tuple[Tensor, Tensor]:
    use = import_aggregate(x.device)
    # For a sender it is the same sum the other way round: over the edges that leave it, of its receivers' gradients.
    return use.sum_weighted(grad, weight, near.target, near.back_ptr, near.back), use.multiply_ends(
        grad, x, near.source, near.target, near.ptr, weight
    )


torch.library.define(
    "gnas::weighted",
    "(Tensor x, Tensor weight, Tensor source, Tensor target, Tensor ptr, Tensor back, Tensor back_ptr) -> Tensor",
)
torch.library.define(
    "gnas::weighted_backward",
    "(Tensor grad, Tensor x, Tensor weight, Tensor source, Tensor target, Tensor ptr, Tensor back, Tensor back_ptr)"
    " -> (Tensor, Tensor)",
)


@torch.library.impl("gnas::weighted", "CompositeExplicitAutograd")
def _weighted(
    x: Tensor, weight: Tensor, source: Tensor, target: Tensor, ptr: Tensor, back: Tensor, back_ptr: Tensor
) -> Tensor:
    out: Tensor = import_aggregate(x.device).sum_weighted(x, weight, source, ptr, None)
    return out


@torch.library.impl("gnas::weighted_backward", "CompositeExplicitAutograd")
def _weighted_backward(
    grad: Tensor, x: Tensor, weight: Tensor, source: Tensor, target: Tensor, ptr: Tensor, back: Tensor, back_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    return _gradients(grad, x, weight, Neighbors(source, target, ptr, back, back_ptr))


@torch.library.register_fake("gnas::weighted")
def _(x, weight, source, target, ptr, back, back_ptr):  # type: ignore[no-untyped-def]
    return x.new_empty(ptr.numel() - 1, x.size(1))


@torch.library.register_fake("gnas::weighted_backward")
def _(grad, x, weight, source, target, ptr, back, back_ptr):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), torch.empty_like(weight)


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    grad_x, grad_weight = torch.ops.gnas.weighted_backward(grad.contiguous(), *ctx.saved_tensors)
    return grad_x, grad_weight, None, None, None, None, None


torch.library.register_autograd("gnas::weighted", _backward, setup_context=_setup)
