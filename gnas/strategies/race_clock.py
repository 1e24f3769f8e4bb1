"""How long an epoch of a candidate takes, and how many epochs it gets when the time of a whole training is limited."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Mapping, Sequence

import torch

from gnas.run.protocol import GROWTH, TrainConfig
from gnas.training.loop import steps_per_epoch
from gnas.training.store import Store
from gnas.training.train import Trainer

MOST_OF_ROUND = 8  # trainings of a round for each worker, at most
FORWARD = 0.35  # time of a batch in evaluation, in training steps
SLOW_STEPS, LAST_STEPS = 6, 15  # first steps of a training on a GPU, and those that count


def measure_epoch(trainer: Trainer, limit: float, most_steps: int = 10**9) -> float:
    """Seconds of an epoch with its evaluation, from the first steps of ``trainer``: for ``limit`` seconds, at least one.

    The median of the steps counts: on a GPU the first steps of every batch shape are slow, until they are recorded.
    """
    steps, device, times = trainer.steps(), trainer.engine.device, list[float]()
    next(steps, None)  # the first one is slower
    begin = time.perf_counter()
    while len(times) < most_steps and next(steps, steps) is None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin - sum(times))
        if time.perf_counter() - begin >= limit:
            break
    each = statistics.median(times) if times else time.perf_counter() - begin
    return each * (trainer.meter.losses.numel() + _count_evaluation(trainer))


def _count_evaluation(trainer: Trainer) -> float:
    """The work after the steps of an epoch in training steps: validation and the measuring of norms, by their batches."""
    config = trainer.config
    val = steps_per_epoch(trainer.stores["val"], config.batch_size)
    return FORWARD * (val + min(config.precise_norms, trainer.meter.losses.numel()))


def count_results(stores: Mapping[str, Store], config: TrainConfig, ensemble: int) -> float:
    """The work after a race in epochs of training: what is evaluated of two networks and of an ensemble.

    The test split, which a race does not see, is taken to be as large as the validation split.
    """
    steps = steps_per_epoch(stores["train"], config.batch_size, config.epoch_steps)
    train, val = (steps_per_epoch(stores[name], config.batch_size) for name in ("train", "val"))
    batches = 2 * (train + 4 * val) + 7 * ensemble * val  # predictions are written, too; an ensemble chooses among many
    return FORWARD * batches / (steps + FORWARD * (val + min(config.precise_norms, steps)))


class EndInTime:
    """Whether a training must end after this step: evaluated now, it is done at the deadline.

    The median of its last steps tells how long the evaluation will take. The first ones are left out: on a GPU they are recorded,
    which takes as long as hundreds of others.

    Args:
        trainer: The training.
        deadline: The time (``time.perf_counter``) by which it should have ended.
    """

    def __init__(self, trainer: Trainer, deadline: float) -> None:
        self.trainer, self.deadline = trainer, deadline
        self.slow = SLOW_STEPS if trainer.engine.device.type == "cuda" else 1
        self.last, self.times = 0.0, deque[float](maxlen=LAST_STEPS)

    def __call__(self) -> bool:
        now, before = time.perf_counter(), self.last
        self.last, self.slow = now, self.slow - 1
        if self.slow < 0:
            self.times.append(now - before)
        step = statistics.median(self.times) if self.times else 0.0
        return now + _count_evaluation(self.trainer) * step >= self.deadline


def fills_workers(seconds: Sequence[float], workers: int) -> bool:
    """Whether trainings of these lengths keep all workers busy until the longest of them ends.

    >>> fills_workers([9, 1, 1], 2), fills_workers([9, 5, 4], 2)
    (False, True)
    """
    busy = sum(seconds) >= workers * max(seconds, default=0.0)
    return len(seconds) >= workers and (busy or len(seconds) >= MOST_OF_ROUND * workers)


def rung_ends(epochs: int, rungs: int) -> tuple[int, ...]:
    """The epochs after which the rungs end, one for each rung: a short training passes several of them at once.

    >>> rung_ends(60, 3), rung_ends(2, 3)
    ((7, 20, 60), (1, 1, 2))
    """
    return tuple(max(round(epochs / GROWTH**number), 1) for number in reversed(range(rungs)))
