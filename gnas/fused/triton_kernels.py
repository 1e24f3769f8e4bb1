"""The fused functions as Triton kernels: two a direction for norm-ReLU-mix, one a direction for the gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from gnas.fused import GatePlan, Groups, Norm


@triton.jit
def _statistics(
    y, mask, weight, bias, running_mean, running_var, mean_out, rstd_out, count_out, nodes, channels, momentum, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Mean and variance of one operation's channels; running statistics are updated in place."""
    operation = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    base = y + operation.to(tl.int64) * nodes * channels
    # Two passes; sums are kept as tiles and reduced once, a reduction in every turn would cost more than the reading.
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    kept = tl.zeros((ROWS,), tl.float32)
    for start in range(0, nodes, ROWS):
        row = start + tl.arange(0, ROWS)
        keep = row < nodes
        if MASKED:
            keep = keep & (tl.load(mask + row, mask=keep, other=0) != 0)
        inside = keep[:, None] & wide[None, :]
        total += tl.load(base + row[:, None] * channels + channel[None, :], mask=inside, other=0.0).to(tl.float32)
        kept += keep.to(tl.float32)
    count = tl.maximum(tl.sum(kept, 0), 1.0)
    mean = tl.sum(total, 0) / count
    spread = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, nodes, ROWS):
        row = start + tl.arange(0, ROWS)
        keep = row < nodes
        if MASKED:
            keep = keep & (tl.load(mask + row, mask=keep, other=0) != 0)
        inside = keep[:, None] & wide[None, :]
        value = tl.load(base + row[:, None] * channels + channel[None, :], mask=inside, other=0.0).to(tl.float32)
        off = tl.where(inside, value - mean[None, :], 0.0)
        spread += off * off
    var = tl.sum(spread, 0) / count
    place = operation * channels + channel
    tl.store(mean_out + place, mean, mask=wide)
    tl.store(rstd_out + place, 1.0 / tl.sqrt(var + eps), mask=wide)
    if (operation == 0) & (tl.program_id(1) == 0):
        tl.store(count_out, count)
    old = tl.load(running_mean + place, mask=wide, other=0.0)
    tl.store(running_mean + place, old + momentum * (mean - old), mask=wide)
    old = tl.load(running_var + place, mask=wide, other=0.0)
    unbiased = var * count / tl.maximum(count - 1.0, 1.0)
    tl.store(running_var + place, old + momentum * (unbiased - old), mask=wide)


@triton.jit
def _apply(
    y, weight, bias, p, mean, rstd, order, ptr, out, nodes, channels,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Normalise, ReLU and add up the operations of one target."""
    target = tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    inside = (row < nodes)[:, None] & wide[None, :]
    at = row[:, None] * channels + channel[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for k in range(tl.load(ptr + target), tl.load(ptr + target + 1)):
        operation = tl.load(order + k)
        place = operation * channels + channel
        scale = tl.load(rstd + place, mask=wide, other=0.0) * tl.load(weight + place, mask=wide, other=0.0)
        shift = tl.load(bias + place, mask=wide, other=0.0) - tl.load(mean + place, mask=wide, other=0.0) * scale
        value = tl.load(y + operation.to(tl.int64) * nodes * channels + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.maximum(value * scale[None, :] + shift[None, :], 0.0)
        if WEIGHTED:
            value = value * tl.load(p + operation)
        total += value
    tl.store(out + target.to(tl.int64) * nodes * channels + at, total, mask=inside)


@triton.jit
def _reduce_gradients(
    grad, y, weight, bias, p, mean, rstd, target_of, grad_weight, grad_bias, grad_p, nodes, channels, blocks,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Sums over nodes that the gradient of one operation needs."""
    operation = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    place = operation * channels + channel
    centre = tl.load(mean + place, mask=wide, other=0.0)
    inverse = tl.load(rstd + place, mask=wide, other=0.0)
    scale, shift = tl.load(weight + place, mask=wide, other=0.0), tl.load(bias + place, mask=wide, other=0.0)
    mixed = 1.0
    if WEIGHTED:
        mixed = tl.load(p + operation)
    own = y + operation.to(tl.int64) * nodes * channels
    arriving = grad + tl.load(target_of + operation).to(tl.int64) * nodes * channels
    along = tl.zeros((ROWS, BLOCK), tl.float32)
    plain = tl.zeros((ROWS, BLOCK), tl.float32)
    used = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, nodes, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < nodes)[:, None] & wide[None, :]
        at = row[:, None] * channels + channel[None, :]
        hat = (tl.load(own + at, mask=inside, other=0.0).to(tl.float32) - centre[None, :]) * inverse[None, :]
        back = tl.load(arriving + at, mask=inside, other=0.0).to(tl.float32)
        active = hat * scale[None, :] + shift[None, :]
        passed = tl.where((active > 0) & inside, back, 0.0)
        plain += passed
        along += passed * hat
        if WEIGHTED:
            used += passed * active
    tl.store(grad_bias + place, tl.sum(plain, 0) * mixed, mask=wide)
    tl.store(grad_weight + place, tl.sum(along, 0) * mixed, mask=wide)
    if WEIGHTED:
        tl.store(grad_p + operation * blocks + tl.program_id(1), tl.sum(tl.sum(used, 1), 0))


@triton.jit
def _apply_gradients(
    grad, y, mask, weight, bias, p, mean, rstd, count, target_of, grad_weight, grad_bias, out, nodes, channels,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Gradient of one operation's linear output."""
    operation = tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    keep = row < nodes
    inside = keep[:, None] & wide[None, :]
    place = operation * channels + channel
    inverse = tl.load(rstd + place, mask=wide, other=0.0)
    scale, shift = tl.load(weight + place, mask=wide, other=0.0), tl.load(bias + place, mask=wide, other=0.0)
    at = row[:, None] * channels + channel[None, :]
    base = operation.to(tl.int64) * nodes * channels
    value = tl.load(y + base + at, mask=inside, other=0.0).to(tl.float32)
    hat = (value - tl.load(mean + place, mask=wide, other=0.0)[None, :]) * inverse[None, :]
    arriving = grad + tl.load(target_of + operation).to(tl.int64) * nodes * channels
    back = tl.load(arriving + at, mask=inside, other=0.0).to(tl.float32)
    if WEIGHTED:
        back = back * tl.load(p + operation)
    passed = tl.where(hat * scale[None, :] + shift[None, :] > 0, back, 0.0)
    size = tl.load(count)
    shared = tl.load(grad_bias + place, mask=wide, other=0.0)[None, :] / size
    shared += hat * (tl.load(grad_weight + place, mask=wide, other=0.0) / size)[None, :]
    if MASKED:
        # Rows of padding took no part in the statistics.
        real = tl.load(mask + row, mask=keep, other=0) != 0
        shared = tl.where(real[:, None], shared, 0.0)
    tl.store(out + base + at, (passed - shared) * (inverse * scale)[None, :], mask=inside)


@triton.jit
def _gate_forward(
    h, sparse, dense, source, kind, gate_row, out, nodes, channels, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    operation = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    inside = (row < nodes)[:, None] & (channel < channels)[None, :]
    at = row[:, None] * channels + channel[None, :]
    size = tl.cast(nodes, tl.int64) * channels
    value = tl.load(h + tl.load(source + operation) * size + at, mask=inside, other=0.0).to(tl.float32)
    which, gates = tl.load(kind + operation), tl.load(gate_row + operation).to(tl.int64)
    if which == 1:
        value = (
            value
            * tl.sigmoid(tl.load(sparse + gates * nodes + row, mask=row < nodes, other=0.0).to(tl.float32))[:, None]
        )
    if which == 2:
        value = value * tl.sigmoid(tl.load(dense + gates * size + at, mask=inside, other=0.0).to(tl.float32))
    tl.store(out + operation.to(tl.int64) * size + at, value, mask=inside)


@triton.jit
def _gate_backward(
    grad, h, sparse, dense, order, ptr, kind, gate_row, grad_h, grad_sparse, grad_dense, nodes, channels,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    source = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    keep = row < nodes
    inside = keep[:, None] & (channel < channels)[None, :]
    at = row[:, None] * channels + channel[None, :]
    size = tl.cast(nodes, tl.int64) * channels
    value = tl.load(h + source.to(tl.int64) * size + at, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for k in range(tl.load(ptr + source), tl.load(ptr + source + 1)):
        operation = tl.load(order + k)
        back = tl.load(grad + operation.to(tl.int64) * size + at, mask=inside, other=0.0).to(tl.float32)
        which, gates = tl.load(kind + operation), tl.load(gate_row + operation).to(tl.int64)
        if which == 0:
            total += back
        if which == 1:
            open_ = tl.sigmoid(tl.load(sparse + gates * nodes + row, mask=keep, other=0.0).to(tl.float32))
            total += back * open_[:, None]
            slope = tl.sum(back * value, 1) * open_ * (1.0 - open_)
            tl.store(grad_sparse + gates * nodes + row, slope, mask=keep)
        if which == 2:
            open_ = tl.sigmoid(tl.load(dense + gates * size + at, mask=inside, other=0.0).to(tl.float32))
            total += back * open_
            tl.store(grad_dense + gates * size + at, back * value * open_ * (1.0 - open_), mask=inside)
    tl.store(grad_h + source.to(tl.int64) * size + at, total, mask=inside)


REDUCE = {"ROWS": 128, "BLOCK": 16}
APPLY = {"ROWS": 32, "BLOCK": 64}


def norm_forward(
    y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and what the backward pass needs."""
    operations, nodes, channels = y.shape
    mean, rstd = (
        y.new_empty(operations, channels, dtype=torch.float32),
        y.new_empty(operations, channels, dtype=torch.float32),
    )
    count = y.new_empty(1, dtype=torch.float32)
    _statistics[(operations, triton.cdiv(channels, REDUCE["BLOCK"]))](
        y, norm.mask, weight, bias, norm.mean, norm.var, mean, rstd, count, nodes, channels, norm.momentum, norm.eps,
        MASKED=norm.mask is not None, **REDUCE,
    )  # fmt: skip
    out = y.new_empty(targets.count, nodes, channels)
    _apply[(triton.cdiv(nodes, APPLY["ROWS"]), triton.cdiv(channels, APPLY["BLOCK"]), targets.count)](
        y, weight, bias, p, mean, rstd, targets.order, targets.ptr, out, nodes, channels,
        WEIGHTED=p is not None, **APPLY,
    )  # fmt: skip
    return out, [y, bias, mean, rstd, count]


def norm_backward(
    grad: Tensor, weight: Tensor, p: Tensor | None, saved: list[Tensor], targets: Groups, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of y, weight, bias and the mixing weights."""
    y, bias, mean, rstd, count = saved
    operations, nodes, channels = y.shape
    grad_weight, grad_bias, grad_y = torch.empty_like(weight), torch.empty_like(bias), torch.empty_like(y)
    blocks = triton.cdiv(channels, REDUCE["BLOCK"])
    grad_p = None if p is None else p.new_empty(operations, blocks)
    _reduce_gradients[(operations, blocks)](
        grad, y, weight, bias, p, mean, rstd, targets.of, grad_weight, grad_bias, grad_p, nodes, channels, blocks,
        WEIGHTED=p is not None, **REDUCE,
    )  # fmt: skip
    _apply_gradients[(triton.cdiv(nodes, APPLY["ROWS"]), triton.cdiv(channels, APPLY["BLOCK"]), operations)](
        grad, y, mask, weight, bias, p, mean, rstd, count, targets.of, grad_weight, grad_bias, grad_y, nodes, channels,
        WEIGHTED=p is not None, MASKED=mask is not None, **APPLY,
    )  # fmt: skip
    return grad_y, grad_weight, grad_bias, None if grad_p is None else grad_p.sum(1)


def gate_forward(h: Tensor, sparse: Tensor, dense: Tensor, plan: GatePlan) -> Tensor:
    """Each filter's source times its gate."""
    _, nodes, channels = h.shape
    out = h.new_empty(len(plan.kind), nodes, channels)
    _gate_forward[(triton.cdiv(nodes, 16), len(plan.kind))](
        h.contiguous(), sparse, dense, plan.sources.of, plan.kind, plan.row, out, nodes, channels,
        ROWS=16, BLOCK=triton.next_power_of_2(channels),
    )  # fmt: skip
    return out


def gate_backward(
    grad: Tensor, h: Tensor, sparse: Tensor, dense: Tensor, plan: GatePlan
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the sources and of both kinds of gates."""
    sources, nodes, channels = h.shape
    grad_h, grad_sparse, grad_dense = torch.empty_like(h), torch.empty_like(sparse), torch.empty_like(dense)
    _gate_backward[(triton.cdiv(nodes, 16), sources)](
        grad, h.contiguous(), sparse, dense, plan.sources.order, plan.sources.ptr, plan.kind, plan.row,
        grad_h, grad_sparse, grad_dense, nodes, channels, ROWS=16, BLOCK=triton.next_power_of_2(channels),
    )  # fmt: skip
    return grad_h, grad_sparse, grad_dense
