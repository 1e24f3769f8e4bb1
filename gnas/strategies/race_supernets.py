"""Supernets as a proposer of a race: several are trained briefly, and each derives several genotypes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.errors import Interrupted, OutOfMemory
from gnas.run.protocol import TrainConfig
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.single_level import SingleLevel, SingleLevelSearch
from gnas.training.engine import take_turns
from gnas.training.loop import Record
from gnas.training.meter import NotFinite

FEWEST_EPOCHS = 5
RATE, ALPHA_RATE = 0.01, 0.01


@dataclass(frozen=True)
class Derived:
    """The genotypes that supernets derived, and what they cost."""

    genotypes: tuple[Genotype, ...] = ()
    epochs: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the state of a race."""
        texts = [one.to_yaml() for one in self.genotypes]
        return {"genotypes": texts, "epochs": self.epochs, "seconds": self.seconds}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Derived:
        """The inverse of ``to_dict``."""
        genotypes = tuple(Genotype.from_yaml(text) for text in values["genotypes"])
        return Derived(genotypes, int(values["epochs"]), float(values["seconds"]))


def train_supernets(
    problem: SearchProblem,
    context: SearchContext,
    config: TrainConfig,
    count: int,
    epochs: int,
    limit: float | None = None,
) -> Derived:
    """Train supernets from ``count`` consecutive seeds and derive genotypes.

    Args:
        problem: The data, the task and the space.
        context: The first seed, the device and the way to stop.
        config: The protocol, for the batches and the precision.
        count: The number of supernets.
        epochs: Epochs of each.
        limit: Seconds for all of them. A supernet that would take longer is left out; one that does is stopped.
    """
    started, trained, found = time.monotonic(), 0, list[Genotype]()
    for number in range(count):
        history = _train_one(problem, context, config, context.seed + number, epochs, limit, started)
        trained += len(history)
        found += derive_several(history)
    return Derived(tuple(dict.fromkeys(found)), trained, time.monotonic() - started)


def derive_several(history: Sequence[Record]) -> list[Genotype]:
    """The genotypes of the last epoch, of the one with the lowest validation loss, and of the middle one."""
    if not history:
        return []
    best = min(history, key=lambda record: record["val_loss"])
    chosen = (history[-1], best, history[len(history) // 2])
    return [Genotype.from_yaml(record["genotype"]) for record in chosen]


def _train_one(
    problem: SearchProblem,
    context: SearchContext,
    config: TrainConfig,
    seed: int,
    epochs: int,
    limit: float | None,
    started: float,
) -> list[Record]:
    """The history of a supernet whose cells are all the same: they can be repeated to any depth."""

    def is_late() -> bool:
        return limit is not None and time.monotonic() - started > limit

    def should_stop() -> bool:
        return is_late() or (context.should_stop is not None and context.should_stop())

    settings = SingleLevel(
        epochs=max(epochs, FEWEST_EPOCHS),
        batch_size=config.batch_size,
        epoch_steps=config.epoch_steps,
        lr=RATE,
        alpha_lr=ALPHA_RATE,
        share_alphas=True,
        train_share=1.0,
        precision=config.precision,
        precise_norms=config.precise_norms,
    )
    inside = SearchContext(seed, context.device, context.engine, should_stop=should_stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a supernet that collapses is one proposer of several
        search = SingleLevelSearch(settings, problem, inside)
        try:
            steps = search.steps()
            next(steps, None)
            begin = time.monotonic()
            next(steps, None)
            whole = (time.monotonic() - begin) * search.meter.losses.numel() * search.epochs
            if limit is not None and time.monotonic() - started + whole > limit:
                return []  # the first step tells that it would not end in time
            take_turns([steps])
        except (NotFinite, OutOfMemory):  # a supernet takes several times the memory of a network
            return []
        except Interrupted:
            if not is_late():
                raise
    return search.history
