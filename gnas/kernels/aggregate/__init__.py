"""Neighbour aggregation: sum, mean and max over each receiver's senders, in one pass over sorted edges.

There is one function for aggregation, one for sums with a weight on each edge, and one for scores of edges, each with three
implementations: plain PyTorch (``reference``), PyTorch's sparse CPU kernels (``cpu``) and Triton (``triton``). The device
decides; the environment variable ``GNAS_AGGREGATE`` forces one.
A receiver without senders gets zeros. Equal maxima send their gradient to the first sender. All are deterministic.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnas.errors import choose
from gnas.graph import Neighbors
from gnas.kernels.aggregate import cpu
from gnas.kernels.aggregate.scores import edge_scores
from gnas.kernels.aggregate.weighted import weighted_sum
from gnas.kernels.choice import calls_directly, import_aggregate

__all__ = [
    "AGGREGATORS",
    "aggregate",
    "convolve",
    "edge_scores",
    "inverse_degree",
    "read_rows",
    "reduce",
    "symmetric_scales",
    "weighted_sum",
]
AGGREGATORS = ("sum", "mean", "max")


def aggregate(x: Tensor, neighbors: Neighbors, how: str) -> Tensor:
    """``how`` in sum, mean, max over the senders of each receiver: ``[senders, C] -> [receivers, C]``."""
    if choose(how, AGGREGATORS, "aggregator") == "max":
        return reduce(x, neighbors, 0, 0)[1]
    total = reduce(x, neighbors, x.size(1), x.size(1))[0]
    return total if how == "sum" else total * inverse_degree(neighbors, total.dtype)


def inverse_degree(neighbors: Neighbors, dtype: torch.dtype) -> Tensor:
    """1/degree of each receiver as a column; 1 where there are no senders (their sum is 0 anyway)."""
    return _column(neighbors.degree(), dtype).reciprocal()


def symmetric_scales(neighbors: Neighbors, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """1/root of what each sender sends and of what each receiver gets, as columns: those of GCN, without self loops."""
    return _column(neighbors.back_ptr.diff(), dtype).rsqrt(), _column(neighbors.degree(), dtype).rsqrt()


def convolve(x: Tensor, neighbors: Neighbors) -> Tensor:
    """The propagation of GCN with self loops, ``[nodes, C] -> [nodes, C]``; on undirected graphs PyG's ``gcn_norm``."""
    sent = (neighbors.back_ptr.diff() + 1).to(x.dtype).rsqrt()[:, None]
    received = (neighbors.degree() + 1).to(x.dtype).rsqrt()[:, None]
    message = x * sent
    return (aggregate(message, neighbors, "sum") + message) * received


def _column(degree: Tensor, dtype: torch.dtype) -> Tensor:
    return degree.clamp_min(1).to(dtype)[:, None]


def reduce(x: Tensor, neighbors: Neighbors, sum_to: int, max_from: int) -> tuple[Tensor, Tensor]:
    """Sum over senders of channels ``[:sum_to]`` and max of channels ``[max_from:]``, in one pass over the edges."""
    n = neighbors
    if calls_directly(x):
        return _Reduce.apply(x, n, sum_to, max_from)  # type: ignore[no-untyped-call, no-any-return]
    total, largest, _ = torch.ops.gnas.reduce(
        x.contiguous(), n.source, n.target, n.ptr, n.back, n.back_ptr, sum_to, max_from
    )
    return total, largest


def read_rows(x: Tensor, ends: Neighbors) -> Tensor:
    """``x[ends.source]`` on a CPU: each receiver has one sender, and the gradient is summed along the sorted edges."""
    if calls_directly(x):
        return _Read.apply(x, ends)  # type: ignore[no-untyped-call, no-any-return]
    return x.index_select(0, ends.source)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ends: Neighbors) -> Tensor:  # type: ignore[override]
        ctx.ends = ends
        return x.index_select(0, ends.source)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        return cpu.sum_rows(grad.contiguous(), ctx.ends.back, ctx.ends.back_ptr), None


class _Reduce(torch.autograd.Function):
    """The same on a CPU, without the dispatcher, which takes as long as the aggregation of a small batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, near: Neighbors, sum_to: int, max_from: int) -> Any:  # type: ignore[override]
        total, largest, arg = import_aggregate(x.device).forward(
            x.contiguous(), near.source, near.target, near.ptr, sum_to, max_from
        )
        ctx.save_for_backward(arg)
        ctx.near, ctx.channels, ctx.max_from = near, x.size(1), max_from
        return total, largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_sum: Tensor, grad_max: Tensor) -> Any:  # type: ignore[override]
        (arg,), near = ctx.saved_tensors, ctx.near
        ends = (near.source, near.target, near.back, near.back_ptr)
        grad = import_aggregate(arg.device).backward(
            grad_sum.contiguous(), grad_max.contiguous(), arg, *ends, ctx.channels, ctx.max_from
        )
        return grad, None, None, None


# Declared and implemented in two steps: `torch.library.custom_op` would import PyTorch's compiler at the first call.
torch.library.define(
    "gnas::reduce",
    "(Tensor x, Tensor source, Tensor target, Tensor ptr, Tensor back, Tensor back_ptr, SymInt sum_to, SymInt max_from)"
    " -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "gnas::reduce_backward",
    "(Tensor grad_sum, Tensor grad_max, Tensor arg, Tensor source, Tensor target, Tensor back, Tensor back_ptr,"
    " SymInt channels, SymInt max_from) -> Tensor",
)


@torch.library.impl("gnas::reduce", "CompositeExplicitAutograd")
def _reduce(
    x: Tensor,
    source: Tensor,
    target: Tensor,
    ptr: Tensor,
    back: Tensor,
    back_ptr: Tensor,
    sum_to: int,
    max_from: int,
) -> tuple[Tensor, Tensor, Tensor]:
    return import_aggregate(x.device).forward(x, source, target, ptr, sum_to, max_from)


@torch.library.impl("gnas::reduce_backward", "CompositeExplicitAutograd")
def _reduce_backward(
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
    return import_aggregate(grad_sum.device).backward(
        grad_sum, grad_max, arg, source, target, back, back_ptr, channels, max_from
    )


@torch.library.register_fake("gnas::reduce")
def _(x, source, target, ptr, back, back_ptr, sum_to, max_from):  # type: ignore[no-untyped-def]
    rows = ptr.numel() - 1
    kept = x.size(1) - max_from
    return x.new_empty(rows, sum_to), x.new_empty(rows, kept), x.new_empty(rows, kept, dtype=torch.int32)


@torch.library.register_fake("gnas::reduce_backward")
def _(grad_sum, grad_max, arg, source, target, back, back_ptr, channels, max_from):  # type: ignore[no-untyped-def]
    return grad_sum.new_empty(back_ptr.numel() - 1, channels)


def _setup(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    x, source, target, _, back, back_ptr, _, max_from = inputs
    ctx.save_for_backward(output[2], source, target, back, back_ptr)
    ctx.channels, ctx.max_from = x.size(1), max_from


def _backward(ctx, grad_sum, grad_max, _):  # type: ignore[no-untyped-def]
    arg, source, target, back, back_ptr = ctx.saved_tensors
    grad = torch.ops.gnas.reduce_backward(
        grad_sum.contiguous(), grad_max.contiguous(), arg, source, target, back, back_ptr, ctx.channels, ctx.max_from
    )
    return grad, None, None, None, None, None, None, None


torch.library.register_autograd("gnas::reduce", _backward, setup_context=_setup)
