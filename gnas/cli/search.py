"""``gnas search``: the main job, from a dataset to a report."""

from __future__ import annotations

from typing import Any

from gnas import distributed
from gnas.cli import show
from gnas.cli.folds import run_search_folds, with_folds
from gnas.cli.job import finish_job, job_progress
from gnas.cli.options import Options
from gnas.cli.prepare import PreparedRun, open_workers, prepare_run
from gnas.cli.screen import Screen
from gnas.folds import count_folds
from gnas.workflow import check_budget, discover, job_stages


def search(options: Options, screen: Screen) -> None:
    """Search on one split, or on each fold."""
    prepared = prepare_run("search", with_folds(options), name=("{strategy}", "seed{seed}"))
    with open_workers(prepared, options) as prepared:
        if count_folds(prepared.settings):
            run_search_folds(prepared, options.data_root)
        else:
            run_search(prepared)


def run_search(prepared: PreparedRun) -> None:
    """The main job on loaded data, and what it prints."""
    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    plan = job_stages(settings)
    check_budget(benchmark, settings)  # before anything is written
    prepared.lock_folder()
    with job_progress(prepared, plan) as how:
        found = discover(
            benchmark,
            settings,
            prepared.folder,
            resume=prepared.place.resumed,
            **how,
            started=prepared.started,
        )
    if not distributed.leave_processes():
        return
    show.show_network(screen, found.genotype)
    show.show_answer(screen, prepared.folder)
    show.show_leaderboard(screen, found.leaderboard)
    facts: dict[str, Any] = {"dataset": benchmark.name, "preset": settings.preset, "device": str(prepared.device)}
    facts |= {**found.search.to_dict(), "leaderboard": found.leaderboard.to_dict()}
    finish_job(prepared, facts, *show.list_next_steps(str(prepared.folder)))
