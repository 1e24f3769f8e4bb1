"""Searches by gradients as jobs, one per seed. The results of several are trained briefly, and validation chooses.

One search can go wrong without a sign: the accuracy of a supernet says little about the network derived from it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnas.jobs import Job, Work
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult, read_finished_search
from gnas.strategies.trial import TrialSettings
from gnas.strategies.trials import ListedTrials
from gnas.training.loop import Record, add_labels

if TYPE_CHECKING:
    from gnas.strategies.gradient import GradientSettings

JUDGED = "judged"  # the sub-folder in which the results are trained, and the stage of these records


def search_job(
    work: Work,
    *,
    strategy: GradientSettings,
    problem: SearchProblem,
    seed: int,
    engine: str,
    config: dict[str, Any],
) -> SearchResult:
    """One search from one seed; if it is finished, its result is read from its folder."""
    with work.open_run(config) as run:
        result = None if run is None else read_finished_search(run)
        if result is None:
            context = SearchContext(seed, work.device, engine, run, work.on_epoch, work.should_stop)
            result = strategy.search_once(problem, context)
            if run is not None:
                run.write_genotype(result.genotype)
                run.write_json("result", result.to_dict())
    if work.device.type == "cuda":
        gc.collect()  # a search and its recorded steps refer to each other, and hold the memory of the device
    return result


def search_best(strategy: GradientSettings, problem: SearchProblem, context: SearchContext) -> SearchResult:
    """One search, or the best of ``strategy.searches`` searches from consecutive seeds.

    In a run folder each of several searches has a sub-folder, ``seed-0``, ``seed-1`` and so on. The history of the folder is
    that of the chosen search. Seconds and epochs are the sums over all searches and brief trainings.
    """
    seeds = range(context.seed, context.seed + strategy.searches)
    results = _search_seeds(strategy, problem, context, seeds)
    if len(results) == 1:
        return results[0]
    trials = _judge_results(strategy, results, problem, context)
    best = trials.best()
    assert best is not None  # else the trials have raised
    chosen = next(one for one in results if one.genotype.id == best["genotype_id"])
    if context.run is not None:
        context.run.truncate(0)  # of a process that was stopped here
        for record in chosen.history:
            context.run.append(record)
    metrics = {record["genotype_id"]: record["val_metric"] for record in trials.history}
    return replace(
        chosen,
        seconds=round(sum(one.seconds for one in results) + trials.seconds, 3),
        trained_epochs=sum(one.trained_epochs for one in results) + trials.trained_epochs,
        searches=tuple(_describe(one, metrics[one.genotype.id]) for one in results),
    )


def _search_seeds(
    strategy: GradientSettings, problem: SearchProblem, context: SearchContext, seeds: Sequence[int]
) -> list[SearchResult]:
    runner, run = context.get_runner(), context.run
    several = len(seeds) > 1
    jobs = []
    for seed in seeds:
        part = f"seed-{seed}" if several else ""
        config = {} if run is None else {**run.config, "seed": seed} if several else run.config
        if run is not None and several:
            run.continue_run(part, config).close()  # a search with other settings is replaced
        arguments = {
            "strategy": strategy,
            "problem": problem,
            "seed": seed,
            "engine": context.engine,
            "config": config,
        }
        labels = {"seed": seed} if several else {}
        folder = context.name_folder(runner, part)
        jobs.append(Job("gnas.strategies.searches.search_job", folder, arguments, labels=labels))
    with contextlib.nullcontext() if run is None or several else run.release_lock():
        return list(runner.results(jobs, on_epoch=context.on_epoch, should_stop=context.should_stop))


def _judge_results(
    strategy: GradientSettings, results: Sequence[SearchResult], problem: SearchProblem, context: SearchContext
) -> ListedTrials:
    """Train each network once, briefly; returns the finished trials."""
    architectures = {one.genotype.id: one.genotype for one in results}
    settings = TrialSettings(
        epochs=strategy.trial_epochs,
        batch_size=strategy.batch_size,
        epoch_steps=strategy.epoch_steps,
        lr=strategy.trial_lr,
        precision=strategy.precision,
        precise_norms=strategy.precise_norms,
    )
    on_epoch = add_labels(context.on_epoch, stage=JUDGED)
    run = context.run
    folder = None if run is None else run.continue_run(JUDGED, {**run.config, "given": list(architectures)})
    with contextlib.nullcontext() if folder is None else folder:
        inside = replace(context, run=folder, on_epoch=on_epoch)
        trials = ListedTrials(list(architectures.values()), settings, problem, inside)
        trials.search(JUDGED)
    return trials


def _describe(one: SearchResult, val_metric: float | None) -> Record:
    return {"seed": one.seed, "genotype": one.genotype.id, "depth": one.genotype.depth(), "val_metric": val_metric}
