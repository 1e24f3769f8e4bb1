"""What every long job needs: its folder, its data, progress and tracking, a stop that saves, errors that help."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.cli.prepare import PreparedRun
from gnas.cli.progress import choose_view
from gnas.cli.show import show_next_steps
from gnas.compare.networks import Candidate
from gnas.errors import Interrupted, OutOfMemory, is_out_of_memory, name_memory
from gnas.run.folder import Run, stop_on_interrupt
from gnas.run.leaderboard import Leaderboard
from gnas.run.settings import Settings
from gnas.training.loop import Record, watch_steps
from gnas.training.stages import Stage, Stages, train_stages
from gnas.use.tracking import open_trackers
from gnas.workflow import train_and_rank, write_data


@contextlib.contextmanager
def job_progress(prepared: PreparedRun, plan: Sequence[Stage]) -> Iterator[dict[str, Any]]:
    """Inside, a job runs. Ctrl-C ends it after the current step, a second Ctrl-C at once.

    The value holds the arguments that every job takes: ``device``, ``on_epoch``, ``should_stop`` and ``runner``.
    """
    settings, metric = prepared.settings, prepared.benchmark.task.metric
    tracker = open_trackers(prepared.trackers, prepared.folder, settings.to_dict())
    stages = Stages(
        choose_view(prepared.screen),
        plan,
        metric,
        side_by_side=prepared.runner is not None and prepared.runner.pool.width > 1,
    )
    renew = _Renewal(prepared.folder)
    with (
        contextlib.closing(tracker),
        renew,
        stop_on_interrupt() as stop,
        explain_job_memory(settings, prepared.device),
        stages,
        watch_steps(stages.on_step),
    ):
        try:
            on_epoch = _each(stages.on_epoch, tracker.log, renew.on_epoch)
            how = {"device": prepared.device, "runner": prepared.runner}
            yield {**how, "on_epoch": on_epoch, "should_stop": lambda: bool(stop)}
        except KeyboardInterrupt:
            raise Interrupted("stopped at once, the last checkpoint is kept") from None


def _each(*calls: Callable[[Record], None]) -> Callable[[Record], None]:
    def on_epoch(record: Record) -> None:
        for call in calls:
            call(record)

    return on_epoch


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
    report = write_report(prepared.folder)
    for name, text in lines.items():
        prepared.screen.pair(name, text)
    show_next_steps(prepared.screen, report, *commands)
    prepared.screen.result({"run": str(prepared.folder), **facts, "report": report})
