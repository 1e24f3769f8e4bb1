"""What the trial-based strategies share: propose a network, train it briefly, judge it by validation, remember it.

Every trial is a job. The budget counts the same way for all strategies: trained epochs and seconds, both in every record.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gnas import distributed
from gnas.arch.architecture import Architecture, read_architecture
from gnas.errors import Interrupted
from gnas.jobs import Job, Runner, Work
from gnas.model.build import build_network
from gnas.model.network import GraphModule
from gnas.run.checkpoint import explain_state
from gnas.run.folder import Run
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.trial import TrialData, TrialSettings, judge_network
from gnas.training.loop import Record, labels_of, step_labels
from gnas.training.meter import NotFinite
from gnas.training.optim import use_precision
from gnas.training.store import Store

JUDGED = ("val_metric", "epochs", "seconds")  # every outcome of a trial has these
TRIALS = "trials"  # the sub-folder of a search for the trials that are not in its history yet


@dataclass(frozen=True)
class Trial:
    """A proposal with its network, and the state of the generator after it was drawn."""

    number: int
    candidate: Architecture
    seed: int
    network: GraphModule
    generator: Mapping[str, Any]

    @property
    def part(self) -> str:
        return f"{TRIALS}/{self.number:04d}"


def trial_job(
    work: Work, *, network: GraphModule, data: TrialData, settings: TrialSettings, engine: str, config: dict[str, Any]
) -> Record:
    """One trial. Its outcome stays in its folder until the search has saved it in its history."""
    with work.open_run(config) as run:
        outcome: Record | None = None if run is None else run.read_json("result", JUDGED)
        if outcome is None:
            use_precision(settings.precision)
            context = SearchContext(config["seed"], work.device, engine, should_stop=work.should_stop)
            stores = data.open_stores(work.device)
            outcome = judge_network(network, settings, context, stores, config["seed"], run, work.on_epoch)
            if run is not None:
                run.write_json("result", outcome)
        return outcome


class TrialSearch:
    """The loop of trials; a strategy defines how to ``propose`` a candidate.

    With a run folder it can stop after any step and be resumed, bit for bit on a CPU: the state is saved after every trial,
    and every trial that is not in the history yet is a run of its own in ``trials``.
    """

    def __init__(self, settings: TrialSettings, problem: SearchProblem, context: SearchContext) -> None:
        torch.manual_seed(context.seed)
        use_precision(settings.precision)
        self.settings, self.problem, self.context = settings, problem, context
        self.rng = np.random.default_rng(context.seed)
        self.data = TrialData(problem.train, problem.val)
        self.history: list[Record] = []
        self.number = 1  # of the trial that is proposed next
        self.trained_epochs, self.seconds = 0, 0.0

    @property
    def stores(self) -> dict[str, Store]:
        """The splits by name, on the device of this process."""
        return self.data.open_stores(self.context.device)

    # -- for strategies ---------------------------------------------------------------------------------------------

    def prepare(self, resumed: bool) -> tuple[int, float]:
        """Do the work before the first trial; returns its epochs and seconds."""
        return 0, 0.0

    def propose(self) -> Architecture:
        """The next candidate. Draws from ``self.rng`` alone."""
        raise TypeError("a trial-based strategy defines propose()")

    def build(self, candidate: Architecture) -> GraphModule:
        """The candidate's network, not yet trained."""
        problem = self.problem
        return build_network(candidate, problem.task, channels=problem.channels, operations=problem.operations)

    def learn(self, val_metric: float | None) -> None:
        """Learn from the outcome of the last proposal; None if its training failed."""

    def independent(self) -> int:
        """How many proposals from here on do not depend on the outcomes of each other."""
        return 1

    def state(self) -> dict[str, Any]:
        """What future proposals depend on besides ``self.rng`` and ``self.history``."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what ``state`` returned."""

    # -- the loop ----------------------------------------------------------------------------------------------------

    def search(self, name: str) -> SearchResult:
        """Run until the budget is spent; the best candidate by validation is the result."""
        runner = self.context.get_runner()
        cost = self.prepare(self._resume())
        if not self.history:
            self.trained_epochs, self.seconds = cost
        while not self._spent():
            self._check_stop()
            with step_labels(labels_of(self.context.on_epoch)):  # the steps of a trial are the search's
                self._run_trials(runner)
        best = self.best()
        if best is None:
            raise NotFinite(f"all {len(self.history)} trials failed: {self.history[-1]['failed']}")
        return SearchResult(
            read_architecture(best["genotype"]),
            self.history,
            round(self.seconds, 3),
            name,
            trained_epochs=self.trained_epochs,
            seed=self.context.seed,
        )

    def best(self) -> Record | None:
        """The record of the best trial so far, the first of equal ones."""
        done = [record for record in self.history if record["val_metric"] is not None]
        pick = max if self.problem.task.higher_is_better else min
        return pick(done, key=lambda record: record["val_metric"]) if done else None

    def _spent(self) -> bool:
        s = self.settings
        if len(self.history) >= s.trials:
            return True
        if s.max_seconds is not None and self.history and distributed.any_of(self.seconds >= s.max_seconds):
            return True
        return s.max_epochs is not None and self.trained_epochs + s.epochs > s.max_epochs

    def _check_stop(self) -> None:
        if self.context.should_stop is not None and distributed.any_of(self.context.should_stop()):
            raise Interrupted(f"stopped before trial {len(self.history) + 1}")

    def _run_trials(self, runner: Runner) -> None:
        """Trials as jobs: as many at once as do not depend on each other, saved in the order they were drawn."""
        trials = [self._draw(len(self.history) + 1 + k) for k in range(self._count_ahead(runner))]
        results = runner.results([self._job(trial, runner) for trial in trials], should_stop=self.context.should_stop)
        for trial, outcome in zip(trials, results, strict=False):
            self.rng.bit_generator.state = trial.generator  # what is saved does not know of later draws
            self._take(trial.candidate, outcome)
            if self.context.run is not None:
                runner.push_own_files(self.context.run.path)  # before the trial's own folder is removed
                runner.remove_folder(self.context.name_folder(runner, trial.part))
            if self._spent():
                break
        results.close()
        if self.context.run is not None:
            runner.remove_folder(self.context.name_folder(runner, TRIALS))
        if self.context.device.type == "cuda":
            gc.collect()  # a trainer and its recorded steps refer to each other, and hold the memory of the device

    def _draw(self, number: int) -> Trial:
        self.number = number
        candidate, seed = self.propose(), int(self.rng.integers(2**31))
        torch.manual_seed(seed)
        return Trial(number, candidate, seed, self.build(candidate), self.rng.bit_generator.state)

    def _job(self, trial: Trial, runner: Runner) -> Job:
        config = {"trial": trial.number, "genotype": trial.candidate.id, "seed": trial.seed}
        if self.context.run is not None:
            self.context.run.continue_run(trial.part, config).close()  # a trial with other settings is replaced
        arguments = {
            "network": trial.network,
            "data": self.data,
            "settings": self.settings.of_one_trial(),
            "engine": self.context.engine,
            "config": config,
        }
        return Job("gnas.strategies.trials.trial_job", self.context.name_folder(runner, trial.part), arguments)

    def _count_ahead(self, runner: Runner) -> int:
        """How many trials to start at once."""
        s = self.settings
        most = min(self.independent(), s.trials - len(self.history))
        if s.max_epochs is not None:
            most = min(most, (s.max_epochs - self.trained_epochs) // s.epochs)
        return min(most, runner.pool.width) if runner.in_process or s.max_seconds is not None else most

    def _take(self, candidate: Architecture, outcome: Record) -> None:
        self.learn(outcome["val_metric"])
        self.trained_epochs += outcome.pop("epochs")
        self.seconds += outcome.pop("seconds")
        number = len(self.history) + 1
        record = {
            "epoch": number,
            "trial": number,
            "genotype": candidate.to_yaml(),
            "genotype_id": candidate.id,
            "depth": candidate.depth(),
            **outcome,
            "trained_epochs": self.trained_epochs,
            "seconds": round(self.seconds, 3),
        }
        self.history.append(record)
        best = self.best()
        record["best_val_metric"] = None if best is None else best["val_metric"]
        self._keep(record)

    # -- resuming ----------------------------------------------------------------------------------------------------

    def _keep(self, record: Record) -> None:
        run = self.context.run
        if run is not None:
            run.append(record)
            self._save(run)
        if self.context.on_epoch is not None:
            self.context.on_epoch(record)

    def _save(self, run: Run) -> None:
        run.save_state(
            {
                "trials": len(self.history),
                "trained_epochs": self.trained_epochs,
                "seconds": self.seconds,
                "rng": self.rng.bit_generator.state,
                "own": self.state(),
            }
        )

    def _resume(self) -> bool:
        """Return to the last finished trial; whether there was one."""
        run = self.context.run
        if run is None:
            return False
        saved = run.load_state()
        if saved is None:
            run.truncate(0)
            runner = self.context.get_runner()
            runner.remove_folder(self.context.name_folder(runner, TRIALS))  # of an earlier run in this folder
            self._save(run)
            return False
        with explain_state(run.path):
            run.truncate(saved["trials"])
            self.history = run.history()
            self.trained_epochs, self.seconds = int(saved["trained_epochs"]), float(saved["seconds"])
            self.rng.bit_generator.state = saved["rng"]
            self.load_state(saved["own"])
        return True


class ListedTrials(TrialSearch):
    """Trials of ``architectures`` that the caller names, in order."""

    def __init__(
        self,
        architectures: Sequence[Architecture],
        settings: TrialSettings,
        problem: SearchProblem,
        context: SearchContext,
    ) -> None:
        super().__init__(replace(settings, trials=len(architectures)), problem, context)
        self.architectures = architectures

    def propose(self) -> Architecture:
        return self.architectures[self.number - 1]

    def independent(self) -> int:
        return len(self.architectures)
