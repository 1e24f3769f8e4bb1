"""Who stands where in a race: the candidates with their results by rung, whom to promote, who is dropped."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gnas.run.protocol import GROWTH
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.proposers import Tried
from gnas.training.loop import Record

ENOUGH = 2 * GROWTH  # candidates of a rung before its lower half is dropped
RESERVE = 3  # trainings that are kept for each member of an ensemble


@dataclass
class Entry:
    """A candidate and what is known of it. ``values`` are its validation metrics after each rung, higher is better.

    ``ends`` are the epochs after which its rungs end. With a limit of time candidates have equal time, not equal epochs.
    """

    candidate: RaceCandidate
    ends: tuple[int, ...]
    epochs: int = 0
    values: list[float] = field(default_factory=list)
    loss: float = math.inf
    seconds: float = 0.0
    failed: bool = False
    dropped: bool = False
    stopped: bool = False  # within an epoch: the time was over
    best_epoch: int = 0

    @property
    def value(self) -> float:
        """The last one: a later rung is no worse, as the best epoch counts."""
        return self.values[-1] if self.values else -math.inf

    @property
    def seconds_per_epoch(self) -> float | None:
        return self.seconds / self.epochs if self.epochs else None


class Standing:
    """The entries of a race by id, in the order in which they began.

    Args:
        ends: The epochs after which the rungs end, for candidates whose records do not say otherwise.
        higher_is_better: The direction of the validation metric.
        kept: One in so many candidates is promoted to the next rung.
    """

    def __init__(self, ends: Sequence[int], higher_is_better: bool, kept: int = GROWTH) -> None:
        self.ends, self.sign, self.kept = tuple(ends), 1.0 if higher_is_better else -1.0, kept
        self.entries: dict[str, Entry] = {}
        self.seconds = 0.0  # of all trainings, as in the last record

    def add_record(self, record: Record) -> Entry:
        """Count the outcome of a brief training."""
        candidate = RaceCandidate.from_dict({**record["candidate"], "architecture": record["genotype"]})
        ends = tuple(record.get("ends", self.ends))
        entry = self.entries.setdefault(candidate.id, Entry(candidate, ends))
        entry.ends = ends  # the last one may be chosen anew for the training to the end
        entry.stopped = bool(record.get("stopped"))
        begin, entry.epochs = entry.epochs, int(record["reached"])
        entry.seconds += record.get("own_seconds", record["seconds"] - self.seconds)  # older races have only sums
        self.seconds = record["seconds"]
        if record["val_metric"] is None:
            entry.failed = True
            return entry
        value = self.sign * float(record["val_metric"])
        passed = sum(1 for end in entry.ends if begin < end <= entry.epochs)
        entry.values += [value] * passed  # a finalist may pass several rungs at once
        entry.loss = float(record.get("val_loss", math.inf))
        entry.best_epoch = int(record.get("best_epoch", 0))
        return entry

    def ranked(self, hand_made: bool | None = None) -> list[Entry]:
        """The candidates with a result, best first: all, the hand-made, or the found ones. The loss decides between equals."""
        known = [one for one in self.entries.values() if one.values and not one.failed]
        chosen = [one for one in known if hand_made is None or one.candidate.is_hand_made == hand_made]
        return sorted(chosen, key=_by_value)

    def finalists(self, count: int) -> list[Entry]:
        """The best ``count`` found candidates and the best hand-made one, best first."""
        chosen = [*self.ranked(False)[:count], *self.ranked(True)[:1]]
        return sorted(chosen, key=_by_value)

    def reserve(self, members: int) -> set[str]:
        """The ids of what an ensemble of so many members may choose from: the best that reached one of the last two rungs."""
        late = [one for one in self.ranked() if len(one.values) >= len(self.ends) - 1]
        return {one.candidate.id for one in late[: RESERVE * members]}

    def promotable(self) -> list[Entry]:
        """The candidates in the better part of their last rung, those of later rungs first."""
        found: list[Entry] = []
        for rung in reversed(range(len(self.ends) - 1)):
            there = self._at_rung(rung)
            better = there[: len(there) // self.kept]
            found += [one for one in better if len(one.values) == rung + 1 and not (one.failed or one.dropped)]
        return found

    def next_end(self, entry: Entry) -> int:
        """The end of the rung that follows."""
        return next((end for end in entry.ends if end > entry.epochs), entry.ends[-1])

    def drop_last(self, finals: int) -> list[Entry]:
        """Drop the lower half of every rung with enough candidates; returns those that are dropped now."""
        safe = {one.candidate.id for one in self.finalists(finals)}
        now: list[Entry] = []
        for rung in range(len(self.ends)):
            there = self._at_rung(rung)
            if len(there) >= ENOUGH:
                lower = there[(len(there) + 1) // 2 :]
                now += [one for one in lower if not one.dropped and one.candidate.id not in safe]
        for one in now:
            one.dropped = True
        return list({one.candidate.id: one for one in now}.values())

    def tried(self) -> list[Tried]:
        """Every candidate with a score, higher is better, that can be compared across rungs.

        The first rung gives standard scores. Those that reached a later rung are ordered by it: its standard scores get the
        mean and the spread that the same candidates had one rung before.
        """
        scores: dict[str, float] = {}
        for rung in range(len(self.ends)):
            there = self._at_rung(rung)
            values = {one.candidate.id: one.values[rung] for one in there}
            if rung == 0:
                scores.update(_standardise(values))
            elif len(values) > 1:
                before = [scores[key] for key in values]
                mean, spread = statistics.fmean(before), statistics.pstdev(before)
                scores.update({key: mean + spread * one for key, one in _standardise(values).items()})
        lowest = min(scores.values(), default=0.0)
        failed = {key: lowest for key, one in self.entries.items() if one.failed}
        return [Tried(self.entries[key].candidate, score) for key, score in {**scores, **failed}.items()]

    def seconds_per_epoch(self) -> float:
        """The median over the candidates; 0 if there is none."""
        known = [one.seconds_per_epoch for one in self.entries.values()]
        return statistics.median([one for one in known if one is not None] or [0.0])

    def _at_rung(self, rung: int) -> list[Entry]:
        """The candidates that passed a rung, best of it first."""
        there = [one for one in self.entries.values() if len(one.values) > rung]
        return sorted(there, key=lambda one: -one.values[rung])


def _by_value(entry: Entry) -> tuple[float, float]:
    """A few validation graphs have few values: the loss decides between equal ones."""
    return -entry.value, entry.loss


def _standardise(values: Mapping[str, float]) -> dict[str, float]:
    """Distances from the median in interquartile ranges, at most 3: a training that went wrong must not decide the fit."""
    if not values:
        return {}
    low, middle, high = np.percentile(list(values.values()), (25, 50, 75))
    spread = float(high - low) or 1.0
    return {key: max(-3.0, min(3.0, (one - float(middle)) / spread)) for key, one in values.items()}
