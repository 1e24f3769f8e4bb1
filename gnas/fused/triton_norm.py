"""Norm, ReLU and mix as Triton kernels, three a direction.

Sums over the nodes run in two kernels: a program a chunk of the nodes, then one that adds the chunks up in a fixed order. One
program for all nodes would leave most of the GPU idle: a stage of a found network has only a few operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from gnas.fused import Groups, Norm


@triton.jit
def _moments(
    y, mask, parts, counts, nodes, channels, chunk,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Count, mean and sum of squares about the mean of one operation's channels over one chunk of the nodes."""
    operation, part = tl.program_id(2), tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    base = y + operation.to(tl.int64) * nodes * channels
    count = 0.0
    mean = tl.zeros((BLOCK,), tl.float32)
    spread = tl.zeros((BLOCK,), tl.float32)
    for start in range(part * chunk, min((part + 1) * chunk, nodes), ROWS):
        row = start + tl.arange(0, ROWS)
        keep = row < nodes
        if MASKED:
            keep = keep & (tl.load(mask + row, mask=keep, other=0) != 0)
        inside = keep[:, None] & wide[None, :]
        at = row[:, None].to(tl.int64) * channels + channel[None, :]
        value = tl.load(base + at, mask=inside, other=0.0).to(tl.float32)
        here = tl.sum(keep.to(tl.float32), 0)
        local = tl.sum(value, 0) / tl.maximum(here, 1.0)
        off = tl.where(inside, value - local[None, :], 0.0)
        # Two means and spreads become one (Chan, Golub and LeVeque): the data are read once.
        both = tl.maximum(count + here, 1.0)
        apart = local - mean
        spread += tl.sum(off * off, 0) + apart * apart * (count * here / both)
        mean += apart * (here / both)
        count += here
    place = (operation * tl.num_programs(0) + part) * 2 * channels + channel
    tl.store(parts + place, mean, mask=wide)
    tl.store(parts + place + channels, spread, mask=wide)
    if (operation == 0) & (tl.program_id(1) == 0):
        tl.store(counts + part, count)


@triton.jit
def _statistics(
    parts, counts, running_mean, running_var, mean_out, rstd_out, count_out, chunks, channels, momentum, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The chunks' moments as those of all nodes; running statistics are updated in place."""
    operation = tl.program_id(1)
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    base = parts + operation * chunks * 2 * channels
    sizes = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, chunks, ROWS):
        part = start + tl.arange(0, ROWS)
        size = tl.load(counts + part, mask=part < chunks, other=0.0)
        at = part[:, None] * 2 * channels + channel[None, :]
        inside = (part < chunks)[:, None] & wide[None, :]
        total += tl.load(base + at, mask=inside, other=0.0) * size[:, None]
        sizes += size
    count = tl.maximum(tl.sum(sizes, 0), 1.0)
    mean = tl.sum(total, 0) / count
    spread = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, chunks, ROWS):
        part = start + tl.arange(0, ROWS)
        size = tl.load(counts + part, mask=part < chunks, other=0.0)
        at = part[:, None] * 2 * channels + channel[None, :]
        inside = (part < chunks)[:, None] & wide[None, :]
        apart = tl.load(base + at, mask=inside, other=0.0) - mean[None, :]
        spread += tl.load(base + at + channels, mask=inside, other=0.0) + apart * apart * size[:, None]
    var = tl.sum(spread, 0) / count
    place = operation * channels + channel
    tl.store(mean_out + place, mean, mask=wide)
    tl.store(rstd_out + place, 1.0 / tl.sqrt(var + eps), mask=wide)
    if (operation == 0) & (tl.program_id(0) == 0):
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
    at = row[:, None].to(tl.int64) * channels + channel[None, :]
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
    grad, y, weight, bias, p, mean, rstd, target_of, parts, used_parts, nodes, channels, chunk,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Sums over one chunk of the nodes that the gradient of one operation needs."""
    operation, part = tl.program_id(2), tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    place = operation * channels + channel
    centre = tl.load(mean + place, mask=wide, other=0.0)
    inverse = tl.load(rstd + place, mask=wide, other=0.0)
    scale, shift = tl.load(weight + place, mask=wide, other=0.0), tl.load(bias + place, mask=wide, other=0.0)
    own = y + operation.to(tl.int64) * nodes * channels
    arriving = grad + tl.load(target_of + operation).to(tl.int64) * nodes * channels
    along = tl.zeros((ROWS, BLOCK), tl.float32)
    plain = tl.zeros((ROWS, BLOCK), tl.float32)
    used = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(part * chunk, min((part + 1) * chunk, nodes), ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < nodes)[:, None] & wide[None, :]
        at = row[:, None].to(tl.int64) * channels + channel[None, :]
        hat = (tl.load(own + at, mask=inside, other=0.0).to(tl.float32) - centre[None, :]) * inverse[None, :]
        back = tl.load(arriving + at, mask=inside, other=0.0).to(tl.float32)
        active = hat * scale[None, :] + shift[None, :]
        passed = tl.where((active > 0) & inside, back, 0.0)
        plain += passed
        along += passed * hat
        if WEIGHTED:
            used += passed * active
    place = (operation * tl.num_programs(0) + part) * 2 * channels + channel
    tl.store(parts + place, tl.sum(plain, 0), mask=wide)
    tl.store(parts + place + channels, tl.sum(along, 0), mask=wide)
    if WEIGHTED:
        at = (operation * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + part
        tl.store(used_parts + at, tl.sum(tl.sum(used, 1), 0))


@triton.jit
def _finish_gradients(
    parts, used_parts, p, grad_weight, grad_bias, grad_p, chunks, channels, blocks,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """The sums over all nodes from those over chunks."""
    operation = tl.program_id(1)
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    base = parts + operation * chunks * 2 * channels
    plain = tl.zeros((ROWS, BLOCK), tl.float32)
    along = tl.zeros((ROWS, BLOCK), tl.float32)
    used = tl.zeros((ROWS,), tl.float32)
    for start in range(0, chunks, ROWS):
        part = start + tl.arange(0, ROWS)
        at = part[:, None] * 2 * channels + channel[None, :]
        inside = (part < chunks)[:, None] & wide[None, :]
        plain += tl.load(base + at, mask=inside, other=0.0)
        along += tl.load(base + at + channels, mask=inside, other=0.0)
    mixed = 1.0
    if WEIGHTED:
        mixed = tl.load(p + operation).to(tl.float32)
        if tl.program_id(0) == 0:
            for start in range(0, chunks * blocks, ROWS):
                part = start + tl.arange(0, ROWS)
                at = operation * chunks * blocks + part
                used += tl.load(used_parts + at, mask=part < chunks * blocks, other=0.0)
            tl.store(grad_p + operation, tl.sum(used, 0))
    place = operation * channels + channel
    tl.store(grad_bias + place, tl.sum(plain, 0) * mixed, mask=wide)
    tl.store(grad_weight + place, tl.sum(along, 0) * mixed, mask=wide)


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
    at = row[:, None].to(tl.int64) * channels + channel[None, :]
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


REDUCE = {"ROWS": 32, "BLOCK": 64}
FINISH = {"ROWS": 16, "BLOCK": 64}
APPLY = {"ROWS": 32, "BLOCK": 64}


def _chunks(nodes: int) -> tuple[int, int]:
    """Into how many parts the nodes are split for sums over them, and the size of a part: enough to fill a GPU."""
    size = max(64, triton.next_power_of_2(triton.cdiv(nodes, 256)))
    return triton.cdiv(max(nodes, 1), size), size


def norm_forward(
    y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and what the backward pass needs."""
    operations, nodes, channels = y.shape
    chunks, size = _chunks(nodes)
    blocks = triton.cdiv(channels, REDUCE["BLOCK"])
    parts = y.new_empty(operations, chunks, 2, channels, dtype=torch.float32)
    counts = y.new_empty(chunks + 1, dtype=torch.float32)  # the last is the sum of the others
    moments = y.new_empty(2, operations, channels, dtype=torch.float32)
    mean, rstd = moments[0], moments[1]
    _moments[(chunks, blocks, operations)](
        y, norm.mask, parts, counts, nodes, channels, size, MASKED=norm.mask is not None, **REDUCE
    )
    _statistics[(blocks, operations)](
        parts, counts, norm.mean, norm.var, mean, rstd, counts[chunks:], chunks, channels, norm.momentum, norm.eps,
        **FINISH,
    )  # fmt: skip
    out = y.new_empty(targets.count, nodes, channels)
    _apply[(triton.cdiv(nodes, APPLY["ROWS"]), triton.cdiv(channels, APPLY["BLOCK"]), targets.count)](
        y, weight, bias, p, mean, rstd, targets.order, targets.ptr, out, nodes, channels,
        WEIGHTED=p is not None, **APPLY,
    )  # fmt: skip
    return out, [y, bias, mean, rstd, counts]


def norm_backward(
    grad: Tensor, weight: Tensor, p: Tensor | None, saved: list[Tensor], targets: Groups, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of y, weight, bias and the mixing weights."""
    y, bias, mean, rstd, counts = saved
    operations, nodes, channels = y.shape
    chunks, size = _chunks(nodes)
    blocks = triton.cdiv(channels, REDUCE["BLOCK"])
    grad_weight, grad_bias, grad_y = torch.empty_like(weight), torch.empty_like(bias), torch.empty_like(y)
    grad_p = None if p is None else torch.empty_like(p)
    parts = y.new_empty(operations, chunks, 2, channels, dtype=torch.float32)
    used = None if p is None else y.new_empty(operations, blocks, chunks, dtype=torch.float32)
    _reduce_gradients[(chunks, blocks, operations)](
        grad, y, weight, bias, p, mean, rstd, targets.of, parts, used, nodes, channels, size,
        WEIGHTED=p is not None, **REDUCE,
    )  # fmt: skip
    _finish_gradients[(blocks, operations)](
        parts, used, p, grad_weight, grad_bias, grad_p, chunks, channels, blocks, WEIGHTED=p is not None, **FINISH
    )
    _apply_gradients[(triton.cdiv(nodes, APPLY["ROWS"]), triton.cdiv(channels, APPLY["BLOCK"]), operations)](
        grad, y, mask, weight, bias, p, mean, rstd, counts[chunks:], targets.of, grad_weight, grad_bias, grad_y,
        nodes, channels, WEIGHTED=p is not None, MASKED=mask is not None, **APPLY,
    )  # fmt: skip
    return grad_y, grad_weight, grad_bias, grad_p
