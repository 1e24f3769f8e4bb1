"""The report of a run: one HTML file that opens anywhere, without a network, and is made from the run folder alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gnas.arch.genotype import Genotype
from gnas.arch.operation import operation_names
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.model.task import Task
from gnas.printed import format_count
from gnas.report.answer import describe_run, list_facts, used_row
from gnas.report.draw import count_rows, layout_key
from gnas.report.examples import find_examples
from gnas.report.palette import sort_operations
from gnas.report.pictures import (
    build_frames,
    draw_each_cell,
    make_comparison_pictures,
    make_live_pictures,
    make_pictures,
)
from gnas.report.progress import list_progress, list_racers, racers_table
from gnas.report.shapes import to_svg
from gnas.report.tables import ensemble_table, rounds_table, runs_table, splits_table, trainings_table, values_table
from gnas.run.layout import REPORT, WEIGHTS
from gnas.run.record import RunRecord, read_run, read_run_json, refuse_damaged
from gnas.run.settings import config_value
from gnas.run.table import Table
from gnas.run.words import join_words, label_metric
from gnas.workflow import package_versions

PACKAGES = ("gnas", "torch", "torch-geometric", "numpy", "matplotlib")
MOST_COLUMNS = 12  # that a page names


def write_report(folder: str | Path, *, out: str | Path | None = None, refresh: float = 0) -> Path:
    """Write the report of a run folder and return its path. Parts that have no records yet are left out.

    Args:
        folder: The run folder.
        out: The file; by default ``report.html`` in the run folder.
        refresh: The page reloads itself after that many seconds; 0: never.

    >>> from gnas.report.html import write_report
    >>> write_report("runs/mine").name
    'report.html'
    """
    run = read_run(folder)
    page = render_run(run, refresh)
    if not run.folder.is_dir():  # it must not come back with a page alone
        raise InputError(f"{run.folder}: the folder was removed while its report was made")
    return write_atomic(_target(out, run.folder), page)


def compare_report(folders: Sequence[str | Path], out: str | Path) -> Path:
    """Write one page that compares several run folders.

    >>> from gnas.report.html import compare_report
    >>> compare_report(["runs/mine", "runs/mine"], "both.html").name
    'both.html'
    """
    if not folders:
        raise InputError("a comparison needs at least one run folder")
    runs = [read_run(folder) for folder in folders]
    return write_atomic(_target(out, Path.cwd()), render_comparison(runs))


@refuse_damaged
def render_run(run: RunRecord, refresh: float = 0) -> str:
    """The page of one run as HTML: its answer, or how far it is. A race under way shows its candidates and no test results."""
    frames = build_frames(run)
    last = frames.frames[-1] if frames.frames else None
    running = run.state == "running"
    racing = running and run.is_racing
    board = None if racing else run.leaderboard
    racers = list_racers(run) if racing else []
    return render_page(
        "template.html",
        run=run,
        refresh=int(refresh),
        answer=describe_run(run),
        facts=list_progress(run, run.state) if running else list_facts(run),
        frames=frames,
        last=last,
        hidden=[n for n in range(len(frames.drawings)) if last is not None and n not in last.drawings],
        moments=[{"drawings": frame.drawings, "text": frame.text} for frame in frames.frames],
        keys=draw_keys(run.genotype),
        is_race=run.is_race,
        other_used=used_row(run.leaderboard) is not None,
        racers=racers_table(racers, run.metric) if racers else None,
        board=board.table() if board else None,
        metrics=board.metrics_table() if board else None,
        strategies=run.strategies.table() if run.strategies else None,
        trainings=trainings_table(run) if run.trainings and not racing else None,
        ensemble=ensemble_table(run) if run.ensemble else None,
        rounds=rounds_table(run) if run.rounds else None,
        pictures=make_live_pictures(run, racers) if racing else make_pictures(run),
        examples=find_examples(run),
        data=run.data,
        splits=splits_table(run.data) if run.data else None,
        task=_describe_task(run.data),
        settings=_settings_table(run),
        versions=_versions_table(run),
        snippets=make_snippets(run),
    )


@refuse_damaged
def render_comparison(runs: list[RunRecord]) -> str:
    """The page of several runs as HTML."""
    sections = [
        {
            "run": run,
            "answer": describe_run(run),
            "cells": draw_cells(run.genotype),
            "board": run.leaderboard.table() if run.leaderboard else None,
            "metrics": run.leaderboard.metrics_table() if run.leaderboard else None,
        }
        for run in runs
    ]
    operations = {name for run in runs if run.genotype for name in run.genotype.operations()}
    return render_page(
        "compare.html",
        runs=runs,
        sections=sections,
        table=runs_table(runs),
        pictures=make_comparison_pictures(runs),
        keys=[(name, to_svg(layout_key(name), page=True)) for name in sort_operations(operations)],
        versions=values_table("Versions of the packages that wrote this page.", package_versions(*PACKAGES)),
    )


def _settings_table(run: RunRecord) -> Table[Any]:
    settings = run.config.get("settings")
    values = {**run.config, **settings} if isinstance(settings, dict) else run.config
    shown = {name: value for name, value in values.items() if name != "settings"}
    return values_table("Settings of the run, with presets and defaults filled in.", shown)


def _versions_table(run: RunRecord) -> Table[Any]:
    if run.versions:
        return values_table("Versions of the packages that did the run.", run.versions)
    caption = "Versions of the packages that wrote this page. The run did not record its own."
    return values_table(caption, package_versions(*PACKAGES))


def _target(out: str | Path | None, folder: Path) -> Path:
    path = folder / REPORT if out is None else Path(out)
    return path / REPORT if path.is_dir() else path


def render_page(name: str, **values: Any) -> str:
    """The page of a template. It reloads itself after ``refresh`` seconds, if given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("gnas.report", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["markup"] = Markup  # for our own SVG and tables only: they escape their texts
    environment.filters["count"] = format_count
    page: str = environment.get_template(name).render(**{"refresh": 0, **values})
    return page


def draw_keys(genotype: Genotype | None) -> list[tuple[str, str]]:
    """Names of operations, each with a line that has its look."""
    if genotype is None:
        return []
    usual = (*operation_names("filter", in_paper=True), *operation_names("aggregator", in_paper=True))
    return [(name, to_svg(layout_key(name), page=True)) for name in sort_operations({*genotype.operations(), *usual})]


def draw_cells(genotype: Genotype | None) -> tuple[tuple[str, str], ...]:
    """Drawings of the cells with their formulas."""
    return () if genotype is None else draw_each_cell([genotype], count_rows(genotype))[0]


def _describe_task(data: Mapping[str, Any] | None) -> str:
    """What is predicted from what, in words."""
    task, columns = (data or {}).get("task"), (data or {}).get("columns") or []
    if not task:
        return ""
    outputs = format_count(task["num_outputs"], "label" if task["kind"] == "multilabel" else "target")
    if task["kind"] == "classification":
        outputs = f"{task['num_outputs']} classes"
    if 0 < len(columns) <= MOST_COLUMNS:
        inputs = f"{join_words(list(map(str, columns)))} of each node"
    elif task["categories"]:
        inputs = f"categorical node features with {join_words(list(map(str, task['categories'])))} values"
    else:
        inputs = f"{format_count(task['in_channels'], 'continuous feature')} per node"
    return (
        f"{task['level'].capitalize()} {task['kind']} with {outputs}. Input: {inputs}. Loss: {task['loss']}. "
        f"Metric: {label_metric(task['metric'])}."
    )


# -- reuse ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snippet:
    """A text to copy, with its title."""

    title: str
    text: str


def make_snippets(run: RunRecord) -> list[Snippet]:
    """Commands and code for this run, the simplest first."""
    if run.genotype is None:
        return []
    found, task, yaml = [], _task_code(run), run.genotype.to_yaml()
    if any(training.result and (training.folder / WEIGHTS).exists() for training in run.trainings):
        name, used = shlex.quote(run.name), used_row(run.leaderboard)
        commands = f"gnas predict {name} DATA -o predictions.csv\ngnas export {name} --out exported"
        own = "" if used is None else f'  # {used.name}; network="gnas" is the found one'
        code = f"import gnas\n\nnetwork, info = gnas.load_model({run.name!r}){own}\n"
        code += "# network(data) or network(x, edge_index, batch), as with any PyG module\n"
        found = [Snippet("Command line: predict, export", commands), Snippet("Python: the network", code)]
    if task:
        code = f'import gnas\n\ngenotype = gnas.Genotype.from_yaml("""\n{yaml}""")\ntask = {task}\n'
        code += f"network = gnas.Network(genotype, task, {_network_options(run)})\n"
        return [*found, Snippet("Python: the architecture without the run folder", code)]
    return [*found, Snippet("The genotype file", yaml)]


def _task_code(run: RunRecord) -> str:
    """The task as Python code; empty if the run has no record of its data."""
    values = (run.data or {}).get("task")
    if not isinstance(values, dict):
        return ""
    defaults = {f.name: f.default for f in fields(Task)}
    values = {name: _plain(value) for name, value in values.items() if name in defaults}
    first = [repr(values.pop(name)) for name in ("level", "kind", "num_outputs")]
    rest = [f"{name}={value!r}" for name, value in values.items() if value != _plain(defaults[name])]
    return f"gnas.Task({', '.join([*first, *rest])})"


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _network_options(run: RunRecord) -> str:
    """The width as trained, and the dropout. The description of the model holds a width that a budget decided."""
    trainings = next(iter(run.by_network().values()), [])
    widths = ((read_run_json(one.folder, "model") or {}).get("channels") for one in trainings)
    channels = next(filter(None, widths), None) or config_value(run.config, "space.channels") or 64
    dropout = config_value(run.config, "training.dropout")
    return f"channels={int(channels)}" + (f", dropout={dropout!r}" if dropout else "")
