"""``gnas reproduce``: every table and figure of the paper; what is missing is run."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from gnas.cli.group import COMMAND, quote_command
from gnas.cli.options import Options
from gnas.cli.prepare import check_workers, choose_device, load_data
from gnas.cli.progress import choose_view
from gnas.cli.screen import Screen
from gnas.cli.settings import split_names, with_changes
from gnas.data import Benchmark
from gnas.data.benchmarks import find_facts
from gnas.errors import InputError
from gnas.jobs import Storage, open_runner
from gnas.paper import (
    ITEMS,
    PAPER,
    QUICK,
    Changes,
    DrawnItem,
    Request,
    Results,
    Summary,
    draw_item,
    fill_page,
    perform_runs,
    plan_runs,
    read_failures,
    write_page,
)
from gnas.paper.estimate import Estimator
from gnas.paper.runs import DepthRun, PaperRun, SearchRun, Source, StrategiesRun, TrainRun
from gnas.printed import format_count
from gnas.run.folder import stop_on_interrupt
from gnas.run.settings import Settings
from gnas.run.table import Table
from gnas.run.words import duration
from gnas.training.stages import Stage, Stages

SHORT = 8  # columns of a table that fit on a terminal; wider tables show the first ones and the remark


def reproduce(options: Options, screen: Screen) -> None:
    """Do what is missing and draw everything."""
    started = time.monotonic()
    request = _parse_request(options)
    check_workers(options)
    sync, read_from, page, device = options.sync, options.read_from or (), options.page, options.device
    listing, no_run = options.listing, options.no_run
    storage = None if sync is None else Storage(sync)
    place = options.out or Path("runs") / ("paper-quick" if options.quick else "paper")
    for folder in read_from:
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
    results, runs = Results([place, *read_from]), plan_runs(request)
    # The time on a GPU can be estimated on a machine without one.
    where = "cuda" if listing and (device or "").startswith("cuda") else choose_device(device).type
    screen.pair("runs", f"{place}{''.join(f', {folder}' for folder in read_from)}")
    failed = read_failures(results.places)
    plan = show_plan(screen, runs, results, Estimator(results, where, runs), failed, every_run=listing)
    if listing:
        screen.result({"out": str(place), **plan})
        return
    summary = Summary(failed=failed)
    if not no_run:
        deadline = None if options.time_limit is None else started + options.time_limit
        workers = {"on": options.on, "gpus_per_job": options.gpus_per_job}
        workers |= {"device": choose_device(device), "sync": storage}
        summary = run_missing(screen, runs, results, workers, options.data_root, options.keep, deadline)
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
    facts = {"out": str(place), "page": str(overview), "done": list(summary.done), "failed": failed}
    tables = {one.item: [row for part in one.tables for row in part.records()] for one in drawn if one.tables}
    figures = {one.item: [str(picture.file) for picture in one.pictures] for one in drawn if not one.tables}
    screen.result({**facts, "left": left, "stopped": summary.stopped, "tables": tables, "figures": figures})
    if failed and not no_run:
        raise typer.Exit(1)


def _parse_request(options: Options) -> Request:
    """The options of the command line as a request."""
    changed = with_changes(Settings(), options.change or ()).differences()
    return Request(
        items=split_names(" ".join(options.only)) if options.only else tuple(ITEMS),
        datasets=split_names(options.datasets),
        methods=split_names(options.methods),
        depths=_numbers(options.depths, "--depths"),
        seeds=_numbers(options.seeds, "--seeds"),
        searches=options.searches,
        changes=Changes(changed),
        scale=QUICK if options.quick else PAPER,
    )


def _numbers(text: str | None, option: str) -> tuple[int, ...]:
    words = split_names(text)
    for word in words:
        if not word.isdigit():
            raise InputError(f"{option} {text!r}: {word!r} is not a whole number; write it like 4,16")
    return tuple(int(word) for word in words)


def show_plan(
    screen: Screen,
    runs: Sequence[PaperRun],
    results: Results,
    estimator: Estimator,
    failed: Mapping[str, str],
    every_run: bool,
) -> dict[str, Any]:
    """Print how many runs are done and how long the others take, or one row for ``every_run``. Returns the figures."""
    records: list[dict[str, Any]] = []
    for run in runs:
        estimate = None if results.is_done(run) else estimator(run)
        state = f"failed before: {failed[run.key]}" if run.key in failed else "left"
        time_left = {
            "seconds": None if estimate is None else round(estimate.seconds, 1),
            "recorded": None if estimate is None else estimate.recorded,
        }
        records.append({"run": run.key, "kind": run.kind, "state": "done" if estimate is None else state, **time_left})
    seconds = sum(one["seconds"] for one in records if one["seconds"] is not None)
    done = sum(one["state"] == "done" for one in records)
    if every_run:
        rows = [(one["kind"], one["run"], one["state"], _show_time(one)) for one in records]
        screen.say(Table.from_tuples(("kind", "run", "state", "time"), rows).to_rich())
        screen.say(" * by the cost model; the others by finished runs of the same kind", style="dim")
    left = f"; about {duration(seconds)} left on {estimator.device}" if done < len(records) else ""
    screen.pair("plan", f"{done} of {format_count(len(records), 'run')} done{left}")
    return {"runs": records, "done": done, "left": len(records) - done, "seconds_left": round(seconds, 1)}


def _show_time(record: Mapping[str, Any]) -> str:
    return "" if record["seconds"] is None else f"{duration(record['seconds'])}{'' if record['recorded'] else ' *'}"


def run_missing(
    screen: Screen,
    runs: Sequence[PaperRun],
    results: Results,
    workers: Mapping[str, Any],
    data_root: Path | None,
    archive: Path | None,
    deadline: float | None,
) -> Summary:
    """Do the missing runs with these arguments of ``open_runner``, and keep them in ``archive``.

    Ctrl-C and the deadline, in seconds of ``time.monotonic``, stop after the current step.
    """

    def load(source: Source) -> Benchmark:
        return load_data(screen, source.name, data_root, {"seed": source.seed} if source.seed else {}, show=False)

    with (
        stop_on_interrupt() as stop,
        open_runner(results.places[0], **workers) as runner,
        RunProgress(screen, runs, results, workers["on"] or "here", runner.in_process) as progress,
    ):
        try:
            summary = perform_runs(
                runs,
                results,
                runner,
                load=load,
                archive=archive,
                on_epoch=progress.on_epoch if runner.in_process else None,
                on_run=progress.on_run,
                should_stop=lambda: bool(stop) or (deadline is not None and time.monotonic() > deadline),
                about={"command": quote_command(COMMAND.get()), "date": datetime.date.today().isoformat()},
            )
        finally:
            runner.push_own_files()
    if stop:
        screen.pair("stopped", "by hand; the same command resumes")
        raise typer.Exit(130)
    return summary


class RunProgress:
    """Progress of one run at a time, with its number among all runs; of several workers, the number of ended runs."""

    def __init__(
        self, screen: Screen, runs: Sequence[PaperRun], results: Results, where: str, one_at_a_time: bool
    ) -> None:
        self.screen, self.results, self.one_at_a_time = screen, results, one_at_a_time
        self.runs = {run.key: run for run in runs}
        self.number = {run.key: number for number, run in enumerate(runs, start=1)}
        self.key, self.ended, self.stages = "", 0, None if one_at_a_time else self._count_runs(where)

    def __enter__(self) -> RunProgress:
        if self.stages is not None:
            self.stages.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.stages is not None:
            self.stages.__exit__(*error)

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Take a record of the run with the key ``record["run"]``."""
        key = str(record["run"])
        if key != self.key or self.stages is None:
            self._close()
            run = self.runs[key]
            metric = find_facts(run.source.name).task.metric
            self.key, self.stages = key, Stages(choose_view(self.screen), [self._plan(run)], metric)
            self.stages.__enter__()
        self.stages.on_epoch({name: value for name, value in record.items() if name != "run"})

    def on_run(self, run: PaperRun) -> None:
        """A run has ended."""
        self.ended += 1
        if self.one_at_a_time:
            self._close()
        elif self.stages is not None:
            self.stages.on_epoch({"stage": "runs", "epoch": self.ended})

    def _close(self) -> None:
        if self.stages is not None:
            self.stages.__exit__(None, None, None)
            self.stages = None

    def _count_runs(self, where: str) -> Stages:
        left = sum(not self.results.is_done(run) for run in self.runs.values())
        return Stages(choose_view(self.screen), [Stage("runs", f"runs on {where}", left, unit="run")], "")

    def _plan(self, run: PaperRun) -> Stage:
        label = f"{self.number[run.key]}/{len(self.runs)} {run.kind} {run.key}"
        if isinstance(run, TrainRun):
            missing = len(run.seeds) - len(self.results.find_trainings(run))
            return Stage(f"train {run.model}", label, run.settings().training.epochs, missing)
        if isinstance(run, StrategiesRun):
            return Stage("search", label, run.budget().epochs)
        if isinstance(run, DepthRun):
            return Stage("round-1", f"{label}, round 1", run.search(run.start).settings().search.epochs)
        assert isinstance(run, SearchRun)
        search = run.settings().search
        return Stage("search", label, int(search.options.get("trials", search.epochs)))


def draw_all(
    request: Request, runs: Sequence[PaperRun], results: Results, failed: Mapping[str, str], page: Path | None
) -> tuple[list[DrawnItem], Path]:
    """Write all requested tables and figures, the page over them, and the user's own ``page``."""
    out = results.places[0]
    drawn = [draw_item(item, request, results, failed, out) for item in request.items]
    seeds = ", ".join(map(str, request.training_seeds))
    about = [
        f"Made by `{quote_command(COMMAND.get())}`. Training seeds {seeds}; mean ± standard deviation over them. Selection is by",
        "validation; each training reads the test split once. A difference is ours minus the paper's.",
        f"{sum(map(results.is_done, runs))} of {format_count(len(runs), 'run')} are finished.",
    ]
    if request.scale.name == "quick":
        about += [
            "",
            "**Quick: small data and small networks by the same code. The figures say nothing about the paper's.**",
        ]
    overview = write_page(drawn, out, about, failed)
    if page is not None:
        fill_page(page, drawn, request, results)
    return drawn, overview


def show_items(screen: Screen, drawn: Sequence[DrawnItem], failed: Mapping[str, str]) -> None:
    """Print the tables as they fit on a terminal, the files of the figures, and what failed."""
    for one in drawn:
        screen.say(f"\n{one.title} ({one.item})", style="bold")
        for part in one.tables:
            table, columns = part.table, part.table.shown_columns()
            if len(columns) > SHORT + 1:
                table = replace(table, columns=[*columns[: SHORT - 1], columns[-1]])
            if part.heading:
                screen.say(f" {part.heading}")
            screen.say(table.to_rich())
        for picture in one.pictures:
            screen.say(f" {picture.file}")
        if not (one.tables or one.pictures):
            screen.say(" no finished run to draw it from")
    for key, reason in failed.items():
        screen.pair("failed", f"{key}: {reason}", style="red")
