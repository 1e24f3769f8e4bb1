"""Values of senders through the gates of their edges, summed at each receiver, as two Triton kernels, one a direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from gnas.graph import Neighbors

SIZES = {"ROWS": 8, "BLOCK": 64}
SMALL = 1e-6  # added to the sum of the gates


@triton.jit
def _gated_forward(
    relation, value, source, ptr, out, gates, rows, channels, small,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MEAN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here, wide = row < rows, channel < channels
    start = tl.load(ptr + row, mask=here, other=0)
    end = tl.load(ptr + row + 1, mask=here, other=0)
    total, weight = tl.zeros((ROWS, BLOCK), tl.float32), tl.zeros((ROWS, BLOCK), tl.float32)
    for step in range(tl.max(end - start)):
        edge = start + step
        active = edge < end
        inside = active[:, None] & wide[None, :]
        sender = tl.load(source + edge, mask=active, other=0).to(tl.int64)
        at = edge[:, None].to(tl.int64) * channels + channel[None, :]
        gate = tl.where(inside, tl.sigmoid(tl.load(relation + at, mask=inside, other=0.0)), 0.0)
        total += gate * tl.load(value + sender[:, None] * channels + channel[None, :], mask=inside, other=0.0)
        weight += gate
    at, inside = row[:, None].to(tl.int64) * channels + channel[None, :], here[:, None] & wide[None, :]
    if MEAN:
        weight += small
        tl.store(gates + at, weight, mask=inside)
        total = total / weight
    tl.store(out + at, total, mask=inside)


@triton.jit
def _gated_backward(
    grad, relation, value, out, gates, target, ptr, back, back_ptr, grad_relation, grad_value,
    rows, receivers, edges, channels, blocks,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MEAN: tl.constexpr,
):  # fmt: skip
    """The first programs own senders and their edges; the others set the gradient of padding edges to zero."""
    program = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wide = channel < channels
    if program < blocks:
        row = program * ROWS + tl.arange(0, ROWS)
        here = row < rows
        start = tl.load(back_ptr + row, mask=here, other=0)
        end = tl.load(back_ptr + row + 1, mask=here, other=0)
        own, own_inside = row[:, None].to(tl.int64) * channels + channel[None, :], here[:, None] & wide[None, :]
        sent = tl.load(value + own, mask=own_inside, other=0.0)
        total = tl.zeros((ROWS, BLOCK), tl.float32)
        for step in range(tl.max(end - start)):
            active = start + step < end
            inside = active[:, None] & wide[None, :]
            edge = tl.load(back + start + step, mask=active, other=0).to(tl.int64)
            receiver = tl.load(target + edge, mask=active, other=0).to(tl.int64)
            at, there = edge[:, None] * channels + channel[None, :], receiver[:, None] * channels + channel[None, :]
            gate = tl.sigmoid(tl.load(relation + at, mask=inside, other=0.0))
            arriving = tl.load(grad + there, mask=inside, other=0.0)
            change = sent
            if MEAN:
                arriving = arriving / tl.load(gates + there, mask=inside, other=1.0)
                change = sent - tl.load(out + there, mask=inside, other=0.0)
            total += gate * arriving
            tl.store(grad_relation + at, arriving * change * gate * (1.0 - gate), mask=inside)
        tl.store(grad_value + own, total, mask=own_inside)
    else:
        padding = tl.load(ptr + receivers) + (program - blocks) * ROWS + tl.arange(0, ROWS)
        at = padding[:, None].to(tl.int64) * channels + channel[None, :]
        nothing = tl.zeros((ROWS, BLOCK), tl.float32)
        tl.store(grad_relation + at, nothing, mask=(padding < edges)[:, None] & wide[None, :])


def forward(relation: Tensor, value: Tensor, near: Neighbors, mean: bool) -> tuple[Tensor, Tensor | None]:
    """The sums or means, and for means the sums of the gates."""
    rows, channels = near.num_receivers, value.size(1)
    out = value.new_empty(rows, channels)
    gates = torch.empty_like(out) if mean else None
    _gated_forward[_grid(rows, channels)](
        relation, value, near.source, near.ptr, out, gates, rows, channels, SMALL, **SIZES, MEAN=mean
    )
    return out, gates


def backward(
    grad: Tensor, relation: Tensor, value: Tensor, out: Tensor, gates: Tensor | None, near: Neighbors
) -> tuple[Tensor, Tensor]:
    """Gradients of the relations and of the values."""
    rows, (edges, channels) = near.num_senders, relation.shape
    grad_relation, grad_value = torch.empty_like(relation), torch.empty_like(value)
    blocks, columns = _grid(rows, channels)
    padding = triton.cdiv(edges, SIZES["ROWS"])  # how many edges are padding only the device knows
    _gated_backward[(blocks + padding, columns)](
        grad, relation, value, out, gates, near.target, near.ptr, near.back, near.back_ptr, grad_relation, grad_value,
        rows, near.num_receivers, edges, channels, blocks, **SIZES, MEAN=gates is not None,
    )  # fmt: skip
    return grad_relation, grad_value


def _grid(rows: int, channels: int) -> tuple[int, int]:
    return triton.cdiv(max(rows, 1), SIZES["ROWS"]), triton.cdiv(channels, SIZES["BLOCK"])
