"""Neighbour aggregation on the CPU: sums are bags of an embedding, maxima and edge scores products of sparse matrices.

A bag adds up rows of a table while it reads them: no message is ever materialised, unless each channel has its own weight.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

FEW = 8192  # edges up to which messages are materialised at once
EDGES = 4096  # per chunk, so that messages fit in the cache: 2 MB with 144 channels


def forward(
    x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, sum_to: int, max_from: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, maxima and the edge each maximum came from (-1: no sender)."""
    rows, kept, count = ptr.numel() - 1, x.size(1) - max_from, int(ptr[-1])
    total = sum_rows(x[:, :sum_to], source[:count], ptr)
    if not count or not kept:
        return total, x.new_zeros(rows, kept), torch.full((rows, kept), -1, dtype=torch.int32)
    matrix = _matrix(ptr, source, x)
    # The kernel returns arguments only if it expects a gradient to be computed. Hooks of the caller do not see the matrix.
    matrix.requires_grad_()
    with torch.enable_grad(), saved_tensors_hooks(_same, _same):
        values, arg = torch.ops.aten._sparse_mm_reduce_impl(matrix, x.detach()[:, max_from:].contiguous(), "amax")
    return total, values.detach(), arg.masked_fill((ptr.diff() == 0)[:, None], -1).int()


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
    width, count = grad_sum.size(1), int(back_ptr[-1])
    summed = sum_rows(grad_sum, target.index_select(0, back[:count]), back_ptr)
    if width == channels and not grad_max.size(1):
        return summed
    grad = grad_sum.new_zeros(back_ptr.numel() - 1, channels)
    grad[:, :width] = summed
    if count and grad_max.size(1):
        # Numbers of single elements: of whole rows the kernels are slower, and here each element has a row of its own.
        place = source.index_select(0, arg.flatten().clamp_min(0)).long().mul_(channels).view_as(arg)
        place.add_(torch.arange(max_from, channels))
        grad.view(-1).scatter_add_(0, place.flatten(), grad_max.masked_fill(arg < 0, 0).flatten())
    return grad


def sum_weighted(x: Tensor, weight: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None) -> Tensor:
    """Sum for each receiver of ``x`` at its senders, times the weights of its edges (``order``: their numbers)."""
    count, heads = int(ptr[-1]), weight.size(1)
    if not count:
        return x.new_zeros(ptr.numel() - 1, x.size(1))
    if _are_heads(heads, x, count):
        edges = slice(count)
        weights = _at(weight, edges, order).t().flatten()
        index, bounds = _heads(_at(sender, edges, order), ptr, heads)
        return _joined(sum_rows(x.view(-1, x.size(1) // heads), index, bounds, weights), heads)
    if count <= FEW:
        # In the order of the edges, which their weights have; the bags are of these messages.
        message = _weighed(x.index_select(0, sender[:count]), weight[:count])
        return sum_rows(message, torch.arange(count, dtype=ptr.dtype) if order is None else order[:count], ptr)
    # A few thousand edges at a time, which stay in the cache: on dense graphs 1.5 to 4 times as fast as all at once.
    out = x.new_zeros(ptr.numel() - 1, x.size(1))
    for rows, edges in _blocks(ptr):
        message = x.index_select(0, _at(sender, edges, order)).mul_(_at(weight, edges, order))
        out[rows] = _sums(message, ptr, rows, edges)
    return out


def multiply_ends(
    grad: Tensor, x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, weight: Tensor, vector: Tensor | None = None
) -> Tensor:
    """Shaped as ``weight``: ``grad`` at the receiver times ``x`` at the sender, summed over a weight's channels.

    That is the gradient of the weights. With ``vector``: their tanh(sum) instead, times ``vector``, summed likewise.
    """
    out, count, heads = torch.zeros_like(weight), int(ptr[-1]), weight.size(1)
    if vector is None and count and _are_heads(heads, x, count):
        index, bounds = _heads(source[:count], ptr, heads)
        wide = torch.promote_types(x.dtype, torch.float32)  # the kernel has no half precision
        rows, columns = _apart(grad, heads).to(wide), x.view(-1, x.size(1) // heads).to(wide)
        matrix = _csr(bounds, index, rows.new_zeros(index.numel()), (rows.size(0), columns.size(0)))
        found = torch.sparse.sampled_addmm(matrix, rows, columns.t(), beta=0).values()
        out[:count] = found.view(heads, count).t()
        return out
    for _, edges in _blocks(ptr):
        there, here = grad.index_select(0, target[edges]), x.index_select(0, source[edges])
        if vector is None:
            both = there.mul_(here)
            out[edges] = both if heads == both.size(1) else both.unflatten(1, (heads, -1)).sum(2)
        else:
            out[edges] = there.add_(here).tanh_().unflatten(1, (heads, -1)) @ vector
    return out


def sum_slopes(
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


def _at(rows: Tensor, edges: slice, order: Tensor | None) -> Tensor:
    return rows[edges] if order is None else rows.index_select(0, order[edges])


def _sums(message: Tensor, ptr: Tensor, rows: slice, edges: slice) -> Tensor:
    """Sums over the edges of each of these rows; ``message`` holds the edges alone."""
    bounds = ptr[rows.start : rows.stop + 1] - edges.start
    return sum_rows(message, torch.arange(len(message), dtype=ptr.dtype), bounds)


def sum_rows(rows: Tensor, index: Tensor, ptr: Tensor, weight: Tensor | None = None) -> Tensor:
    """For each range of ``ptr`` the sum of ``rows[index]`` in it, each times its ``weight``; zeros for an empty range."""
    if not index.numel() or not rows.size(1):
        return rows.new_zeros(ptr.numel() - 1, rows.size(1))
    out: Tensor = torch.ops.aten._embedding_bag_forward_only(rows, index, ptr, False, 0, False, weight, True)[0]
    return out


def _are_heads(heads: int, x: Tensor, count: int) -> bool:
    """Whether each head is a sparse matrix of its own. With several heads and few edges it is faster to make the messages."""
    return heads < x.size(1) and (heads == 1 or count > FEW)


def _weighed(message: Tensor, weight: Tensor) -> Tensor:
    """Messages times the weights of their edges, in place; each of the weights serves the channels of a head."""
    heads = weight.size(1)
    if heads == message.size(1):
        return message.mul_(weight)
    message.unflatten(1, (heads, -1)).mul_(weight[:, :, None])
    return message


def _heads(sender: Tensor, ptr: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Numbers and bounds of bags, all receivers of the first head, then those of the next: each head of a node is a row."""
    if heads == 1:
        return sender, ptr
    each = torch.arange(heads, dtype=ptr.dtype)[:, None]
    index, bounds = sender * heads + each, ptr[:-1] + each * sender.numel()
    return index.flatten(), torch.cat([bounds.flatten(), ptr.new_tensor([heads * sender.numel()])])


def _apart(x: Tensor, heads: int) -> Tensor:
    """``[nodes, heads * width]`` as ``[heads * nodes, width]``."""
    return x if heads == 1 else x.view(x.size(0), heads, -1).transpose(0, 1).flatten(0, 1)


def _joined(x: Tensor, heads: int) -> Tensor:
    """``[heads * nodes, width]`` as ``[nodes, heads * width]``."""
    return x if heads == 1 else x.view(heads, -1, x.size(1)).transpose(0, 1).flatten(1)


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


def _same(value: Tensor) -> Tensor:
    return value


def _matrix(ptr: Tensor, columns: Tensor, x: Tensor) -> Tensor:
    count = int(ptr[-1])
    return _csr(ptr.long(), columns[:count].long(), x.new_ones(count), (ptr.numel() - 1, x.size(0)))


def _csr(ptr: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "sparse CSR is in beta": tests compare it with the reference
        return torch.sparse_csr_tensor(ptr, columns, values, size, check_invariants=False)
