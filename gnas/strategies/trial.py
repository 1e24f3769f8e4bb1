"""One trial: a network trained for a few epochs and judged by validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

import torch

from gnas.errors import InputError, OutOfMemory, explain_memory
from gnas.fields import check_fields, setting
from gnas.graph import GraphSet
from gnas.model.network import GraphModule
from gnas.run.folder import Run
from gnas.run.protocol import EPOCH_STEPS, PRECISE_NORMS, PRECISION, PRECISIONS, TrainConfig
from gnas.strategies.base import SearchContext
from gnas.training.engine import take_turns
from gnas.training.loop import Record
from gnas.training.meter import NotFinite
from gnas.training.sampling import open_store
from gnas.training.store import Store
from gnas.training.train import Trainer


@dataclass(frozen=True)
class TrialSettings:
    """The budget of a trial-based strategy, and how a trial is trained.

    A search ends after ``trials`` trials of ``epochs`` epochs each, or earlier: no trial starts that would exceed
    ``max_epochs`` trained epochs in total, or after ``max_seconds`` seconds.
    """

    trials: int = setting(20, "networks to try; 50 for evolution, 100 for GraphNAS", at_least=1)
    epochs: int = setting(10, "epochs of a trial", at_least=1)
    batch_size: int = setting(64, "graphs in a batch", at_least=1)
    lr: float = setting(1e-3, "learning rate of a trial's training", above=0)
    max_epochs: int | None = setting(None, "no trial starts that would exceed this number of trained epochs in total")
    max_seconds: float | None = setting(None, "no trial starts after this time", above=0)
    precision: str = setting("tf32", PRECISION, choices=PRECISIONS)
    precise_norms: int = setting(0, PRECISE_NORMS, at_least=0)
    epoch_steps: int = setting(1, EPOCH_STEPS, at_least=1)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.max_epochs is not None and self.max_epochs < self.epochs:
            raise InputError(f"max_epochs is {self.max_epochs}: not enough for one trial of {self.epochs} epochs")

    def of_one_trial(self) -> TrialSettings:
        """These settings without those of a strategy that extends them."""
        return TrialSettings(**{f.name: getattr(self, f.name) for f in fields(TrialSettings)})


@dataclass(frozen=True)
class TrialData:
    """The graphs of trials. All trials of a process share what is opened of them."""

    train: GraphSet
    val: GraphSet
    _stores: dict[torch.device, dict[str, Store]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def open_stores(self, device: torch.device) -> dict[str, Store]:
        """The splits by name, on ``device``."""
        if device not in self._stores:
            splits = {"train": self.train, "val": self.val}
            self._stores[device] = {name: open_store(split, device) for name, split in splits.items()}
        return self._stores[device]


def train_briefly(
    model: GraphModule,
    settings: TrialSettings,
    context: SearchContext,
    stores: Mapping[str, Store],
    seed: int,
    folder: Run | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> Record:
    """Train on ``stores["train"]`` and return the figures of the best epoch on ``stores["val"]``.

    Args:
        model: The network.
        settings: How it is trained.
        context: The device, the engine and when to stop.
        stores: The splits by name.
        seed: The seed of the batches.
        folder: A run folder, with which a stopped trial is resumed.
        on_epoch: Gets a record per epoch.
    """
    config = TrainConfig(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        epoch_steps=settings.epoch_steps,
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


def judge_network(
    model: GraphModule,
    settings: TrialSettings,
    context: SearchContext,
    stores: Mapping[str, Store],
    seed: int,
    folder: Run | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> Record:
    """The outcome of a trial: its metric, cost and number of weights. The arguments are those of :func:`train_briefly`.

    A failed trial has no metric, and its cost counts in full.
    """
    started = time.perf_counter()
    weights = {"num_weights": model.num_weights()}
    try:
        with explain_memory(context.device, f"search.batch_size (now {settings.batch_size})"):
            return {**weights, **train_briefly(model, settings, context, stores, seed, folder, on_epoch)}
    except (NotFinite, OutOfMemory) as error:
        reason, seconds = str(error).splitlines()[0], time.perf_counter() - started
        return {**weights, "val_metric": None, "failed": reason, "epochs": settings.epochs, "seconds": seconds}
