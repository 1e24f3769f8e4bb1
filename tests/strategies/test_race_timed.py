"""A race with a limit of time on a CPU: its decisions, with trainings whose figures and times are made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from tiny import SPACE, tiny

from gnas.run.folder import Run
from gnas.strategies import Race, race_search
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.race_clock import count_results
from gnas.strategies.race_search import SPENT, BriefTraining
from gnas.strategies.race_timed import GO_ON, WHOLE, TimedRace

CPU = torch.device("cpu")
LIMIT, SPEED = 1000.0, 2  # seconds, and those of an epoch

Curve = Callable[[RaceCandidate, int], tuple[float, int]]  # the best metric after so many epochs, and its epoch


class MadeUp(TimedRace):
    """A race that trains nothing: a curve tells the figures, and a clock counts the seconds."""

    curve: Curve
    speed = SPEED
    now = 0.0

    def _elapsed(self) -> float:
        return self.now

    def _measure(self, *_: object) -> float:
        return self.speed

    def _train(self, planned: list[BriefTraining], runner: object) -> None:  # type: ignore[override]
        for one in planned:
            epochs = one.end - one.begin
            value, best_epoch = self.curve(one.candidate, one.end)
            losses = dict.fromkeys(("train_loss", "train_metric", "val_loss"), value)
            figures = {"num_weights": 1, **losses, "val_metric": value, "best_epoch": best_epoch}
            self.now += self.speed * epochs
            self._take(one, {**figures, "epochs": epochs, "seconds": self.speed * epochs})


def race(folder: Path, curve: Curve, speed: int = SPEED, **settings: int) -> MadeUp:
    data = tiny("regression")
    problem = SearchProblem(data.train, data.val, data.task, SPACE, 8, 3)
    with Run(folder / "search", {}) as run:
        chosen = Race(max_seconds=LIMIT, batch_size=6, **{"epochs": 1000, **settings})
        made = MadeUp(chosen, problem, SearchContext(0, CPU, run=run))
        made.curve, made.speed = curve, speed
        made.search("race")
    return made


def quality(one: RaceCandidate) -> float:
    """An error from 1 to 2 that the choices of a candidate decide."""
    return 1 + int(one.id[:4], 16) / 0x10000


def test_a_leader_that_still_improves_goes_on(tmp_path: Path) -> None:
    made = race(tmp_path, lambda one, epochs: (quality(one) + 10 / epochs, epochs))
    last = made.history[-1]
    whole = last["ends"][-2]
    assert whole == int(WHOLE * LIMIT / SPEED)
    assert last["candidate_id"] == made.standing.ranked()[0].candidate.id
    assert last["own_seconds"] >= 0.9 * GO_ON * LIMIT
    assert 0.9 * LIMIT <= made.now <= SPENT * LIMIT + SPEED
    assert made._list_cosines(tuple(last["ends"])) == (whole, last["reached"])
    done = {record["candidate_id"] for record in made.history if record["reached"] >= whole}
    assert len(done) >= 3
    kinds = {made.standing.entries[key].candidate.is_hand_made for key in done}
    assert kinds == {True, False}


def test_a_leader_that_no_longer_improves_leaves_its_time_to_others(tmp_path: Path) -> None:
    improving = race(tmp_path / "one", lambda one, epochs: (quality(one) + 10 / epochs, epochs))
    made = race(tmp_path / "two", lambda one, epochs: (quality(one), 1))
    counts = [Counter(len(entry.values) for entry in one.standing.entries.values()) for one in (improving, made)]
    assert sum(counts[1].values()) > sum(counts[0].values())
    assert counts[1][2] > counts[0][2] + counts[0][3]  # whole trainings
    assert 0.9 * LIMIT <= made.now <= SPENT * LIMIT + SPEED


def test_candidates_of_which_all_epochs_are_trained_leave_the_time_to_others(tmp_path: Path) -> None:
    made = race(tmp_path, lambda one, epochs: (quality(one) + 1 / epochs, epochs), epochs=20)
    assert max(record["reached"] for record in made.history) == 20
    assert len(made.standing.entries) > 20
    assert made.now >= 0.9 * LIMIT


def test_further_seeds_leave_less_time_to_the_race(tmp_path: Path) -> None:
    made = race(tmp_path, lambda one, epochs: (quality(one) + 10 / epochs, epochs), train_seeds=2)
    assert 0.9 * LIMIT <= made.now + sum(one.seconds for one in made.standing.finalists(1)) <= LIMIT


def test_where_an_epoch_takes_long_the_leader_has_several_nevertheless(tmp_path: Path) -> None:
    made = race(tmp_path, lambda one, epochs: (quality(one) + 10 / epochs, epochs), speed=75)
    assert len(made.standing.entries) >= race_search.AT_LEAST
    assert made.standing.ranked()[0].epochs >= 5
    after = made.speed * count_results(made.data.open_stores(CPU), made.config, 0)  # the evaluation of the results
    assert LIMIT - 2 * made.speed <= made.now + after <= LIMIT
