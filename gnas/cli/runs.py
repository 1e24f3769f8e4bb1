"""``gnas runs``: list, show and delete run folders."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import typer

from gnas.cli.options import Options
from gnas.cli.screen import Screen
from gnas.errors import InputError
from gnas.printed import to_printable
from gnas.run.layout import REPORT, is_locked, remove_own
from gnas.run.summary import RunSummary, list_runs, summarise_run
from gnas.run.table import NONE, Column, Table


def list_all(options: Options, screen: Screen) -> None:
    """Print the runs below a folder."""
    root = options.root
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; runs are kept in runs/ of the folder gnas is started in")
    found = list_runs(root)
    if found:
        screen.say(_table(found, root).to_rich())
    else:
        screen.say(f"no runs under {root}")
    screen.result({"root": str(root), "runs": [run.to_dict() for run in found]})


def show_run(options: Options, screen: Screen) -> None:
    """Print what a run has found."""
    run = options.run
    known = summarise_run(run)
    with screen.waiting("reading"):
        from gnas.cli import show
        from gnas.report.answer import describe_run
        from gnas.run.record import read_run

        job = read_run(run)
    size, files = _size(run)
    screen.pair("run", f"{run} ({known.job} on {known.dataset}, {known.state}; {files:,} files, {size / 1e6:.1f} MB)")
    for number, sentence in enumerate(describe_run(job)):
        screen.pair("" if number else "result", sentence)
    if job.leaderboard is not None:
        show.show_leaderboard(screen, job.leaderboard)
    if job.genotype is not None:
        screen.pairs("network", show.list_parts(job.genotype), style="green")
    if (run / REPORT).exists():
        screen.pair("report", str(run / REPORT))
    screen.result(
        {
            **known.to_dict(),
            "bytes": size,
            "config": job.config,
            "formulas": list(job.genotype.formulas()) if job.genotype else None,
            "leaderboard": job.leaderboard.to_dict() if job.leaderboard else None,
            "result": job.result,
        }
    )


def delete_run(options: Options, screen: Screen) -> None:
    """Remove what gnas made in a run folder."""
    run = options.run
    known = summarise_run(run)
    if run.is_symlink() or Path.cwd().resolve().is_relative_to(run.resolve()):
        raise InputError(f"{run}: a link, or the folder you are in; delete it by hand")
    if is_locked(run):
        raise InputError(f"{run}: a process is working in this run folder; stop it first")
    size, files = _size(run)
    if not options.force:
        if not sys.stdin.isatty():
            raise InputError(f"{run}: cannot ask without a terminal; use --force to delete without asking")
        question = f"delete {run} ({known.job} on {known.dataset}, {files:,} files)?"
        typer.confirm(to_printable(question), abort=True, err=True)
    others = remove_own(run)
    left, rest = _size(run) if others else (0, 0)
    screen.pair("deleted", f"{run} ({(size - left) / 1e6:.1f} MB)")
    if others:
        names = ", ".join(path.name for path in others[:5]) + (", ..." if len(others) > 5 else "")
        screen.pair("note", f"kept what gnas did not make: {names}")
    facts = {"deleted": str(run), "files": files - rest, "bytes": size - left}
    screen.result({**facts, "kept": [str(path) for path in others]})


def _table(runs: list[RunSummary], root: Path) -> Table[RunSummary]:
    """One row per run."""
    columns = (
        Column[RunSummary]("run", lambda run: str(run.folder.relative_to(root))),
        Column[RunSummary]("job", "job"),
        Column[RunSummary]("dataset", "dataset"),
        Column[RunSummary]("state", "state"),
        Column[RunSummary]("depth", "depth"),
        Column[RunSummary]("test", "test", text=_test_metric),
        Column[RunSummary]("changed", "changed", lambda changed: format_age(time.time() - changed), align="left"),
    )
    return Table(columns, runs)


def _test_metric(run: RunSummary) -> str:
    from gnas.model.metrics import is_percentage
    from gnas.model.task import UNITS  # it imports torch
    from gnas.run.words import format_metric

    if run.test is None or run.metric is None:
        return NONE
    if run.metric not in UNITS:
        return f"{run.test:g}"
    return format_metric(run.metric, run.test) + (" %" if is_percentage(run.metric) else "")


def format_age(seconds: float) -> str:
    """``5 min ago``"""
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds / size)} {word} ago"
    return "just now"


def _size(folder: Path) -> tuple[int, int]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files), len(files)
