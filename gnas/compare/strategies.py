"""Ways to search on equal terms: how good the best network found so far is, against what the search has cost.

Every point is a discrete network that was trained from scratch for ``trial_epochs`` epochs on the whole training split,
by the same optimiser, batch and rate, and judged by its best epoch on validation. A strategy by trials gives a point
for each trial. A gradient strategy pays for the epochs of its supernet, and at ``derivations`` moments, evenly spread over
its search, the network its alphas stand for is trained like a trial and paid for like one; a network it already
tried costs nothing again. All have the same number of epochs to spend, and nobody gets more weights: a strategy that
chooses widths itself (``GraphNAS``) has at most as many as the heaviest network of the space.

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
from gnas.compare.budget import SearchBudget
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.jobs import Job, Runner, Work, unpack
from gnas.model.stage import OperationTypes
from gnas.run.folder import Run, plain
from gnas.run.strategy_curves import Point, StrategyComparison, read_points
from gnas.strategies import SearchResult, SearchStrategy, search
from gnas.strategies.base import SearchContext, SearchProblem, finished_search
from gnas.strategies.brief import TrialSettings
from gnas.strategies.given import GivenTrials
from gnas.strategies.gradient import GradientSettings
from gnas.strategies.values import from_values, to_values
from gnas.training.loop import Record


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

    Each is a run folder ``strategies/NAME/seed-S``; a finished one with the same settings is not repeated, an
    unfinished one goes on. The test split plays no part. With a ``runner`` each is a job on its workers; their seconds
    then are those of a machine that others use too.
    """
    if not strategies or not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"name at least one strategy and seed, each once, not {list(strategies)} and {list(seeds)}")
    space, folder = space or SearchSpace(), Path(folder)
    problem = SearchProblem(benchmark.train, benchmark.val, benchmark.task, space, channels, num_cells, operations)
    budget = budget.for_problem(problem)
    ready = {name: budget.given_to(one) for name, one in strategies.items()}
    about = {"dataset": benchmark.name, "space": space, "channels": channels, "cells": num_cells}
    configs = {
        (name, seed): plain({"job": "search", **about, "search_budget": budget, "strategy": strategy, "seed": seed})
        for seed in seeds  # before strategies: the machine's other work, if any, then meets all of them
        for name, strategy in ready.items()
    }
    places = {key: folder / "strategies" / key[0] / f"seed-{key[1]}" for key in configs}
    if runner is not None:
        if operations is not None:
            raise InputError("operations of your own cannot be sent to workers; compare without --on")
        shared = {"graphs": runner.share(benchmark), "engine": engine}
        left = {key: place for key, place in places.items() if not (place / "result.json").exists()}
        jobs = [
            _job(runner.name_of(place), name, ready[name], configs[name, seed], shared)
            for (name, seed), place in left.items()
        ]
        runner.all(jobs, on_epoch=on_epoch, should_stop=should_stop)
    points: list[Point] = []
    warm = torch.device(device).type != "cuda"
    for (name, seed), config in configs.items():
        with Run(places[name, seed], config, resume=True) as run:
            if run.read_json("result") is None:
                context = SearchContext(seed, torch.device(device), engine, None, on_epoch, should_stop)
                if not warm:
                    warm_up(list(ready.values()), problem, context)
                    warm = True
                _run(name, ready[name], benchmark, problem, budget, context, run)
            points += read_points(run.read_json("result", ("points",))["points"], run.path / "result.json")
    comparison = StrategyComparison(benchmark.name, benchmark.task.metric, asdict(budget), budget.rule(), tuple(points))
    comparison.save(folder)
    return comparison


def _job(folder: str, name: str, strategy: SearchStrategy, config: dict[str, Any], shared: dict[str, Any]) -> Job:
    arguments = {**shared, "name": name, "strategy": to_values(strategy), "config": config}
    return Job("gnas.compare.strategies.strategy_job", folder, arguments)


def strategy_job(
    work: Work, *, graphs: str, engine: str, name: str, strategy: dict[str, Any], config: dict[str, Any]
) -> dict[str, Any]:
    """One strategy from one seed, in a worker."""
    benchmark, chosen = unpack(work.file(graphs)).benchmark(), from_values(strategy)
    space, size = SearchSpace(**config["space"]), (config["channels"], config["cells"])
    problem = SearchProblem(benchmark.train, benchmark.val, benchmark.task, space, *size)
    with Run(work.folder, config, resume=True) as run:
        if run.read_json("result") is None:
            context = SearchContext(config["seed"], work.device, engine, None, work.on_epoch, work.should_stop)
            if work.device.type == "cuda":
                warm_up([chosen], problem, context)
            _run(name, chosen, benchmark, problem, SearchBudget(**config["search_budget"]), context, run)
        return run.read_json("result")


def _run(
    name: str,
    strategy: SearchStrategy,
    benchmark: Benchmark,
    problem: SearchProblem,
    budget: SearchBudget,
    context: SearchContext,
    run: Run,
) -> None:
    """One strategy from one seed; the run then holds its points and the best network."""
    told = context.on_epoch
    with run.part("search", run.config, resume=True) as part:
        result = finished_search(part) or search(
            benchmark,
            problem.space,
            strategy,
            channels=problem.channels,
            num_cells=problem.num_cells,
            seed=context.seed,
            device=context.device,
            engine=context.engine,
            operations=problem.operations,
            run=part,
            on_epoch=_labelled(told, f"{name}-seed-{context.seed}"),
            should_stop=context.should_stop,
        )
    records, best = result.history, result.genotype
    if not by_trials(result):
        if context.device.type == "cuda":
            gc.collect()  # the search and its recorded steps hold each other, and with them the memory of the device
        with run.part("derived", {**run.config, "job": "derived"}, resume=True) as part:
            note = _labelled(told, f"{name}-seed-{context.seed}", len(result.history))
            records, best = derive(result, problem, budget, replace(context, run=part, on_epoch=note))
    run.write_genotype(best)
    points = as_points(name, context.seed, records, problem.task.higher_is_better)
    run.write_json("result", {**result.to_dict(), "genotype": best.id, "points": [asdict(p) for p in points]})


def by_trials(result: SearchResult) -> bool:
    """Whether the search itself trained networks and judged them, one a record."""
    return bool(result.history) and all("trial" in record for record in result.history)


def as_points(name: str, seed: int, records: Sequence[Record], higher_is_better: bool) -> list[Point]:
    """Records of trials as points, the best so far computed anew."""
    pick, points = max if higher_is_better else min, list[Point]()
    known: list[float] = []
    for number, record in enumerate(records, start=1):
        known += [record["val_metric"]] if record["val_metric"] is not None else []
        points.append(
            Point(
                name,
                seed,
                number,
                record["trained_epochs"],
                record["seconds"],
                record["val_metric"],
                pick(known) if known else None,
                record["genotype_id"],
                record["depth"],
                record["num_weights"],
            )
        )
    return points


# -- networks derived on the way -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """A search at one of its epochs: what it has cost, and the network it stands for."""

    epochs: int
    seconds: float
    architecture: Architecture


def moments(result: SearchResult, count: int) -> list[Moment]:
    """Up to ``count`` moments, evenly spread, the end among them; a search that keeps no genotypes has its end only."""
    history = [record for record in result.history if record.get("genotype")]
    stops = dict.fromkeys(round(len(history) * part / count) for part in range(1, count))
    early = [history[stop - 1] for stop in stops if 0 < stop < len(history)]
    found = [Moment(r["epoch"], r["seconds"], Genotype.from_yaml(r["genotype"])) for r in early]
    return [*found, Moment(result.trained_epochs, result.seconds, result.genotype)]


def derive(
    result: SearchResult, problem: SearchProblem, budget: SearchBudget, context: SearchContext
) -> tuple[list[Record], Architecture]:
    """A record for each moment of a search, its cost that of the search and of all networks trained by then; the best."""
    found = moments(result, budget.derivations)
    given = {moment.architecture.id: moment.architecture for moment in found}
    trials = GivenTrials(list(given.values()), budget.trial_settings(), problem, context)
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
    """Search a few graphs once by every strategy: a GPU compiles kernels at first use, and nobody's clock shall pay."""
    few = {name: _first(getattr(problem, name), 256) for name in ("train", "val")}
    small = replace(problem, **few)
    for strategy in strategies:
        if isinstance(strategy, TrialSettings | GradientSettings):
            wanted: dict[str, Any] = {"epochs": 1, "trials": 1, "max_epochs": None, "inherit": False}
            known = {f.name for f in fields(strategy)}
            short = replace(strategy, **{key: value for key, value in wanted.items() if key in known})
            short.search(small, replace(context, run=None, on_epoch=None))  # type: ignore[attr-defined]
            gc.collect()


def _first(graphs: Any, count: int) -> Any:
    return graphs if len(graphs) <= count else graphs.select(torch.arange(count))


def _labelled(
    on_epoch: Callable[[Record], None] | None, stage: str, before: int = 0
) -> Callable[[Record], None] | None:
    if on_epoch is None:
        return None
    return lambda record: on_epoch({"stage": stage, **record, "epoch": before + record["epoch"]})
