"""One part of a job while it goes on: how many epochs are done, how many there will be, how long they will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gnas.run.words import count, duration, format_metric

Record = dict[str, Any]
SOON = 2.0  # seconds before which steps say little of the time left


@dataclass
class Stage:
    """One part of a job: a search, or the trainings of one network from several seeds."""

    key: str
    label: str
    each: int  # epochs of one seed
    seeds: int = 1
    unit: str = "epoch"
    started: float | None = None
    told: float = 0.0  # when the last record came
    ended: float | None = None
    note: str = ""
    where: str = ""  # within an epoch that takes long
    epochs: dict[Any, int] = field(default_factory=dict)
    within: dict[Any, float] = field(default_factory=dict)  # the share done of each seed's epoch under way
    skipped: float = 0  # epochs done before this process began
    _records: int = 0
    _last: dict[Any, int] = field(default_factory=dict)

    def take(self, record: Record, metric: str, now: float) -> None:
        """Count one record."""
        seed, epoch = record.get("seed"), int(record["epoch"])
        if seed not in self.epochs:
            self.skipped += epoch - 1
        self.epochs[seed], self.told, self.where = epoch, now, ""
        self.within.pop(seed, None)
        self._records += 1
        self._last[seed] = self._records
        self.note = describe(record, metric)

    def go_on(self, seed: Any, before: int, share: float, now: float) -> None:
        """The epoch after ``before`` epochs is done by this share."""
        if seed not in self.epochs:
            self.epochs[seed] = before
            self.skipped += before
        self.within[seed], self.told = share, now

    @property
    def done(self) -> int:
        return sum(self.epochs.values())

    @property
    def reached(self) -> float:
        """Epochs done, those under way counted by their share."""
        return self.done + sum(self.within.values())

    @property
    def total(self) -> int:
        """Epochs in all; a seed that has fallen silent while others went on has stopped early."""
        patience = 2 * max(len(self.epochs), 1)
        over = [seed for seed, last in self._last.items() if self._records - last >= patience]
        return sum(self.epochs[seed] for seed in over) + self.each * (self.seeds - len(over))

    def left(self, now: float) -> float | None:
        """Seconds left, if this is known."""
        here = self.reached - self.skipped
        if self.started is None or here <= 0 or (here < 1 and self.told - self.started < SOON):
            return None
        rest = (self.told - self.started) / here * max(self.total - self.reached, 0)
        return max(rest - (now - self.told), 0.0)


def describe(record: Record, metric: str) -> str:
    """What a record says, in a few words."""
    words = []
    value = record.get("best_val_metric", record.get("val_metric"))
    if value is not None:
        words.append(f"val {format_metric(metric, value)}")
    if "depth" in record:
        words.append(f"depth {record['depth']}")
    return ", ".join(words)


def summary(stage: Stage) -> str:
    """A finished stage in words."""
    took = duration((stage.ended or 0.0) - (stage.started or 0.0))
    before = f" ({stage.skipped:.0f} of them before)" if stage.skipped >= 1 else ""
    note = f"; {stage.note}" if stage.note else ""
    return f"{count(stage.done, stage.unit)}{before} in {took}{note}"


class View:
    """Where stages are shown; this one shows nothing."""

    def begin(self, plan: Sequence[Stage]) -> None:
        """Stages to come, known ones among them."""

    def show(self, stage: Stage) -> None:
        """A stage has moved on."""

    def step(self, stage: Stage) -> None:
        """A stage has moved on within an epoch; ``stage.where`` tells where, if the epoch takes long."""

    def end(self, stage: Stage) -> None:
        """A stage is over."""

    def close(self, failed: bool) -> None:
        """The job is over."""
