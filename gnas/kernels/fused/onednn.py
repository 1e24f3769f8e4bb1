"""Linear maps by oneDNN, for processors on which PyTorch's usual library for products, MKL, does not use AVX-512.

On an AMD EPYC with AVX-512 it takes half the time of MKL; on Intel's processors both are alike, and MKL needs no preparation.
oneDNN prepares code for each shape, which takes longer than a product of a few thousand rows. Batches differ in their number
of rows, so it gets a rounded number of them; MKL multiplies the few that are left.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnas.errors import choose

LIBRARIES = ("mkl", "onednn")
FEWEST = 2**21  # multiplications; the call of a smaller product takes longer than the product
NARROWEST = 16  # rows and columns of a weight
MANY = 8192  # rows; a product of more takes longer than the preparation


def serves(h: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN computes ``[count, rows, in] @ [count, in, out]``."""
    if (
        h.device.type != "cpu"
        or h.dtype != torch.float32
        or weight.dtype != torch.float32
        or choose_library() != "onednn"
    ):
        return False
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    inner, outer = weight.shape[-2:]
    return min(inner, outer) >= NARROWEST and h.size(-2) * inner * outer >= FEWEST


def linear(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``[count, rows, in] @ [count, in, out]``, plus ``bias``, ``[count, 1, out]``, where :func:`serves`."""
    out: Tensor = _Linear.apply(h, weight, bias)  # type: ignore[no-untyped-call]
    return out


@cache
def choose_library() -> str:
    """The library that multiplies: ``GNAS_PRODUCTS`` if it is set, else by the processor."""
    forced = os.environ.get("GNAS_PRODUCTS")
    if forced:
        return choose(forced, LIBRARIES, "GNAS_PRODUCTS")
    usable = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return "onednn" if usable and "AMD" in _processor() else "mkl"


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    return about.read_text(errors="replace")[:4096] if about.is_file() else platform.processor()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(h, weight)
        ctx.bias = bias is not None
        return _products(h, weight.transpose(1, 2), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        (h, weight), grad = ctx.saved_tensors, grad.contiguous()
        grad_h = _products(grad, weight, None) if ctx.needs_input_grad[0] else None
        grad_weight = torch.stack([_transposed_product(*pair) for pair in zip(h, grad, strict=True)])
        return grad_h, grad_weight, grad.sum(1, keepdim=True) if ctx.bias else None


def _products(h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``h @ weight.mT + bias`` of stacks."""
    count, rows, _ = h.shape
    parts = [part for k in range(count) for part in _parts(h[k], weight[k], None if bias is None else bias[k, 0])]
    return parts[0][None] if len(parts) == 1 else torch.cat(parts).view(count, rows, -1)


def _parts(x: Tensor, weight: Tensor, bias: Tensor | None) -> Iterator[Tensor]:
    rows = x.size(0)
    whole = rows if rows > MANY else _rounded(rows)
    yield _multiply(x[:whole], weight, bias)
    if whole < rows:
        rest = x[whole:]
        yield rest @ weight.t() if bias is None else torch.addmm(bias, rest, weight.t())


def _transposed_product(x: Tensor, grad: Tensor) -> Tensor:
    """``x.t() @ grad``."""
    whole = _rounded(x.size(0))
    return _multiply(x[:whole].t(), grad[:whole].t(), None).addmm_(x[whole:].t(), grad[whole:])


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x @ weight.t() + bias`` by oneDNN."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out


def _rounded(rows: int) -> int:
    """``rows`` rounded down to a multiple of 1/32 to 1/16 of them: batches have few different numbers."""
    return rows - rows % (1 << max(rows.bit_length() - 5, 5))
