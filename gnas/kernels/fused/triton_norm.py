"""Norm, ReLU and mix as Triton kernels, two a direction.

Sums over the nodes are split: a program a chunk of the nodes, and whichever ends last adds the chunks up, in a fixed order. One
program for all nodes would leave most of the GPU idle: a stage of a found network has only a few operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnas.kernels.fused import CHANNELS

if TYPE_CHECKING:
    from gnas.kernels.fused import Groups, Norm


@triton.jit
def _last_of(tickets, place, count):
    """Whether this program is the last of ``count`` to come here; all others have written what they had to.

    Which one is the last plays no part in the result. The ticket is set back for the next call.
    """
    tl.debug_barrier()  # every thread of this program has written
    last = tl.atomic_add(tickets + place, 1, sem="acq_rel", scope="gpu") == count - 1
    if last:
        tl.store(tickets + place, 0)
    tl.debug_barrier()
    return last


@triton.jit
def _dropped(value, seed, place, drop):
    """Dropout. The numbers are a function of the seed and the place: backward, they are drawn again."""
    keep = tl.rand(tl.load(seed), place.to(tl.int32)) >= drop
    return tl.where(keep, value / (1.0 - drop), 0.0)


@triton.jit
def _statistics(
    y, mask, parts, counts, tickets, running_mean, running_var, mean_out, rstd_out, count_out, nodes, channels, chunk,
    momentum, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Moments of one operation's channels over one chunk of the nodes; the last program makes those of all nodes of them.

    Running statistics are updated in place.
    """
    operation, part, chunks = tl.program_id(2), tl.program_id(0), tl.num_programs(0)
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
    group = operation * tl.num_programs(1) + tl.program_id(1)
    base = parts + operation * chunks * 2 * channels
    tl.store(base + part * 2 * channels + channel, mean, mask=wide)
    tl.store(base + part * 2 * channels + channels + channel, spread, mask=wide)
    tl.store(counts + group * chunks + part, count)
    if _last_of(tickets, group, chunks):
        sizes = tl.zeros((PARTS,), tl.float32)
        total = tl.zeros((PARTS, BLOCK), tl.float32)
        for start in range(0, chunks, PARTS):
            which = start + tl.arange(0, PARTS)
            # Past the first-level cache: others wrote these.
            size = tl.load(counts + group * chunks + which, mask=which < chunks, other=0.0, cache_modifier=".cg")
            at = which[:, None] * 2 * channels + channel[None, :]
            inside = (which < chunks)[:, None] & wide[None, :]
            total += tl.load(base + at, mask=inside, other=0.0, cache_modifier=".cg") * size[:, None]
            sizes += size
        count = tl.maximum(tl.sum(sizes, 0), 1.0)
        mean = tl.sum(total, 0) / count
        squares = tl.zeros((PARTS, BLOCK), tl.float32)
        for start in range(0, chunks, PARTS):
            which = start + tl.arange(0, PARTS)
            size = tl.load(counts + group * chunks + which, mask=which < chunks, other=0.0, cache_modifier=".cg")
            at = which[:, None] * 2 * channels + channel[None, :]
            inside = (which < chunks)[:, None] & wide[None, :]
            apart = tl.load(base + at, mask=inside, other=0.0, cache_modifier=".cg") - mean[None, :]
            around = tl.load(base + at + channels, mask=inside, other=0.0, cache_modifier=".cg")
            squares += around + apart * apart * size[:, None]
        var = tl.sum(squares, 0) / count
        place = operation * channels + channel
        tl.store(mean_out + place, mean, mask=wide)
        tl.store(rstd_out + place, 1.0 / tl.sqrt(var + eps), mask=wide)
        if group == 0:
            tl.store(count_out, count)
        old = tl.load(running_mean + place, mask=wide, other=0.0)
        tl.store(running_mean + place, old + momentum * (mean - old), mask=wide)
        old = tl.load(running_var + place, mask=wide, other=0.0)
        unbiased = var * count / tl.maximum(count - 1.0, 1.0)
        tl.store(running_var + place, old + momentum * (unbiased - old), mask=wide)


@triton.jit
def _apply(
    y, weight, bias, p, mean, spread, order, ptr, before, seed, out, nodes, channels, eps, drop,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, ADDED: tl.constexpr, RUNNING: tl.constexpr,
    RELU: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Normalise, ReLU, dropout and add up the operations of one target, and what it holds already.

    ``spread`` is 1 / sqrt(variance + eps), or the running variance itself.
    """
    target = tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    inside = (row < nodes)[:, None] & wide[None, :]
    at = row[:, None].to(tl.int64) * channels + channel[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    whole = target.to(tl.int64) * nodes * channels
    if ADDED:
        total += tl.load(before + whole + at, mask=inside, other=0.0).to(tl.float32)
    for k in range(tl.load(ptr + target), tl.load(ptr + target + 1)):
        operation = tl.load(order + k)
        place = operation * channels + channel
        scale = tl.load(spread + place, mask=wide, other=0.0)
        if RUNNING:
            scale = 1.0 / tl.sqrt(scale + eps)
        scale *= tl.load(weight + place, mask=wide, other=0.0)
        shift = tl.load(bias + place, mask=wide, other=0.0) - tl.load(mean + place, mask=wide, other=0.0) * scale
        own = operation.to(tl.int64) * nodes * channels + at
        value = tl.load(y + own, mask=inside, other=0.0).to(tl.float32)
        value = value * scale[None, :] + shift[None, :]
        if RELU:
            value = tl.maximum(value, 0.0)
        if WEIGHTED:
            value = value * tl.load(p + operation)
        if DROP:
            value = _dropped(value, seed, own, drop)
        total += value
    tl.store(out + whole + at, total, mask=inside)


@triton.jit
def _reduce_gradients(
    grad, y, weight, bias, p, mean, rstd, target_of, seed, parts, used_parts, tickets, op_tickets,
    grad_weight, grad_bias, grad_p, nodes, channels, chunk, drop,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr, WEIGHTED: tl.constexpr, RELU: tl.constexpr,
    DROP: tl.constexpr,
):  # fmt: skip
    """Sums over one chunk of the nodes that the gradient of one operation needs; the last program adds up the chunks."""
    operation, part, chunks, blocks = tl.program_id(2), tl.program_id(0), tl.num_programs(0), tl.num_programs(1)
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
        if DROP:
            back = _dropped(back, seed, operation.to(tl.int64) * nodes * channels + at, drop)
        active = hat * scale[None, :] + shift[None, :]
        passed = tl.where((active > 0) & inside, back, 0.0) if RELU else back
        plain += passed
        along += passed * hat
        if WEIGHTED:
            used += passed * active
    base = parts + operation * chunks * 2 * channels
    tl.store(base + part * 2 * channels + channel, tl.sum(plain, 0), mask=wide)
    tl.store(base + part * 2 * channels + channels + channel, tl.sum(along, 0), mask=wide)
    if WEIGHTED:
        mine = (operation * blocks + tl.program_id(1)) * chunks + part
        tl.store(used_parts + mine, tl.sum(tl.sum(used, 1), 0))
    mixed = 1.0
    if WEIGHTED:
        mixed = tl.load(p + operation).to(tl.float32)
    if _last_of(tickets, operation * blocks + tl.program_id(1), chunks):
        plain_total = tl.zeros((PARTS, BLOCK), tl.float32)
        along_total = tl.zeros((PARTS, BLOCK), tl.float32)
        for start in range(0, chunks, PARTS):
            which = start + tl.arange(0, PARTS)
            at = which[:, None] * 2 * channels + channel[None, :]
            inside = (which < chunks)[:, None] & wide[None, :]
            plain_total += tl.load(base + at, mask=inside, other=0.0, cache_modifier=".cg")
            along_total += tl.load(base + at + channels, mask=inside, other=0.0, cache_modifier=".cg")
        tl.store(grad_bias + place, tl.sum(plain_total, 0) * mixed, mask=wide)
        tl.store(grad_weight + place, tl.sum(along_total, 0) * mixed, mask=wide)
    if WEIGHTED:  # noqa: SIM102 (known while compiling, the next one is not)
        if _last_of(op_tickets, operation, chunks * blocks):
            total = tl.zeros((PARTS,), tl.float32)
            for start in range(0, chunks * blocks, PARTS):
                which = start + tl.arange(0, PARTS)
                at = operation * chunks * blocks + which
                total += tl.load(used_parts + at, mask=which < chunks * blocks, other=0.0, cache_modifier=".cg")
            tl.store(grad_p + operation, tl.sum(total, 0))


@triton.jit
def _apply_gradients(
    grad, y, mask, weight, bias, p, mean, rstd, count, target_of, seed, grad_weight, grad_bias, out, nodes, channels, drop,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, MASKED: tl.constexpr, RELU: tl.constexpr,
    DROP: tl.constexpr,
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
    if DROP:
        back = _dropped(back, seed, base + at, drop)
    if WEIGHTED:
        back = back * tl.load(p + operation)
    passed = tl.where(hat * scale[None, :] + shift[None, :] > 0, back, 0.0) if RELU else back
    size = tl.load(count)
    shared = tl.load(grad_bias + place, mask=wide, other=0.0)[None, :] / size
    shared += hat * (tl.load(grad_weight + place, mask=wide, other=0.0) / size)[None, :]
    if MASKED:
        # Rows of padding took no part in the statistics.
        real = tl.load(mask + row, mask=keep, other=0) != 0
        shared = tl.where(real[:, None], shared, 0.0)
    tl.store(out + base + at, (passed - shared) * (inverse * scale)[None, :], mask=inside)


REDUCE = {"ROWS": 32, "BLOCK": CHANNELS, "PARTS": 16}
APPLY = {"ROWS": 32, "BLOCK": CHANNELS}


def _chunks(nodes: int) -> tuple[int, int]:
    """Into how many parts the nodes are split for sums over them, and the size of a part: enough to fill a GPU."""
    size = max(64, triton.next_power_of_2(triton.cdiv(nodes, 256)))
    return triton.cdiv(max(nodes, 1), size), size


def norm_forward(
    y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm, before: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and what the backward pass needs."""
    operations, nodes, channels = y.shape
    chunks, size = _chunks(nodes)
    blocks = triton.cdiv(channels, REDUCE["BLOCK"])
    parts = y.new_empty(operations, chunks, 2, channels, dtype=torch.float32)
    counts = y.new_empty(operations * blocks * chunks + 1, dtype=torch.float32)  # the last is that of all nodes
    moments = y.new_empty(2, operations, channels, dtype=torch.float32)
    mean, rstd = moments[0], moments[1]
    _statistics[(chunks, blocks, operations)](
        y, norm.mask, parts, counts, norm.tickets, norm.mean, norm.var, mean, rstd, counts[-1:], nodes, channels, size,
        norm.momentum, norm.eps, MASKED=norm.mask is not None, **REDUCE,
    )  # fmt: skip
    out = _applied(y, weight, bias, p, mean, rstd, targets, norm, before, running=False)
    return out, [y, bias, mean, rstd, counts[-1:], norm.tickets]


def norm_running(
    y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm, before: Tensor | None
) -> Tensor:
    """Outputs with the running statistics."""
    return _applied(y, weight, bias, p, norm.mean, norm.var, targets, norm, before, running=True)


def _applied(
    y: Tensor,
    weight: Tensor,
    bias: Tensor,
    p: Tensor | None,
    mean: Tensor,
    spread: Tensor,
    targets: Groups,
    norm: Norm,
    before: Tensor | None,
    running: bool,
) -> Tensor:
    _, nodes, channels = y.shape
    out = y.new_empty(targets.count, nodes, channels)
    _apply[(triton.cdiv(nodes, APPLY["ROWS"]), triton.cdiv(channels, APPLY["BLOCK"]), targets.count)](
        y, weight, bias, p, mean, spread, targets.order, targets.ptr, before, norm.drop.seed, out, nodes, channels, norm.eps,
        norm.drop.rate, WEIGHTED=p is not None, ADDED=before is not None, RUNNING=running, RELU=norm.relu,
        DROP=norm.drop.rate > 0, **APPLY,
    )  # fmt: skip
    return out


def norm_backward(
    grad: Tensor, weight: Tensor, p: Tensor | None, saved: list[Tensor], targets: Groups, norm: Norm
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of y, weight, bias and the mixing weights."""
    y, bias, mean, rstd, count, counters = saved
    mask = norm.mask
    operations, nodes, channels = y.shape
    chunks, size = _chunks(nodes)
    blocks = triton.cdiv(channels, REDUCE["BLOCK"])
    grad_weight, grad_bias, grad_y = torch.empty_like(weight), torch.empty_like(bias), torch.empty_like(y)
    grad_p = None if p is None else torch.empty_like(p)
    parts = y.new_empty(operations, chunks, 2, channels, dtype=torch.float32)
    used = None if p is None else y.new_empty(operations, blocks, chunks, dtype=torch.float32)
    _reduce_gradients[(chunks, blocks, operations)](
        grad, y, weight, bias, p, mean, rstd, targets.of, norm.drop.seed, parts, used, counters,
        counters[operations * blocks :], grad_weight, grad_bias, grad_p, nodes, channels, size, norm.drop.rate,
        WEIGHTED=p is not None, RELU=norm.relu, DROP=norm.drop.rate > 0, **REDUCE,
    )  # fmt: skip
    _apply_gradients[(triton.cdiv(nodes, APPLY["ROWS"]), triton.cdiv(channels, APPLY["BLOCK"]), operations)](
        grad, y, mask, weight, bias, p, mean, rstd, count, targets.of, norm.drop.seed, grad_weight, grad_bias, grad_y,
        nodes, channels, norm.drop.rate, WEIGHTED=p is not None, MASKED=mask is not None, RELU=norm.relu,
        DROP=norm.drop.rate > 0, **APPLY,
    )  # fmt: skip
    return grad_y, grad_weight, grad_bias, grad_p
