"""A loop over epochs that can stop after any step and resume later, bit for bit."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from gnas import distributed
from gnas.errors import Interrupted, explain_memory
from gnas.run.checkpoint import explain_state
from gnas.run.folder import Run
from gnas.training.engine import Engine
from gnas.training.store import Planned, Store

Record = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """The progress of a loop within an epoch. These are counts of the host alone: to report them makes no GPU wait.

    ``labels`` are those of the loop's records, such as its stage, model and seed. None: the evaluation of a whole split.
    """

    labels: Mapping[str, Any] | None
    epoch: int  # finished epochs, of
    epochs: int
    step: int  # finished steps of the current epoch, of
    steps: int


_WATCHER: ContextVar[Callable[[Step], None] | None] = ContextVar("_WATCHER", default=None)
_STEP_LABELS: ContextVar[Mapping[str, Any]] = ContextVar("_STEP_LABELS", default=MappingProxyType({}))


@contextlib.contextmanager
def watch_steps(on_step: Callable[[Step], None]) -> Iterator[None]:
    """Inside, ``on_step`` is called after every step of every loop, however deep inside a job it runs."""
    before = _WATCHER.set(on_step)
    try:
        yield
    finally:
        _WATCHER.reset(before)


@contextlib.contextmanager
def step_labels(labels: Mapping[str, Any]) -> Iterator[None]:
    """Inside, the steps of every loop have these labels too."""
    before = _STEP_LABELS.set({**_STEP_LABELS.get(), **labels})
    try:
        yield
    finally:
        _STEP_LABELS.reset(before)


def report_step(labels: Mapping[str, Any] | None, epoch: int, epochs: int, step: int, steps: int) -> None:
    """Call the ``on_step`` of :func:`watch_steps`, if there is one."""
    watcher = _WATCHER.get()
    if watcher is not None:
        known = None if labels is None else {**_STEP_LABELS.get(), **labels}
        watcher(Step(known, epoch, epochs, step, steps))


class EpochLoop:
    """The loop that searches and trainings share; subclasses say what a step and the end of an epoch do.

    ``run`` may be a run folder: then every epoch ends with a checkpoint, and a stop within an epoch saves the position.
    """

    name = "checkpoint"
    engine: Engine

    def __init__(
        self,
        epochs: int,
        generator: torch.Generator,
        run: Run | None = None,
        on_epoch: Callable[[Record], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        checkpoint_every: int = 1,
    ) -> None:
        self.epochs, self.generator, self.folder = epochs, generator, run
        self.on_epoch, self.should_stop = on_epoch, should_stop
        self.labels = labels_of(on_epoch)
        self.checkpoint_every = checkpoint_every
        self.epoch = self.step_number = 0
        self.done = False
        # Called after every step. If it returns True, the epoch ends there, and with it the loop.
        self.is_late: Callable[[], bool] | None = None
        self.seconds = 0.0
        self.history: list[Record] = []
        self._epoch_seed = generator.get_state()

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def plan(self) -> list[tuple[Planned, ...]]:
        """The epoch's batches, shuffled by ``self.generator``."""
        raise TypeError("a loop defines plan()")

    def finish_epoch(self) -> Record:
        """Read the meter, evaluate, adapt the learning rate; returns the history record. May set ``self.done``."""
        raise TypeError("a loop defines finish_epoch()")

    def what_to_lower(self) -> str:
        """What to lower if the memory does not suffice."""
        raise TypeError("a loop defines what_to_lower()")

    def state(self) -> dict[str, Any]:
        """Everything that the remaining steps depend on."""
        raise TypeError("a loop defines state()")

    def load_state(self, state: dict[str, Any]) -> None:
        raise TypeError("a loop defines load_state()")

    # -- the loop ------------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[None]:
        """Run to the end, yielding after each step so that several loops can take turns."""
        with explain_memory(self.engine.device, self.what_to_lower()):
            self._resume()
            while self.epoch < self.epochs and not self.done:
                yield from self._one_epoch()

    def _one_epoch(self) -> Iterator[None]:
        started = time.perf_counter()
        if self.step_number == 0:
            self._epoch_seed = self.generator.get_state()
        self.generator.set_state(self._epoch_seed)
        with self.engine.on_stream():  # wait for the copy of the plan to the device
            plan = self.plan()
        late = False
        while self.step_number < len(plan):
            self.engine(*plan[self.step_number])
            self.step_number += 1
            if self.folder is not None:
                report_step(self.labels, self.epoch, self.epochs, self.step_number, len(plan))
            if self.should_stop is not None and distributed.any_of(self.should_stop()):
                self.seconds += time.perf_counter() - started
                self._save()
                raise Interrupted(f"stopped at epoch {self.epoch + 1}, step {self.step_number}")
            late = self.is_late is not None and self.is_late()
            if late:
                break
            yield
        with self.engine.on_stream():
            record = {"epoch": self.epoch + 1, **self.finish_epoch()}
        self.done |= late
        if self.step_number < len(plan):
            record["part"] = round(self.step_number / len(plan), 3)  # of the epoch: the time was over
        self.epoch, self.step_number = self.epoch + 1, 0
        self.seconds += time.perf_counter() - started
        record["seconds"] = round(self.seconds, 3)
        self._keep(record)

    def _keep(self, record: Record) -> None:
        self.history.append(record)
        if self.folder is not None:
            self.folder.append(record)
            last = self.done or self.epoch == self.epochs
            if last or self.epoch % self.checkpoint_every == 0:
                self._save()
        if self.on_epoch is not None:
            self.on_epoch(record)

    def _save(self) -> None:
        if self.folder is None:
            return
        with self.engine.on_stream():
            own = self.state()
            random = {
                "torch": torch.get_rng_state(),
                "epoch": self._epoch_seed,
                "generator": self.generator.get_state(),
            }
            if self.engine.device.type == "cuda":
                random["cuda"] = torch.cuda.get_rng_state(self.engine.device)
            position = {"epoch": self.epoch, "step": self.step_number, "done": self.done, "seconds": self.seconds}
            self.folder.save_state({"position": position, "random": random, "own": own}, self.name)

    def _resume(self) -> None:
        saved = None if self.folder is None else self.folder.load_state(self.name)
        if self.folder is None or saved is None:
            if self.folder is not None:
                self.folder.truncate(0)
            return
        with explain_state(self.folder.path):
            self._restore(saved, self.folder)

    def _restore(self, saved: Mapping[str, Any], folder: Run) -> None:
        position, random = saved["position"], saved["random"]
        self.epoch, self.step_number = int(position["epoch"]), int(position["step"])
        self.done, self.seconds = position["done"], float(position["seconds"])
        folder.truncate(self.epoch)
        self.history = folder.history()
        with self.engine.on_stream():
            self.load_state(saved["own"])
        self._epoch_seed = random["epoch"]
        self.generator.set_state(random["generator"])
        torch.set_rng_state(random["torch"])
        if "cuda" in random and self.engine.device.type == "cuda":
            torch.cuda.set_rng_state(random["cuda"], self.engine.device)


@dataclass(frozen=True)
class LabelledCallback:
    """``on_epoch`` with labels that are added to every record; a record's own values win."""

    on_epoch: Callable[[Record], None]
    labels: Mapping[str, Any]

    def __call__(self, record: Record) -> None:
        self.on_epoch({**self.labels, **record})


def add_labels(on_epoch: Callable[[Record], None] | None, **labels: Any) -> Callable[[Record], None] | None:
    """Add labels, such as the stage or the seed, to the records that ``on_epoch`` gets."""
    if isinstance(on_epoch, LabelledCallback):
        return LabelledCallback(on_epoch.on_epoch, {**on_epoch.labels, **labels})
    return None if on_epoch is None else LabelledCallback(on_epoch, labels)


def labels_of(on_epoch: Callable[[Record], None] | None) -> Mapping[str, Any]:
    """The labels that ``on_epoch`` adds to records."""
    return on_epoch.labels if isinstance(on_epoch, LabelledCallback) else {}


def make_generator(seed: int) -> torch.Generator:
    """A generator for shuffling: on the host, so that every device sees the same order."""
    return torch.Generator().manual_seed(seed)


def steps_per_epoch(store: Store, batch_size: int, least: int = 1) -> int:
    """Steps of an epoch: as many passes over the graphs as make ``least`` steps."""
    steps = math.ceil(len(store) / min(batch_size, len(store)))
    return steps * math.ceil(least / steps)


def lower_batch(store: Store, name: str, batch_size: int) -> str:
    """The beginning of :meth:`EpochLoop.what_to_lower`: the setting ``name``, or of one whole graph how to sample it."""
    if len(store) > 1:
        return f"{name} (now {batch_size}), "
    return "data.sample_neighbors (such as 10,5), " if store.graphs.level == "node" else ""


def plan_epoch(store: Store, batch_size: int, least: int, generator: torch.Generator) -> list[Planned]:
    """The batches of an epoch of at least ``least`` steps: every pass is shuffled again."""
    plan = store.plan(batch_size, generator, share=distributed.batch_share())
    while len(plan) < least:
        plan += store.plan(batch_size, generator, share=distributed.batch_share())
    return plan
