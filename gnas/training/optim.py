"""Optimisers whose learning rate can change without recording a step again, and numeric precision."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def _plain(kind: type[torch.optim.Optimizer]) -> Any:
    """One of PyTorch's optimisers without the decorators that import its compiler, a thousand modules, at the first step.

    The decorators serve compiled or differentiated steps. No step here is either.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(inspect.unwrap(kind.step))})


Adam, AdamW, SGD = (_plain(kind) for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD))


def adam(
    weights: Iterable[nn.Parameter],
    lr: float,
    weight_decay: float,
    device: torch.device,
    betas: tuple[float, float] = (0.9, 0.999),
    decoupled: bool = False,
) -> torch.optim.Optimizer:
    """Adam (``decoupled``: AdamW). On a GPU it is one fused kernel, and a recorded step reads the learning rate from a tensor."""
    kind = AdamW if decoupled else Adam
    if device.type == "cuda":
        rate = torch.tensor(lr, device=device)
        return kind(list(weights), lr=rate, weight_decay=weight_decay, betas=betas, fused=True, capturable=True)
    return kind(list(weights), lr=lr, weight_decay=weight_decay, betas=betas)


def sgd(
    weights: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float, device: torch.device
) -> torch.optim.Optimizer:
    """SGD with momentum. On a GPU it is one fused kernel, and a recorded step reads the learning rate from a tensor."""
    if device.type == "cuda":
        rate = torch.tensor(lr, device=device)
        return SGD(list(weights), lr=rate, momentum=momentum, weight_decay=weight_decay, fused=True)  # type: ignore[no-any-return]
    return SGD(list(weights), lr=lr, momentum=momentum, weight_decay=weight_decay)  # type: ignore[no-any-return]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def restore(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load a saved state. A learning rate that is a tensor is changed in place, because a recorded step reads it."""
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if isinstance(rate, Tensor):
            group["lr"] = rate.fill_(float(group["lr"]))
        else:
            group["lr"] = float(group["lr"])


def clear_state(optimizer: torch.optim.Optimizer) -> None:
    """Set momentum and counters to zero, in place: a recorded step uses these tensors."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


@torch.no_grad()
def exponential_average(average: nn.Module, model: nn.Module, decay: float, steps: Tensor) -> None:
    """average = decay * average + (1 - decay) * model, for weights and running statistics; a few kernels for all of them.

    After t steps the decay is at most (1 + t) / (10 + t); otherwise a short training would end near its initial weights.
    ``steps`` is a tensor, which a recorded step reads.
    """
    pairs = zip(average.state_dict().values(), model.state_dict().values(), strict=True)
    mine, new = zip(*((one, other) for one, other in pairs if one.is_floating_point()), strict=True)
    moves = torch._foreach_sub(new, mine)
    torch._foreach_mul_(moves, torch.clamp(9 / (10 + steps), min=1 - decay))
    torch._foreach_add_(mine, moves)


def steps_taken(optimizer: torch.optim.Optimizer) -> Tensor:
    """Number of steps of Adam, by its own counter, which is on the device and in its saved state."""
    return next(iter(optimizer.state.values()))["step"]  # type: ignore[no-any-return]


def use_precision(precision: str) -> None:
    """``float32`` computes products exactly in float32; ``tf32`` and ``bf16`` use tensor cores."""
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """A context in which products run in bfloat16 if ``precision`` is ``bf16``."""
    if precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
