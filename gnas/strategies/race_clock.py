"""How long an epoch of a candidate takes, and how many epochs it gets when the time of a whole training is limited."""

from __future__ import annotations

import time

import torch

from gnas.run.protocol import GROWTH
from gnas.training.engine import WARMUP
from gnas.training.loop import steps_per_epoch
from gnas.training.train import Trainer

FORWARD = 0.35  # time of a batch in evaluation, in training steps


def measure_epoch(trainer: Trainer, limit: float, most_steps: int = 10**9) -> float:
    """Seconds of an epoch with its evaluation, from the first steps of ``trainer``: for ``limit`` seconds, at least one."""
    steps, done = trainer.steps(), 0
    device = trainer.engine.device
    for _ in range(2 * (WARMUP + 1) if trainer.engine.graphs else 1):  # the first ones are slower
        next(steps, None)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    while done < most_steps and next(steps, steps) is None:
        done += 1
        if time.perf_counter() - begin >= limit:
            break
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - begin) / max(done, 1) * _count_steps(trainer)


def _count_steps(trainer: Trainer) -> float:
    """The work of an epoch in training steps: validation and the measuring of norms count by their batches."""
    config, train = trainer.config, trainer.meter.losses.numel()
    val = steps_per_epoch(trainer.stores["val"], config.batch_size)
    return train + FORWARD * (val + min(config.precise_norms, train))


def rung_ends(epochs: int, rungs: int) -> tuple[int, ...]:
    """The epochs after which the rungs end, one for each rung: a short training passes several of them at once.

    >>> rung_ends(60, 3), rung_ends(2, 3)
    ((7, 20, 60), (1, 1, 2))
    """
    return tuple(max(round(epochs / GROWTH**number), 1) for number in reversed(range(rungs)))
