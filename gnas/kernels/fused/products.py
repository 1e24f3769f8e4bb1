"""Linear maps: one batched product for a stack of them, whose weight gradient is split along the nodes on a GPU.

On CPUs where oneDNN is faster than PyTorch's own products, they are oneDNN's (``GNAS_PRODUCTS``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnas.kernels.choice import calls_directly, has_triton, uses_onednn

PARTS = 256  # products that fill a GPU
SHORTEST = 128  # nodes per part at least
WIDE = 96  # channels from which on oneDNN's gradients of weights are faster
LARGE = 2**18  # numbers, from which on a copy of the inputs takes longer than calls from Python
FEWEST = 2**23  # multiplications, below which a call of oneDNN costs more than it gains


def product(h: Tensor, weight: Tensor) -> Tensor:
    """``h @ weight`` of stacks: ``[count, nodes, in] @ [count, in, out]``."""
    if has_product(h, weight):
        return affine(h, weight, None)
    # In mixed precision autograd converts the types; a compiler generates its own kernels.
    own = torch.is_autocast_enabled("cuda") or torch.compiler.is_compiling()
    if h.is_cuda and not own and h.is_contiguous():
        return _Product.apply(h, weight)  # type: ignore[no-untyped-call]
    return torch.bmm(h, weight)


def affine(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Tensor:
    """``h @ weight + bias`` of stacks; ``bias`` is ``[count, 1, out]``.

    Where :func:`has_product`, also of matrices, and also with ReLU after it.
    """
    if has_product(h, weight):
        out: Tensor = _OneDNN.apply(h, weight, bias, relu)  # type: ignore[no-untyped-call]
        return out
    return product(h, weight) if bias is None else torch.baddbmm(bias, h, weight)


def map_rows(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``h @ weight + bias`` of matrices."""
    if has_product(h, weight):
        return affine(h, weight, bias)
    return h @ weight if bias is None else torch.addmm(bias, h, weight)


def runs_plainly(h: Tensor) -> bool:
    """Whether functions of this tensor are best PyTorch's own, one by one: on a CPU, without a compiler or mixed precision."""
    return calls_directly(h) and not torch.is_autocast_enabled("cpu")


def can_map_beside(inputs: Sequence[Tensor]) -> bool:
    """Whether :func:`affine_beside` serves: several large inputs on a CPU."""
    return len(inputs) > 1 and sum(h.numel() for h in inputs) >= LARGE and runs_plainly(inputs[0])


def affine_beside(inputs: Sequence[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    """``cat(inputs, dim=1) @ weight + bias`` of matrices on a CPU, without the copy of the inputs."""
    out: Tensor = _Beside.apply(weight, bias, *inputs)  # type: ignore[no-untyped-call]
    return out


def has_product(h: Tensor, weight: Tensor) -> bool:
    """Whether this product is oneDNN's."""
    return h.size(-2) * weight.size(-2) * weight.size(-1) >= FEWEST and uses_onednn(h, weight)


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


class _OneDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:  # type: ignore[override]
        out = _multiply(h, weight, bias, relu)
        ctx.save_for_backward(h, weight, out if relu else None)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        h, weight, out = ctx.saved_tensors
        grad = grad if out is None else torch.ops.aten.threshold_backward(grad, out, 0)
        grad_h = _multiply(grad, weight.mT) if ctx.needs_input_grad[0] else None
        grad_bias = grad.sum(-2, keepdim=grad.dim() == 3) if ctx.needs_input_grad[2] else None
        if weight.stride(-2) == 1:  # a transposed one, as that of nn.Linear: its gradient has the same layout
            return grad_h, _multiply_rows(grad, h).contiguous().mT, grad_bias, None
        return grad_h, _multiply_rows(h, grad).contiguous(), grad_bias, None


class _Beside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, *inputs: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(weight, *inputs)
        first, *rest = weight.split([h.size(1) for h in inputs])
        out = _product(inputs[0], first, bias)
        for h, part in zip(inputs[1:], rest, strict=True):
            out += _product(h, part)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        weight, *inputs = ctx.saved_tensors
        parts = weight.split([h.size(1) for h in inputs])
        grads = [_product(grad, part.t()) for part in parts]
        grad_weight = torch.cat([_sum_products(h, grad) for h in inputs])
        return grad_weight, grad.sum(0) if ctx.needs_input_grad[1] else None, *grads


def _product(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if has_product(h, weight):
        return _multiply(h, weight, bias)
    return h @ weight if bias is None else torch.addmm(bias, h, weight)


def _multiply(h: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """``h @ weight + bias`` of stacks or matrices, and ReLU."""
    out = h.new_empty(*h.shape[:-1], weight.size(-1))
    if h.dim() == 2:
        _fill(out, h, weight, bias, relu)
        return out
    for k in range(len(h)):
        _fill(out[k], h[k], weight[k], None if bias is None else bias[k], relu)
    return out


def _fill(out: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> None:
    """The same of matrices, into ``out``."""
    rows = _round_down(len(h))
    out[:rows] = _onednn(h[:rows], weight.t(), bias, relu)
    if rows < len(h):
        rest = torch.mm(h[rows:], weight, out=out[rows:])
        rest = rest if bias is None else rest.add_(bias)
        if relu:
            rest.relu_()


def _multiply_rows(h: Tensor, grad: Tensor) -> Tensor:
    """``h.mT @ grad`` of stacks or matrices."""
    if h.dim() == 2:
        return _sum_products(h, grad)
    if h.size(0) == 1:
        return _sum_products(h.squeeze(0), grad.squeeze(0))[None]
    return torch.stack([_sum_products(one, other) for one, other in zip(h.unbind(), grad.unbind(), strict=True)])


def _sum_products(h: Tensor, grad: Tensor) -> Tensor:
    """``h.t() @ grad`` of matrices. oneDNN copies one of them, so wide ones alone are worth it."""
    if h.size(1) > grad.size(1):
        return _sum_products(grad, h).t()
    if grad.size(1) < WIDE or h.numel() * grad.size(1) < FEWEST or not uses_onednn(h, grad):
        return h.t() @ grad
    rows = _round_down(len(h))
    out = _onednn(h[:rows].t(), grad[:rows].t())
    return out if rows == len(h) else out.addmm_(h[rows:].t(), grad[rows:])


def _onednn(h: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """``h @ weight.t() + bias``, and ReLU."""
    bias = None if bias is None else bias.flatten()
    return torch.ops.mkldnn._linear_pointwise(h, weight, bias, "relu" if relu else "none", [], "")  # type: ignore[no-any-return]


def _round_down(rows: int) -> int:
    """The rows that oneDNN multiplies: the first call for a number of rows takes it a millisecond, and batches differ."""
    step = 2 ** max(rows.bit_length() - 5, 0)
    return rows - rows % step
