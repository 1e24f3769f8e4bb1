"""Partial results added up in a fixed order: a general reduction takes three times as long on so few columns."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _sum(parts, out, count, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = column < width
    base = parts + group.to(tl.int64) * count * width
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        at = row[:, None].to(tl.int64) * width + column[None, :]
        total += tl.load(base + at, mask=(row < count)[:, None] & wide[None, :], other=0.0).to(tl.float32)
    tl.store(out + group.to(tl.int64) * width + column, tl.sum(total, 0), mask=wide)


def sum_parts(parts: Tensor) -> Tensor:
    """``parts.sum(1)`` of ``[groups, parts, width]``."""
    groups, count, width = parts.shape
    out = torch.empty(groups, width, dtype=parts.dtype, device=parts.device)
    block = 32 if count > 32 else 128  # few columns and many rows: more programs, each with fewer columns
    _sum[(triton.cdiv(width, block), groups)](parts, out, count, width, ROWS=min(32, 4096 // block), BLOCK=block)
    return out
