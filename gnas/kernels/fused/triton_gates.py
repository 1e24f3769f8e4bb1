"""The gates of a stage's filters as Triton kernels: one forward; one backward, and a sum of its partial results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnas.kernels.fused.triton_sums import sum_parts

if TYPE_CHECKING:
    from gnas.kernels.fused import GatePlan, Gates

ROWS = 16


@triton.jit
def _forward(
    h, x, weight, bias, dense, dense_bias, source, kind, gate_row, out, nodes, channels, dense_step, dense_row,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    operation = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    wide = channel < channels
    inside = (row < nodes)[:, None] & wide[None, :]
    at = row[:, None].to(tl.int64) * channels + channel[None, :]
    lines = row[:, None].to(tl.int64) * dense_row + channel[None, :]
    size = tl.cast(nodes, tl.int64) * channels
    value = tl.load(h + tl.load(source + operation) * size + at, mask=inside, other=0.0).to(tl.float32)
    which, gates = tl.load(kind + operation), tl.load(gate_row + operation).to(tl.int64)
    if which == 1:
        own = tl.load(weight + gates * 2 * channels + channel, mask=wide, other=0.0)
        given = tl.load(weight + (gates * 2 + 1) * channels + channel, mask=wide, other=0.0)
        start = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        logit = tl.sum(value * own[None, :] + start * given[None, :], 1) + tl.load(bias + gates)
        value = value * tl.sigmoid(logit)[:, None]
    if which == 2:
        logit = tl.load(dense + gates * dense_step + lines, mask=inside, other=0.0).to(tl.float32)
        logit += tl.load(dense_bias + gates * channels + channel, mask=wide, other=0.0)[None, :]
        value = value * tl.sigmoid(logit)
    tl.store(out + operation.to(tl.int64) * size + at, value, mask=inside)


@triton.jit
def _backward(
    grad, h, x, weight, bias, dense, dense_bias, order, ptr, kind, gate_row, grad_h, grad_x, grad_dense, parts,
    nodes, channels, dense_step, dense_row, sparse_count, stride,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, SPARSE: tl.constexpr,
):  # fmt: skip
    """Of one source: gradients that belong to nodes, and sums over a few nodes of those that belong to weights."""
    source = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    keep, wide = row < nodes, channel < channels
    inside = keep[:, None] & wide[None, :]
    at = row[:, None].to(tl.int64) * channels + channel[None, :]
    lines = row[:, None].to(tl.int64) * dense_row + channel[None, :]
    size = tl.cast(nodes, tl.int64) * channels
    value = tl.load(h + source.to(tl.int64) * size + at, mask=inside, other=0.0).to(tl.float32)
    start = value
    if SPARSE:
        start = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    to_input = tl.zeros((ROWS, BLOCK), tl.float32)
    mine = parts + tl.program_id(0).to(tl.int64) * stride
    for k in range(tl.load(ptr + source), tl.load(ptr + source + 1)):
        operation = tl.load(order + k)
        back = tl.load(grad + operation.to(tl.int64) * size + at, mask=inside, other=0.0).to(tl.float32)
        which, gates = tl.load(kind + operation), tl.load(gate_row + operation).to(tl.int64)
        if which == 0:
            total += back
        if SPARSE:  # noqa: SIM102 (known while compiling, the next one is not)
            if which == 1:
                own = tl.load(weight + gates * 2 * channels + channel, mask=wide, other=0.0)
                given = tl.load(weight + (gates * 2 + 1) * channels + channel, mask=wide, other=0.0)
                logit = tl.sum(value * own[None, :] + start * given[None, :], 1) + tl.load(bias + gates)
                open_ = tl.sigmoid(logit)
                slope = tl.sum(back * value, 1) * open_ * (1.0 - open_)
                slope = tl.where(keep, slope, 0.0)
                total += back * open_[:, None] + slope[:, None] * own[None, :]
                to_input += slope[:, None] * given[None, :]
                place = mine + gates * 2 * channels + channel
                tl.store(place, tl.sum(slope[:, None] * value, 0), mask=wide)
                tl.store(place + channels, tl.sum(slope[:, None] * start, 0), mask=wide)
                tl.store(mine + sparse_count * 2 * channels + gates, tl.sum(slope, 0))
        if which == 2:
            logit = tl.load(dense + gates * dense_step + lines, mask=inside, other=0.0).to(tl.float32)
            logit += tl.load(dense_bias + gates * channels + channel, mask=wide, other=0.0)[None, :]
            open_ = tl.sigmoid(logit)
            total += back * open_
            slope = back * value * open_ * (1.0 - open_)
            tl.store(grad_dense + gates * dense_step + lines, slope, mask=inside)
            place = mine + sparse_count * (2 * channels + 1) + gates * channels + channel
            tl.store(place, tl.sum(slope, 0), mask=wide)
    tl.store(grad_h + source.to(tl.int64) * size + at, total, mask=inside)
    if SPARSE:
        tl.store(grad_x + source.to(tl.int64) * size + at, to_input, mask=inside)


def gate_forward(h: Tensor, x: Tensor, gates: Gates, plan: GatePlan) -> Tensor:
    """Each filter's source times its gate."""
    _, nodes, channels = h.shape
    out = h.new_empty(len(plan.filters), nodes, channels)
    _forward[(triton.cdiv(nodes, ROWS), len(plan.filters))](
        h, x, *gates, plan.sources.of, plan.kind, plan.row, out, nodes, channels, *gates.dense.stride()[:2],
        ROWS=ROWS, BLOCK=triton.next_power_of_2(channels),
    )  # fmt: skip
    return out


def gate_backward(
    grad: Tensor, h: Tensor, x: Tensor, gates: Gates, plan: GatePlan
) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the sources, of the cell's input, and of the four tensors of the gates."""
    sources, nodes, channels = h.shape
    weight, bias, dense, dense_bias = gates
    grad_h, grad_dense = torch.empty_like(h), torch.empty_like(dense)
    grad_x = torch.empty_like(h) if len(weight) else None
    blocks = triton.cdiv(nodes, ROWS)
    sizes = (weight.numel(), bias.numel(), dense_bias.numel())
    parts = h.new_empty(blocks, sum(sizes), dtype=torch.float32)
    _backward[(blocks, sources)](
        grad, h, x, *gates, plan.sources.order, plan.sources.ptr, plan.kind, plan.row, grad_h, grad_x, grad_dense,
        parts, nodes, channels, *dense.stride()[:2], len(weight), sum(sizes),
        ROWS=ROWS, BLOCK=triton.next_power_of_2(channels), SPARSE=len(weight) > 0,
    )  # fmt: skip
    to_weight, to_bias, to_dense_bias = sum_parts(parts[None])[0].split(sizes)
    if grad_x is not None:
        grad_x = grad_x[0] if sources == 1 else grad_x.sum(0)
    return (
        grad_h,
        grad_x,
        to_weight.view_as(weight).to(weight.dtype),
        to_bias.view_as(bias).to(bias.dtype),
        grad_dense,
        to_dense_bias.view_as(dense_bias).to(dense_bias.dtype),
    )
