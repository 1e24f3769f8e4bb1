"""A whole search as one job on a worker: for strategies whose steps depend on each other."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.jobs import Job, Work, unpack
from gnas.run.folder import Run
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult, SearchStrategy, finished_search
from gnas.strategies.darts import Darts
from gnas.strategies.single_level import SingleLevel
from gnas.strategies.values import from_values, to_values

WHOLE = (SingleLevel, Darts)  # what can be sent; trial-based strategies send their trials


def search_apart(strategy: SearchStrategy, problem: SearchProblem, context: SearchContext) -> SearchResult:
    """Search on a worker of ``context.runner``, in the folder of ``context.run``."""
    runner, run = context.runner, context.run
    if runner is None or run is None:
        raise InputError("a search on workers needs a run folder")
    if problem.operations is not None:
        raise InputError("operations of your own cannot be sent to workers; search without --on")
    arguments = {
        "graphs": context.graphs,
        "config": run.config,
        "strategy": to_values(strategy),
        "space": asdict(problem.space),
        "channels": problem.channels,
        "num_cells": problem.num_cells,
        "seed": context.seed,
        "engine": context.engine,
    }
    run.close()  # the worker takes the folder over
    runner.send(runner.name_of(run.path))
    job = Job("gnas.strategies.search_apart.search_job", runner.name_of(run.path), json.loads(json.dumps(arguments)))
    runner.all([job], on_epoch=context.on_epoch, should_stop=context.should_stop)
    found = finished_search(run)
    if found is None:
        raise InputError(f"{run.path}: the worker left no result there")
    return found


def search_job(
    work: Work,
    *,
    graphs: str,
    config: dict[str, Any],
    strategy: dict[str, Any],
    space: dict[str, Any],
    channels: int,
    num_cells: int,
    seed: int,
    engine: str,
) -> None:
    """One search in a worker; what it found lies in its folder."""
    given = unpack(work.file(graphs))
    problem = SearchProblem(
        given.splits["train"], given.splits["val"], given.task, SearchSpace(**space), channels, num_cells
    )
    with Run(work.folder, config, resume=True) as run:
        if finished_search(run) is None:
            context = SearchContext(seed, work.device, engine, run, work.on_epoch, work.should_stop)
            found = from_values(strategy).search(problem, context)
            run.write_genotype(found.genotype)
            run.write_json("result", found.to_dict())
