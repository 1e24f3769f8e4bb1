"""Neighbour aggregation on the CPU through PyTorch's row-wise sparse kernels: no message is ever materialised."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from gnas.aggregate import reference


def forward(
    x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, sum_to: int, max_from: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, maxima and the edge each maximum came from (-1: no sender)."""
    rows = ptr.numel() - 1
    total, largest = x.new_zeros(rows, sum_to), x.new_zeros(rows, x.size(1) - max_from)
    arg = torch.full_like(largest, -1, dtype=torch.int32)
    if not int(ptr[-1]):
        return total, largest, arg
    matrix = _matrix(ptr, source, x)
    if sum_to:
        total = torch.ops.aten._sparse_mm_reduce_impl(matrix, x[:, :sum_to].contiguous(), "sum")[0]
    if x.size(1) > max_from:
        # The kernel returns arguments only when it believes a gradient will be asked for.
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
    width = grad_sum.size(1)
    if width and int(back_ptr[-1]):
        matrix = _matrix(back_ptr, target[back.long()], grad_sum)
        grad[:, :width] = torch.ops.aten._sparse_mm_reduce_impl(matrix, grad_sum, "sum")[0]
    return reference.add_max_gradient(grad, grad_max, arg, source, max_from)


def _matrix(ptr: Tensor, columns: Tensor, x: Tensor) -> Tensor:
    count = int(ptr[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "sparse CSR is in beta": the tests hold it to the reference
        return torch.sparse_csr_tensor(
            ptr.long(), columns[:count].long(), x.new_ones(count), (ptr.numel() - 1, x.size(0)), check_invariants=False
        )
