"""Linear maps of small batches as Triton kernels, one a direction: what surrounds a product is part of it.

On a few thousand rows a product costs as much as the launch of any kernel. So the bias, ReLU, what is added, the reading of
nodes at the ends of edges and, backward, all three gradients are in the kernel of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnas.kernels.fused.triton_norm import _dropped, _last_of

if TYPE_CHECKING:
    from gnas.graph import Neighbors
    from gnas.kernels.fused.joined import Around


@triton.jit
def _arriving(grad, out, seed, place, inside, drop, RELU: tl.constexpr, DROP: tl.constexpr):
    """The gradient before dropout and ReLU."""
    value = tl.load(grad + place, mask=inside, other=0.0)
    if RELU:  # an output that dropout made 0 is no different
        value = tl.where(tl.load(out + place, mask=inside, other=0.0) > 0, value, 0.0)
        if DROP:
            value = value / (1.0 - drop)
    elif DROP:
        value = _dropped(value, seed, place, drop)
    return value


@triton.jit
def _linear(
    h, h_more, weight, bias, before, ends, target, source, seed, out,
    rows, inner, outer, w_count, w_in, w_out, ends_row, drop,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr, PARTS: tl.constexpr, BIAS: tl.constexpr,
    BEFORE: tl.constexpr, ENDS: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``[h | h_more] @ weight``, plus the bias and ``ends`` at one or both ends of an edge; ReLU, dropout; plus ``before``."""
    item = tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here, wide = row < rows, column < outer
    inside = here[:, None] & wide[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for part in tl.static_range(PARTS):
        given = (h if part == 0 else h_more) + item.to(tl.int64) * rows * inner
        first = weight + item * w_count + part * inner * w_in
        for start in range(0, inner, DEPTH):
            depth = start + tl.arange(0, DEPTH)
            deep = depth < inner
            left = tl.load(given + row[:, None] * inner + depth[None, :], mask=here[:, None] & deep[None, :], other=0.0)
            at = depth[:, None] * w_in + column[None, :] * w_out
            right = tl.load(first + at, mask=deep[:, None] & wide[None, :], other=0.0)
            total = tl.dot(left, right, total, input_precision=PRECISION)
    if BIAS:
        total += tl.load(bias + item * outer + column, mask=wide, other=0.0)[None, :]
    place = item.to(tl.int64) * rows * outer + row[:, None] * outer + column[None, :]
    if ENDS > 0:
        sender = tl.load(source + row, mask=here, other=0)
        shift = (ENDS - 1) * outer
        total += tl.load(ends + sender[:, None] * ends_row + shift + column[None, :], mask=inside, other=0.0)
    if ENDS > 1:
        receiver = tl.load(target + row, mask=here, other=0)
        total += tl.load(ends + receiver[:, None] * ends_row + column[None, :], mask=inside, other=0.0)
    if RELU:
        total = tl.maximum(total, 0.0)
    if DROP:
        total = _dropped(total, seed, place, drop)
    if BEFORE:
        total += tl.load(before + place, mask=inside, other=0.0)
    tl.store(out + place, total, mask=inside)


@triton.jit
def _input_gradient(
    program, grad, out, weight, added, seed, grad_h, rows, inner, outer, count, w_count, w_in, w_out,
    row_blocks, inner_blocks, drop,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr, PARTS: tl.constexpr, ADDED: tl.constexpr,
    RELU: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of the gradient of an input: that of the output times the weight, turned."""
    row = (program % row_blocks) * ROWS + tl.arange(0, ROWS)
    rest = program // row_blocks
    column = (rest % inner_blocks) * BLOCK + tl.arange(0, BLOCK)
    rest = rest // inner_blocks
    part, item = rest % PARTS, rest // PARTS
    here, wide = row < rows, column < inner
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    first = weight + item * w_count + part * inner * w_in
    base = item.to(tl.int64) * rows * outer
    for start in range(0, outer, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        deep = depth < outer
        at, inside = base + row[:, None] * outer + depth[None, :], here[:, None] & deep[None, :]
        left = _arriving(grad, out, seed, at, inside, drop, RELU, DROP)
        turned = column[None, :] * w_in + depth[:, None] * w_out
        right = tl.load(first + turned, mask=deep[:, None] & wide[None, :], other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    place = (part * count + item).to(tl.int64) * rows * inner + row[:, None] * inner + column[None, :]
    within = here[:, None] & wide[None, :]
    if ADDED:  # to the first input
        total += tl.load(added + place, mask=within & (part == 0), other=0.0)
    tl.store(grad_h + place, total, mask=within)


@triton.jit
def _weight_gradient(
    program, grad, out, h, h_more, seed, grad_weight, grad_bias, parts, bias_parts, tickets,
    rows, inner, outer, w_count, w_in, w_out, chunk, chunks, inner_blocks, outer_blocks, drop,
    BLOCK: tl.constexpr, DEPTH: tl.constexpr, CHUNKS: tl.constexpr, PARTS: tl.constexpr, BIAS: tl.constexpr,
    RELU: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of the gradient of the weight, and of the bias: a sum over one chunk of the rows; the last adds them up.

    It reads all sums at once: one after the other, each would wait for memory.
    """
    which = program % chunks
    tile = program // chunks
    block = tile % outer_blocks
    rest = tile // outer_blocks
    level = rest % inner_blocks
    rest = rest // inner_blocks
    part, item = rest % PARTS, rest // PARTS
    column = block * BLOCK + tl.arange(0, BLOCK)
    across = level * BLOCK + tl.arange(0, BLOCK)
    wide, deep = column < outer, across < inner
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    plain = tl.zeros((DEPTH, BLOCK), tl.float32)
    base, own = item.to(tl.int64) * rows * outer, item.to(tl.int64) * rows * inner
    for start in range(which * chunk, min((which + 1) * chunk, rows), DEPTH):
        row = start + tl.arange(0, DEPTH)
        here = row < rows
        at, inside = base + row[:, None] * outer + column[None, :], here[:, None] & wide[None, :]
        right = _arriving(grad, out, seed, at, inside, drop, RELU, DROP)
        if BIAS:
            plain += right
        turned, within = own + row[None, :] * inner + across[:, None], here[None, :] & deep[:, None]
        left = tl.load(h + turned, mask=within & (part == 0), other=0.0)
        if PARTS > 1:
            left += tl.load(h_more + turned, mask=within & (part == 1), other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    square = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    first = parts + tile.to(tl.int64) * chunks * BLOCK * BLOCK
    first_bias = bias_parts + tile * chunks * BLOCK if BIAS else bias_parts
    tl.store(first + which * BLOCK * BLOCK + square, total)
    if BIAS:
        tl.store(first_bias + which * BLOCK + tl.arange(0, BLOCK), tl.sum(plain, 0))
    if _last_of(tickets, tile, chunks):
        summed = tl.arange(0, CHUNKS)
        counts = (summed < chunks)[:, None]
        for begin in tl.static_range(0, BLOCK, 8):  # 8 rows of the tile, with those of all chunks
            flat = begin * BLOCK + tl.arange(0, 8 * BLOCK)
            # Past the first-level cache: others wrote these.
            values = tl.load(
                first + summed[:, None] * BLOCK * BLOCK + flat[None, :], mask=counts, other=0.0, cache_modifier=".cg"
            )
            into, out_of = level * BLOCK + flat // BLOCK, block * BLOCK + flat % BLOCK
            at = item * w_count + (part * inner + into) * w_in + out_of * w_out
            tl.store(grad_weight + at, tl.sum(values, 0), mask=(into < inner) & (out_of < outer))
        if BIAS:  # noqa: SIM102 (known while compiling, the next one is not)
            if (level == 0) & (part == 0):
                bias_at = first_bias + summed[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                biases = tl.load(bias_at, mask=counts, other=0.0, cache_modifier=".cg")
                tl.store(grad_bias + item * outer + column, tl.sum(biases, 0), mask=wide)


@triton.jit
def _linear_gradients(
    grad, out, h, h_more, weight, added, seed, grad_h, grad_weight, grad_bias, parts, bias_parts, tickets,
    rows, inner, outer, count, w_count, w_in, w_out, chunk, chunks, row_blocks, input_blocks, inner_blocks, outer_blocks, drop,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr,
    PARTS: tl.constexpr, BIAS: tl.constexpr, ADDED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr,
    INPUT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of the input, the weight and the bias. The first programs compute the input's, the others the weight's."""
    program = tl.program_id(0)
    if INPUT:
        inputs = count * PARTS * row_blocks * input_blocks
        if program < inputs:
            _input_gradient(
                program, grad, out, weight, added, seed, grad_h, rows, inner, outer, count, w_count, w_in, w_out,
                row_blocks, input_blocks, drop, ROWS, BLOCK, DEPTH, PARTS, ADDED, RELU, DROP, PRECISION,
            )  # fmt: skip
        else:
            _weight_gradient(
                program - inputs, grad, out, h, h_more, seed, grad_weight, grad_bias, parts, bias_parts, tickets,
                rows, inner, outer, w_count, w_in, w_out, chunk, chunks, inner_blocks, outer_blocks, drop,
                TILE, DEPTH, CHUNKS, PARTS, BIAS, RELU, DROP, PRECISION,
            )  # fmt: skip
    else:
        _weight_gradient(
            program, grad, out, h, h_more, seed, grad_weight, grad_bias, parts, bias_parts, tickets,
            rows, inner, outer, w_count, w_in, w_out, chunk, chunks, inner_blocks, outer_blocks, drop,
            TILE, DEPTH, CHUNKS, PARTS, BIAS, RELU, DROP, PRECISION,
        )  # fmt: skip


@triton.jit
def _ends_gradient(
    grad, out, ptr, back, back_ptr, grad_ends, nodes, channels,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ENDS: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """What the edges send back to their receivers and to their senders, ``[nodes, ends * channels]``."""
    side = tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here, wide = row < nodes, channel < channels
    sends = side == ENDS - 1
    if sends:
        pointers = back_ptr
    else:
        pointers = ptr
    start = tl.load(pointers + row, mask=here, other=0)
    end = tl.load(pointers + row + 1, mask=here, other=0)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for step in range(tl.max(end - start)):
        edge = start + step
        active = edge < end
        if sends:
            edge = tl.load(back + edge, mask=active, other=0)
        at, inside = edge[:, None] * channels + channel[None, :], active[:, None] & wide[None, :]
        value = tl.load(grad + at, mask=inside, other=0.0)
        if RELU:
            value = tl.where(tl.load(out + at, mask=inside, other=0.0) > 0, value, 0.0)
        total += value
    at = row[:, None] * ENDS * channels + side * channels + channel[None, :]
    tl.store(grad_ends + at, total, mask=here[:, None] & wide[None, :])


SIZES = {"ROWS": 32, "BLOCK": 64, "DEPTH": 32}
TILE = 32  # of a weight's gradient
MOST_CHUNKS = 16  # a single program adds them up
LEAST_ROWS = 64  # of a chunk
TICKETS = 4096
_tickets: dict[tuple[torch.device, int], Tensor] = {}


def _counters(device: torch.device) -> Tensor:
    """Counters, 0 between calls. Each stream has its own: calls of one stream follow one another."""
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    if (device, stream) not in _tickets:
        _tickets[device, stream] = torch.zeros(TICKETS, dtype=torch.int32, device=device)
    return _tickets[device, stream]


def _precision() -> str:
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def fits(count: int, parts: int, inner: int, outer: int) -> bool:
    """Whether there are enough counters for the gradients of this weight."""
    return count * parts * triton.cdiv(inner, TILE) * triton.cdiv(outer, TILE) <= TICKETS


def forward(inputs: Sequence[Tensor], weight: Tensor, bias: Tensor | None, around: Around) -> Tensor:
    """``inputs``: one or two of ``[count, rows, in]``."""
    count, rows, inner = inputs[0].shape
    outer, ends, near = weight.size(2), around.ends, around.neighbors
    out = inputs[0].new_empty(count, rows, outer)
    _linear[(triton.cdiv(rows, SIZES["ROWS"]), triton.cdiv(outer, SIZES["BLOCK"]), count)](
        inputs[0], inputs[-1], weight, bias, around.before, ends, None if near is None else near.target,
        None if near is None else near.source, around.drop.seed, out,
        rows, inner, outer, *weight.stride(), 0 if ends is None else ends.stride(0), around.drop.rate,
        **SIZES, PARTS=len(inputs), BIAS=bias is not None, BEFORE=around.before is not None,
        ENDS=0 if ends is None else ends.size(1) // outer, RELU=around.relu, DROP=around.drop.rate > 0, PRECISION=_precision(),
    )  # fmt: skip
    return out


def backward(
    grad: Tensor,
    out: Tensor | None,
    inputs: Sequence[Tensor],
    weight: Tensor,
    bias: Tensor | None,
    around: Around,
    added: Tensor | None = None,
    to_input: bool = True,
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """Gradients of the inputs ``[inputs, count, rows, in]`` (``added`` to the first), weight and bias; ``out``: that of ReLU."""
    count, rows, inner = inputs[0].shape
    outer, parts = weight.size(2), len(inputs)
    grad_weight = torch.empty_like(weight)
    grad_bias = None if bias is None else torch.empty_like(bias)
    grad_h = grad.new_empty(parts, count, rows, inner) if to_input else None
    row_blocks, input_blocks = triton.cdiv(rows, SIZES["ROWS"]), triton.cdiv(inner, SIZES["BLOCK"])
    inner_blocks, outer_blocks = triton.cdiv(inner, TILE), triton.cdiv(outer, TILE)
    chunk = max(LEAST_ROWS, triton.next_power_of_2(triton.cdiv(rows, MOST_CHUNKS)))
    chunks = triton.cdiv(max(rows, 1), chunk)
    tiles = count * parts * inner_blocks * outer_blocks
    partial = grad.new_empty(tiles * chunks, TILE, TILE)
    partial_bias = None if bias is None else grad.new_empty(tiles * chunks, TILE)
    programs = tiles * chunks + (count * parts * row_blocks * input_blocks if to_input else 0)
    _linear_gradients[(programs,)](
        grad, out, inputs[0], inputs[-1], weight, added, around.drop.seed, grad_h, grad_weight, grad_bias,
        partial, partial_bias, _counters(grad.device),
        rows, inner, outer, count, *weight.stride(), chunk, chunks,
        row_blocks, input_blocks, inner_blocks, outer_blocks, around.drop.rate,
        **SIZES, TILE=TILE, CHUNKS=triton.next_power_of_2(chunks), PARTS=parts, BIAS=bias is not None, ADDED=added is not None,
        RELU=out is not None, DROP=around.drop.rate > 0, INPUT=to_input, PRECISION=_precision(),
    )  # fmt: skip
    return grad_h, grad_weight, grad_bias


def ends_gradient(grad: Tensor, out: Tensor | None, near: Neighbors, ends: int) -> Tensor:
    """Gradient of the nodes that edges read at ``ends`` ends, ``[nodes, ends * channels]``."""
    nodes, channels = near.num_receivers, grad.size(-1)
    grad_ends = grad.new_empty(nodes, ends * channels)
    _ends_gradient[(triton.cdiv(max(nodes, 1), 8), triton.cdiv(channels, 64), ends)](
        grad, out, near.ptr, near.back, near.back_ptr, grad_ends, nodes, channels,
        ROWS=8, BLOCK=64, ENDS=ends, RELU=out is not None,
    )  # fmt: skip
    return grad_ends
