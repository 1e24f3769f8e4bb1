"""What every long job needs: progress and tracking, a stop that saves, its results on the terminal, and ``--folds``."""

from __future__ import annotations

import contextlib
import shlex
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.arch.architecture import Architecture, describe_stack
from gnas.cli.prepare import PreparedRun
from gnas.cli.progress import choose_view
from gnas.cli.screen import Screen, number_cells
from gnas.compare.networks import Candidate
from gnas.cost import Workload, estimate_cost
from gnas.data import Benchmark, load
from gnas.data.benchmarks import is_dataset
from gnas.errors import InputError, Interrupted, OutOfMemory, is_out_of_memory, name_memory
from gnas.folds import compare_folds, count_folds, search_folds
from gnas.printed import format_count
from gnas.run.folder import Run, stop_on_interrupt
from gnas.run.leaderboard import Leaderboard
from gnas.run.settings import Settings
from gnas.run.words import describe_direction, duration, label_metric
from gnas.training.loop import Record, watch_steps
from gnas.training.stages import Stage, Stages, repeat_for_folds, train_stages
from gnas.use.tracking import open_trackers
from gnas.workflow import check_budget, job_stages, train_and_rank, write_data


@contextlib.contextmanager
def job_progress(prepared: PreparedRun, plan: Sequence[Stage]) -> Iterator[dict[str, Any]]:
    """Inside, a job runs. Ctrl-C ends it after the current step, a second Ctrl-C at once.

    The value holds the arguments that every job takes: ``device``, ``on_epoch``, ``should_stop`` and ``runner``.
    """
    settings, runner = prepared.settings, prepared.runner
    tracker = open_trackers(prepared.trackers, prepared.folder, settings.to_dict())
    side_by_side = runner is not None and runner.pool.width > 1
    view, metric = choose_view(prepared.screen), prepared.benchmark.task.metric
    stages, renew = Stages(view, plan, metric, side_by_side=side_by_side), _Renewal(prepared.folder)

    def on_epoch(record: Record) -> None:
        stages.on_epoch(record)
        tracker.log(record)
        renew.on_epoch(record)

    with (
        contextlib.closing(tracker),
        renew,
        stop_on_interrupt() as stop,
        explain_job_memory(settings, prepared.device),
        stages,
        watch_steps(stages.on_step),
    ):
        try:
            how = {"device": prepared.device, "runner": runner}
            yield {**how, "on_epoch": on_epoch, "should_stop": lambda: bool(stop)}
        except KeyboardInterrupt:
            raise Interrupted("stopped at once, the last checkpoint is kept") from None


class _Renewal:
    """Writes the report again while a job runs, so that an open page follows it; at most 2 % of the time goes into it."""

    EVERY, SHARE = 15.0, 0.02  # seconds between two reports at least; share of the time

    def __init__(self, folder: Path) -> None:
        self.folder, self.due, self.written = folder, time.monotonic() + self.EVERY, False

    def on_epoch(self, record: Record) -> None:
        begin = time.monotonic()
        if begin < self.due or not distributed.is_first():
            return
        self._write(self.EVERY)
        now = time.monotonic()
        self.due = now + max(self.EVERY, (now - begin) / self.SHARE)

    def _write(self, refresh: float) -> None:
        from gnas.report.html import write_report as write

        with contextlib.suppress(Exception):  # the report at the end warns
            write(self.folder, refresh=refresh)
            self.written = True

    def __enter__(self) -> _Renewal:
        return self

    def __exit__(self, *error: object) -> None:
        if self.written:  # a stopped run: its page no longer reloads itself
            self._write(0)


@contextlib.contextmanager
def explain_job_memory(settings: Settings, device: torch.device) -> Iterator[None]:
    """Inside, running out of memory is explained by the settings that decide how much is needed."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"out of {name_memory(device)}; reduce the batch (now --batch {settings.training.batch_size}, "
            f"--set search.batch_size={settings.search.batch_size}), "
            f"--channels (now {settings.space.channels}) or --cells (now {settings.space.cells}), and start again with --force"
        ) from error


def training_run(prepared: PreparedRun, job: str, **more: Any) -> Run:
    """The folder of a job that trains and does not search."""
    config = {"job": job, **prepared.benchmark.identity, **more, "settings": prepared.settings.training_dict()}
    run = Run(prepared.folder, config, resume=prepared.place.resumed)
    write_data(run, prepared.benchmark)
    return run


def run_training(prepared: PreparedRun, run: Run, entries: Sequence[Candidate]) -> Leaderboard:
    """Train these networks in the folder of ``run``, or reuse their trainings, and save their leaderboard."""
    training = prepared.settings.training
    plan = train_stages([entry.name for entry in entries], training.epochs, len(training.seeds))
    with job_progress(prepared, plan) as how:
        board = train_and_rank(run, prepared.benchmark, prepared.settings, entries, **how)
    run.write_json("result", {"leaderboard": board.to_dict()})
    return board


# -- results ---------------------------------------------------------------------------------------------------------


def write_report(folder: Path) -> str | None:
    """The file of a finished run's report. A run is not lost because its report failed: that is a warning."""
    from gnas.report.html import write_report as write

    try:
        return str(write(folder))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        warnings.warn(f"the report could not be written ({reason}); the run is complete: gnas report {folder}")
        return None


def finish_job(prepared: PreparedRun, facts: Mapping[str, Any], *commands: Sequence[str], **lines: str) -> None:
    """Write the report, print ``lines`` and the commands that are next, and give the facts to ``--json``."""
    report, screen = write_report(prepared.folder), prepared.screen
    for name, text in lines.items():
        screen.pair(name, text)
    if report is not None:
        screen.pair("report", report)
    for number, words in enumerate(commands):
        screen.pair("" if number else "next", shlex.join(words), style="dim")
    screen.result({"run": str(prepared.folder), **facts, "report": report})


def show_leaderboard(screen: Screen, board: Leaderboard) -> None:
    """Print the leaderboard and the other metrics of the test split. Searched networks stand out."""
    screen.say(board.table().to_rich())
    screen.say(f" {board.dataset}, {describe_direction(board.metric)}", style="dim")
    others = board.metrics_table()
    if others is not None:
        screen.say(others.to_rich())
        screen.say(f" other metrics of the test split; {label_metric(board.metric)} selects", style="dim")


def show_answer(screen: Screen, folder: Path) -> None:
    """Print the answer in words: what predictions use, how the found network compares, and how long the run took."""
    from gnas.report.answer import describe_run
    from gnas.run.record import read_run

    screen.pair("result", "\n".join(describe_run(read_run(folder), with_network=False)))


def show_network(screen: Screen, architecture: Architecture, title: str = "found") -> None:
    """Print an architecture: its size, its depth, one formula per cell, and what is around the cells."""
    formulas = architecture.formulas()
    depth = architecture.depth()
    screen.pair(
        title, f"{format_count(len(formulas), 'cell')}, message-passing depth {depth} (genotype {architecture.id})"
    )
    screen.pairs("", list_parts(architecture), style="green")


def list_parts(architecture: Architecture) -> list[tuple[str, str]]:
    """The formulas of the cells, and what is around them, each with its name."""
    around = describe_stack(architecture)
    return [*number_cells(architecture.formulas()), *([("around", around)] if around else [])]


def list_next_steps(folder: str) -> list[list[str]]:
    """Commands for a finished run."""
    return [["gnas", "export", folder], ["gnas", "predict", folder, "DATA", "-o", "predictions.csv"]]


# -- folds -----------------------------------------------------------------------------------------------------------


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


def run_folds(prepared: PreparedRun, data_root: Path | None, entries: Sequence[Candidate] | None = None) -> None:
    """The job on each fold, and the mean and the spread over the folds: a search, or the training of ``entries``."""
    screen, settings, folds = prepared.screen, prepared.settings, count_folds(prepared.settings)
    training = settings.training
    if entries is None:
        plan = job_stages(settings)
        check_budget(prepared.benchmark, settings)
        networks = sum(stage.is_training for stage in plan)
    else:
        plan = train_stages([entry.name for entry in entries], training.epochs, len(training.seeds))
        networks = len(entries)
    screen.pair("folds", _describe_folds(prepared, folds, entries is None, networks))
    if any(entry.found for entry in entries or ()):
        text = "the search that found a network may have seen rows of the test folds; gnas search --folds does not"
        screen.pair("note", text)
    prepared.lock_folder()

    def load_fold(fold: int) -> Benchmark:
        if fold == 1:  # it is loaded already
            return prepared.benchmark
        return load(prepared.dataset, data_root=data_root, **{**settings.data, "fold": fold})

    with job_progress(prepared, repeat_for_folds(plan, folds)) as how:
        how |= {"resume": prepared.place.resumed}
        if entries is None:
            found = search_folds(load_fold, folds, settings, prepared.folder, **how)
        else:
            found = compare_folds(load_fold, folds, entries, settings, prepared.folder, **how)
    if found.genotype is not None:
        show_network(screen, found.genotype, f"fold {found.best}")
    if entries is None:
        show_answer(screen, prepared.folder)
    show_leaderboard(screen, found.leaderboard)
    best = {} if found.genotype is None else {"best_fold": found.best, "genotype": found.genotype.id}
    facts = {"dataset": prepared.benchmark.name, "preset": settings.preset, **best}
    facts |= {"leaderboard": found.leaderboard.to_dict(), "folds": [board.to_dict() for board in found.folds]}
    tables = f"{prepared.folder}/ leaderboard.csv, leaderboard.json, leaderboard.md; each fold in fold-K/"
    commands = list_next_steps(str(prepared.folder)) if entries is None else []
    finish_job(prepared, facts, *commands, tables=tables)


def _describe_folds(prepared: PreparedRun, folds: int, searches: bool, networks: int) -> str:
    """What is done for each fold, and about how long it takes."""
    one = estimate_cost(Workload.of(prepared.benchmark), prepared.settings, prepared.device)
    seconds = (one.search_seconds if searches else 0.0) + networks * one.train_seconds
    trainings = format_count(networks * len(prepared.settings.training.seeds), "training")
    what = f"a search and {trainings}" if searches else trainings
    return (
        f"{folds} test folds; each has {what} of its own, about {duration(seconds)} per fold (estimated as for the strategy "
        "single-level)"
    )
