"""The report of a run: one HTML file that opens anywhere, offline, made from the run folder alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.arch.operation import operation_names
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.model.task import UNITS
from gnas.report.answer import answer, facts
from gnas.report.figures import comparison_pictures, job_pictures
from gnas.report.frames import build_frames
from gnas.report.layout import layout_cell, layout_key, rows_needed
from gnas.report.palette import sort_operations
from gnas.report.reuse import snippets
from gnas.report.shapes import to_svg
from gnas.report.tables import (
    rounds_table,
    runs_table,
    splits_table,
    trainings_table,
    values_table,
)
from gnas.run.record import RunRecord, file_signature, read_run, refuse_damaged
from gnas.run.table import Table
from gnas.workflow import package_versions

NAME = "report.html"
PACKAGES = ("gnas", "torch", "torch-geometric", "numpy", "matplotlib")


def write_report(folder: str | Path, *, out: str | Path | None = None, refresh: float = 0) -> Path:
    """Write the report of a run folder, by default as ``report.html`` inside it, and return its path.

    What is not there yet is left out. A page with ``refresh`` loads itself again after that many seconds.
    """
    job = read_run(folder)
    return write_atomic(_target(out, job.folder), render_job(job, refresh))


def compare_report(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Write one page that compares several run folders."""
    if not folders:
        raise InputError("give at least one run folder to compare")
    jobs = [read_run(folder) for folder in folders]
    return write_atomic(_target(out, Path.cwd()), render_comparison(jobs))


def watch(
    folder: str | Path,
    *,
    out: str | Path | None = None,
    interval: float = 2.0,
    should_stop: Callable[[], bool] | None = None,
    on_write: Callable[[Path], None] | None = None,
) -> Path:
    """Write the report again whenever the run has moved on, until the run is finished or ``should_stop()`` says so.

    Meanwhile the page refreshes itself; the last one written no longer does.
    """
    seen = None
    while True:
        stop = should_stop is not None and should_stop()
        now = file_signature(folder)
        if stop or now != seen:
            job = read_run(folder)
            over = stop or job.state == "finished"
            path = write_atomic(_target(out, job.folder), render_job(job, 0 if over else max(5.0, interval)))
            if on_write is not None:
                on_write(path)
            if over:
                return path
        seen = now
        time.sleep(interval)


@refuse_damaged
def render_job(job: RunRecord, refresh: float = 0) -> str:
    """The page of one job as text."""
    frames = build_frames(job)
    last = frames.frames[-1] if frames.frames else None
    return _template("template.html").render(
        job=job,
        refresh=int(refresh),
        answer=answer(job),
        facts=facts(job),
        frames=frames,
        last=last,
        hidden=[n for n in range(len(frames.drawings)) if last is not None and n not in last.drawings],
        moments=[{"drawings": frame.drawings, "text": frame.text} for frame in frames.frames],
        keys=_keys(job.genotype),
        board=job.leaderboard.table() if job.leaderboard else None,
        strategies=job.strategies.table() if job.strategies else None,
        trainings=trainings_table(job) if job.trainings else None,
        rounds=rounds_table(job) if job.rounds else None,
        pictures=job_pictures(job),
        data=job.data,
        splits=splits_table(job.data) if job.data else None,
        task=_task(job.data),
        settings=values_table("Settings of the run, as resolved.", job.config),
        versions=_versions(job),
        snippets=snippets(job),
    )


@refuse_damaged
def render_comparison(jobs: list[RunRecord]) -> str:
    """The page of several jobs as text."""
    sections = [
        {
            "job": job,
            "answer": answer(job),
            "cells": _cells(job.genotype),
            "board": job.leaderboard.table() if job.leaderboard else None,
        }
        for job in jobs
    ]
    every = {name for job in jobs if job.genotype for name in job.genotype.operations()}
    return _template("compare.html").render(
        jobs=jobs,
        sections=sections,
        runs=runs_table(jobs),
        pictures=comparison_pictures(jobs),
        keys=[(name, to_svg(layout_key(name), page=True)) for name in sort_operations(every)],
        refresh=0,
        versions=values_table("Versions of what wrote this page.", package_versions(*PACKAGES)),
    )


def _versions(job: RunRecord) -> Table[Any]:
    if job.versions:
        return values_table("Versions of the run.", job.versions)
    return values_table("Versions of what wrote this page; the run kept none of its own.", package_versions(*PACKAGES))


def _target(out: str | Path | None, folder: Path) -> Path:
    path = folder / NAME if out is None else Path(out)
    return path / NAME if path.is_dir() else path


def _template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("gnas.report", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["markup"] = Markup  # for our own SVG and tables only: they escape their texts
    environment.filters["count"] = lambda number, noun: f"{number:,} {noun}{'' if number == 1 else 's'}"
    return environment.get_template(name)


def _keys(genotype: Genotype | None) -> list[tuple[str, str]]:
    """Operations with a piece of their line."""
    if genotype is None:
        return []
    usual = (*operation_names("filter", in_paper=True), *operation_names("aggregator", in_paper=True))
    return [(name, to_svg(layout_key(name), page=True)) for name in sort_operations({*genotype.operations(), *usual})]


def _cells(genotype: Genotype | None) -> list[tuple[str, str]]:
    """Drawings of the cells with their formulas."""
    if genotype is None:
        return []
    rows = rows_needed(genotype)
    drawings = (layout_cell(c, n, rows=rows, formula=False, legend=False) for n, c in enumerate(genotype, start=1))
    return [(to_svg(drawing, page=True), text) for drawing, text in zip(drawings, genotype.formulas(), strict=True)]


def _task(data: dict[str, Any] | None) -> str:
    """What is predicted, in words."""
    task = (data or {}).get("task")
    if not task:
        return ""
    outputs, kind = task["num_outputs"], task["kind"]
    what = f"{outputs} classes" if kind == "classification" else f"{outputs} target{'s' * (outputs > 1)}"
    inputs = f"{task['in_channels']} continuous features a node"
    if task["categories"]:
        inputs = f"categorical nodes ({', '.join(map(str, task['categories']))} values)"
    judged = f"loss {task['loss']}, metric {UNITS.get(task['metric'], task['metric'])}"
    return f"{task['level'].capitalize()} {kind} with {what}, from {inputs}; {judged}."
