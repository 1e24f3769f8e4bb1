"""Ways to search on equal terms: how good the best network found so far is, against what the search has cost.

Every point is a discrete network that was trained from scratch for ``trial_epochs`` epochs on the whole training split,
by the same optimiser, batch and rate, and judged by its best epoch on validation. A strategy by trials gives a point
for each trial. A gradient strategy pays for the epochs of its supernet, and at ``derivations`` moments, evenly spread over
its search, the network of its alphas is trained like a trial, at the same cost. A network that it already tried costs
nothing again. All strategies have the same number of epochs and the same limit on weights: a strategy that chooses
widths itself (``GraphNAS``) has at most as many weights as the largest network of the space.

An epoch is not the same work for all: one of a supernet evaluates every candidate, but passes over half of the training
graphs (``Darts``: over both halves). So seconds are counted too. They are those of the epochs themselves, recording and
validation included; compiling kernels, loading data and writing files are not.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from gnas.arch.architecture import Architecture
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.jobs import Job, Runner, Work
from gnas.model.stage import OperationTypes
from gnas.run.folder import Run, plain_config
from gnas.run.layout import RESULT, is_finished, strategy_folder
from gnas.run.strategy_curves import Point, StrategyComparison, read_points
from gnas.strategies import GraphNAS, SearchResult, SearchStrategy
from gnas.strategies.base import SearchContext, SearchProblem, read_finished_search
from gnas.strategies.evolution import Evolution
from gnas.strategies.gradient import GradientSettings
from gnas.strategies.race import Race
from gnas.strategies.trial import TrialSettings
from gnas.strategies.trials import ListedTrials
from gnas.strategies.weights import most_weights
from gnas.training.loop import Record


@dataclass(frozen=True)
class SearchBudget:
    """What every strategy may spend, and how every network is trained before it is judged.

    Args:
        epochs: Epochs of each strategy, of supernets and of networks together.
        trial_epochs: Epochs of a network before it is judged.
        derivations: Networks that are derived from a supernet, at equal distances.
        batch_size, lr, precision: Of these trainings.
        max_weights: Where a strategy chooses widths; 0: as many as the heaviest network of the space has.

    >>> from gnas.compare.strategies import SearchBudget
    >>> SearchBudget(epochs=100, trial_epochs=10).trials
    10
    """

    epochs: int = 100
    trial_epochs: int = 10
    derivations: int = 4
    batch_size: int = 128
    lr: float = 1e-3
    precision: str = "tf32"
    max_weights: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "trial_epochs", "derivations", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of the budget is {getattr(self, name)!r}; it must be at least 1")
        if self.search_epochs < self.derivations:
            least = self.derivations * (self.trial_epochs + 1)
            raise InputError(
                f"a budget of {self.epochs} epochs is too small for {self.derivations} derived networks of "
                f"{self.trial_epochs} epochs each and a search before them; give at least {least} epochs"
            )

    @property
    def trials(self) -> int:
        """How many networks a strategy by trials can afford."""
        return self.epochs // self.trial_epochs

    @property
    def search_epochs(self) -> int:
        """How many epochs a gradient strategy has for its supernet."""
        return self.epochs - self.derivations * self.trial_epochs

    def trial_settings(self) -> TrialSettings:
        """How one network is trained."""
        return TrialSettings(self.trials, self.trial_epochs, self.batch_size, self.lr, precision=self.precision)

    def given_to(self, strategy: SearchStrategy) -> SearchStrategy:
        """The strategy with this budget; one of another kind keeps its own settings.

        Evolution's population is at most half of its trials: a larger one would draw at random all the time.
        """
        changes: dict[str, Any] = {}
        if isinstance(strategy, TrialSettings):
            own = asdict(self.trial_settings())
            changes = {**own, "max_epochs": self.epochs, "max_seconds": strategy.max_seconds}
        if isinstance(strategy, Evolution):
            population = min(strategy.population, max(self.trials // 2, 1))
            changes |= {"population": population, "sample": min(strategy.sample, population)}
        if isinstance(strategy, GraphNAS) and self.max_weights:
            changes |= {"max_weights": min(strategy.max_weights, self.max_weights)}
        if isinstance(strategy, Race):
            changes |= {"training": None, "max_weights": strategy.max_weights or self.max_weights}
        if isinstance(strategy, GradientSettings):
            changes = {"epochs": self.search_epochs, "searches": 1}  # one search at a time
        return replace(strategy, **changes) if changes else strategy  # type: ignore[type-var]

    def rule(self) -> str:
        """How the points were made, in words."""
        return (
            f"Each strategy spent up to {self.epochs} epochs. Every network was trained from scratch for "
            f"{self.trial_epochs} epochs (batch {self.batch_size}, rate {self.lr:g}) and judged by validation; strategies "
            f"with a supernet trained it for {self.search_epochs} epochs, and {self.derivations} networks derived on the "
            "way. An epoch of a supernet is other work than one of a network: compare seconds too."
        )

    def for_problem(self, problem: SearchProblem) -> SearchBudget:
        """This budget with its ``max_weights`` known."""
        return self if self.max_weights else replace(self, max_weights=most_weights(problem))


def compare_strategies(
    benchmark: Benchmark,
    strategies: Mapping[str, SearchStrategy],
    budget: SearchBudget,
    seeds: Sequence[int],
    folder: str | Path,
    *,
    space: SearchSpace | None = None,
    channels: int = 64,
    num_cells: int = 4,
    operations: OperationTypes | None = None,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    runner: Runner | None = None,
) -> StrategyComparison:
    """Run every strategy from every seed under the same budget, and collect the points.

    Each is a run folder ``strategies/NAME/seed-S`` and a job. A finished one with the same settings is not repeated, an
    unfinished one is resumed. The test split is not read. If several workers share a machine, their seconds are those of
    a busy machine.

    Args:
        benchmark: The data.
        strategies: The strategies by name.
        budget: What each may spend.
        seeds: One search per seed and strategy.
        folder: The run folder of the comparison.
        space: The search space; by default the paper's.
        channels: Width of all networks.
        num_cells: Number of cells.
        operations: Your own operations by name, in this process only.
        device: Where to compute.
        engine: How steps are executed.
        on_epoch: Gets a record per epoch or trial, with its ``stage``.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.
        runner: Workers with a root at or above ``folder``; by default this process.

    >>> budget = SearchBudget(epochs=80)  # doctest: +SKIP
    >>> both = {"random": RandomSearch(), "darts": Darts()}  # doctest: +SKIP
    >>> compare_strategies(benchmark, both, budget, (0, 1, 2), "runs/both").rows()  # doctest: +SKIP
    """
    if not strategies or not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"name at least one strategy and seed, each once, not {list(strategies)} and {list(seeds)}")
    space, folder = space or SearchSpace(), Path(folder)
    runner = runner or Runner(folder, device=device)
    problem = SearchProblem(benchmark.train, benchmark.val, benchmark.task, space, channels, num_cells, operations)
    budget = budget.for_problem(problem)
    about = {**benchmark.identity, "space": space, "channels": channels, "cells": num_cells}
    results: dict[tuple[str, int], Record | None] = {}
    jobs: list[Job] = []
    for seed in seeds:  # before strategies: other work of the machine, if any, then slows all of them alike
        for name, strategy in strategies.items():
            chosen = budget.given_to(strategy)
            config = plain_config({"job": "search", **about, "search_budget": budget, "strategy": chosen, "seed": seed})
            place = strategy_folder(folder, name, seed)
            results[name, seed] = _read_result(place, config)
            if results[name, seed] is None:
                arguments = {"strategy": chosen, "problem": problem, "budget": budget, "engine": engine, "name": name}
                function, labels = "gnas.compare.strategies.strategy_job", {"stage": f"{name}-seed-{seed}"}
                job = Job(function, runner.name_folder(place), {**arguments, "config": config}, labels=labels)
                jobs.append(job)
    missing = [key for key, result in results.items() if result is None]
    results |= zip(missing, runner.results(jobs, on_epoch=on_epoch, should_stop=should_stop), strict=True)
    points = [point for (name, seed), result in results.items() for point in _read_points(result, folder, name, seed)]
    comparison = StrategyComparison(benchmark.name, benchmark.task.metric, asdict(budget), budget.rule(), tuple(points))
    comparison.save(folder)
    return comparison


def _read_result(folder: Path, config: Record) -> Record | None:
    """The result, if this search is finished; an error if the folder holds one with other settings."""
    if not is_finished(folder):
        return None
    with Run(folder, config, resume=True) as run:
        result: Record | None = run.read_json("result", ("points",))
    return result


def _read_points(result: Record | None, folder: Path, name: str, seed: int) -> list[Point]:
    return read_points((result or {})["points"], strategy_folder(folder, name, seed) / RESULT)


def strategy_job(
    work: Work,
    *,
    strategy: SearchStrategy,
    problem: SearchProblem,
    budget: SearchBudget,
    engine: str,
    name: str,
    config: Record,
) -> Record:
    """One strategy from one seed. The run then holds its points and the best network."""
    with work.open_run(config) as run:
        assert run is not None
        if run.read_json("result") is None:
            context = SearchContext(config["seed"], work.device, engine, run, work.on_epoch, work.should_stop)
            if work.device.type == "cuda":
                warm_up([strategy], problem, context)
            run_strategy(name, strategy, problem, budget, context, run)
        result: Record = run.read_json("result", ("points",))
    return result


def run_strategy(
    name: str,
    strategy: SearchStrategy,
    problem: SearchProblem,
    budget: SearchBudget,
    context: SearchContext,
    run: Run,
) -> None:
    """Search, derive networks if the search did not train any, and write the points and the best network."""
    with run.part("search", run.config, resume=True) as part:
        result = read_finished_search(part)
        if result is None:
            result = strategy.search(problem, replace(context, run=part))
            part.write_genotype(result.genotype)
            part.write_json("result", result.to_dict())
    records, best = result.history, result.genotype
    if not is_by_trials(result):
        if context.device.type == "cuda":
            gc.collect()  # the search and its recorded steps refer to each other, and hold the memory of the device
        with run.part("derived", {**run.config, "job": "derived"}, resume=True) as part:
            on_epoch = _count_from(len(result.history), context.on_epoch)
            records, best = derive_networks(result, problem, budget, replace(context, run=part, on_epoch=on_epoch))
    run.write_genotype(best)
    points = as_points(name, context.seed, records, problem.task.higher_is_better)
    run.write_json("result", {**result.to_dict(), "genotype": best.id, "points": [asdict(p) for p in points]})


def is_by_trials(result: SearchResult) -> bool:
    """Whether the search itself trained and judged networks, one per record."""
    return bool(result.history) and all("trial" in record for record in result.history)


def as_points(name: str, seed: int, records: Sequence[Record], higher_is_better: bool) -> list[Point]:
    """Records of trials as points; the best so far is computed from these records."""
    pick, points = max if higher_is_better else min, list[Point]()
    known: list[float] = []
    for number, record in enumerate(records, start=1):
        known += [record["val_metric"]] if record["val_metric"] is not None else []
        cost, best = (record["trained_epochs"], record["seconds"]), pick(known) if known else None
        network = (record["genotype_id"], record["depth"], record["num_weights"])
        points.append(Point(name, seed, number, *cost, record["val_metric"], best, *network))
    return points


# -- networks derived on the way -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """A search at one of its epochs: its cost so far, and the network of its alphas."""

    epochs: int
    seconds: float
    architecture: Architecture


def find_moments(result: SearchResult, count: int) -> list[Moment]:
    """Up to ``count`` moments, evenly spread, the end among them; a search that keeps no genotypes has its end only."""
    history = [record for record in result.history if record.get("genotype")]
    stops = dict.fromkeys(round(len(history) * part / count) for part in range(1, count))
    early = [history[stop - 1] for stop in stops if 0 < stop < len(history)]
    found = [Moment(r["epoch"], r["seconds"], Genotype.from_yaml(r["genotype"])) for r in early]
    return [*found, Moment(result.trained_epochs, result.seconds, result.genotype)]


def derive_networks(
    result: SearchResult, problem: SearchProblem, budget: SearchBudget, context: SearchContext
) -> tuple[list[Record], Architecture]:
    """A record for each moment of a search, its cost that of the search and of all networks trained by then; the best."""
    found = find_moments(result, budget.derivations)
    given = {moment.architecture.id: moment.architecture for moment in found}
    trials = ListedTrials(list(given.values()), budget.trial_settings(), problem, context)
    best = trials.search("derived").genotype
    tried = {record["genotype_id"]: record for record in trials.history}
    records, paid = [], (0, 0.0)
    for moment in found:
        record = tried[moment.architecture.id]
        paid = max(paid, (record["trained_epochs"], record["seconds"]))
        cost = {"trained_epochs": moment.epochs + paid[0], "seconds": round(moment.seconds + paid[1], 3)}
        records.append({**record, **cost})
    return records, best


# -- a fair clock ----------------------------------------------------------------------------------------------------


def warm_up(strategies: Sequence[SearchStrategy], problem: SearchProblem, context: SearchContext) -> None:
    """Run every strategy once on a few graphs: a GPU compiles kernels at first use, and that time is not counted."""
    few = {name: _first(getattr(problem, name), 256) for name in ("train", "val")}
    small = replace(problem, **few)
    for strategy in strategies:
        if isinstance(strategy, TrialSettings | GradientSettings):
            wanted: dict[str, Any] = {"epochs": 1, "trials": 1, "max_epochs": None, "inherit": False}
            known = {f.name for f in fields(strategy)}
            short = replace(strategy, **{key: value for key, value in wanted.items() if key in known})
            short.search(small, replace(context, run=None, on_epoch=None))
            gc.collect()


def _first(graphs: Any, count: int) -> Any:
    return graphs if len(graphs) <= count else graphs.select(torch.arange(count))


def _count_from(before: int, on_epoch: Callable[[Record], None] | None) -> Callable[[Record], None] | None:
    """``on_epoch`` for records whose epochs follow ``before`` others."""
    return None if on_epoch is None else lambda record: on_epoch({**record, "epoch": before + record["epoch"]})
