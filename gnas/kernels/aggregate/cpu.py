"""Neighbour aggregation on the CPU through PyTorch's row-wise sparse kernels: no message is ever materialised.

Of few edges the messages are materialised and added with ``index_add_``, which takes less time than to make a sparse matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from gnas.kernels.aggregate import reference

FEW = 8192  # edges up to which messages are materialised
EDGES = 4096  # per chunk, so that messages fit in the cache: 2 MB with 144 channels


def forward(
    x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, sum_to: int, max_from: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, maxima and the edge each maximum came from (-1: no sender)."""
    rows = ptr.numel() - 1
    total, largest = x.new_zeros(rows, sum_to), x.new_zeros(rows, x.size(1) - max_from)
    arg = torch.full_like(largest, -1, dtype=torch.int32)
    count = int(ptr[-1])
    few = count <= FEW
    if few and sum_to:
        total.index_add_(0, target[:count], x[:, :sum_to].index_select(0, source[:count]))
    if not count or (few and x.size(1) == max_from):
        return total, largest, arg
    matrix = _matrix(ptr, source, x)
    if sum_to and not few:
        total = torch.ops.aten._sparse_mm_reduce_impl(matrix, x[:, :sum_to].contiguous(), "sum")[0]
    if x.size(1) > max_from:
        # The kernel returns arguments only if it expects a gradient to be computed.
        matrix.requires_grad_()
        with torch.enable_grad():
            values, arg = torch.ops.aten._sparse_mm_reduce_impl(matrix, x[:, max_from:].contiguous(), "amax")
        largest = values.detach()
        arg = arg.masked_fill((ptr.diff() == 0)[:, None], -1).int()
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
    grad = grad_sum.new_zeros(back_ptr.numel() - 1, channels)
    width, count = grad_sum.size(1), int(back_ptr[-1])
    if width and count <= FEW:
        grad[:, :width].index_add_(0, source[:count], grad_sum.index_select(0, target[:count]))
    elif width:
        matrix = _matrix(back_ptr, target[back.long()], grad_sum)
        grad[:, :width] = torch.ops.aten._sparse_mm_reduce_impl(matrix, grad_sum, "sum")[0]
    return reference.add_max_gradient(grad, grad_max, arg, source, max_from)


def weighted(x: Tensor, weight: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None) -> Tensor:
    """Sum for each receiver of ``x`` at its senders, times the weights of its edges (``order``: their numbers).

    Messages are made for a few thousand edges at a time, which stay in the cache: on dense graphs 1.5 to 4 times as fast
    as all at once.
    """
    out, count = x.new_zeros(ptr.numel() - 1, x.size(1)), int(ptr[-1])
    if not count:
        return out
    if count <= FEW:
        receiver = torch.repeat_interleave(torch.arange(len(out)), ptr.diff())
        return out.index_add_(0, receiver, _weigh(x, weight, sender, slice(count), order))
    for rows, edges in _blocks(ptr):
        out[rows] = _sums(_weigh(x, weight, sender, edges, order), ptr, rows, edges)
    return out


def products(
    grad: Tensor, x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, weight: Tensor, vector: Tensor | None = None
) -> Tensor:
    """Shaped as ``weight``: ``grad`` at the receiver times ``x`` at the sender, summed over a weight's channels.

    That is the gradient of the weights. With ``vector``: their tanh(sum) instead, times ``vector``, summed likewise.
    """
    out = torch.zeros_like(weight)
    for _, edges in _blocks(ptr):
        there, here = grad.index_select(0, target[edges]), x.index_select(0, source[edges])
        both = there.mul_(here) if vector is None else there.add_(here).tanh_()
        if vector is not None or both.size(1) > out.size(1):
            both = both.unflatten(1, (out.size(1), -1))
            both = both.sum(-1) if vector is None else both @ vector
        out[edges] = both
    return out


def slopes(
    own: Tensor, other: Tensor, weight: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Weighted sums over senders of the derivative of t = tanh(own + other), 1 - t * t, and of t itself."""
    slope, level = torch.zeros_like(own), torch.zeros_like(own)
    for rows, edges in _blocks(ptr):
        factor = _at(weight, edges, order)[:, :, None]
        to = torch.repeat_interleave(torch.arange(rows.start, rows.stop), ptr[rows.start : rows.stop + 1].diff())
        bent = other.index_select(0, _at(sender, edges, order)).add_(own.index_select(0, to)).tanh_()
        heads = bent.unflatten(1, (factor.size(1), -1))
        level[rows] = _sums((heads * factor).flatten(1), ptr, rows, edges)
        slope[rows] = _sums(((1 - heads * heads) * factor).flatten(1), ptr, rows, edges)
    return slope, level


def _weigh(x: Tensor, weight: Tensor, sender: Tensor, edges: slice, order: Tensor | None) -> Tensor:
    """Rows of ``x`` at the senders, times the weights of their edges."""
    own = _at(weight, edges, order)
    message = x.index_select(0, _at(sender, edges, order))
    message.view(len(own), own.size(1), -1).mul_(own[:, :, None])
    return message


def _at(rows: Tensor, edges: slice, order: Tensor | None) -> Tensor:
    return rows[edges] if order is None else rows.index_select(0, order[edges])


def _sums(message: Tensor, ptr: Tensor, rows: slice, edges: slice) -> Tensor:
    """Sums over the edges of each of these rows; ``message`` holds the edges alone."""
    bounds = ptr[rows.start : rows.stop + 1] - edges.start
    matrix = _matrix(bounds, torch.arange(len(message)), message)
    out: Tensor = torch.ops.aten._sparse_mm_reduce_impl(matrix, message, "sum")[0]
    return out


def _blocks(ptr: Tensor) -> Iterator[tuple[slice, slice]]:
    """Chunks of receivers with about ``EDGES`` edges each; receivers without edges can be left out."""
    count = int(ptr[-1])
    ends = torch.searchsorted(ptr, torch.arange(EDGES, count + EDGES, EDGES, dtype=ptr.dtype)).clamp_max(
        ptr.numel() - 1
    )
    start = 0
    for end in ends.unique().tolist():
        first, last = int(ptr[start]), int(ptr[end])
        if last > first:
            yield slice(start, end), slice(first, last)
        start = end


def _matrix(ptr: Tensor, columns: Tensor, x: Tensor) -> Tensor:
    count = int(ptr[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "sparse CSR is in beta": tests compare it with the reference
        return torch.sparse_csr_tensor(
            ptr.long(), columns[:count].long(), x.new_ones(count), (ptr.numel() - 1, x.size(0)), check_invariants=False
        )
