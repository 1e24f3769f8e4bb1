"""One trial: a network trained for a few epochs and judged by validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from gnas.errors import InputError, choose
from gnas.model.network import GraphModule
from gnas.run.folder import Run
from gnas.run.protocol import PRECISIONS, TrainConfig
from gnas.strategies.base import SearchContext, check_types
from gnas.training.engine import take_turns
from gnas.training.loop import NotFinite, Record
from gnas.training.store import Store
from gnas.training.train import Trainer


@dataclass(frozen=True)
class TrialSettings:
    """The budget of a trial-based strategy and how a trial is trained.

    A search ends after ``trials`` trials of ``epochs`` epochs each, or earlier: no trial begins that would exceed
    ``max_epochs`` trained epochs in all, or once ``max_seconds`` have been spent.
    """

    trials: int = 20
    epochs: int = 10
    batch_size: int = 64
    lr: float = 1e-3
    max_epochs: int | None = None
    max_seconds: float | None = None
    precision: str = "tf32"
    precise_norms: int = 0  # as in training: batches the norms' statistics are taken over before an evaluation

    def __post_init__(self) -> None:
        check_types(self)
        choose(self.precision, PRECISIONS, "precision")
        for name in ("trials", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}; it must be at least 1")
        if self.precise_norms < 0:
            raise InputError(f"precise_norms is {self.precise_norms!r}; it must be at least 0")
        if self.lr <= 0:
            raise InputError(f"lr is {self.lr!r}; it must be above 0")
        if self.max_epochs is not None and self.max_epochs < self.epochs:
            raise InputError(f"max_epochs is {self.max_epochs}: not enough for one trial of {self.epochs} epochs")
        if self.max_seconds is not None and self.max_seconds <= 0:
            raise InputError(f"max_seconds is {self.max_seconds!r}; it must be above 0")


def train_briefly(
    model: GraphModule,
    settings: TrialSettings,
    context: SearchContext,
    stores: Mapping[str, Store],
    seed: int,
    folder: Run | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> Record:
    """Train on ``stores["train"]`` and give the figures of the best epoch on ``stores["val"]``; there is no test split.

    With a ``folder`` a trial that was stopped goes on from there.
    """
    config = TrainConfig(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        lr=settings.lr,
        precision=settings.precision,
        precise_norms=settings.precise_norms,
        engine=context.engine,
        checkpoint_every=max(1, settings.epochs // 4),
    )
    trainer = Trainer(model, config, seed, context.device, dict(stores), folder, on_epoch, context.should_stop)
    torch.manual_seed(seed)
    take_turns([trainer.steps()])
    best = trainer.history[trainer.best_epoch - 1]
    return {
        **{name: best[name] for name in ("train_loss", "train_metric", "val_loss")},
        "val_metric": trainer.best_val,
        "best_epoch": trainer.best_epoch,
        "epochs": trainer.epoch,
        "seconds": trainer.seconds,
    }


def judge(
    model: GraphModule,
    settings: TrialSettings,
    context: SearchContext,
    stores: Mapping[str, Store],
    seed: int,
    folder: Run | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> Record:
    """The outcome of a trial; one that failed has no metric, and is charged in full."""
    started = time.perf_counter()
    weights = {"num_weights": model.num_weights()}
    try:
        return {**weights, **train_briefly(model, settings, context, stores, seed, folder, on_epoch)}
    except (NotFinite, torch.OutOfMemoryError) as error:
        reason, seconds = str(error).splitlines()[0], time.perf_counter() - started
        return {**weights, "val_metric": None, "failed": reason, "epochs": settings.epochs, "seconds": seconds}
