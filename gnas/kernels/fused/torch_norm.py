"""Norm, ReLU and mix in PyTorch operations: few passes over memory, no graph of small steps.

Without padding the norm is PyTorch's own kernel, one call for each operation; with a mask the sums are computed here.
"""

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
        return _plain_forward(y, weight, bias, p, targets, norm, before)
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
        return _plain_backward(grad, weight, p, saved, targets, norm)
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
    """Whether PyTorch's own batch norm serves: all of several rows count, and weights ``p`` can be read by the host."""
    host = p is None or (y.device.type == "cpu" and not torch.compiler.is_compiling())
    return y.size(1) > 1 and norm.mask is None and host


def _plain_forward(
    y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm, before: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    each = zip(y, *(one.squeeze(1) for one in (weight, bias, norm.mean, norm.var)), strict=True)
    found = [torch.native_batch_norm(h, w, b, m, v, True, norm.momentum, norm.eps) for h, w, b, m, v in each]
    parts = [torch.relu_(part) if norm.relu else part for part, _, _ in found]
    moments = [moment for _, *moments in found for moment in moments]
    saved = [y, bias, *moments, *(parts if norm.relu else [])]
    if p is None and targets.in_order:
        out = parts[0][None] if len(parts) == 1 else torch.stack(parts)
        if before is not None:
            return out + before, saved
        # A result that is also kept for the backward pass gets wrong gradients from torch.compile in torch 2.11.
        return out.clone() if norm.relu and torch.compiler.is_compiling() else out, saved
    out = y.new_zeros(targets.count, *y.shape[1:]) if before is None else before.clone()
    shares = [1.0] * len(parts) if p is None else p.tolist()
    for part, target, share in zip(parts, targets.items, shares, strict=True):
        out[target].add_(part, alpha=share)
    return out, saved


def _plain_backward(
    grad: Tensor, weight: Tensor, p: Tensor | None, saved: list[Tensor], targets: Groups, norm: Norm
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    y, bias, *rest = saved
    count = len(y)
    moments, parts = rest[: 2 * count], rest[2 * count :]
    scales = weight if p is None else weight * p[:, None, None]
    found = []
    for k, target in enumerate(targets.items):
        arriving = torch.ops.aten.threshold_backward(grad[target], parts[k], 0) if parts else grad[target]
        given = y[k], scales[k, 0], norm.mean[k, 0], norm.var[k, 0], *moments[2 * k : 2 * k + 2]
        found.append(torch.ops.aten.native_batch_norm_backward(arriving, *given, True, norm.eps, [True, True, True]))
    grad_y, along, plain = (one[0][None] if count == 1 else torch.stack(one) for one in zip(*found, strict=True))
    along, plain = along[:, None], plain[:, None]
    if p is None:
        return grad_y, along, plain, None
    # What ``p`` weighs is a sum of the two before the weight: no need to keep or to read it.
    grad_p = (weight * along + bias * plain).sum((1, 2))
    return grad_y, along * p[:, None, None], plain * p[:, None, None], grad_p


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
