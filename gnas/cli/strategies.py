"""``gnas compare --strategies``: ways to search on equal terms, the best network so far against what it has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gnas.cli.job import finish_job, job_progress
from gnas.cli.options import Options
from gnas.cli.prepare import PreparedRun
from gnas.compare.strategies import SearchBudget, compare_strategies
from gnas.errors import InputError
from gnas.plugins import check_plugin
from gnas.report import plots
from gnas.run.folder import Run, plain_config
from gnas.run.settings import Settings
from gnas.strategies import STRATEGIES, SearchStrategy
from gnas.strategies.base import SearchProblem
from gnas.strategies.trial import TrialSettings
from gnas.training.stages import Stage
from gnas.workflow import strategy_from_settings, write_data

ALL = tuple(name for name, make in STRATEGIES.items() if isinstance(make, type))  # darts1 and darts2 are darts
SEEDS = "0,1,2"
TRIAL_EPOCHS, DERIVATIONS = 10, 4
OWN = ("budget_epochs", "trial_epochs", "derivations")  # the options that only a comparison of strategies has


@dataclass(frozen=True)
class StrategyOptions:
    """The options of a comparison of strategies; None: not given."""

    names: Sequence[str]
    epochs: int | None = None
    trial_epochs: int | None = None
    derivations: int | None = None

    def with_saved(self, saved: Any) -> StrategyOptions:
        """These options. Those that are not given have the values that the run was started with."""
        before: Mapping[str, Any] = saved if isinstance(saved, Mapping) else {}
        names = before.get("names") or ()
        numbers = {key: str(before.get(key)) for key in ("epochs", "trial_epochs", "derivations")}
        known = {key: int(text) for key, text in numbers.items() if text.isdigit()}
        said = {key: value for key, value in asdict(self).items() if value}
        merged: dict[str, Any] = {"names": tuple(map(str, names)), **known, **said}
        return StrategyOptions(**merged)


def refuse_options(options: Options, *names: str) -> None:
    """An error for options that mean nothing with, or without, ``--strategies``."""
    for name in names:
        if options[name]:
            raise InputError(f"--{name.replace('_', '-')} is {'only' if name in OWN else 'not'} for --strategies")


def strategy_names(text: str) -> tuple[str, ...]:
    """``all``, or names, each known."""
    names = ALL if text.strip() == "all" else tuple(dict.fromkeys(text.replace(",", " ").split()))
    if not names:
        raise InputError(f"--strategies names none; give all, or some of: {', '.join(STRATEGIES)}")
    return tuple(check_plugin(name, STRATEGIES, "gnas.strategies", "strategy") for name in names)


def search_budget(settings: Settings, requested: StrategyOptions) -> SearchBudget:
    """The requested budget; by default gradient strategies can search as long as the settings say."""
    each, count = requested.trial_epochs or TRIAL_EPOCHS, requested.derivations or DERIVATIONS
    epochs = requested.epochs or settings.search.epochs + each * count
    return SearchBudget(
        epochs, each, count, settings.training.batch_size, settings.training.lr, max_weights=settings.training.budget
    )


def make_strategies(names: Sequence[str], settings: Settings, budget: SearchBudget) -> dict[str, SearchStrategy]:
    """The strategies with these names and their options. An option that the budget decides is an error."""
    settings = settings.changed({"search_epochs": budget.search_epochs})
    found = {}
    for name in names:
        found[name] = budget.given_to(strategy_from_settings(settings, name))
        for key, value in settings.search.options_for(name).items():
            decided = getattr(found[name], key, value)
            if decided != (tuple(value) if isinstance(value, list) else value):
                raise InputError(f"{key} of the strategy {name} is {value!r}, but this budget makes it {decided!r}")
    return found


def run_strategies(prepared: PreparedRun, requested: StrategyOptions, usual_seeds: bool) -> None:
    """Search by every strategy from every seed. Save, draw and print the points."""
    if usual_seeds:
        prepared = replace(prepared, settings=prepared.settings.changed({"seeds": SEEDS}))
    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    split, task = (benchmark.train, benchmark.val), benchmark.task
    problem = SearchProblem(*split, task, settings.space.search_space(), settings.space.channels, settings.space.cells)
    budget = search_budget(settings, requested).for_problem(problem)
    strategies = make_strategies(requested.names, settings, budget)
    prepared.lock_folder(strategies={**asdict(requested), "names": list(requested.names)})
    config = {
        "job": "compare",
        **benchmark.identity,
        "cells": settings.space.cells,
        "channels": settings.space.channels,
    }
    config = plain_config({**config, "space": settings.space.search_space(), "search_budget": budget})
    with Run(prepared.folder, config, resume=prepared.place.resumed) as run:
        write_data(run, benchmark)
        with job_progress(prepared, plan_stages(strategies, budget, settings.training.seeds)) as how:
            comparison = compare_strategies(
                benchmark,
                strategies,
                budget,
                settings.training.seeds,
                prepared.folder,
                space=problem.space,
                channels=problem.channels,
                num_cells=problem.num_cells,
                **how,
            )
        picture = plots.draw_best_so_far(comparison)
        pictures = [plots.save_plot(picture, prepared.folder / f"strategies.{kind}") for kind in ("svg", "png")]
        run.write_json("result", {"strategies": comparison.to_dict()["rows"]})
    table = comparison.table()
    screen.say(table.to_rich())
    screen.say(f" {comparison.dataset}: {table.caption}", style="dim")
    facts = {"device": str(prepared.device), **comparison.to_dict()}
    tables = f"{prepared.folder}/ strategies.csv, strategies.json, strategies.md"
    finish_job(prepared, facts, tables=tables, figure=", ".join(map(str, pictures)))


def plan_stages(strategies: Mapping[str, SearchStrategy], budget: SearchBudget, seeds: Sequence[int]) -> list[Stage]:
    """A stage for each search: trials, or epochs of a supernet and then the networks derived from it."""
    steps = budget.search_epochs + budget.derivations
    kinds = {True: (budget.trials, 1, "trial"), False: (steps, 1, "step")}
    return [
        Stage(f"{name}-seed-{seed}", f"{name}, seed {seed}", *kinds[isinstance(one, TrialSettings)])
        for seed in seeds
        for name, one in strategies.items()
    ]
