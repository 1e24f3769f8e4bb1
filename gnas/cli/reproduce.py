"""``gnas reproduce``: every table and figure of the paper; what is missing is run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnas.cli import options as o
from gnas.cli.screen import Screen

if TYPE_CHECKING:
    from gnas.paper import Request

EXAMPLES = (
    "gnas reproduce --quick",
    "gnas reproduce --list",
    "gnas reproduce --only table-zinc --methods gnas --device cuda --time-limit 560 --out runs/paper",
    "gnas reproduce --from benchmarks/results --no-run --page docs/results.md",
)
WHAT = "What is reproduced"

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="A table or figure, such as table-zinc; repeatable. Default: all.", rich_help_panel=WHAT
    ),
]
Datasets = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Only these of the paper's datasets: zinc,pattern,...", rich_help_panel=WHAT),
]
Methods = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Only these networks: gnas,gcn,...,graphnas.", rich_help_panel=WHAT),
]
Depths = Annotated[
    str | None, typer.Option(metavar="4,16", help="Only these of the paper's depths.", rich_help_panel=WHAT)
]
Searches = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Searches per line; the table shows the best network by validation.",
        rich_help_panel=WHAT,
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Minutes on a CPU: small data, small networks.", rich_help_panel=WHAT)
]
Sync = Annotated[
    str | None,
    typer.Option(
        "--sync",
        metavar="URL",
        help="Copy --out to this fsspec URL too (s3://..., file://...), and start with the runs there.",
        rich_help_panel=o.PLACE,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Where runs, tables and figures go. Default: runs/paper.", rich_help_panel=o.PLACE
    ),
]
From = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="DIR",
        help="Read finished runs or archives from here too; repeatable.",
        rich_help_panel=o.PLACE,
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Add finished runs to the archives here, without weights.",
        rich_help_panel=o.PLACE,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0, help="Stop after this time; the same command resumes.", rich_help_panel=o.PLACE
    ),
]
ListOnly = Annotated[
    bool, typer.Option("--list", "--dry-run", help="List the runs that are done and left, and how long they take.")
]
NoRun = Annotated[bool, typer.Option("--no-run", help="Only draw finished runs.")]
Page = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Update the tables and figures of a Markdown page with marks.", rich_help_panel=o.OUTPUT
    ),
]


def reproduce(
    only: Only = None,
    datasets: Datasets = None,
    methods: Methods = None,
    depths: Depths = None,
    seeds: o.Seeds = None,
    searches: Searches = 1,
    change: o.Change = None,
    quick: Quick = False,
    listing: ListOnly = False,
    no_run: NoRun = False,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    on: o.On = None,
    gpus_per_job: o.GpusPerJob = None,
    sync: Sync = None,
    out: Out = None,
    kept: From = None,
    keep: Keep = None,
    time_limit: TimeLimit = None,
    page: Page = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Reproduce the paper's tables and figures: read finished runs, do the missing ones, draw everything.

    Tables show paper, ours and the difference side by side. Every run is a folder below --out. It can be stopped at any
    moment; the same command resumes it. Failed runs are listed and do not stop the others.
    """
    started, screen = time.monotonic(), Screen(as_json, quiet)
    with screen.waiting("starting"):
        from gnas.cli.prepare import choose_device
        from gnas.cli.reproducing import draw_all, run_missing, show_items, show_plan
        from gnas.cli.workers import check_workers
        from gnas.errors import InputError
        from gnas.jobs import Storage
        from gnas.paper import Results, Summary, plan_runs, read_failures
        from gnas.paper.estimate import Estimator
    request = _parse_request(only, datasets, methods, depths, seeds, searches, change, quick)
    check_workers({"on": on, "gpus_per_job": gpus_per_job, "device": device})
    storage = None if sync is None else Storage(sync)
    place = out or Path("runs") / ("paper-quick" if quick else "paper")
    for folder in kept or ():
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; --from names a folder of finished runs or archives")
    if place.is_file():
        raise InputError(f"{place} is a file; --out names a folder")
    if page is not None and not page.is_file():
        raise InputError(f"{page}: no such file; --page names a Markdown page with marks")
    if storage is not None:
        with screen.waiting("bringing runs"):
            if not (listing or no_run):
                storage.claim()  # until the command ends
            storage.pull("", place)
    results, runs = Results([place, *(kept or ())]), plan_runs(request)
    # The time on a GPU can be estimated on a machine without one.
    where = "cuda" if listing and (device or "").startswith("cuda") else choose_device(device).type
    screen.pair("runs", f"{place}{''.join(f', {folder}' for folder in kept or ())}")
    failed = read_failures(results.places)
    plan = show_plan(screen, runs, results, Estimator(results, where, runs), failed, every_run=listing)
    if listing:
        screen.result({"out": str(place), **plan})
        return
    summary = Summary(failed=failed)
    if not no_run:
        deadline = None if time_limit is None else started + time_limit
        workers = {"on": on, "gpus_per_job": gpus_per_job, "device": choose_device(device), "sync": storage}
        summary = run_missing(screen, runs, results, workers, data_root, keep, deadline)
    failed = {key: reason for key, reason in summary.failed.items() if key in {run.key for run in runs}}
    with screen.waiting("drawing"):
        drawn, overview = draw_all(request, runs, results, failed, page)
    if storage is not None and not no_run:
        storage.push(place, "")
        storage.release()
    show_items(screen, drawn, failed)
    left = [run.key for run in runs if not results.is_done(run)]
    if summary.stopped:
        screen.pair("stopped", f"{len(left)} runs are left; the same command resumes")
    screen.pair("page", str(overview))
    screen.result(
        {
            "out": str(place),
            "page": str(overview),
            "done": list(summary.done),
            "failed": failed,
            "left": left,
            "stopped": summary.stopped,
            "tables": {
                one.item: [row for table in one.tables for row in table.records()] for one in drawn if one.tables
            },
            "figures": {one.item: [str(p.file) for p in one.pictures] for one in drawn if not one.tables},
        }
    )
    if failed and not no_run:
        raise typer.Exit(1)


def _parse_request(
    only: Sequence[str] | None,
    datasets: str | None,
    methods: str | None,
    depths: str | None,
    seeds: str | None,
    searches: int,
    change: Sequence[str] | None,
    quick: bool,
) -> Request:
    """The options of the command line as a request."""
    from gnas.cli.settings import with_changes
    from gnas.paper import ITEMS, PAPER, QUICK, Changes, Request
    from gnas.run.settings import Settings

    changed = with_changes(Settings(), change or ()).differences()
    return Request(
        items=_names(" ".join(only)) if only else tuple(ITEMS),
        datasets=_names(datasets),
        methods=_names(methods),
        depths=_numbers(depths, "--depths"),
        seeds=_numbers(seeds, "--seeds"),
        searches=searches,
        changes=Changes(changed),
        scale=QUICK if quick else PAPER,
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys((text or "").replace(",", " ").split()))


def _numbers(text: str | None, option: str) -> tuple[int, ...]:
    from gnas.errors import InputError

    words = _names(text)
    for word in words:
        if not word.isdigit():
            raise InputError(f"{option} {text!r}: {word!r} is not a whole number; write it like 4,16")
    return tuple(int(word) for word in words)
