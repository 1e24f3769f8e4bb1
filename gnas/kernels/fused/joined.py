"""A linear map and what surrounds it as one function, for batches so small that the number of kernels is the cost."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnas.graph import Neighbors
from gnas.kernels.choice import uses_kernels

MOST_ROWS = 4096  # on more rows PyTorch's products are faster than ours


class Drop(NamedTuple):
    """Dropout inside of a kernel: its rate, and a tensor with one integer from which it draws."""

    rate: float = 0.0
    seed: Tensor | None = None


class Around(NamedTuple):
    """What surrounds a linear map: ``before + dropout(relu(h @ weight + bias + ends))``, where each part may be missing.

    Args:
        before: What the result is added to, of its shape.
        ends: Rows of nodes, ``[nodes, out]`` or ``[nodes, 2 * out]``. A row of ``h`` is then an edge of ``neighbors``. It reads
            its sender, or in the first half its receiver and in the second its sender.
        neighbors: The edges.
        relu: Whether ReLU follows; not together with ``before``.
        drop: Dropout.
    """

    before: Tensor | None = None
    ends: Tensor | None = None
    neighbors: Neighbors | None = None
    relu: bool = False
    drop: Drop = Drop()


ALONE = Around()


def joins(*tensors: Tensor) -> bool:
    """Whether :func:`linear` serves these rows: few of them, on a GPU, in float32."""
    return all(0 < t.size(-2) <= MOST_ROWS for t in tensors) and has_kernels(*tensors)


def has_kernels(*tensors: Tensor) -> bool:
    """Whether there are kernels for these tensors: on a GPU, in float32."""
    first = tensors[0]
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(first.device.type):
        return False
    return uses_kernels(first) and all(t.dtype == torch.float32 for t in tensors)


def draw_drops(rate: float, count: int, like: Tensor) -> tuple[Drop, ...]:
    """``count`` times dropout with different seeds, drawn from the generator of the device; a rate of 0 draws nothing."""
    if not rate:
        return (Drop(),) * count
    return tuple(Drop(rate, seed) for seed in torch.randint(2**31 - 1, (count,), device=like.device).split(1))


def linear(inputs: Sequence[Tensor], weight: Tensor, bias: Tensor | None, around: Around = ALONE) -> Tensor:
    """A linear map of stacks and what is ``around`` it: ``[count, rows, in] @ [count, in, out]``, bias ``[count, 1, out]``.

    ``inputs`` are one or two stacks, side by side. It runs where :func:`joins` says so.
    """
    given = tuple(one.contiguous() for one in inputs)
    before = None if around.before is None else around.before.contiguous()
    out: Tensor = _Linear.apply(weight, bias, before, around.ends, around, False, *given)  # type: ignore[no-untyped-call]
    return out


def linear_through(
    inputs: Sequence[Tensor], weight: Tensor, bias: Tensor | None, around: Around = ALONE
) -> tuple[Tensor, Tensor]:
    """The same, and the first input for the other functions that read it. The product's kernel adds both gradients."""
    first, *more = (one.contiguous() for one in inputs)
    before = None if around.before is None else around.before.contiguous()
    return _Linear.apply(weight, bias, before, around.ends, around, True, first, *more)  # type: ignore[no-untyped-call, no-any-return]


def feed_forward(
    h: Tensor,
    first: tuple[Tensor, Tensor | None],
    second: tuple[Tensor, Tensor | None],
    drops: tuple[Drop, ...],
) -> Tensor:
    """``h + dropout(dropout(relu(h @ w + b)) @ w' + b')``, of stacks."""
    out: Tensor = _FeedForward.apply(h.contiguous(), *first, *second, drops)  # type: ignore[no-untyped-call]
    return out


def gated_sum(relation: Tensor, value: Tensor, near: Neighbors, mean: bool) -> Tensor:
    """Values of senders through the gates of their edges, sigmoid(relation), summed at each receiver, where ``has_kernels``.

    ``relation`` is ``[edges, channels]``, ``value`` ``[nodes, channels]``. ``mean``: divided by the sum of the gates + 1e-6.
    """
    out: Tensor = _GatedSum.apply(relation.contiguous(), value.contiguous(), near, mean)  # type: ignore[no-untyped-call]
    return out


def _kernels() -> ModuleType:
    return importlib.import_module("gnas.kernels.fused.triton_linear")


class _GatedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, relation: Tensor, value: Tensor, near: Neighbors, mean: bool) -> Tensor:  # type: ignore[override]
        ctx.module, ctx.near = importlib.import_module("gnas.kernels.fused.triton_senders"), near
        out, gates = ctx.module.forward(relation, value, near, mean)
        ctx.save_for_backward(relation, value, out, gates)
        return out  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        return *ctx.module.backward(grad.contiguous(), *ctx.saved_tensors, ctx.near), None, None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        weight: Tensor,
        bias: Tensor | None,
        before: Tensor | None,
        ends: Tensor | None,
        around: Around,
        through: bool,
        *inputs: Tensor,
    ) -> Tensor | tuple[Tensor, Tensor]:
        assert not (around.relu and before is not None)
        out: Tensor = _kernels().forward(inputs, weight, bias, around._replace(before=before, ends=ends))
        ctx.save_for_backward(weight, bias, out if around.relu else None, *inputs)
        ctx.ends = 0 if ends is None else ends.size(1) // weight.size(2)
        ctx.before, ctx.around = before is not None, around._replace(before=None, ends=None)
        ctx.set_materialize_grads(False)
        return (out, inputs[0]) if through else out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, added: Tensor | None = None) -> Any:  # type: ignore[override]
        weight, bias, out, *inputs = ctx.saved_tensors
        if grad is None:  # nothing but the input was read
            return *([None] * 6), added, *([None] * (len(inputs) - 1))
        grad, kernels, around = grad.contiguous(), _kernels(), ctx.around
        added = None if added is None else added.contiguous()
        needed = any(ctx.needs_input_grad[6:])
        grad_h, grad_weight, grad_bias = kernels.backward(grad, out, inputs, weight, bias, around, added, needed)
        grad_ends = kernels.ends_gradient(grad, out, around.neighbors, ctx.ends) if ctx.ends else None
        before = grad if ctx.before else None
        return (
            grad_weight,
            grad_bias,
            before,
            grad_ends,
            None,
            None,
            *([None] * len(inputs) if grad_h is None else grad_h),
        )


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        second: Tensor,
        second_bias: Tensor,
        drops: tuple[Drop, ...],
    ) -> Tensor:
        kernels = _kernels()
        ctx.first, ctx.last = Around(relu=True, drop=drops[0]), Around(drop=drops[1])
        hidden: Tensor = kernels.forward([h], weight, bias, ctx.first)
        ctx.save_for_backward(h, hidden, weight, bias, second, second_bias)
        out: Tensor = kernels.forward([hidden], second, second_bias, ctx.last._replace(before=h))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        h, hidden, weight, bias, second, second_bias = ctx.saved_tensors
        grad, kernels = grad.contiguous(), _kernels()
        inner, *of_second = kernels.backward(grad, None, [hidden], second, second_bias, ctx.last)
        outer, *of_first = kernels.backward(inner[0], hidden, [h], weight, bias, ctx.first, grad)
        return outer[0], *of_first, *of_second, None
