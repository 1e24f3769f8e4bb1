"""Linear maps: one batched product for a stack of them, whose weight gradient is split along the nodes on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnas.kernels.choice import has_triton

PARTS = 256  # products that fill a GPU
SHORTEST = 128  # nodes per part at least


def product(h: Tensor, weight: Tensor) -> Tensor:
    """``h @ weight`` of stacks: ``[count, nodes, in] @ [count, in, out]``."""
    # In mixed precision autograd converts the types; a compiler generates its own kernels.
    own = torch.is_autocast_enabled("cuda") or torch.compiler.is_compiling()
    if h.is_cuda and not own and h.is_contiguous():
        return _Product.apply(h, weight)  # type: ignore[no-untyped-call]
    return torch.bmm(h, weight)


def affine(h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``h @ weight + bias`` of stacks; ``bias`` is ``[count, 1, out]``."""
    return product(h, weight) if bias is None else torch.baddbmm(bias, h, weight)


def split(count: int, nodes: int) -> int:
    """Number of equal parts of the nodes: at most ``PARTS / count``, each with at least ``SHORTEST`` nodes."""
    most = min(max(PARTS // count, 1), max(nodes // SHORTEST, 1))
    return next(parts for parts in range(most, 0, -1) if nodes % parts == 0)


def weight_gradient(h: Tensor, grad: Tensor, parts: int) -> Tensor:
    """The gradient of ``weight``: its inner dimension (nodes) is long and its result is small.

    One product would keep a few multiprocessors busy; parts of it fill the GPU and are added up in a fixed order.
    """
    if parts == 1:
        return torch.bmm(h.transpose(1, 2), grad)
    count, nodes, _ = h.shape
    rows = (count * parts, nodes // parts, -1)
    products = torch.bmm(h.view(*rows).transpose(1, 2), grad.view(*rows))
    return _summed(products.view(count, parts, -1)).view(count, h.size(2), -1)


def _summed(parts: Tensor) -> Tensor:
    if parts.is_cuda and parts.dtype == torch.float32 and has_triton():
        from gnas.kernels.fused.triton_sums import sum_parts

        return sum_parts(parts)
    return parts.sum(1)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(h, weight)
        return torch.bmm(h, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        h, weight = ctx.saved_tensors
        grad = grad.contiguous()
        grad_h = torch.bmm(grad, weight.transpose(1, 2)) if ctx.needs_input_grad[0] else None
        return grad_h, weight_gradient(h, grad, split(h.size(0), h.size(1)))
