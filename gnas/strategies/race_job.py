"""A brief training of candidates of a race: it begins, or goes on from its checkpoint, and stops after some epochs.

The training is the beginning of a whole one: same seed, batches and schedule. The schedule ``restarts`` has a cosine for every
rung, so that each candidate is judged after its rate went down, and the next rung takes up the full rate again (Loshchilov and
Hutter, SGDR, ICLR 2017).
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnas.errors import OutOfMemory
from gnas.jobs import Work
from gnas.model.stage import OperationTypes
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.race_clock import EndInTime
from gnas.strategies.trial import TrialData
from gnas.training.engine import take_turns
from gnas.training.loop import Record
from gnas.training.meter import NotFinite
from gnas.training.optim import use_precision
from gnas.training.train import Trainer


def race_job(
    work: Work,
    *,
    candidates: Sequence[RaceCandidate],
    begins: Sequence[int],
    ends: Sequence[int],
    cosines: Sequence[tuple[int, ...]],
    data: TrialData,
    task: Task,
    config: TrainConfig,
    seed: int,
    operations: OperationTypes | None,
    left: tuple[float, float] | None = None,
) -> list[Record]:
    """Train each candidate from the epoch in ``begins`` to the one in ``ends``; returns an outcome for each.

    ``cosines`` are the epochs after which those of each candidate end; empty: those of the protocol. ``left`` are the seconds
    that are left, and the time (``time.time``) when that was so: a training that is late then ends within its epoch.

    Each candidate has a folder beside that of the job, with its id. On a GPU their steps take turns. The seconds of the outcomes
    are shares of the time by the clock: trainings that overlap do not count it twice.
    """
    assert work.folder is not None
    started = time.perf_counter()
    deadline = None if left is None else started + left[0] - (time.time() - left[1])
    use_precision(config.precision)
    with contextlib.ExitStack() as stack:
        trainings = []
        for candidate, end, own_ends in zip(candidates, ends, cosines, strict=True):
            run = stack.enter_context(open_training(work.folder.parent / candidate.id, candidate, config, seed))
            own = replace(config, lr=candidate.lr)
            own = replace(own, epochs=own_ends[-1], ends=own_ends) if own_ends else own
            torch.manual_seed(seed)
            model = candidate.build(task, operations)
            stores = data.open_stores(work.device)
            trainer = Trainer(model, own, seed, work.device, stores, run, should_stop=work.should_stop)
            trainer.epochs = end  # the schedule is that of a whole training
            trainer.is_late = None if deadline is None else EndInTime(trainer, deadline)
            trainings.append(_Training(trainer))
        if work.device.type == "cuda":
            take_turns([one.steps() for one in trainings])
        else:
            for one in trainings:
                torch.manual_seed(seed)
                take_turns([one.steps()])
        outcomes = [one.outcome(*span) for one, *span in zip(trainings, begins, ends, strict=True)]
    share = (time.perf_counter() - started) / max(sum(one["seconds"] for one in outcomes), 1e-9)
    outcomes = [{**one, "seconds": one["seconds"] * share} for one in outcomes]
    if work.device.type == "cuda":
        del trainings, trainer, model
        gc.collect()  # a trainer and its recorded steps refer to each other, and hold the memory of the device
    return outcomes


def open_training(folder: Path, candidate: RaceCandidate, config: TrainConfig, seed: int) -> Run:
    """The run folder of a candidate's training, new or resumed."""
    about: dict[str, Any] = {"candidate": candidate.id, "channels": candidate.channels, "seed": seed}
    return Run(folder, {**about, "epochs": config.epochs}, resume=True)


class _Training:
    """A trainer whose failure is an outcome, and ends no other training."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.failed = trainer, ""
        self.started = time.perf_counter()

    def steps(self) -> Iterator[None]:
        try:
            yield from self.trainer.steps()
        except (NotFinite, OutOfMemory) as error:
            self.failed = str(error).splitlines()[0]

    def outcome(self, begin: int, end: int) -> Record:
        """The figures of the best epoch up to ``end``; the cost is that of the epochs after ``begin``."""
        weights = {"num_weights": self.trainer.model.num_weights()}
        if self.failed:
            spent = time.perf_counter() - self.started
            return {**weights, "epochs": end - begin, "val_metric": None, "failed": self.failed, "seconds": spent}
        history = self.trainer.history[:end]
        stopped = len(history) < end or "part" in history[-1]
        pick = max if self.trainer.task.higher_is_better else min
        best = pick(history, key=lambda record: record["val_metric"])
        before = history[begin - 1]["seconds"] if begin else 0.0
        return {
            **weights,
            "epochs": len(history) - begin,
            **({"stopped": True} if stopped else {}),
            **{name: best[name] for name in ("train_loss", "train_metric", "val_loss", "val_metric")},
            "best_epoch": best["epoch"],
            "seconds": history[-1]["seconds"] - before,
        }
