"""The inner functions of a stage, each with a backward pass written by hand.

``gate`` builds the inputs of all filters of a stage (identity, sparse and dense gates on their sources); ``product`` is their
linear maps; ``norm_relu_mix`` is what follows: batch norm over the real nodes, ReLU, weighted sum into the targets.
Autograd would run dozens of small kernels here, and on small graphs the number of kernels is the cost. Two implementations:
PyTorch operations (``torch``) and Triton (``triton``); the device decides, the environment variable ``GNAS_FUSED`` forces one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnas.kernels.choice import uses_kernels
from gnas.kernels.fused import torch_gates, torch_norm
from gnas.kernels.fused.joined import (
    Around,
    Drop,
    draw_drops,
    feed_forward,
    gated_sum,
    has_kernels,
    joins,
    linear,
    linear_through,
)
from gnas.kernels.fused.products import (
    affine,
    affine_beside,
    can_map_beside,
    has_product,
    map_rows,
    product,
    runs_plainly,
)

__all__ = [
    "Around",
    "Drop",
    "GatePlan",
    "Gates",
    "Groups",
    "Norm",
    "affine",
    "affine_beside",
    "can_map_beside",
    "draw_drops",
    "feed_forward",
    "gate",
    "gated_sum",
    "has_kernels",
    "has_product",
    "joins",
    "linear",
    "linear_through",
    "map_rows",
    "norm_relu_mix",
    "product",
    "runs_plainly",
    "serves",
]

NO_DROP = Drop()
IDENTITY, SPARSE, DENSE = 0, 1, 2
CHANNELS = 64  # of one program of the norm's kernels


def _module(h: Tensor, part: str) -> ModuleType:
    if uses_kernels(h):
        return importlib.import_module(f"gnas.kernels.fused.triton_{part}")
    return {"gates": torch_gates, "norm": torch_norm}[part]


# torch.compiler.disable imports the compiler, a thousand modules that are mostly not needed.
@torch._disable_dynamo  # type: ignore[attr-defined]
def _untraced(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _run(function: Callable[..., Any], first: Tensor, *more: Any) -> Any:
    """Call a function that may start Triton kernels, hidden from PyTorch's tracer, which cannot trace them."""
    if torch.compiler.is_compiling() and uses_kernels(first):
        return _untraced(function, first, *more)
    return function(first, *more)


def _half(*tensors: Tensor) -> bool:
    """Whether these come from mixed precision and meet the PyTorch operations, which want float32."""
    half = any(t.dtype in (torch.bfloat16, torch.float16) for t in tensors)
    return half and not uses_kernels(tensors[0])


class Groups(nn.Module):
    """The group of each item of a list, and the items sorted by group."""

    of: Tensor  # [items]
    order: Tensor  # [items], grouped
    ptr: Tensor  # [groups + 1]

    def __init__(self, groups: Sequence[int]) -> None:
        super().__init__()
        self.count = max(groups) + 1
        order = sorted(range(len(groups)), key=groups.__getitem__)
        ptr = [sum(group < first for group in groups) for first in range(self.count + 1)]
        for name, values in (("of", groups), ("order", order), ("ptr", ptr)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.int32), persistent=False)
        self.items = tuple(groups)  # the same as ``of``, on the host
        self.in_order = list(groups) == list(range(len(groups)))


class GatePlan(nn.Module):
    """For each filter of a stage: its source among the stacked sources, its kind, and its row among that kind's gates."""

    kind: Tensor
    row: Tensor

    def __init__(self, sources: Sequence[int], kinds: Sequence[int]) -> None:
        super().__init__()
        self.sources = Groups(sources)
        rows = [list(kinds[:k]).count(kind) for k, kind in enumerate(kinds)]
        self.filters = tuple(zip(sources, kinds, rows, strict=True))
        self.register_buffer("kind", torch.tensor(kinds, dtype=torch.int32), persistent=False)
        self.register_buffer("row", torch.tensor(rows, dtype=torch.int32), persistent=False)


class Gates(NamedTuple):
    """What the gates of a stage are computed from."""

    weight: Tensor  # [sparse filters, 2 * channels, 1]: of [H, H_in]
    bias: Tensor  # [sparse filters, 1, 1]
    dense: Tensor  # [dense filters, nodes, channels], rows of channels: the gates before bias and sigmoid
    dense_bias: Tensor  # [dense filters, 1, channels]


def gate(h: Tensor, x: Tensor, gates: Gates, plan: GatePlan) -> Tensor:
    """Inputs of the filters' linear maps, ``[filters, nodes, channels]``: the source, times its gate if it has one.

    ``h`` is ``[sources, nodes, channels]``, ``x`` the cell's input. A sparse gate is one number per node, so its linear map is
    computed here too; a dense one is a matrix product and comes ready but for its bias.
    """
    if _half(h, x, gates.dense):
        h, x, gates = h.float(), x.float(), Gates(*(part.float() for part in gates))
    with torch.autocast(h.device.type, enabled=False):
        return _run(_Gate.apply, h.contiguous(), x.contiguous(), *gates, plan)  # type: ignore[no-any-return]


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        h: Tensor,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        dense: Tensor,
        dense_bias: Tensor,
        plan: GatePlan,
    ) -> Tensor:
        ctx.module, ctx.plan = _module(h, "gates"), plan
        gates = Gates(weight, bias, dense, dense_bias)
        ctx.save_for_backward(h, x, *gates)
        return ctx.module.gate_forward(h, x, gates, plan)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        h, x, *gates = ctx.saved_tensors
        return (*ctx.module.gate_backward(grad.contiguous(), h, x, Gates(*gates), ctx.plan), None)


class Norm:
    """What batch normalisation needs besides weight and bias: running statistics (updated in place) and constants.

    ``tickets`` are counters of the kernels, 0 between calls; each norm has its own, so that norms may run at the same time.
    ``relu`` says whether ReLU follows the norm, and ``drop`` whether dropout does, where ``has_kernels``.
    """

    def __init__(
        self,
        mean: Tensor,
        var: Tensor,
        momentum: float,
        eps: float,
        mask: Tensor | None,
        tickets: Tensor,
        relu: bool = True,
        drop: Drop = NO_DROP,
    ) -> None:
        self.mean, self.var, self.momentum, self.eps, self.mask, self.tickets = mean, var, momentum, eps, mask, tickets
        self.relu, self.drop = relu, drop


def count_tickets(operations: int, channels: int) -> int:
    """Number of counters that the kernels of a norm need."""
    return operations * (-(-channels // CHANNELS) + 1)


def norm_relu_mix(
    y: Tensor,
    weight: Tensor,
    bias: Tensor,
    p: Tensor | None,
    targets: Groups,
    norm: Norm,
    before: Sequence[Tensor] = (),
    training: bool = True,
) -> Tensor:
    """Batch norm, ReLU (unless ``norm.relu`` is off), and the weighted sum into targets, added to ``before``.

    ``y`` is ``[operations, nodes, channels]``, ``p`` one weight per operation (None: all 1); returns ``[targets, nodes,
    channels]``. In training the statistics are the batch's; in evaluation the running ones, and there is no gradient.
    """
    if _half(y, *before):
        y, before = y.float(), [one.float() for one in before]
    with torch.autocast(y.device.type, enabled=False):  # the statistics are sums over all nodes
        if training:
            return _run(_NormReluMix.apply, y, weight, bias, p, targets, norm, *before)  # type: ignore[no-any-return]
        with torch.no_grad():
            run, held = _module(y, "norm").norm_running, _together(before)
            return _run(run, y.contiguous(), weight, bias, p, targets, norm, held)  # type: ignore[no-any-return]


def serves(training: bool) -> bool:
    """Whether the fused norms can be used: they have a gradient in training, and none in evaluation."""
    return training or not torch.is_grad_enabled()


class _NormReluMix(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        y: Tensor,
        weight: Tensor,
        bias: Tensor,
        p: Tensor | None,
        targets: Groups,
        norm: Norm,
        *before: Tensor,
    ) -> Tensor:
        ctx.module, ctx.targets, ctx.norm, ctx.before = _module(y, "norm"), targets, norm, len(before)
        out, saved = ctx.module.norm_forward(y.contiguous(), weight, bias, p, targets, norm, _together(before))
        ctx.save_for_backward(weight, p, *saved)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        weight, p, *saved = ctx.saved_tensors
        grad = grad.contiguous()
        grads = ctx.module.norm_backward(grad, weight, p, saved, ctx.targets, ctx.norm)
        return (*grads, None, None, *(grad.unbind() if ctx.before else ()))


def _together(tensors: Sequence[Tensor]) -> Tensor | None:
    """Tensors of one shape as a stack. Tensors that are adjacent in memory, such as slices of a stack, are not copied."""
    if not tensors:
        return None
    if torch.compiler.is_compiling():  # which cannot look at addresses
        return torch.stack(tuple(tensors))
    first, size = tensors[0], tensors[0].numel()
    adjacent = all(
        one.is_contiguous()
        and one.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        and one.storage_offset() == first.storage_offset() + k * size
        for k, one in enumerate(tensors)
    )
    if not adjacent:
        return torch.stack(tuple(tensors))
    return first.as_strided((len(tensors), *first.shape), (size, *first.stride()))
