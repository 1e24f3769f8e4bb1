"""A step of Adam for all weights of a model, with the limit of the gradient's norm, as two Triton kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnas.kernels.fused.triton_norm import _last_of

BLOCK = 1024


@triton.jit
def _count_step(grads, parts, tickets, step, square_out, size, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    """The square of the gradient's norm, in a fixed order, and one step more."""
    program = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(4):
        at = (program * 4 + part) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(grads + at, mask=at < size, other=0.0)
        total += value * value
    tl.store(parts + program, tl.sum(total, 0))
    if _last_of(tickets, 0, tl.num_programs(0)):
        added = tl.zeros((PARTS,), tl.float32)
        for start in range(0, tl.num_programs(0), PARTS):
            which = start + tl.arange(0, PARTS)
            # Past the first-level cache: others wrote these.
            added += tl.load(parts + which, mask=which < tl.num_programs(0), other=0.0, cache_modifier=".cg")
        tl.store(square_out, tl.sum(added, 0))
        tl.store(step, tl.load(step) + 1.0)


@triton.jit
def _adam(
    address, start, length, grads, mean, square, step, norm, rate, clip, decay, eps,
    BETA: tl.constexpr, SQUARE_BETA: tl.constexpr, LOG_BETA: tl.constexpr, LOG_SQUARE_BETA: tl.constexpr,
    CLIP: tl.constexpr, DECOUPLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of one weight: its moments, then the weight itself."""
    program = tl.program_id(0)
    weights = tl.load(address + program).to(tl.pointer_type(tl.float32))
    here = tl.arange(0, BLOCK)
    inside = here < tl.load(length + program)
    at = tl.load(start + program) + here
    weight = tl.load(weights + here, mask=inside, other=0.0)
    grad = tl.load(grads + at, mask=inside, other=0.0)
    if CLIP:
        grad = grad * tl.minimum(clip / (tl.sqrt(tl.load(norm)) + 1e-6), 1.0)
    lr = tl.load(rate)
    if DECOUPLED:
        weight = weight * (1.0 - lr * decay)
    else:
        grad += weight * decay
    first = tl.load(mean + at, mask=inside, other=0.0)
    first += (grad - first) * (1.0 - BETA)
    second = tl.load(square + at, mask=inside, other=0.0)
    second = second * SQUARE_BETA + grad * grad * (1.0 - SQUARE_BETA)
    count = tl.load(step).to(tl.float64)
    missing = (1.0 - tl.exp(count * LOG_BETA)).to(tl.float32)
    missing_square = (1.0 - tl.exp(count * LOG_SQUARE_BETA)).to(tl.float32)
    weight -= lr / missing * first / (tl.sqrt(second) / tl.sqrt(missing_square) + eps)
    tl.store(mean + at, first, mask=inside)
    tl.store(square + at, second, mask=inside)
    tl.store(weights + here, weight, mask=inside)


class Blocks:
    """The blocks of many weights: where each begins in memory and in the flat tensors of gradients and moments."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        device, self.addresses = weights[0].device, [w.data_ptr() for w in weights]
        self.size = sum(w.numel() for w in weights)
        rows, first = [], 0
        for weight, address in zip(weights, self.addresses, strict=True):
            for offset in range(0, weight.numel(), BLOCK):
                rows.append((address + 4 * offset, first + offset, min(BLOCK, weight.numel() - offset)))
            first += weight.numel()
        self.address, self.start, self.length = (
            torch.tensor(column, dtype=torch.int64, device=device) for column in zip(*rows, strict=True)
        )
        self.partial = torch.empty(triton.cdiv(self.size, 4 * BLOCK), device=device)
        self.tickets = torch.zeros(1, dtype=torch.int32, device=device)
        self.norm = torch.zeros(1, device=device)


def step(
    blocks: Blocks,
    grads: Tensor,
    mean: Tensor,
    square: Tensor,
    count: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    decay: float,
    decoupled: bool,
    eps: float,
    clip: float,
) -> None:
    """One step, in place; ``grads``, ``mean`` and ``square`` are flat. ``clip``: the largest norm of ``grads``, 0: none."""
    _count_step[(blocks.partial.numel(),)](
        grads, blocks.partial, blocks.tickets, count, blocks.norm, blocks.size, BLOCK=BLOCK, PARTS=128
    )
    logs = torch.tensor(betas, dtype=torch.float64).log().tolist()
    _adam[(blocks.start.numel(),)](
        blocks.address, blocks.start, blocks.length, grads, mean, square, count, blocks.norm, rate, clip, decay, eps,
        BETA=betas[0], SQUARE_BETA=betas[1], LOG_BETA=logs[0], LOG_SQUARE_BETA=logs[1],
        CLIP=clip > 0, DECOUPLED=decoupled, BLOCK=BLOCK,
    )  # fmt: skip
