"""One part of a job while it goes on: how many epochs are done, how many there will be, how long they will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gnas.report.words import count, duration, figure

Record = dict[str, Any]


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
    epochs: dict[Any, int] = field(default_factory=dict)
    skipped: int = 0  # epochs done before this process began
    _records: int = 0
    _last: dict[Any, int] = field(default_factory=dict)

    def take(self, record: Record, metric: str, now: float) -> None:
        """Count one record."""
        seed, epoch = record.get("seed"), int(record["epoch"])
        if seed not in self.epochs:
            self.skipped += epoch - 1
        self.epochs[seed], self.told = epoch, now
        self._records += 1
        self._last[seed] = self._records
        self.note = describe(record, metric)

    @property
    def done(self) -> int:
        return sum(self.epochs.values())

    @property
    def total(self) -> int:
        """Epochs in all; a seed that has fallen silent while others went on has stopped early."""
        patience = 2 * max(len(self.epochs), 1)
        over = [seed for seed, last in self._last.items() if self._records - last >= patience]
        return sum(self.epochs[seed] for seed in over) + self.each * (self.seeds - len(over))

    def left(self, now: float) -> float | None:
        """Seconds left, if this is known."""
        here = self.done - self.skipped
        if self.started is None or here < 1:
            return None
        rest = (self.told - self.started) / here * max(self.total - self.done, 0)
        return max(rest - (now - self.told), 0.0)


def describe(record: Record, metric: str) -> str:
    """What a record says, in a few words."""
    words = []
    value = record.get("best_val_metric", record.get("val_metric"))
    if value is not None:
        words.append(f"val {figure(metric, value)}")
    if "depth" in record:
        words.append(f"depth {record['depth']}")
    return ", ".join(words)


def summary(stage: Stage) -> str:
    """A finished stage in words."""
    took = duration((stage.ended or 0.0) - (stage.started or 0.0))
    before = f" ({stage.skipped} of them before)" if stage.skipped else ""
    note = f"; {stage.note}" if stage.note else ""
    return f"{count(stage.done, stage.unit)}{before} in {took}{note}"


class View:
    """Where stages are shown; this one shows nothing."""

    def begin(self, plan: Sequence[Stage]) -> None:
        """Stages to come, known ones among them."""

    def show(self, stage: Stage) -> None:
        """A stage has moved on."""

    def end(self, stage: Stage) -> None:
        """A stage is over."""

    def close(self, failed: bool) -> None:
        """The job is over."""
