"""The inner functions of a stage, each with a backward pass written by hand.

``gate`` builds the inputs of all filters of a stage (identity, sparse and dense gates on their sources);
``norm_relu_mix`` is what follows their linear maps: batch norm over the real nodes, ReLU, weighted sum into the targets.
Autograd would run dozens of small kernels here, and on small graphs the number of kernels is the cost. Two implementations:
PyTorch operations (``torch``) and Triton (``triton``); the device decides, the environment variable ``GNAS_FUSED`` forces one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnas.errors import choose
from gnas.fused import torch_kernels

IMPLEMENTATIONS = ("torch", "triton")
IDENTITY, SPARSE, DENSE = 0, 1, 2


def implementation(device: torch.device) -> str:
    """Name of the implementation that serves a device."""
    forced = os.environ.get("GNAS_FUSED")
    if forced:
        return choose(forced, IMPLEMENTATIONS, "GNAS_FUSED")
    if device.type == "cuda":
        try:
            import triton  # noqa: F401
        except ImportError:
            return "torch"
        return "triton"
    return "torch"


def _module(h: Tensor) -> ModuleType:
    # The kernels compute in float32; float64 is for tests and checks.
    if implementation(h.device) == "triton" and h.dtype != torch.float64:
        return importlib.import_module("gnas.fused.triton_kernels")
    return torch_kernels


def _half(*tensors: Tensor) -> bool:
    """Whether these come from mixed precision and meet the PyTorch operations, which want float32."""
    return any(t.dtype in (torch.bfloat16, torch.float16) for t in tensors) and _module(tensors[0]) is torch_kernels


class Groups(nn.Module):
    """Which group each of a list of items belongs to, and the items of each group one after another."""

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


def gate(h: Tensor, sparse: Tensor, dense: Tensor, plan: GatePlan) -> Tensor:
    """Inputs of the filters' linear maps, ``[filters, nodes, channels]``: the source, times its gate if it has one.

    ``h`` is ``[sources, nodes, channels]``; ``sparse`` ``[sparse filters, nodes, 1]`` and ``dense`` ``[dense filters, nodes,
    channels]`` are the gates before the sigmoid.
    """
    if _half(h, sparse, dense):
        h, sparse, dense = h.float(), sparse.float(), dense.float()
    return _Gate.apply(h, sparse, dense, plan)  # type: ignore[no-any-return]


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, sparse: Tensor, dense: Tensor, plan: GatePlan) -> Tensor:  # type: ignore[override]
        ctx.module, ctx.plan = _module(h), plan
        ctx.save_for_backward(h, sparse, dense)
        return ctx.module.gate_forward(h, sparse, dense, plan)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        return (*ctx.module.gate_backward(grad.contiguous(), *ctx.saved_tensors, ctx.plan), None)


class Norm:
    """What batch normalisation needs besides weight and bias: running statistics (updated in place) and constants."""

    def __init__(self, mean: Tensor, var: Tensor, momentum: float, eps: float, mask: Tensor | None) -> None:
        self.mean, self.var, self.momentum, self.eps, self.mask = mean, var, momentum, eps, mask


def norm_relu_mix(y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm) -> Tensor:
    """Batch norm with batch statistics, ReLU, and the weighted sum into targets.

    ``y`` is ``[operations, nodes, channels]``, ``p`` one weight an operation (None: all 1); returns ``[targets, nodes,
    channels]``.
    """
    if not _half(y):
        return _NormReluMix.apply(y, weight, bias, p, targets, norm)  # type: ignore[no-any-return]
    with torch.autocast(y.device.type, enabled=False):  # the statistics are sums over all nodes
        return _NormReluMix.apply(y.float(), weight, bias, p, targets, norm)  # type: ignore[no-any-return]


class _NormReluMix(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, y: Tensor, weight: Tensor, bias: Tensor, p: Tensor | None, targets: Groups, norm: Norm
    ) -> Tensor:
        ctx.module, ctx.targets, ctx.mask = _module(y), targets, norm.mask
        out, saved = ctx.module.norm_forward(y.contiguous(), weight, bias, p, targets, norm)
        ctx.save_for_backward(weight, p, *saved)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        weight, p, *saved = ctx.saved_tensors
        grads = ctx.module.norm_backward(grad.contiguous(), weight, p, saved, ctx.targets, ctx.mask)
        return (*grads, None, None)
