"""The parts of ``gnas reproduce``: what is left, the runs and their progress, the drawing, what is printed."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from gnas.cli.group import COMMAND, as_typed
from gnas.cli.load import load_data
from gnas.cli.progress import Stages
from gnas.cli.screen import Screen
from gnas.cli.stage import Stage
from gnas.data import Benchmark
from gnas.jobs import open_runner
from gnas.paper import DrawnItem, Outcome, Request, Results, carry_out, draw_item, fill_page, write_page
from gnas.paper.apart import carry_out_apart
from gnas.paper.estimate import Estimator
from gnas.paper.jobs import DataJob, DepthJob, Job, SearchJob, StrategiesJob, TrainJob
from gnas.paper.scale import Source
from gnas.run.folder import stop_on_interrupt
from gnas.run.table import Table
from gnas.run.words import count, duration

SHORT = 8  # columns of a table that compares with the paper: so many fit on a terminal, the remark besides


def tell(
    screen: Screen,
    asked: Sequence[Job],
    results: Results,
    estimator: Estimator,
    failed: dict[str, str],
    full: bool,
) -> dict[str, Any]:
    """Say what is done and what is left; ``full`` names every run."""
    rows: list[tuple[str, ...]] = []
    told: list[dict[str, Any]] = []
    for job in asked:
        done = results.is_done(job)
        state = "done" if done else f"failed before: {failed[job.key]}" if job.key in failed else "left"
        estimate = None if done else estimator(job)
        shown = "" if estimate is None else f"{duration(estimate.seconds)}{'' if estimate.recorded else ' *'}"
        rows.append((job.kind, job.key, state, shown))
        told.append(
            {
                "run": job.key,
                "kind": job.kind,
                "state": state,
                "seconds": None if estimate is None else round(estimate.seconds, 1),
                "recorded": None if estimate is None else estimate.recorded,
            }
        )
    left = sum(one["seconds"] for one in told if one["seconds"] is not None)
    finished = sum(one["state"] == "done" for one in told)
    if full:
        screen.say(Table.from_tuples(("kind", "run", "state", "time"), rows).to_rich())
        screen.say(" * by the cost model; the others by finished runs of the same kind", style="dim")
    words = f"{finished} of {count(len(told), 'run')} done"
    screen.pair(
        "plan", words + (f"; about {duration(left)} left on {estimator.device}" if finished < len(told) else "")
    )
    return {"runs": told, "done": finished, "left": len(told) - finished, "seconds_left": round(left, 1)}


def run(
    screen: Screen,
    asked: Sequence[Job],
    place: Path,
    results: Results,
    how: dict[str, Any],
    data_root: Path | None,
    keep: Path | None,
    deadline: float | None,
) -> Outcome:
    """Do what is missing; Ctrl-C stops after the step, and so does the time limit. ``how`` goes to ``open_runner``."""

    def load(source: Source) -> Benchmark:
        return load_data(screen, source.name, data_root, {"seed": source.seed} if source.seed else {}, show=False)

    about = {"command": as_typed(COMMAND.get()), "date": datetime.date.today().isoformat()}
    with stop_on_interrupt() as stop:
        shared: dict[str, Any] = {
            "load": load,
            "keep": keep,
            "should_stop": lambda: bool(stop) or (deadline is not None and time.monotonic() > deadline),
            "about": about,
        }
        if how["on"] in (None, "here") and how["sync"] is None:
            watch = watch_runs(screen, asked, results)
            outcome = carry_out(asked, place, results, device=how["device"], watch=watch, **shared)
        else:
            left = sum(not results.is_done(job) for job in asked)
            plan = [Stage("runs", f"runs on {how['on'] or 'here'}", left, unit="run")]
            with open_runner(place, **how) as runner, Stages(screen, plan, "") as stages:
                try:
                    outcome = carry_out_apart(asked, place, results, runner, on_epoch=stages.on_epoch, **shared)
                finally:
                    runner.push_own_files()
        if stop:
            screen.pair("stopped", "by hand; the same command goes on")
            raise typer.Exit(130)
    return outcome


def watch_runs(screen: Screen, asked: Sequence[Job], results: Results) -> Any:
    """Progress of one run at a time, with its place among all of them."""
    total, number = len(asked), {job.key: place for place, job in enumerate(asked, start=1)}

    @contextlib.contextmanager
    def watch(job: Job, benchmark: Benchmark) -> Iterator[Callable[[dict[str, Any]], None] | None]:
        label = f"{number[job.key]}/{total} {job.title}"
        if isinstance(job, DataJob):
            yield None
            return
        if isinstance(job, TrainJob):
            missing = len(job.seeds) - len(results.find_trainings(job))
            plan = Stage(f"train {job.model}", label, job.settings().training.epochs, missing)
        elif isinstance(job, SearchJob):
            plan = Stage(
                "search", label, int(job.settings().search.options.get("trials", job.settings().search.epochs))
            )
        elif isinstance(job, StrategiesJob):
            plan = Stage("search", label, job.budget().epochs)
        else:
            assert isinstance(job, DepthJob)
            plan = Stage("round-1", f"{label}, round 1", job.search(job.start).settings().search.epochs)
        with Stages(screen, [plan], benchmark.task.metric) as stages:
            yield stages.on_epoch

    return watch


def draw_all(
    request: Request, asked: Sequence[Job], results: Results, failed: dict[str, str], place: Path, page: Path | None
) -> tuple[list[DrawnItem], Path]:

    drawn = [draw_item(item, request, results, failed, place) for item in request.items]
    seeds = ", ".join(map(str, request.training_seeds))
    about = [
        f"Made by `{as_typed(COMMAND.get())}`. Training seeds {seeds}; mean ± standard deviation over them. Selection is by",
        "validation; the test split is read once a training. A difference is ours less the paper's.",
        f"Finished are {sum(map(results.is_done, asked))} of {count(len(asked), 'run')}.",
    ]
    if request.scale.name == "quick":
        about += [
            "",
            "**Quick: small data and small networks by the same code. The figures say nothing about the paper's.**",
        ]
    overview = write_page(drawn, place, about, failed)
    if page is not None:
        fill_page(page, drawn, request, results)
    return drawn, overview


def show(screen: Screen, drawn: Sequence[DrawnItem], failed: dict[str, str]) -> None:
    """Tables as they fit on a terminal, where figures are, and what failed."""

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
    for key, why in failed.items():
        screen.pair("failed", f"{key}: {why}", style="red")
