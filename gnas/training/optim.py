"""Optimisers whose learning rate can change without recording a step again, and numeric precision."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from gnas.kernels.choice import choose_implementation


def _plain(kind: type[torch.optim.Optimizer]) -> Any:
    """One of PyTorch's optimisers without the decorators that import its compiler, a thousand modules, at the first step.

    The decorators serve compiled or differentiated steps. No step here is either.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(inspect.unwrap(kind.step))})


class JointAdam(_plain(torch.optim.Optimizer)):  # type: ignore[misc]
    """Adam of all weights as two kernels. PyTorch's takes a dozen for the weights of a network, and one more dozen to clip.

    The moments of all weights are one tensor each; the state of a weight has views of them.
    """

    def __init__(
        self,
        weights: Sequence[nn.Parameter],
        rate: Tensor,
        weight_decay: float,
        betas: tuple[float, float],
        decoupled: bool,
        eps: float = 1e-8,
    ) -> None:
        options = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "decoupled_weight_decay": decoupled}
        # The last two say in a saved state where the counts of steps belong: on the device.
        super().__init__(weights, {"lr": rate, **options, "fused": True, "capturable": True})
        self.joined: list[nn.Parameter] = []

    @torch.no_grad()
    def step(self, clip: float = 0.0) -> None:
        """One step; ``clip``: the largest norm of the gradient, 0: no limit."""
        from gnas.kernels import triton_adam

        (group,) = self.param_groups
        weights = [w for w in group["params"] if w.grad is not None]
        if not weights:
            return
        if [id(w) for w in weights] != [id(w) for w in self.joined] or self.has_moved():
            self.join(weights)
        grads = torch.cat([cast(Tensor, w.grad).reshape(-1) for w in weights])
        options = (group["lr"], group["betas"], group["weight_decay"], group["decoupled_weight_decay"], group["eps"])
        triton_adam.step(self.blocks, grads, self.mean, self.square, self.count, *options, clip)

    def state_dict(self) -> dict[str, Any]:
        """That of PyTorch's, in which each weight counts its own steps."""
        found = super().state_dict()
        return {**found, "state": {k: {**one, "step": one["step"].clone()} for k, one in found["state"].items()}}

    def has_moved(self) -> bool:
        """Whether a weight or its state is no longer where it was."""
        state = self.state[self.joined[0]] if self.joined else {}
        here = [w.data_ptr() for w in self.joined] == self.blocks.addresses
        return not here or state.get("step") is not self.count

    def join(self, weights: list[nn.Parameter]) -> None:
        """Make the flat tensors, from the present state of the weights."""
        from gnas.kernels import triton_adam

        known = [self.state.get(w, {}) for w in weights]
        device, sizes = weights[0].device, [w.numel() for w in weights]
        self.mean, self.square = torch.zeros(2, sum(sizes), device=device).unbind()
        self.count = torch.zeros((), device=device)
        self.blocks, self.joined = triton_adam.Blocks(weights), weights
        views = zip(weights, self.mean.split(sizes), self.square.split(sizes), known, strict=True)
        for weight, mean, square, old in views:
            own = {"step": self.count, "exp_avg": mean.view_as(weight), "exp_avg_sq": square.view_as(weight)}
            for name, value in old.items():
                own[name].copy_(value)
            self.state[weight] = own


Adam, AdamW, SGD = (_plain(kind) for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD))


def make_adam(
    weights: Iterable[nn.Parameter],
    lr: float,
    weight_decay: float,
    device: torch.device,
    betas: tuple[float, float] = (0.9, 0.999),
    decoupled: bool = False,
) -> torch.optim.Optimizer:
    """Adam (``decoupled``: AdamW), fused. On a GPU a recorded step reads the learning rate from a tensor."""
    kind, weights = AdamW if decoupled else Adam, list(weights)
    if choose_implementation("GNAS_FUSED", device) == "triton" and all(w.dtype == torch.float32 for w in weights):
        return JointAdam(weights, torch.tensor(lr, device=device), weight_decay, betas, decoupled)
    if device.type == "cuda":
        rate = torch.tensor(lr, device=device)
        return kind(weights, lr=rate, weight_decay=weight_decay, betas=betas, fused=True, capturable=True)
    return kind(weights, lr=lr, weight_decay=weight_decay, betas=betas, fused=device.type == "cpu")


def make_sgd(
    weights: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float, device: torch.device
) -> torch.optim.Optimizer:
    """SGD with momentum, fused. On a GPU a recorded step reads the learning rate from a tensor."""
    if device.type == "cuda":
        rate = torch.tensor(lr, device=device)
        return SGD(list(weights), lr=rate, momentum=momentum, weight_decay=weight_decay, fused=True)  # type: ignore[no-any-return]
    fused = device.type == "cpu"
    return SGD(list(weights), lr=lr, momentum=momentum, weight_decay=weight_decay, fused=fused)  # type: ignore[no-any-return]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def restore(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load a saved state. A learning rate that is a tensor is changed in place, because a recorded step reads it.

    The other options stay: an optimiser of another device may have saved the state.
    """
    options = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, own in zip(optimizer.param_groups, options, strict=True):
        rate, saved = own.pop("lr"), float(group["lr"])
        group.update(own, lr=rate.fill_(saved) if isinstance(rate, Tensor) else saved)


def clear_state(optimizer: torch.optim.Optimizer) -> None:
    """Set momentum and counters to zero, in place: a recorded step uses these tensors."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


def clip_and_step(optimizer: torch.optim.Optimizer, weights: Sequence[nn.Parameter], clip: float) -> None:
    """A step with the norm of the gradient limited to ``clip``; 0: no limit."""
    if isinstance(optimizer, JointAdam):
        optimizer.step(clip)
        return
    if clip:
        torch.nn.utils.clip_grad_norm_(weights, clip)
    optimizer.step()


class WeightAverage:
    """The exponential average of a network's weights and running statistics.

    After t steps the decay is at most (1 + t) / (10 + t); otherwise a short training would end near its initial weights.

    Args:
        average: A copy of the network, which is changed in place.
        model: The network.
        decay: The share of the average that a step keeps.
    """

    def __init__(self, average: nn.Module, model: nn.Module, decay: float) -> None:
        pairs = zip(average.state_dict().values(), model.state_dict().values(), strict=True)
        self.mine, self.new = zip(*((one, other) for one, other in pairs if one.is_floating_point()), strict=True)
        self.decay = decay

    @torch.no_grad()
    def step(self, steps: Tensor) -> None:
        """average = decay * average + (1 - decay) * model. ``steps`` is a tensor, which a recorded step reads."""
        moves = torch._foreach_sub(self.new, self.mine)
        torch._foreach_mul_(moves, torch.clamp(9 / (10 + steps), min=1 - self.decay))
        torch._foreach_add_(self.mine, moves)


def read_steps(optimizer: torch.optim.Optimizer) -> Tensor:
    """Number of steps of Adam, by its own counter, which is on the device and in its saved state."""
    return next(iter(optimizer.state.values()))["step"]  # type: ignore[no-any-return]


def use_precision(precision: str) -> None:
    """``float32`` computes products exactly in float32; ``tf32`` and ``bf16`` use the tensor cores of a GPU.

    A CPU always computes them exactly: PyTorch's own way to allow TF32, ``set_float32_matmul_precision``, sends its products
    through a path for large matrices, on which a step of a small network took twice as long on a CPU with AMX.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """A context in which products run in bfloat16 if ``precision`` is ``bf16``."""
    if precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
