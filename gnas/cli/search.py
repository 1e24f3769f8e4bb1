"""``gnas search``: the main job, from a dataset to a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from gnas.cli import options as o
from gnas.cli.screen import Screen

if TYPE_CHECKING:
    from gnas.cli.prepare import PreparedRun

EXAMPLES = (
    "gnas search cluster-mini",
    "gnas search molecules.csv --target logP --strategy race --time 10m",
    "gnas search molecules.csv --target logP --folds 5 --on local:2",
    "gnas search zinc --preset paper --device cuda --out runs/zinc",
)


def search(
    context: typer.Context,
    dataset: o.Dataset,
    strategy: o.Strategy = None,
    preset: o.Preset = None,
    settings: o.SettingsFile = None,
    seed: o.Seed = None,
    cells: o.Cells = None,
    channels: o.Channels = None,
    search_epochs: o.SearchEpochs = None,
    searches: o.Searches = None,
    time_limit: o.Time = None,
    trials: o.Trials = None,
    epochs: o.Epochs = None,
    batch: o.Batch = None,
    seeds: o.Seeds = None,
    budget: o.Budget = None,
    ensemble: o.Ensemble = None,
    baselines: o.Baselines = None,
    change: o.Change = None,
    target: o.Target = None,
    data: o.DataOption = None,
    folds: o.Folds = None,
    sample_neighbors: o.SampleNeighbors = None,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    on: o.On = None,
    gpus_per_job: o.GpusPerJob = None,
    sync: o.Sync = None,
    sync_bn: o.SyncNorm = False,
    deterministic: o.Deterministic = False,
    out: o.Out = None,
    resume: o.Resume = False,
    force: o.Force = False,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Find a network for your graphs, train it, compare it with hand-made ones, and write a report."""
    with Screen(as_json, quiet).waiting("starting"):
        from gnas.cli.folds import run_search_folds, with_folds
        from gnas.cli.prepare import prepare_run
        from gnas.cli.workers import open_workers
        from gnas.folds import count_folds

    prepared = prepare_run("search", with_folds(context.params), name=("{strategy}", "seed{seed}"))
    with open_workers(prepared, context.params) as prepared:
        if count_folds(prepared.settings):
            run_search_folds(prepared, data_root)
        else:
            run_search(prepared)


def run_search(prepared: PreparedRun) -> None:
    """The main job on loaded data, and what it prints."""
    from gnas import distributed
    from gnas.cli import show
    from gnas.cli.job import job_progress, write_report
    from gnas.workflow import check_budget, discover, job_stages

    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    plan = job_stages(settings)
    check_budget(benchmark, settings)  # before anything is written
    prepared.lock_folder()
    with job_progress(prepared, plan) as work:
        found = discover(
            benchmark,
            settings,
            prepared.folder,
            device=prepared.device,
            resume=prepared.place.resumed,
            on_epoch=work.on_epoch,
            should_stop=work.should_stop,
            runner=prepared.runner,
            started=prepared.started,
        )
    if not distributed.leave_processes():
        return
    show.show_network(screen, found.genotype)
    show.show_answer(screen, prepared.folder)
    show.show_leaderboard(screen, found.leaderboard)
    report = write_report(prepared.folder)
    show.show_next_steps(screen, report, *show.list_next_steps(str(prepared.folder)))
    screen.result(
        {
            "run": str(prepared.folder),
            "dataset": benchmark.name,
            "preset": settings.preset,
            "device": str(prepared.device),
            **found.search.to_dict(),
            "leaderboard": found.leaderboard.to_dict(),
            "report": report,
        }
    )
