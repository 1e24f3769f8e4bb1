"""``--folds K`` of ``gnas search`` and ``gnas compare``: the same job on each of K folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gnas import distributed
from gnas.cli import show
from gnas.cli.job import finish_job, job_progress
from gnas.cli.prepare import PreparedRun
from gnas.compare.networks import Candidate
from gnas.cost import Workload, estimate_cost
from gnas.data import Benchmark, load
from gnas.data.benchmarks import is_dataset
from gnas.errors import InputError
from gnas.folds import FoldsResult, compare_folds, count_folds, search_folds
from gnas.printed import format_count
from gnas.run.words import duration
from gnas.training.stages import repeat_for_folds, train_stages
from gnas.workflow import check_budget, job_stages


def with_folds(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command with ``--folds`` as a data option, which a run folder keeps."""
    folds = options.get("folds")
    if folds is None:
        return dict(options)
    if is_dataset(str(options["dataset"])):
        raise InputError(f"{options['dataset']} has splits of its own; --folds needs your own data")
    if distributed.is_launched():
        raise InputError("--folds is many runs, torchrun is for one large run: choose one of them")
    return {**options, "data": [*(options["data"] or ()), f"folds={folds}"]}


def load_fold(prepared: PreparedRun, data_root: Any, fold: int) -> Benchmark:
    """The data of a fold; the first one is loaded already."""
    if fold == 1:
        return prepared.benchmark
    return load(prepared.dataset, data_root=data_root, **{**prepared.settings.data, "fold": fold})


def show_cost(prepared: PreparedRun, folds: int, searches: bool, networks: int) -> None:
    """Print what is done for each fold, and about how long it takes."""
    one = estimate_cost(Workload.of(prepared.benchmark), prepared.settings, prepared.device)
    seconds = (one.search_seconds if searches else 0.0) + networks * one.train_seconds
    trainings = format_count(networks * len(prepared.settings.training.seeds), "training")
    what = f"a search and {trainings}" if searches else trainings
    prepared.screen.pair(
        "folds",
        f"{folds} test folds; each has {what} of its own, about {duration(seconds)} per fold (estimated as for the strategy "
        "single-level)",
    )


def run_search_folds(prepared: PreparedRun, data_root: Any) -> None:
    """Search, train and compare on each fold, and print the mean and the spread over the folds."""
    settings, folds = prepared.settings, count_folds(prepared.settings)
    plan = job_stages(settings)
    networks = sum(stage.is_training for stage in plan)
    check_budget(prepared.benchmark, settings)
    show_cost(prepared, folds, True, networks)
    prepared.lock_folder()
    with job_progress(prepared, repeat_for_folds(plan, folds)) as how:
        found = search_folds(
            partial(load_fold, prepared, data_root),
            folds,
            settings,
            prepared.folder,
            resume=prepared.place.resumed,
            **how,
        )
    if found.genotype is not None:
        show.show_network(prepared.screen, found.genotype, f"fold {found.best}")
    show.show_answer(prepared.screen, prepared.folder)
    _show_folds(prepared, found, *show.list_next_steps(str(prepared.folder)))


def run_compare_folds(prepared: PreparedRun, data_root: Any, entries: Sequence[Candidate]) -> None:
    """Train the networks on each fold, and print the mean and the spread over the folds."""
    settings, folds = prepared.settings, count_folds(prepared.settings)
    show_cost(prepared, folds, False, len(entries))
    if any(entry.found for entry in entries):
        prepared.screen.pair(
            "note", "the search that found a network may have seen rows of the test folds; gnas search --folds does not"
        )
    prepared.lock_folder()
    training = settings.training
    plan = train_stages([entry.name for entry in entries], training.epochs, len(training.seeds))
    with job_progress(prepared, repeat_for_folds(plan, folds)) as how:
        found = compare_folds(
            partial(load_fold, prepared, data_root),
            folds,
            entries,
            settings,
            prepared.folder,
            resume=prepared.place.resumed,
            **how,
        )
    _show_folds(prepared, found)


def _show_folds(prepared: PreparedRun, found: FoldsResult, *commands: Sequence[str]) -> None:
    show.show_leaderboard(prepared.screen, found.leaderboard)
    best = {} if found.genotype is None else {"best_fold": found.best, "genotype": found.genotype.id}
    facts = {"dataset": prepared.benchmark.name, "preset": prepared.settings.preset, **best}
    facts |= {"leaderboard": found.leaderboard.to_dict(), "folds": [board.to_dict() for board in found.folds]}
    tables = f"{prepared.folder}/ leaderboard.csv, leaderboard.json, leaderboard.md; each fold in fold-K/"
    finish_job(prepared, facts, *commands, tables=tables)
