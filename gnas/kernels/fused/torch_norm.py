"""Norm, ReLU and mix in PyTorch operations: few passes over memory, no graph of small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gnas.kernels.fused import Groups, Norm


def norm_forward(
    y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm, before: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and the tensors that the backward pass needs."""
    if _is_plain(y, p, norm):
        return _plain_forward(y, weight, bias, norm, before)
    count = _count(y, norm.mask)
    rows = _rows(y, norm.mask)
    mean = rows @ y / count  # a product with a row of ones is faster than a reduction
    centred = y - mean
    var = rows @ centred.square() / count
    norm.mean.lerp_(mean, norm.momentum)
    norm.var.lerp_(var * (count / (count - 1).clamp_min(1)), norm.momentum)
    rstd = torch.rsqrt(var + norm.eps)
    active = torch.addcmul(bias, centred, rstd * weight)
    active = active.relu_() if norm.relu else active
    mixed = _mix(active, p, targets)
    return mixed if before is None else mixed + before, [centred, active, rstd, count]


def norm_running(
    y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm, before: Tensor | None
) -> Tensor:
    """Outputs with the running statistics."""
    scale = weight * torch.rsqrt(norm.var + norm.eps)
    active = torch.addcmul(bias - norm.mean * scale, y, scale)
    mixed = _mix(active.relu_() if norm.relu else active, p, targets)
    return mixed if before is None else mixed + before


def norm_backward(
    grad: Tensor, weight: Tensor, p: Tensor | None, saved: list[Tensor], targets: Groups, norm: Norm
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of y, weight, bias and the mixing weights."""
    if _is_plain(saved[0], p, norm):
        return _plain_backward(grad, weight, saved, norm)
    centred, active, rstd, count = saved
    arriving = grad if targets.in_order else grad.index_select(0, targets.of)
    grad_p = None
    if p is not None:
        grad_p = torch.stack([torch.dot(a, b) for a, b in zip(arriving.flatten(1), active.flatten(1), strict=True)])
        arriving = arriving * p[:, None, None]
    grad_z = torch.ops.aten.threshold_backward(arriving, active, 0) if norm.relu else arriving
    ones = _rows(centred, None)
    grad_bias = ones @ grad_z
    along = (ones @ (grad_z * centred)) * rstd
    # Rows of padding are not in the statistics.
    shift, slope = grad_bias / count, along * rstd / count
    if norm.mask is None:
        grad_y = torch.addcmul(grad_z.sub_(shift) if norm.relu else grad_z - shift, centred, slope, value=-1)
    else:
        grad_y = grad_z - (centred * slope + shift) * norm.mask[:, None]
    return grad_y.mul_(rstd * weight), along, grad_bias, grad_p


def _is_plain(y: Tensor, p: Tensor | None, norm: Norm) -> bool:
    """Whether PyTorch's own batch norm is used, which is faster: one operation without ReLU, and all of several rows count.

    With ReLU it would be faster too, but it rounds differently, and trainings would no longer repeat those of earlier versions.
    """
    return y.size(0) == 1 and y.size(1) > 1 and p is None and norm.mask is None and not norm.relu


def _plain_forward(
    y: Tensor, weight: Tensor, bias: Tensor, norm: Norm, before: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    scale, shift, means, variances = (one.view(-1) for one in (weight, bias, norm.mean, norm.var))
    out, mean, rstd = torch.native_batch_norm(y[0], scale, shift, means, variances, True, norm.momentum, norm.eps)
    return out[None] if before is None else out[None] + before, [y, mean, rstd]


def _plain_backward(
    grad: Tensor, weight: Tensor, saved: list[Tensor], norm: Norm
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    y, mean, rstd = saved
    flat = (one.view(-1) for one in (weight, norm.mean, norm.var))
    grad_y, along, plain = torch.ops.aten.native_batch_norm_backward(
        grad[0], y[0], *flat, mean, rstd, True, norm.eps, [True, True, True]
    )
    return grad_y[None], along.view_as(weight), plain.view_as(weight), None


def _mix(active: Tensor, p: Tensor | None, targets: Groups) -> Tensor:
    if p is None and targets.in_order:
        # A result that is also kept for the backward pass gets wrong gradients from torch.compile in torch 2.11.
        return active.clone() if torch.compiler.is_compiling() else active
    each = torch.arange(targets.count, device=active.device)
    matrix = (targets.of == each[:, None]).to(active.dtype)
    return ((matrix if p is None else matrix * p) @ active.flatten(1)).view(-1, *active.shape[1:])


def _rows(y: Tensor, mask: Tensor | None) -> Tensor:
    row = y.new_ones(y.size(1)) if mask is None else mask.to(y.dtype)
    return row.expand(y.size(0), 1, -1)


def _count(y: Tensor, mask: Tensor | None) -> Tensor:
    return y.new_tensor(float(y.size(1))) if mask is None else mask.sum().to(y.dtype).clamp_min(1)
