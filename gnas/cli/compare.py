"""``gnas compare``: hand-made and found networks on equal terms; with ``--strategies``, ways to search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gnas.cli import job
from gnas.cli.networks import is_name, read_network
from gnas.cli.options import Options
from gnas.cli.prepare import PreparedRun, open_workers, prepare_run, saved_numbers
from gnas.cli.screen import Screen
from gnas.cli.settings import split_names
from gnas.compare.networks import Candidate, Training, as_saved
from gnas.compare.strategies import SearchBudget, compare_strategies
from gnas.data import Benchmark
from gnas.errors import InputError
from gnas.folds import count_folds
from gnas.plugins import check_plugin
from gnas.report import plots
from gnas.run.folder import FINGERPRINT, Run, copy_training, plain_config
from gnas.run.layout import is_finished, training_folder
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings, config_value
from gnas.strategies import STRATEGIES, SearchStrategy
from gnas.strategies.base import SearchProblem
from gnas.strategies.trial import TrialSettings
from gnas.training.stages import Stage
from gnas.workflow import (
    baseline_dropout,
    make_baseline_candidate,
    make_candidate,
    strategy_from_settings,
    train_config,
    write_data,
)

ALL = tuple(name for name, make in STRATEGIES.items() if isinstance(make, type))  # darts1 and darts2 are darts
SEEDS = "0,1,2"
TRIAL_EPOCHS, DERIVATIONS = 10, 4
OWN = ("budget_epochs", "trial_epochs", "derivations")  # the options that only a comparison of strategies has


def compare(options: Options, screen: Screen) -> None:
    """Compare networks, or strategies if some are named."""
    for path in options.found or ():
        read_network(path)  # an error before the data are loaded
    names = () if options.strategies is None else strategy_names(options.strategies)
    requested = StrategyOptions(names, options.budget_epochs, options.trial_epochs, options.derivations)
    if options.strategies is not None:
        refuse_options(options, "found", "baselines", "epochs", "folds", "ensemble")
    prepared = prepare_run("compare", job.with_folds(options), name=("strategies" if names else "compare",))
    requested = requested.with_saved(prepared.saved_options.get("strategies"))
    if not requested.names:
        refuse_options(options, *OWN)
    with open_workers(prepared, options) as prepared:
        if requested.names:
            run_strategies(prepared, requested, usual_seeds=options.seeds is None and not prepared.saved_options)
        else:
            run_compare(prepared, options.found or [], layers=options.cells, data_root=options.data_root)


def collect_candidates(
    prepared: PreparedRun, found_in: list[Path], layers: int | None, collect: bool = True
) -> list[Candidate]:
    """The networks that take part, each with a remark where it differs from the first.

    ``collect`` uses trainings of the same data that the runs of found networks have.
    """
    settings, benchmark = prepared.settings, prepared.benchmark
    config = train_config(settings, benchmark.patience)
    entries: list[tuple[Candidate, Path | None]] = []
    names: list[str] = []
    for path in found_in:
        name = path.name  # of a shipped network
        if not is_name(path):
            name = (path.resolve().name if path.is_dir() else path.stem).removeprefix(f"{benchmark.name}-")
        name = f"{name}-{names.count(name) + 1}" if name in names else name
        names.append(name)
        entries.append((make_candidate(read_network(path), benchmark, run_settings(path, settings), name), path))
    budget = settings.training.budget or (count_weights(entries[0][0], benchmark) if entries else 0)
    deep = layers or (max(entries[0][0].depth, 1) if entries else settings.space.cells)
    rate = baseline_dropout(benchmark, settings)
    made = settings.training.baselines
    entries += [(make_baseline_candidate(name, benchmark, deep, budget or None, dropout=rate), None) for name in made]
    finished, problems = list[Candidate](), dict[Path, str]()
    for entry, own in entries:
        trainings = [Training(benchmark, entry, config, seed, prepared.folder) for seed in settings.training.seeds]
        remark = ""
        for run in (found_in if own is None else [own]) if collect else ():
            if run.is_dir():
                complete, problem = collect_trainings(run, entry.name if own is None else "gnas", trainings)
                remark = "trained before" if complete else remark
                problems |= {run: problem} if problem else {}
        finished.append(add_remark(entry, benchmark, budget or count_weights(entry, benchmark), remark))
    for run, problem in problems.items():
        text = f"{run}: its trainings {problem}; they are not used, the networks are trained anew"
        prepared.screen.pair("note", text)
    return finished


def run_compare(prepared: PreparedRun, found_in: list[Path], layers: int | None, data_root: Path | None) -> None:
    """Train the networks, or reuse their trainings. Rank, save and print them; with folds, on each fold."""
    if not (found_in or prepared.settings.training.baselines):
        raise InputError("nothing to compare: name --baselines or --found")
    if count_folds(prepared.settings):
        job.run_folds(prepared, data_root, collect_candidates(prepared, found_in, layers, collect=False))
        return
    prepared.lock_folder()
    with job.training_run(prepared, "compare") as run:
        board = job.run_training(prepared, run, collect_candidates(prepared, found_in, layers))
    job.show_leaderboard(prepared.screen, board)
    tables = ", ".join(f"leaderboard.{kind}" for kind in ("csv", "json", "md"))
    job.finish_job(prepared, board.to_dict(), tables=f"{prepared.folder}/ {tables}")


# -- networks ---------------------------------------------------------------------------------------------------------


def run_settings(folder: Path, otherwise: Settings) -> Settings:
    """The settings that a run's network was built with. Those that its config.yaml lacks are those of ``otherwise``."""
    config = Run(folder).config if folder.is_dir() else {}
    values = {name: config_value(config, name) for name in ("space.channels", "training.dropout", "training.budget")}
    return otherwise.changed({name: value for name, value in values.items() if value is not None})


def count_weights(candidate: Candidate, benchmark: Benchmark) -> int:
    """Weights of the candidate's network for this benchmark."""
    return sum(weight.numel() for weight in candidate.build(benchmark.task).parameters())


def add_remark(candidate: Candidate, benchmark: Benchmark, weights: int, remark: str = "") -> Candidate:
    """The candidate with a remark on what is not equal: much fewer or more weights than ``weights``, and ``remark``."""
    own = count_weights(candidate, benchmark)
    size = "" if abs(own - weights) <= 0.1 * weights else f"{own / weights - 1:+.0%} weights"
    return replace(candidate, remark="; ".join(filter(None, (candidate.remark, size, remark))))


def collect_trainings(run: Path, network: str, trainings: Sequence[Training]) -> tuple[bool, str]:
    """Copy the finished trainings of the same network, protocol and data that another run has as ``network``.

    Returns whether it has all of them, and what is wrong with the others.
    """
    used, problem = 0, ""
    for one in trainings:
        source = training_folder(run, network, one.seed)
        if not is_finished(source):
            continue
        saved, requested = Run(source).config, one.settings()
        # Settings that are newer than the run have their defaults.
        saved = {**saved, "training": {**as_saved(TrainConfig()), **saved.get("training", {})}}
        if saved.get(FINGERPRINT) != one.benchmark.fingerprint:
            problem = "are of other data" if FINGERPRINT in saved else "have no fingerprint of their data"
        elif {**saved, "model": one.candidate.name} == requested:
            used += 1
            if not one.folder.exists():
                copy_training(source, one.folder, requested)
    return used == len(trainings), problem


# -- strategies -------------------------------------------------------------------------------------------------------


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
        numbers = saved_numbers(before, ("epochs", "trial_epochs", "derivations"))
        given: dict[str, Any] = {key: value for key, value in asdict(self).items() if value}
        return StrategyOptions(**{"names": tuple(map(str, names)), **numbers, **given})


def refuse_options(options: Options, *names: str) -> None:
    """An error for options that mean nothing with, or without, ``--strategies``."""
    for name in names:
        if options[name]:
            raise InputError(f"--{name.replace('_', '-')} is {'only' if name in OWN else 'not'} for --strategies")


def strategy_names(text: str) -> tuple[str, ...]:
    """``all``, or names, each known."""
    names = ALL if text.strip() == "all" else split_names(text)
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
    seeds, size = settings.training.seeds, {"cells": settings.space.cells, "channels": settings.space.channels}
    space, split = settings.space.search_space(), (benchmark.train, benchmark.val)
    problem = SearchProblem(*split, benchmark.task, space, size["channels"], size["cells"])
    budget = search_budget(settings, requested).for_problem(problem)
    strategies = make_strategies(requested.names, settings, budget)
    prepared.lock_folder(strategies={**asdict(requested), "names": list(requested.names)})
    about = {"job": "compare", **benchmark.identity, **size, "space": space, "search_budget": budget}
    with Run(prepared.folder, plain_config(about), resume=prepared.place.resumed) as run:
        write_data(run, benchmark)
        with job.job_progress(prepared, plan_stages(strategies, budget, seeds)) as how:
            comparison = compare_strategies(
                benchmark,
                strategies,
                budget,
                seeds,
                prepared.folder,
                space=space,
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
    job.finish_job(prepared, facts, tables=tables, figure=", ".join(map(str, pictures)))


def plan_stages(strategies: Mapping[str, SearchStrategy], budget: SearchBudget, seeds: Sequence[int]) -> list[Stage]:
    """A stage for each search: trials, or epochs of a supernet and then the networks derived from it."""
    steps = budget.search_epochs + budget.derivations
    kinds = {True: (budget.trials, 1, "trial"), False: (steps, 1, "step")}
    return [
        Stage(f"{name}-seed-{seed}", f"{name}, seed {seed}", *kinds[isinstance(one, TrialSettings)])
        for seed in seeds
        for name, one in strategies.items()
    ]
