"""The progress of a job as stages, fed with the records of epochs and with steps, and who shows them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from gnas.model.task import higher_is_better
from gnas.printed import format_count
from gnas.run.words import duration, format_metric
from gnas.training.loop import Record, Step, watch_steps

Clock = Callable[[], float]
PAUSE = 2.0  # seconds without an epoch after which the place within the epoch is shown
SOON = 2.0  # seconds before which steps say little of the time left
BLINK = 0.2  # seconds between two looks at steps: there may be hundreds per second


@dataclass
class Stage:
    """One part of a job: a search, or the trainings of one network from several seeds."""

    key: str  # what :func:`stage_key` returns for its records
    label: str
    each: int  # epochs per seed
    seeds: int = 1
    unit: str = "epoch"
    is_training: bool = False
    cells: int | None = None  # of a round of a depth search, once known
    limit: float | None = None  # seconds that it may take; then the number of epochs is an estimate
    started: float | None = None
    updated: float = 0.0  # time of the last record
    ended: float | None = None
    note: str = ""
    where: str = ""  # the place within a long epoch
    epochs: dict[Any, int] = field(default_factory=dict)
    within: dict[Any, float] = field(default_factory=dict)  # the finished share of each seed's current epoch
    skipped: float = 0  # epochs that an earlier process finished
    _records: int = 0
    _last: dict[Any, int] = field(default_factory=dict)
    _best: dict[Any, float] = field(default_factory=dict)  # validation metric of each seed's training

    def add_record(self, record: Record, metric: str, now: float) -> None:
        """Count the record of an epoch."""
        seed, epoch = record.get("seed"), int(record["epoch"])
        if seed not in self.epochs:
            self.skipped += epoch - 1
        self.epochs[seed], self.updated, self.where = epoch, now, ""
        self.within.pop(seed, None)
        self._records += 1
        self._last[seed] = self._records
        if "model" in record and record.get("val_metric") is not None:  # a training hands back its best epoch
            better = max if higher_is_better(metric) else min
            self._best[seed] = better(self._best.get(seed, record["val_metric"]), record["val_metric"])
            record = {**record, "best_val_metric": self._best[seed]}
        self.note = describe_record(record, metric)

    def add_share(self, seed: Any, before: int, share: float, now: float) -> None:
        """Count a share of the epoch that follows ``before`` epochs."""
        if seed not in self.epochs:
            self.epochs[seed] = before
            self.skipped += before
        self.within[seed], self.updated = share, now

    @property
    def done(self) -> int:
        return sum(self.epochs.values())

    @property
    def reached(self) -> float:
        """Finished epochs; a current epoch counts by its share."""
        return self.done + sum(self.within.values())

    @property
    def total(self) -> int:
        """All epochs; a seed without records while others had many has stopped early."""
        if self.limit is not None and self.started is not None:
            share = (self.updated - self.started) / self.limit
            return max(self.done, round(self.done / share) if share > 0 else 0, 1)
        patience = 2 * max(len(self.epochs), 1)
        over = [seed for seed, last in self._last.items() if self._records - last >= patience]
        return sum(self.epochs[seed] for seed in over) + self.each * (self.seeds - len(over))

    def seconds_left(self, now: float) -> float | None:
        """Seconds left; None if they cannot be known yet."""
        if self.limit is not None:
            return None if self.started is None else max(self.limit - (now - self.started), 0.0)
        here = self.reached - self.skipped
        if self.started is None or here <= 0 or (here < 1 and self.updated - self.started < SOON):
            return None
        rest = (self.updated - self.started) / here * max(self.total - self.reached, 0)
        return max(rest - (now - self.updated), 0.0)

    def summary(self) -> str:
        """A finished stage in words."""
        took = duration((self.ended or 0.0) - (self.started or 0.0))
        before = f" ({self.skipped:.0f} of them before)" if self.skipped >= 1 else ""
        note = f"; {self.note}" if self.note else ""
        return f"{format_count(self.done, self.unit)}{before} in {took}{note}"


def describe_record(record: Record, metric: str) -> str:
    """The best validation metric so far, or of a supernet that of the last epoch, and the depth of a record."""
    words = []
    value = record.get("best_val_metric", record.get("val_metric"))
    if value is not None:
        words.append(f"{'best val' if 'best_val_metric' in record else 'val'} {format_metric(metric, value)}")
    if record.get("leader"):
        words[-1:] = [f"{words[-1] if words else 'none'} by {record['leader']}"]
        words.append(f"{record['tried']} tried, {record['dropped']} dropped")
    elif "depth" in record:
        words.append(f"depth {record['depth']}")
    return ", ".join(words)


def stage_key(labels: Mapping[str, Any]) -> str:
    """The key of the stage that a record, or the labels of a step, belong to."""
    key = f"train {labels['model']}" if "model" in labels else str(labels.get("stage", "search"))
    return f"fold {labels['fold']}: {key}" if "fold" in labels else key


def repeat_for_folds(plan: Sequence[Stage], folds: int) -> list[Stage]:
    """The stages of a job once for each fold."""
    return [
        replace(
            stage,
            key=f"fold {fold}: {stage.key}",
            label=f"fold {fold}: {stage.label}",
            epochs={},
            within={},
            _last={},
            _best={},
        )
        for fold in range(1, folds + 1)
        for stage in plan
    ]


def train_stages(names: Sequence[str], epochs: int, seeds: int) -> list[Stage]:
    """A stage for each network to train."""
    return [Stage(f"train {name}", f"train {name}", epochs, seeds, is_training=True) for name in names]


class View:
    """The interface of what shows the stages of a job; this one shows nothing."""

    def begin(self, plan: Sequence[Stage]) -> None:
        """Show the stages of a job; some may be known already."""

    def show(self, stage: Stage) -> None:
        """Show a stage after an epoch."""

    def step(self, stage: Stage) -> None:
        """Show a stage within an epoch; ``stage.where`` is the place, if the epoch takes long."""

    def end(self, stage: Stage) -> None:
        """Show a finished stage."""

    def close(self, failed: bool) -> None:
        """End the view with the job."""


class Stages:
    """The stages of a job in order. A stage that an earlier process finished has no records and is skipped."""

    def __init__(
        self,
        view: View,
        plan: Sequence[Stage],
        metric: str,
        *,
        side_by_side: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self.side_by_side = side_by_side  # several stages run at once and end with the job
        self.plan, self.metric, self.clock = list(plan), metric, clock
        self.view = view
        self.current: Stage | None = None
        self.shown = clock()

    def __enter__(self) -> Stages:
        self.since = self.clock()
        self.view.begin(self.plan)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self.side_by_side:
            for stage in (one for one in self.plan if one.started is not None):
                self._end(stage)
        elif kind is None:
            self._end_current()
        self.view.close(failed=kind is not None)

    def on_epoch(self, record: Record) -> None:
        """Count the record of an epoch."""
        stage = self._stage(record)
        self._begin(stage)
        self.since = self.clock()
        stage.add_record(record, self.metric, self.since)
        self.view.show(stage)

    def on_step(self, step: Step) -> None:
        """Count a step; it is shown now and then."""
        if step.labels is None:
            if self.current is not None:
                self._show_step(self.current, f"evaluating, batch {step.step} of {step.steps}")
            return
        key = stage_key(step.labels)
        if not ("cells" in step.labels or any(stage.key == key for stage in self.plan)):
            return  # a job without stages of its own
        stage, now, share = self._stage(step.labels), self.clock(), step.step / step.steps
        self._begin(stage)
        before, words = step.epoch, [f"step {step.step} of {step.steps}"]
        if stage.unit != "epoch":  # a whole training counts as one
            before, share = stage.done, (step.epoch + share) / step.epochs
            words.insert(0, f"epoch {step.epoch + 1} of {step.epochs}")
        stage.add_share(step.labels.get("seed"), before, share, now)
        self._show_step(stage, ", ".join(words))

    def _show_step(self, stage: Stage, where: str) -> None:
        now = self.clock()
        if now - self.shown >= BLINK:
            self.shown = now
            stage.where = where if now - self.since >= PAUSE else ""
            self.view.step(stage)

    def _begin(self, stage: Stage) -> None:
        if self.side_by_side:
            stage.started = self.since if stage.started is None else stage.started
        elif stage is not self.current:
            self._end_current()
            self.current, stage.started = stage, self.since

    def _stage(self, labels: Mapping[str, Any]) -> Stage:
        """The stage that a record or a step belongs to. It is added if it was not planned."""
        key, training = stage_key(labels), "model" in labels
        stage = next((one for one in self.plan if one.key == key), None)
        if stage is None:  # a network that a race chose, or a further round of a depth search
            like = next((one for one in self.plan if one.is_training == training), self.plan[0])
            stage = Stage(key, key.replace("-", " "), like.each, like.seeds, like.unit, training)
            self.plan.append(stage)
            self.view.begin(self.plan)
        if stage.cells is None and "cells" in labels:
            stage.cells, stage.label = labels["cells"], f"{stage.label} ({labels['cells']} cells)"
        return stage

    def _end_current(self) -> None:
        if self.current is not None:
            self._end(self.current)

    def _end(self, stage: Stage) -> None:
        stage.ended = stage.updated
        self.view.end(stage)


_make_view: list[Callable[[], View]] = []  # at most one, which a notebook sets
_SHOWN: ContextVar[bool] = ContextVar("_SHOWN", default=False)


def show_jobs(make_view: Callable[[], View] | None) -> None:
    """From now on jobs that Python code starts show their progress in views of this kind; None: they do not."""
    _make_view[:] = [] if make_view is None else [make_view]


@contextlib.contextmanager
def show_progress(
    on_epoch: Callable[[Record], None] | None, plan: Callable[[], Sequence[Stage]], metric: str
) -> Iterator[Callable[[Record], None] | None]:
    """Inside, a job shows its progress, if :func:`show_jobs` says how, unless the caller has an ``on_epoch`` of its own.

    The value takes the place of ``on_epoch``. A job inside another one is part of its stages.
    """
    if on_epoch is not None or not _make_view or _SHOWN.get():
        yield on_epoch
        return
    token, stages = _SHOWN.set(True), Stages(_make_view[0](), plan(), metric)
    try:
        with stages, watch_steps(stages.on_step):
            yield stages.on_epoch
    finally:
        _SHOWN.reset(token)
