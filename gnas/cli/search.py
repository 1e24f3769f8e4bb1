"""``gnas search``, from a dataset to a report; ``gnas depth``, how deep a network these graphs need (Algorithm 1)."""

from __future__ import annotations

from typing import Any

from gnas import distributed
from gnas.cli import job
from gnas.cli.options import Options
from gnas.cli.prepare import PreparedRun, open_workers, prepare_run, saved_numbers
from gnas.cli.progress import count_progress
from gnas.cli.screen import Screen
from gnas.files import write_json
from gnas.folds import count_folds
from gnas.run.layout import DATA
from gnas.run.table import Table
from gnas.run.words import duration, format_metric, label_metric
from gnas.strategies import search_stages
from gnas.strategies.depth import REASONS, DepthResult, average_diameter, search_depth
from gnas.workflow import check_budget, discover, job_stages, strategy_from_settings, summarise_data

USUAL = {"start": None, "limit": 24, "rounds": 10}  # the defaults; start: half of the graphs' diameter


def search(options: Options, screen: Screen) -> None:
    """Search on one split, or on each fold."""
    prepared = prepare_run("search", job.with_folds(options), name=("{strategy}", "seed{seed}"))
    with open_workers(prepared, options) as prepared:
        if count_folds(prepared.settings):
            job.run_folds(prepared, options.data_root)
        else:
            run_search(prepared)


def run_search(prepared: PreparedRun) -> None:
    """The main job on loaded data, and what it prints."""
    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    plan = job_stages(settings)
    check_budget(benchmark, settings)  # before anything is written
    prepared.lock_folder()
    with job.job_progress(prepared, plan) as how:
        resumed, started = prepared.place.resumed, prepared.started
        found = discover(benchmark, settings, prepared.folder, resume=resumed, started=started, **how)
    if not distributed.leave_processes():
        return
    job.show_network(screen, found.genotype)
    job.show_answer(screen, prepared.folder)
    job.show_leaderboard(screen, found.leaderboard)
    facts: dict[str, Any] = {"dataset": benchmark.name, "preset": settings.preset, "device": str(prepared.device)}
    facts |= {**found.search.to_dict(), "leaderboard": found.leaderboard.to_dict()}
    job.finish_job(prepared, facts, *job.list_next_steps(str(prepared.folder)))


def depth(options: Options, screen: Screen) -> None:
    """Search the depth within the bounds that are named, or saved with the run."""
    given = {key: options[key] for key in ("strategy", "seed", "channels")}
    given |= {"search_epochs": options.epochs, "search_batch": options.batch}
    prepared = prepare_run("depth", options, given, ("depth", "{strategy}", "seed{seed}"))
    requested = {"start": options.cells, "limit": options.limit, "rounds": options.rounds}
    saved = saved_numbers(prepared.saved_options, USUAL)
    bounds = {name: requested[name] or saved.get(name) or usual for name, usual in USUAL.items()}
    with open_workers(prepared, options) as prepared:
        run_depth(prepared, bounds)


def run_depth(prepared: PreparedRun, bounds: dict[str, int | None]) -> None:
    """Search the depth and print the result."""
    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    chosen = strategy_from_settings(settings)
    prepared.lock_folder(**bounds)
    write_json(prepared.folder / DATA, summarise_data(benchmark))
    diameter = None
    if bounds["start"] is None:
        with count_progress(screen, benchmark.name) as on_progress:
            diameter = average_diameter(benchmark.train, seed=settings.search.seed, on_progress=on_progress)
    space = settings.space
    with job.job_progress(prepared, search_stages(chosen, "round-1")) as how:
        result = search_depth(
            benchmark,
            space.search_space(),
            chosen,
            start=bounds["start"],
            limit=bounds["limit"] or 1,
            max_rounds=bounds["rounds"] or 1,
            folder=prepared.folder,
            resume=prepared.place.resumed,
            channels=space.channels,
            seed=settings.search.seed,
            diameter=diameter,
            **how,
        )
    if result.diameter is not None:
        screen.pair("diameter", f"{result.diameter} on average: the first search has half as many cells")
    screen.say(_rounds_table(result, benchmark.task.metric).to_rich())
    screen.pair("depth", " → ".join(map(str, result.trajectory)) + f": {REASONS[result.reason]}")
    for note in result.notes:
        screen.pair("note", note)
    job.show_network(screen, result.genotype)
    facts = {"dataset": benchmark.name, "device": str(prepared.device), **result.to_dict()}
    job.finish_job(prepared, facts, ["gnas", "train", prepared.dataset, "--genotype", str(prepared.folder)])


def _rounds_table(result: DepthResult, metric: str) -> Table[Any]:
    headings = ("round", "cells", "of them aggregate", f"validation {label_metric(metric)}", "time")
    rows = [
        (number, one.initial, one.searched, format_metric(metric, one.val_metric), duration(one.seconds))
        for number, one in enumerate(result.rounds, start=1)
    ]
    return Table.from_tuples(headings, rows)
