"""What the trial-based strategies share: propose a network, train it briefly, judge it by validation, remember it.

The budget is counted the same way for all of them: epochs trained and seconds spent, both kept in every record.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import torch

from gnas import distributed
from gnas.arch.architecture import Architecture, read_architecture
from gnas.errors import Interrupted
from gnas.jobs import Runner
from gnas.model.build import build_network
from gnas.model.network import GraphModule
from gnas.run.folder import Run
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.brief import TrialSettings, judge
from gnas.strategies.trials_apart import Trial, train_apart
from gnas.training.loop import NotFinite, Record
from gnas.training.optim import use_precision
from gnas.training.sampling import open_store


class TrialSearch:
    """The loop of trials; a strategy says how to ``propose`` a candidate.

    With a run folder it can stop after any step and go on later, bit for bit on a CPU: the state is written after every
    trial, and the trial under way is a run of its own in the folder's part ``trial``.
    """

    def __init__(self, settings: TrialSettings, problem: SearchProblem, context: SearchContext) -> None:
        torch.manual_seed(context.seed)
        use_precision(settings.precision)
        self.settings, self.problem, self.context = settings, problem, context
        self.rng = np.random.default_rng(context.seed)
        splits = {"train": problem.train, "val": problem.val}
        self.stores = {name: open_store(split, context.device) for name, split in splits.items()}
        self.history: list[Record] = []
        self.trained_epochs, self.seconds = 0, 0.0

    # -- for strategies ---------------------------------------------------------------------------------------------

    def prepare(self, resumed: bool) -> tuple[int, float]:
        """Work before the first trial; returns the epochs and the seconds it took."""
        return 0, 0.0

    def propose(self) -> Architecture:
        """The next candidate. Draws from ``self.rng`` alone."""
        raise TypeError("a trial-based strategy defines propose()")

    def build(self, candidate: Architecture) -> GraphModule:
        """The candidate's network, not yet trained."""
        problem = self.problem
        return build_network(candidate, problem.task, channels=problem.channels, operations=problem.operations)

    def learn(self, val_metric: float | None) -> None:
        """Take the outcome of the last proposal into account; None where its training failed."""

    def independent(self) -> int:
        """How many proposals from here on do not depend on the outcomes of each other."""
        return 1

    def state(self) -> dict[str, Any]:
        """What future proposals depend on besides ``self.rng`` and ``self.history``."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what ``state`` gave."""

    # -- the loop ----------------------------------------------------------------------------------------------------

    def search(self, name: str) -> SearchResult:
        """Run until the budget is spent; the best candidate by validation is the result."""
        runner, run = self.context.runner, self.context.run
        cost = self.prepare(self._resume())
        if not self.history:
            self.trained_epochs, self.seconds = cost
        while not self._spent():
            self._stop_if_asked()
            if runner is None or run is None:
                self._one_trial()
            else:
                self._trials_apart(runner, run)
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

    def _stop_if_asked(self) -> None:
        if self.context.should_stop is not None and distributed.any_of(self.context.should_stop()):
            raise Interrupted(f"stopped before trial {len(self.history) + 1}")

    def _one_trial(self) -> None:
        candidate, seed = self._draw()
        self._take(candidate, self._train(candidate, seed))

    def _draw(self) -> tuple[Architecture, int]:
        return self.propose(), int(self.rng.integers(2**31))

    def _trials_apart(self, runner: Runner, run: Run) -> None:
        """Trials on workers: as many at once as do not depend on each other, remembered in the order they were drawn."""
        drawn = []
        for number in range(len(self.history) + 1, len(self.history) + 1 + self._ahead(runner)):
            candidate, seed = self._draw()
            torch.manual_seed(seed)
            trial = Trial(number, candidate, seed, self.build(candidate))
            drawn.append((trial, self.rng.bit_generator.state))
        outcomes = train_apart([trial for trial, _ in drawn], self.settings, self.problem, self.context, runner, run)
        for (trial, state), outcome in zip(drawn, outcomes, strict=False):
            self.rng.bit_generator.state = state  # what is saved does not know of later draws
            self._take(trial.candidate, outcome)
            runner.keep(run.path)  # before the trial's own folder goes
            runner.forget(trial.folder(runner, run))
            if self._spent():
                break
        outcomes.close()
        for trial, _ in drawn:
            runner.forget(trial.folder(runner, run))

    def _ahead(self, runner: Runner) -> int:
        s = self.settings
        most = min(self.independent(), s.trials - len(self.history))
        if s.max_epochs is not None:
            most = min(most, (s.max_epochs - self.trained_epochs) // s.epochs)
        return most if s.max_seconds is None else min(most, runner.pool.width)

    def _take(self, candidate: Any, outcome: Record) -> None:
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

    def _train(self, candidate: Any, seed: int) -> Record:
        """Train a candidate on train and judge it on val."""
        torch.manual_seed(seed)
        model = self.build(candidate)
        folder = self._folder(candidate)
        try:
            return judge(model, self.settings, self.context, self.stores, seed, folder)
        finally:
            if folder is not None:
                folder.close()
            if self.context.device.type == "cuda":
                gc.collect()  # a trainer and its recorded steps hold each other, and with them the memory of the device

    # -- going on ----------------------------------------------------------------------------------------------------

    def _folder(self, candidate: Any) -> Run | None:
        """Where the trial under way keeps its state: gone on with if it is this trial's, else begun anew."""
        run = self.context.run
        if run is None:
            return None
        return run.continued("trial", {"trial": len(self.history) + 1, "genotype": candidate.id})

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
        """Go back to the last finished trial; whether there was anything to go back to."""
        run = self.context.run
        saved = None if run is None else run.load_state()
        if run is None:
            return False
        if saved is None:
            run.truncate(0)
            run.part("trial", {"trial": 0}, force=True).close()  # whatever an earlier run left there is not ours
            self._save(run)
            return False
        run.truncate(saved["trials"])
        self.history = run.history()
        self.trained_epochs, self.seconds = saved["trained_epochs"], saved["seconds"]
        self.rng.bit_generator.state = saved["rng"]
        self.load_state(saved["own"])
        return True
