"""Neighbour aggregation in plain PyTorch: simple and slow, the reference for the others."""

from __future__ import annotations

import torch
from torch import Tensor


def forward(
    x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, sum_to: int, max_from: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, maxima and the edge each maximum came from (-1: no sender)."""
    rows = ptr.numel() - 1
    # Padding edges are behind the last pointer and do not count.
    real = torch.arange(source.numel(), device=x.device) < ptr[-1]
    edges = torch.nonzero(real).flatten()
    to, message = target[edges].long(), x[source[edges].long()]
    total = x.new_zeros(rows, sum_to).index_add_(0, to, message[:, :sum_to])
    message, index = message[:, max_from:], to[:, None].expand(-1, x.size(1) - max_from)
    largest = x.new_full((rows, x.size(1) - max_from), -torch.inf).scatter_reduce_(0, index, message, "amax")
    # The first edge that reaches the maximum; edge numbers grow within a receiver.
    reached = (message == largest[to]) | message.isnan()
    candidate = torch.where(reached, edges[:, None], source.numel())
    arg = torch.full_like(largest, source.numel(), dtype=torch.long).scatter_reduce_(0, index, candidate, "amin")
    empty = arg == source.numel()
    return total, largest.masked_fill(empty, 0), arg.masked_fill(empty, -1).int()


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
    senders = back_ptr.numel() - 1
    grad = grad_sum.new_zeros(senders, channels)
    edges = back[: int(back_ptr[-1])].long()
    grad[:, : grad_sum.size(1)].index_add_(0, source[edges].long(), grad_sum[target[edges].long()])
    return add_max_gradient(grad, grad_max, arg, source, max_from)


def add_max_gradient(grad: Tensor, grad_max: Tensor, arg: Tensor, source: Tensor, max_from: int) -> Tensor:
    """Send each maximum's gradient to the sender it came from."""
    if grad_max.size(1) and source.numel():
        sender = source[arg.clamp_min(0).long()].long()
        grad[:, max_from:].scatter_add_(0, sender, grad_max.masked_fill(arg < 0, 0))
    return grad


def sum_weighted(x: Tensor, weight: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None) -> Tensor:
    """Sum for each receiver of ``x`` at its senders, times the weights of its edges (``order``: their numbers)."""
    edges = torch.arange(int(ptr[-1]), device=x.device) if order is None else order[: int(ptr[-1])].long()
    weight = weight[edges]
    message = x[sender[edges].long()].unflatten(1, (weight.size(1), -1)) * weight[:, :, None]
    to = torch.repeat_interleave(torch.arange(ptr.numel() - 1, device=x.device), ptr.diff())
    return x.new_zeros(ptr.numel() - 1, x.size(1)).index_add_(0, to, message.flatten(1))


def multiply_ends(
    grad: Tensor, x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, weight: Tensor, vector: Tensor | None = None
) -> Tensor:
    """Shaped as ``weight``: ``grad`` at the receiver times ``x`` at the sender, summed over a weight's channels.

    That is the gradient of the weights. With ``vector``: their tanh(sum) instead, times ``vector``, summed likewise.
    """
    count = int(ptr[-1])
    there, here = grad[target[:count].long()], x[source[:count].long()]
    both = (there * here if vector is None else torch.tanh(there + here)).unflatten(1, (weight.size(1), -1))
    out = torch.zeros_like(weight)
    out[:count] = (both if vector is None else both * vector).sum(-1)
    return out


def sum_slopes(
    own: Tensor, other: Tensor, weight: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Weighted sums over senders of the derivative of t = tanh(own + other), 1 - t * t, and of t itself."""
    edges = torch.arange(int(ptr[-1]), device=own.device) if order is None else order[: int(ptr[-1])].long()
    to = torch.repeat_interleave(torch.arange(ptr.numel() - 1, device=own.device), ptr.diff())
    bent, factor = torch.tanh(own[to] + other[sender[edges].long()]), weight[edges]
    factor = factor.repeat_interleave(own.size(1) // factor.size(1), 1)
    slope, level = (torch.zeros_like(own).index_add_(0, to, factor * value) for value in (1 - bent * bent, bent))
    return slope, level
