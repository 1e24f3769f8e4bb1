"""The loop of a race: rounds of brief trainings until the budget is spent, then the trainings to the end."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from gnas.errors import Interrupted
from gnas.jobs import Job, Runner
from gnas.run.checkpoint import explain_state
from gnas.run.folder import Run
from gnas.run.words import duration
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.proposers import CandidateSpace, propose_candidate
from gnas.strategies.race_clock import count_results, fills_workers, measure_epoch
from gnas.strategies.race_standing import Entry, Standing
from gnas.strategies.race_supernets import Derived, train_supernets
from gnas.strategies.trial import TrialData
from gnas.strategies.trials import TRIALS
from gnas.strategies.weights import most_weights
from gnas.training.loop import Record, labels_of, step_labels, steps_per_epoch
from gnas.training.meter import NotFinite
from gnas.training.optim import use_precision
from gnas.training.train import Trainer

if TYPE_CHECKING:
    from gnas.strategies.race import Race

SPENT = 0.96  # share of the time that a race plans with; the rest is for what cannot be planned
RESULTS = 0.2  # share of the time for the evaluation of what was trained, at most
FINALS = 0.5  # share of the time for the trainings to the end, by which their epochs are chosen
SHORT = 600.0  # seconds: below them a race has no supernets, and one found network is trained to the end
SPEED_SHARE = 0.01  # of the time: so long the speed of the first network is measured
AT_LEAST = 3  # candidates that are tried whatever they cost: two hand-made ones and a found one
OVERLAP = 2.0  # trainings that share a GPU take less time than one after the other, by this factor or more
SUPERNETS = 0.1  # share of the time for supernets, at most
FEWEST_EPOCHS = 9  # of a whole training: a race with fewer has no rungs
ENOUGH_EPOCHS = 150  # of a whole training: with less time networks are smaller, down to
FEWEST_WEIGHTS = 100_000
BRIEF_STEPS = 60  # of the shortest training, at least: fewer rank by chance


@dataclass(frozen=True)
class BriefTraining:
    """A candidate and the epochs from and to which it is trained now."""

    candidate: RaceCandidate
    begin: int
    end: int
    ends: tuple[int, ...]  # of all its rungs

    @property
    def part(self) -> str:
        return f"{TRIALS}/{self.candidate.id}"


class RaceSearch:
    """One race in a run folder. The history holds all that decisions depend on, so it resumes bit for bit on a CPU.

    Decisions are made between rounds of ``round_size`` trainings that do not depend on each other. A limit of time makes them
    depend on the clock: such a race resumes, but does not repeat itself.
    """

    own_ends = False  # whether each candidate has rungs of its own

    def __init__(self, settings: Race, problem: SearchProblem, context: SearchContext) -> None:
        assert context.run is not None
        self.settings, self.problem, self.context, self.run = settings, problem, context, context.run
        self.config = settings.protocol()
        use_precision(self.config.precision)
        weights = settings.max_weights or self._guess_weights()
        self.space = CandidateSpace(
            problem.space,
            problem.task,
            problem.num_cells,
            self.config.lr,
            weights,
            problem.operations,
            dropout=settings.dropout,
        )
        self.speed = 0.0  # seconds of an epoch before any is trained
        self.speeds: dict[str, float] = {}  # the same of single candidates
        self.left_out: set[str] = set()  # candidates that are too slow
        short = settings.max_seconds is not None and settings.max_seconds < SHORT
        self.finals = 1 if short else settings.finals
        self.data = TrialData(problem.train, problem.val)
        self.history: list[Record] = []
        self.round_begin = 0  # records before the current round
        self.trained_epochs, self.seconds = 0, 0.0
        self.started, self.before = time.monotonic(), 0.0
        self.preparation = 0.0  # seconds before the first training
        self.derived: Derived | None = None if settings.supernets and not short else Derived()  # None: not yet

    # -- the loop ----------------------------------------------------------------------------------------------------

    def search(self, name: str) -> SearchResult:
        """Race until the budget is spent; the best found network by validation is the result."""
        runner = self.context.get_runner()
        self.width = 1 if runner.in_process else max(runner.pool.width, 1)
        todo = self._resume(runner)
        with step_labels(labels_of(self.context.on_epoch)):  # the steps of a training are the search's
            while todo := todo or self._next_round():
                self._check_stop()
                self._train(todo, runner)
                todo = []
        best = self.standing.ranked()
        if not best:
            raise NotFinite(f"all {len(self.history)} trainings failed: {self.history[-1]['failed']}")
        finalists = self.standing.finalists(self.finals)
        self._clean_up(runner, finalists)
        return SearchResult(
            (self.standing.ranked(False) or best)[0].candidate.architecture,
            self.history,
            round(self.seconds, 3),
            name,
            trained_epochs=self.trained_epochs,
            seed=self.context.seed,
            finalists=tuple(self._describe(one) for one in finalists),
        )

    def _next_round(self) -> list[BriefTraining]:
        """The next round. After the first one, when there is a usable answer, supernets are trained."""
        if self.history and self.derived is None:
            self._derive()
        return self._plan_round()

    def _plan_round(self) -> list[BriefTraining]:
        """Promotions first, then new candidates, as far as the budget reaches; then the trainings to the end."""
        self.round_begin = len(self.history)
        planned: list[BriefTraining] = []
        least = self._count_least()
        for one in self._wanted():
            if self._affordable([*planned, one]) or len(self.standing.entries) + len(planned) < least:
                planned.append(one)
                if self._is_full(planned):
                    break
            elif one.begin == 0:
                break  # another new candidate would cost as much
        return planned or self._plan_finals()

    def _is_full(self, planned: Sequence[BriefTraining]) -> bool:
        """Whether a round has enough trainings. With a limit of time no worker waits long for the longest of them."""
        size = self.settings.round_size
        if self.width == 1 or self.settings.max_seconds is None:
            return len(planned) >= size
        return len(planned) >= size and fills_workers([self._seconds(one) for one in planned], self.width)

    def _count_least(self) -> int:
        """Candidates that are tried whatever they cost."""
        if self.settings.max_seconds is None:
            return AT_LEAST - 1
        return 1 if self.speed > self.settings.max_seconds else AT_LEAST

    def _wanted(self) -> Iterator[BriefTraining]:
        """Promotions, then new candidates."""
        for one in self.standing.promotable():
            yield BriefTraining(one.candidate, one.epochs, self.standing.next_end(one), one.ends)
        for candidate in self._propose():
            yield BriefTraining(candidate, 0, self.standing.ends[0], self.standing.ends)

    def _propose(self) -> Iterator[RaceCandidate]:
        """New candidates, as many as the number of trials allows."""
        tried, known = self.standing.tried(), {*self.standing.entries, *self.left_out}
        limited = self.settings.max_seconds is None
        while not (self._is_over() or (limited and len(known) >= self.settings.trials)):
            candidate = propose_candidate(self.space, tried, known, len(known), self.context.seed)
            if candidate is None:
                return
            known.add(candidate.id)
            yield candidate

    def _is_over(self) -> bool:
        """Whether no new candidate fits any more, however fast it is."""
        limit = self.settings.max_seconds
        if limit is None or len(self.standing.entries) < self._count_least():
            return False
        return self._elapsed() >= self._end(limit)

    def _plan_finals(self) -> list[BriefTraining]:
        """The trainings of the finalists to the last epoch: of the best one always, of the others if there is time."""
        planned: list[BriefTraining] = []
        for place, entry in enumerate(self.standing.finalists(self.finals)):
            one = BriefTraining(entry.candidate, entry.epochs, entry.ends[-1], entry.ends)
            always = place == 0 and self.settings.max_epochs is None
            if one.begin < one.end and (always or self._affordable([*planned, one], reserve=False)):
                planned.append(one)
        return planned

    # -- the budget ----------------------------------------------------------------------------------------------------

    def _affordable(self, planned: Sequence[BriefTraining], reserve: bool = True) -> bool:
        """Whether these trainings fit into the budget, and after them those to the end."""
        s, last = self.settings, self.standing.ends[-1]
        rest = [
            BriefTraining(one.candidate, one.epochs, one.ends[-1], one.ends)
            for one in self.standing.finalists(self.finals)
        ]
        kept = rest if reserve else []
        missing = max(self.finals + 1 - len(rest), 0) if reserve else 0  # finalists who are not there yet
        if s.max_epochs is not None:
            epochs = sum(one.end - one.begin for one in (*planned, *kept)) + missing * last
            if self.trained_epochs + epochs > s.max_epochs:
                return False
        if s.max_seconds is None:
            return True
        whole = last * self._epoch_seconds()
        seconds = sum(self._seconds(one) for one in (*planned, *kept)) + missing * whole
        seconds += (s.train_seeds - 1) * 2 * whole  # further seeds of the best found and the best hand-made one
        return self._elapsed() + seconds * self._around() / self.width <= self._end(s.max_seconds)

    def _around(self) -> float:
        """The time that passes for a second of training: there are checkpoints and other work."""
        working = (self._elapsed() - self.preparation) * self.width
        return max(working / self.seconds, 1.0) if self.seconds else 1.0

    def _seconds(self, one: BriefTraining) -> float:
        """How long a training will take."""
        entry = self.standing.entries.get(one.candidate.id)
        own = self.speeds.get(one.candidate.id) if entry is None else entry.seconds_per_epoch
        return (one.end - one.begin) * self._epoch_seconds(own)

    def _epoch_seconds(self, own: float | None = None) -> float:
        """Seconds of an epoch of a candidate, or of the usual one. Trainings that overlap share the time by the clock.

        A brief training on a GPU is slow: its steps are recorded first. Its time tells only how it compares with others.
        """
        usual = self.standing.seconds_per_epoch()
        if self.overlap > 1:
            return self.speed / self.overlap * (own / usual if own and usual else 1.0)
        return own or usual or self.speed

    @property
    def overlap(self) -> float:
        """How much less time trainings take together than one after the other: those of one process share a GPU."""
        return OVERLAP if self.context.device.type == "cuda" and self.width == 1 else 1.0

    def _elapsed(self) -> float:
        """Seconds of this race by the clock, those before it was resumed included."""
        return self.before + time.monotonic() - self.started

    def _end(self, limit: float) -> float:
        """Seconds after which all trainings have ended: the results are evaluated within the limit, too."""
        stores = self.data.open_stores(self.context.device)
        after = self.speed * count_results(stores, self.config, self.settings.ensemble)
        return SPENT * limit - min(after, RESULTS * limit)

    def _guess_weights(self) -> int:
        """The most weights of a network before its speed is known."""
        return most_weights(self.problem)

    def _fit_to_time(self) -> None:
        """Choose the epochs of a whole training, the rungs, and where no budget is set the size of networks.

        The finalists are trained in their share of the time. If that allows few epochs, networks are smaller: they learn more
        in the same time.
        """
        limit, s = self.settings.max_seconds, self.settings
        if limit is not None:
            epochs = self._affordable_epochs(limit)
            smaller = max(self.space.max_weights * epochs // ENOUGH_EPOCHS, FEWEST_WEIGHTS)
            if not s.max_weights and smaller < self.space.max_weights:
                self.space = replace(self.space, max_weights=smaller)
                epochs = self._affordable_epochs(limit)
            self.config = replace(self.config, epochs=max(FEWEST_EPOCHS, min(epochs, self.config.epochs)))
        self._choose_cycles()

    def _choose_cycles(self) -> None:
        """Drop the first rungs, as long as they are too short; warn if not even an epoch fits into the time."""
        steps = steps_per_epoch(
            self.data.open_stores(self.context.device)["train"], self.config.batch_size, self.config.epoch_steps
        )
        while self.config.cycles > 2 and self._is_too_brief(self.config.cycle_ends()[0], steps):
            self.config = replace(self.config, cycles=self.config.cycles - 1)
        limit = self.settings.max_seconds
        if limit is not None and self.speed > limit:
            warnings.warn(
                f"an epoch of {steps} steps takes about {duration(self.speed)}, longer than the limit of {duration(limit)}:"
                " one network is trained on a part of the data; give more time, or fewer graphs",
                stacklevel=2,
            )

    def _is_too_brief(self, epochs: int, steps: int) -> bool:
        """Whether so many epochs of so many steps rank by chance."""
        return epochs * steps < BRIEF_STEPS

    def _affordable_epochs(self, limit: float) -> int:
        """Epochs of a whole training with which the finalists take their share of the time."""
        self.speed = self._measure_usual(limit)
        return int(FINALS * limit / (max(self.speed, 1e-6) * self._count_finals()))

    def _measure_usual(self, limit: float) -> float:
        """Seconds of an epoch of the first network that has a width."""
        fitted = (self.space.fit_width(one) for one in self.space.hand_made())
        candidate = next((one for one in fitted if one is not None), None)
        return 0.0 if candidate is None else self._measure(candidate, SPEED_SHARE * limit)

    def _count_finals(self) -> float:
        """The trainings to the end, further seeds included, one after the other."""
        return max((self.finals + 1 + (self.settings.train_seeds - 1) * 2) / (self.overlap * self.width), 1.0)

    def _measure(self, candidate: RaceCandidate, seconds: float, steps: int = 10**9) -> float:
        torch.manual_seed(0)
        stores = self.data.open_stores(self.context.device)
        model = candidate.build(self.problem.task, self.problem.operations)
        trainer = Trainer(model, replace(self.config, epochs=1), 0, self.context.device, stores)
        return measure_epoch(trainer, seconds, steps)

    def _derive(self) -> None:
        """Train supernets, with a limit of time for a share of it; what they derive joins the candidates."""
        s, ends = self.settings, self.standing.ends
        limit = None if s.max_seconds is None else SUPERNETS * s.max_seconds
        epochs = ends[min(1, len(ends) - 1)]
        derived = train_supernets(self.problem, self.context, self.config, s.supernets, epochs, limit)
        self._use_derived(derived)
        self.trained_epochs, self.seconds = self.trained_epochs + derived.epochs, self.seconds + derived.seconds
        self.round_begin = len(self.history)
        self._save()

    def _use_derived(self, derived: Derived) -> None:
        self.derived, self.space = derived, replace(self.space, derived=derived.genotypes)

    # -- trainings -------------------------------------------------------------------------------------------------------

    def _train(self, planned: Sequence[BriefTraining], runner: Runner) -> None:
        """The trainings of a round as jobs, taken in their order; a GPU of this process trains them all at once."""
        if not self.history:
            self.preparation = self._elapsed()
        together = runner.in_process and self.context.device.type == "cuda"
        groups = [list(planned)] if together else [[one] for one in planned]
        at_once = [[group] for group in groups] if runner.in_process else [groups]  # each gets the time that is left
        for some in at_once:
            jobs = [self._job(group, runner, self._seconds_left()) for group in some]
            results = runner.results(jobs, should_stop=self.context.should_stop)
            for group, outcomes in zip(some, results, strict=True):
                for one, outcome in zip(group, outcomes, strict=True):
                    self._take(one, outcome)
        dropped = [entry.candidate.id for entry in self.standing.drop_last(self.finals)]
        self._remove_trainings(runner, set(dropped) - self.standing.reserve(self.settings.ensemble))
        runner.push_own_files(self.run.path)
        if self.context.on_leaders is not None:
            self.context.on_leaders([self._describe(one) for one in self._leaders()], self.config)

    def _seconds_left(self) -> float | None:
        """Seconds until these trainings must end. The first ones of a race, which are trained in any case, share the time."""
        if self.settings.max_seconds is None:
            return None
        left = self._end(self.settings.max_seconds) - self._elapsed()
        waiting = 0 if self.width > 1 else self._count_least() - len(self.standing.entries)
        return max(left, 0.0) / max(waiting, 1)

    def _job(self, group: Sequence[BriefTraining], runner: Runner, left: float | None) -> Job:
        folder, *also = (self.context.name_folder(runner, one.part) for one in group)
        arguments = {
            "candidates": [one.candidate for one in group],
            "begins": [one.begin for one in group],
            "ends": [one.end for one in group],
            "cosines": [self._list_cosines(one.ends) if self.own_ends else () for one in group],
            "data": self.data,
            "task": self.problem.task,
            "config": self.config,
            "seed": self.settings.train_seed,
            "operations": self.problem.operations,
            **({} if left is None else {"left": (left, time.time())}),
        }
        return Job("gnas.strategies.race_job.race_job", folder, arguments, tuple(also))

    def _list_cosines(self, ends: tuple[int, ...]) -> tuple[int, ...]:
        """The epochs after which the cosines of a candidate end, whose rungs end after these epochs."""
        return ends

    def _take(self, one: BriefTraining, outcome: Record) -> None:
        seconds = outcome["seconds"]
        epochs = outcome.pop("epochs")
        self.trained_epochs += epochs
        self.seconds += seconds
        number, made = len(self.history) + 1, one.candidate.architecture
        if outcome.get("stopped"):
            reached = one.begin + epochs
            one = replace(one, end=reached, ends=tuple(min(end, reached) for end in one.ends))
        record: Record = {
            "epoch": number,
            "trial": number,
            "genotype": made.to_yaml(),
            "genotype_id": made.id,
            "depth": made.depth(),
            **{name: value for name, value in outcome.items() if name != "seconds"},
            "candidate": one.candidate.recipe(),
            "candidate_id": one.candidate.id,
            "reached": one.end,
            **({"ends": list(one.ends)} if self.own_ends or outcome.get("stopped") else {}),
            "own_seconds": round(seconds, 3),
            "trained_epochs": self.trained_epochs,
            "seconds": round(self.seconds, 3),
        }
        self.standing.add_record(record)
        best = self.standing.ranked()
        record["best_val_metric"] = self.standing.sign * best[0].value if best else None
        record["leader"] = best[0].candidate.title if best else ""
        record["tried"] = len(self.standing.entries)
        record["dropped"] = sum(1 for entry in self.standing.entries.values() if entry.dropped or entry.failed)
        self.history.append(record)
        self.run.append(record)
        self._save()
        if self.context.on_epoch is not None:
            self.context.on_epoch(record)

    def _leaders(self) -> list[Entry]:
        """The best found candidate and the best hand-made one so far, best first."""
        return self.standing.finalists(1)

    def _describe(self, entry: Entry) -> Record:
        return {
            "candidate": entry.candidate.to_dict(),
            "id": entry.candidate.id,
            "epochs": entry.epochs,
            "val_metric": self.standing.sign * entry.value,
            "training": {
                "epochs": entry.ends[-1],
                "cycles": self.config.cycles,
                **({"ends": self._list_cosines(entry.ends)} if self.own_ends or entry.stopped else {}),
            },
        }

    def _check_stop(self) -> None:
        if self.context.should_stop is not None and self.context.should_stop():
            raise Interrupted(f"stopped before training {len(self.history) + 1}")

    def _clean_up(self, runner: Runner, finalists: Sequence[Entry]) -> None:
        """Remove the trainings of all but the finalists and what an ensemble may choose from."""
        kept = {one.candidate.id for one in finalists} | self.standing.reserve(self.settings.ensemble)
        self._remove_trainings(runner, self.standing.entries.keys() - kept)

    def _remove_trainings(self, runner: Runner, ids: Iterable[str]) -> None:
        for key in sorted(ids):
            runner.remove_folder(self.context.name_folder(runner, f"{TRIALS}/{key}"))

    # -- resuming ----------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        state: dict[str, Any] = {
            "records": len(self.history),
            "round": self.round_begin,
            "elapsed": self._elapsed(),
            "preparation": self.preparation,
            "epochs": self.config.epochs,
            "cycles": self.config.cycles,
            "max_weights": self.space.max_weights,
            "speed": self.speed,
            "own_ends": self.own_ends,
            "left_out": sorted(self.left_out),
            "trained_epochs": self.trained_epochs,
            "seconds": self.seconds,
            "derived": None if self.derived is None else self.derived.to_dict(),
        }
        self.run.save_state(state)

    def _resume(self, runner: Runner) -> list[BriefTraining]:
        """Return to the last finished training; returns the rest of its round."""
        saved = self.run.load_state()
        if saved is None:
            self._start(runner, self.run)
            return []
        with explain_state(self.run.path):
            return self._restore(saved)

    def _restore(self, saved: Record) -> list[BriefTraining]:
        """Put a saved state back; returns the rest of its round."""
        usual = {"cycles": self.config.cycles, "max_weights": self.space.max_weights}  # for races from before
        cycles, weights = (int(saved.get(name, value)) for name, value in usual.items())
        self.config = replace(self.config, epochs=saved["epochs"], cycles=cycles)
        self.space = replace(self.space, max_weights=weights)
        self.speed, self.before = float(saved["speed"]), float(saved["elapsed"])
        self.preparation = float(saved.get("preparation", 0.0))
        self.left_out = set(saved.get("left_out", ()))
        self.standing = self._new_standing()
        derived = saved.get("derived", Derived().to_dict())  # races from before had no supernets
        if derived is not None:
            self._use_derived(Derived.from_dict(derived))
        self.run.truncate(saved["records"])
        records = self.run.history()
        for record in records[: saved["round"]]:
            self._replay(record)
        planned = self._plan_saved_round() if len(records) > saved["round"] else []
        for record in records[saved["round"] :]:
            self._replay(record)
        self.round_begin = saved["round"]
        self.trained_epochs, self.seconds = (
            int(saved["trained_epochs"]),
            float(saved["seconds"]),
        )  # supernets may follow the last record
        done = {(record["candidate_id"], record["reached"]) for record in records[saved["round"] :]}
        return [one for one in planned if (one.candidate.id, one.end) not in done]

    def _plan_saved_round(self) -> list[BriefTraining]:
        """The round that was going on when the race was stopped."""
        return self._plan_round()

    def _start(self, runner: Runner, run: Run) -> None:
        run.truncate(0)
        runner.remove_folder(self.context.name_folder(runner, TRIALS))  # of an earlier run in this folder
        self._fit_to_time()
        self.standing = self._new_standing()
        self._save()

    def _new_standing(self) -> Standing:
        return Standing(self.config.cycle_ends(), self.problem.task.higher_is_better)

    def _replay(self, record: Record) -> None:
        self.history.append(record)
        self.standing.add_record(record)
        self.trained_epochs, self.seconds = record["trained_epochs"], record["seconds"]
