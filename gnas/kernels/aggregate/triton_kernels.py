"""Neighbour aggregation as Triton kernels: a program owns a few receivers (or senders), so nothing needs atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward(
    x,
    source,
    ptr,
    total,
    largest,
    arg,
    rows,
    channels,
    sum_to,
    max_from,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    WITH_SUM: tl.constexpr,
    WITH_MAX: tl.constexpr,
    KIND: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = row < rows
    start = tl.load(ptr + row, mask=here, other=0)
    end = tl.load(ptr + row + 1, mask=here, other=0)
    wide = channel < channels
    added = tl.zeros((ROWS, BLOCK), KIND)
    best = tl.full((ROWS, BLOCK), float("-inf"), KIND)
    where = tl.full((ROWS, BLOCK), -1, tl.int32)
    for step in range(tl.max(end - start)):
        edge = start + step
        active = edge < end
        sender = tl.load(source + edge, mask=active, other=0).to(tl.int64)
        valid = active[:, None] & wide[None, :]
        value = tl.load(x + sender[:, None] * channels + channel[None, :], mask=valid, other=0.0).to(KIND)
        if WITH_SUM:
            added += value
        if WITH_MAX:
            # Strictly greater keeps the first of equal values; the first edge always counts, and so does a NaN.
            better = valid & ((value > best) | (where < 0) | (value != value))
            best = tl.where(better, value, best)
            where = tl.where(better, edge[:, None], where)
    at = row[:, None].to(tl.int64)
    if WITH_SUM:
        keep = here[:, None] & (channel < sum_to)[None, :]
        tl.store(total + at * sum_to + channel[None, :], added, mask=keep)
    if WITH_MAX:
        keep = here[:, None] & (wide & (channel >= max_from))[None, :]
        place = at * (channels - max_from) + channel[None, :] - max_from
        tl.store(largest + place, tl.where(where < 0, 0.0, best), mask=keep)
        tl.store(arg + place, where, mask=keep)


@triton.jit
def _backward(
    grad_sum,
    grad_max,
    arg,
    target,
    back,
    back_ptr,
    grad,
    rows,
    channels,
    sum_to,
    max_from,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    WITH_SUM: tl.constexpr,
    WITH_MAX: tl.constexpr,
    KIND: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = row < rows
    start = tl.load(back_ptr + row, mask=here, other=0)
    end = tl.load(back_ptr + row + 1, mask=here, other=0)
    summed, compared = channel < sum_to, (channel >= max_from) & (channel < channels)
    out = tl.zeros((ROWS, BLOCK), KIND)
    for step in range(tl.max(end - start)):
        active = start + step < end
        edge = tl.load(back + start + step, mask=active, other=0)
        receiver = tl.load(target + edge, mask=active, other=0).to(tl.int64)
        if WITH_SUM:
            valid = active[:, None] & summed[None, :]
            out += tl.load(grad_sum + receiver[:, None] * sum_to + channel[None, :], mask=valid, other=0.0).to(KIND)
        if WITH_MAX:
            valid = active[:, None] & compared[None, :]
            place = receiver[:, None] * (channels - max_from) + channel[None, :] - max_from
            won = tl.load(arg + place, mask=valid, other=-1) == edge[:, None]
            out += tl.load(grad_max + place, mask=valid & won, other=0.0).to(KIND)
    keep = here[:, None] & (channel < channels)[None, :]
    tl.store(grad + row[:, None].to(tl.int64) * channels + channel[None, :], out, mask=keep)


@triton.jit
def _weighted(
    x,
    weight,
    sender,
    order,
    ptr,
    own,
    total,
    level,
    rows,
    channels,
    heads,
    width,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ORDERED: tl.constexpr,
    TANH: tl.constexpr,
    KIND: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = row < rows
    start = tl.load(ptr + row, mask=here, other=0)
    end = tl.load(ptr + row + 1, mask=here, other=0)
    wide = channel < channels
    head = channel // width
    keep = here[:, None] & wide[None, :]
    at = row[:, None].to(tl.int64) * channels + channel[None, :]
    added, levels = tl.zeros((ROWS, BLOCK), KIND), tl.zeros((ROWS, BLOCK), KIND)
    if TANH:
        mine = tl.load(own + at, mask=keep, other=0.0).to(KIND)
    for step in range(tl.max(end - start)):
        place = start + step
        active = place < end
        valid = active[:, None] & wide[None, :]
        edge = tl.load(order + place, mask=active, other=0).to(tl.int64) if ORDERED else place.to(tl.int64)
        other = tl.load(sender + edge, mask=active, other=0).to(tl.int64)
        factor = tl.load(weight + edge[:, None] * heads + head[None, :], mask=valid, other=0.0).to(KIND)
        value = tl.load(x + other[:, None] * channels + channel[None, :], mask=valid, other=0.0).to(KIND)
        if TANH:
            bent = _tanh(mine + value)
            added += factor * (1 - bent * bent)
            levels += factor * bent
        else:
            added += factor * value
    tl.store(total + at, added, mask=keep)
    if TANH:
        tl.store(level + at, levels, mask=keep)


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _products(
    grad,
    x,
    source,
    target,
    ptr,
    vector,
    out,
    rows,
    edges,
    channels,
    heads,
    width,
    EDGES: tl.constexpr,
    BLOCK: tl.constexpr,
    GATES: tl.constexpr,
    TANH: tl.constexpr,
    KIND: tl.constexpr,
):
    edge = tl.program_id(0) * EDGES + tl.arange(0, EDGES)
    here = edge < edges
    active = edge < tl.load(ptr + rows)  # the others are padding: zeros
    sender = tl.load(source + edge, mask=here, other=0).to(tl.int64) * channels
    receiver = tl.load(target + edge, mask=here, other=0).to(tl.int64) * channels
    at = edge.to(tl.int64) * heads
    if GATES:  # a weight for each channel
        channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        wide = (channel < channels)[None, :]
        valid = active[:, None] & wide
        there = tl.load(grad + receiver[:, None] + channel[None, :], mask=valid, other=0.0).to(KIND)
        value = tl.load(x + sender[:, None] + channel[None, :], mask=valid, other=0.0).to(KIND)
        both = there * value
        if TANH:
            both = _tanh(there + value) * tl.load(vector).to(KIND)
        tl.store(out + at[:, None] + channel[None, :], both, mask=here[:, None] & wide)
    else:
        head = tl.program_id(1)
        added = tl.zeros((EDGES,), KIND)
        for first in range(0, width, BLOCK):
            within = first + tl.arange(0, BLOCK)
            valid = active[:, None] & (within < width)[None, :]
            channel = head * width + within
            there = tl.load(grad + receiver[:, None] + channel[None, :], mask=valid, other=0.0).to(KIND)
            value = tl.load(x + sender[:, None] + channel[None, :], mask=valid, other=0.0).to(KIND)
            both = there * value
            if TANH:
                factor = tl.load(vector + within, mask=within < width, other=0.0).to(KIND)
                both = _tanh(there + value) * factor[None, :]
            added += tl.sum(both, axis=1)
        tl.store(out + at + head, added, mask=here)


def _accumulator(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def _grid(rows: int, channels: int) -> tuple[tuple[int, int], int, int]:
    block = min(triton.next_power_of_2(max(channels, 16)), 64)
    size = 8
    return (triton.cdiv(max(rows, 1), size), triton.cdiv(channels, block)), size, block


def forward(
    x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, sum_to: int, max_from: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, maxima and the edge each maximum came from (-1: no sender)."""
    rows, channels = ptr.numel() - 1, x.size(1)
    total, largest = x.new_empty(rows, sum_to), x.new_empty(rows, channels - max_from)
    arg = torch.empty_like(largest, dtype=torch.int32)
    grid, size, block = _grid(rows, channels)
    _forward[grid](
        x,
        source,
        ptr,
        total,
        largest,
        arg,
        rows,
        channels,
        sum_to,
        max_from,
        ROWS=size,
        BLOCK=block,
        WITH_SUM=sum_to > 0,
        WITH_MAX=max_from < channels,
        KIND=_accumulator(x),
    )
    return total, largest, arg


def backward(
    grad_sum: Tensor,
    grad_max: Tensor,
    arg: Tensor,
    source: Tensor,
    target: Tensor,
    back: Tensor,
    back_ptr: Tensor,
    channels: int,
    max_from: int,
) -> Tensor:
    """Gradient of the senders, given those of the sums and the maxima."""
    rows, sum_to = back_ptr.numel() - 1, grad_sum.size(1)
    grad = grad_sum.new_empty(rows, channels)
    grid, size, block = _grid(rows, channels)
    _backward[grid](
        grad_sum,
        grad_max,
        arg,
        target,
        back,
        back_ptr,
        grad,
        rows,
        channels,
        sum_to,
        max_from,
        ROWS=size,
        BLOCK=block,
        WITH_SUM=sum_to > 0,
        WITH_MAX=max_from < channels,
        KIND=_accumulator(grad_sum),
    )
    return grad


def sum_weighted(x: Tensor, weight: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None) -> Tensor:
    """Sum for each receiver of ``x`` at its senders, times the weights of its edges (``order``: their numbers)."""
    total = x.new_empty(ptr.numel() - 1, x.size(1))
    _weigh(x, weight, sender, ptr, order, None, total, total)
    return total


def sum_slopes(
    own: Tensor, other: Tensor, weight: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Weighted sums over senders of the derivative of t = tanh(own + other), 1 - t * t, and of t itself."""
    slope, level = torch.empty_like(own), torch.empty_like(own)
    _weigh(other, weight, sender, ptr, order, own, slope, level)
    return slope, level


def _weigh(
    x: Tensor,
    weight: Tensor,
    sender: Tensor,
    ptr: Tensor,
    order: Tensor | None,
    own: Tensor | None,
    total: Tensor,
    level: Tensor,
) -> None:
    """Fill ``total``, and with ``own`` also ``level``."""
    (rows, channels), heads = total.shape, weight.size(1)
    grid, size, block = _grid(rows, channels)
    _weighted[grid](
        x,
        weight,
        sender,
        sender if order is None else order,
        ptr,
        x if own is None else own,
        total,
        level,
        rows,
        channels,
        heads,
        channels // heads,
        ROWS=size,
        BLOCK=block,
        ORDERED=order is not None,
        TANH=own is not None,
        KIND=_accumulator(x),
    )


def multiply_ends(
    grad: Tensor, x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, weight: Tensor, vector: Tensor | None = None
) -> Tensor:
    """Shaped as ``weight``: ``grad`` at the receiver times ``x`` at the sender, summed over a weight's channels.

    That is the gradient of the weights. With ``vector``: their tanh(sum) instead, times ``vector``, summed likewise.
    """
    edges, heads = weight.shape
    channels, out = x.size(1), torch.empty_like(weight)
    width = channels // heads
    size, block = 16, min(triton.next_power_of_2(max(channels if width == 1 else width, 16)), 64)
    grid = (triton.cdiv(max(edges, 1), size), triton.cdiv(channels, block) if width == 1 else heads)
    _products[grid](
        grad,
        x,
        source,
        target,
        ptr,
        grad if vector is None else vector,
        out,
        ptr.numel() - 1,
        edges,
        channels,
        heads,
        width,
        EDGES=size,
        BLOCK=block,
        GATES=width == 1,
        TANH=vector is not None,
        KIND=_accumulator(x),
    )
    return out
