"""A race with a limit of time whose trainings come one after the other, on a CPU.

Each candidate gets the same time, not the same epochs: a whole training takes an eighth of the limit, with one cosine. It is
judged on the way, and the better half goes on. So several networks are trained to the end, as by somebody who tries networks
one after the other. Time is kept for the leader as long as its best epoch is one of the last: it then goes on with another
cosine. A leader that no longer improves gets none of it, and further candidates are tried instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.race_clock import rung_ends
from gnas.strategies.race_search import ENOUGH_EPOCHS, FEWEST_EPOCHS, FEWEST_WEIGHTS, BriefTraining, RaceSearch
from gnas.strategies.race_standing import Entry, Standing
from gnas.strategies.weights import most_weights

if TYPE_CHECKING:
    from gnas.strategies.race import Race

WHOLE, LONGEST = 1 / 8, 1 / 3  # shares of the time of a whole training: usually, and at most where an epoch takes long
GO_ON = 0.35  # share of the time that is kept for the leader to go on
FURTHER_SEED = 2 * WHOLE + 1.3 * GO_ON  # time of another seed of the two best networks, as a share of that of the race
LAST_PART = 0.2  # of the epochs: a training whose best epoch is among them still improves
BOTH_KINDS = (
    0.4  # after this share of the time the best found network and the best hand-made one are trained to the end
)
KEPT = 2  # one in so many candidates is promoted to the next rung
FEWEST_MORE = 4  # the leader goes on for a quarter of its epochs at least
BRIEF_EPOCHS = 3  # of the shortest training, at least
PROBE_SECONDS, PROBE_STEPS = 0.5, 6  # of the steps that tell how fast a candidate is
LEFT_OUT = 20  # candidates that are too slow for the time, until one is trained nevertheless


class TimedRace(RaceSearch):
    """One race whose trainings take turns. Every decision is made after one training."""

    own_ends = True

    def __init__(self, settings: Race, problem: SearchProblem, context: SearchContext) -> None:
        assert settings.max_seconds is not None
        super().__init__(settings, problem, context)
        self.most_epochs = self.config.epochs
        more = (settings.train_seeds - 1) * FURTHER_SEED
        self.limit = settings.max_seconds / (1 + more)  # of the race itself; trainings from other seeds follow it

    # -- what comes next -----------------------------------------------------------------------------------------------

    def _plan_round(self) -> list[BriefTraining]:
        """A promotion, or a new candidate, while there is time for its whole training; then the leader goes on."""
        self.round_begin = len(self.history)
        for one in self._wanted():
            if self._fits(one) or (one.begin == 0 and len(self.standing.entries) < self._count_least()):
                return [one]
            if one.begin == 0:
                break  # another new candidate would cost as much
        return self._plan_more()

    def _wanted(self) -> Iterator[BriefTraining]:
        """Promotions, then new candidates that are fast enough."""
        chosen = self.standing.promotable()
        if self._elapsed() > BOTH_KINDS * self.limit:
            chosen += [entry for entry in map(self._best_of, (False, True)) if entry is not None]
        for entry in chosen:
            yield BriefTraining(entry.candidate, entry.epochs, self.standing.next_end(entry), entry.ends)
        for candidate in self._propose():
            ends = self._choose_ends(candidate)
            if self._is_too_slow(candidate, ends):
                self.left_out.add(candidate.id)
            else:
                yield BriefTraining(candidate, 0, ends[0], ends)

    def _best_of(self, hand_made: bool) -> Entry | None:
        """The best found or hand-made network, if none of its kind was trained to the end."""
        ranked = [one for one in self.standing.ranked(hand_made) if not (one.dropped or one.stopped)]
        return None if not ranked or any(map(self._is_whole, ranked)) else ranked[0]

    def _is_whole(self, entry: Entry) -> bool:
        return len(entry.values) >= len(self.standing.ends)

    def _plan_more(self) -> list[BriefTraining]:
        """The best one that has not all epochs goes on in the time that is left, if that is worth it."""
        left = self._end(self.limit) - self._elapsed()
        for entry in self.standing.ranked():
            last = min(entry.epochs + int(left / (entry.seconds_per_epoch or self.speed)), self.most_epochs)
            if entry.dropped or entry.stopped or entry.epochs == self.most_epochs:
                continue
            if last - entry.epochs < max(entry.epochs / FEWEST_MORE, 1):
                return []
            passed = entry.ends if self._is_whole(entry) else tuple(min(end, last) for end in entry.ends[:-1])
            return [BriefTraining(entry.candidate, entry.epochs, last, (*passed, last))]
        return []

    def _is_over(self) -> bool:
        """Whether no new candidate fits any more: to measure its speed would take time, too."""
        if len(self.standing.entries) < self._count_least():
            return False
        whole = min(self.whole_seconds, self.most_epochs * self.standing.seconds_per_epoch())
        return not self._has_time(whole)

    def _fits(self, one: BriefTraining) -> bool:
        """Whether there is time for a training; a new candidate must have time for a whole one."""
        whole = replace(one, end=one.ends[len(self.standing.ends) - 1])
        return self._has_time(self._seconds(one if one.begin else whole))

    def _has_time(self, seconds: float) -> bool:
        """Whether there is time for a training of so many seconds, and for the leader to go on."""
        return self._elapsed() + (seconds + self._kept_seconds()) * self._around() <= self._end(self.limit)

    def _kept_seconds(self) -> float:
        """Time that is kept for the leader: none if it has gone on already or no longer improves."""
        leader = next(iter(self.standing.ranked()), None)
        if leader is None:
            return GO_ON * self.limit
        if leader.stopped or len(leader.values) > len(self.standing.ends):
            return 0.0
        if self._is_whole(leader) and leader.best_epoch <= (1 - LAST_PART) * leader.epochs:
            return 0.0
        more = self.most_epochs - max(leader.epochs, leader.ends[len(self.standing.ends) - 1])
        return min(GO_ON * self.limit, more * (leader.seconds_per_epoch or self.speed))

    # -- epochs --------------------------------------------------------------------------------------------------------

    def _choose_ends(self, candidate: RaceCandidate) -> tuple[int, ...]:
        """The ends of a candidate's rungs, which depend on its speed."""
        epochs = int(self.whole_seconds / max(self._measure_speed(candidate), 1e-6))
        return rung_ends(min(max(epochs, 1), self.most_epochs), len(self.standing.ends))

    def _list_cosines(self, ends: tuple[int, ...]) -> tuple[int, ...]:
        """One until the end of a whole training, another one if it goes on."""
        return ends[len(self.standing.ends) - 1 :]

    def _is_too_slow(self, candidate: RaceCandidate, ends: tuple[int, ...]) -> bool:
        """Whether the first rung alone takes longer than a whole training may, and that of the usual network does not."""
        slow = self.speeds.get(candidate.id, 0.0) * ends[0] > self.whole_seconds
        return slow and self.speed <= self.whole_seconds and len(self.left_out) < LEFT_OUT

    def _measure_speed(self, candidate: RaceCandidate) -> float:
        """Seconds of an epoch of a candidate. Nothing is kept of its first steps but this."""
        if candidate.id not in self.speeds:
            self.speeds[candidate.id] = self._measure(candidate, PROBE_SECONDS, PROBE_STEPS)
        return self.speeds[candidate.id]

    def _guess_weights(self) -> int:
        return FEWEST_WEIGHTS

    def _fit_to_time(self) -> None:
        """Choose the time of a whole training, the rungs, and where no budget is set the size of networks.

        If the time allows more than enough epochs, networks are larger.
        """
        self.speed = max(self._measure_usual(self.limit), 1e-6)
        larger = int(self.space.max_weights * (WHOLE + GO_ON) * self.limit / (self.speed * ENOUGH_EPOCHS))
        if not self.settings.max_weights and larger > self.space.max_weights:
            self.space = replace(self.space, max_weights=max(min(larger, most_weights(self.problem)), FEWEST_WEIGHTS))
            self.speed = max(self._measure_usual(self.limit), 1e-6)
        epochs = int(self.whole_seconds / self.speed)
        self.config = replace(self.config, epochs=max(FEWEST_EPOCHS, min(epochs, self.most_epochs)))
        self._choose_cycles()
        self.config = replace(self.config, cycles=len(self.config.cycle_ends()))

    def _is_too_brief(self, epochs: int, steps: int) -> bool:
        return epochs < BRIEF_EPOCHS or super()._is_too_brief(epochs, steps)

    @property
    def whole_seconds(self) -> float:
        """The time of a whole training."""
        return min(max(WHOLE * self.limit, FEWEST_EPOCHS * self.speed), LONGEST * self.limit)

    def _new_standing(self) -> Standing:
        return Standing(self.config.cycle_ends(), self.problem.task.higher_is_better, KEPT)

    # -- resuming --------------------------------------------------------------------------------------------------------

    def _plan_saved_round(self) -> list[BriefTraining]:
        """A round is one training: none is left of it once there is a record."""
        return []
