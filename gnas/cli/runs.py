"""``gnas runs``, ``report``, ``watch`` and ``draw``: what is in run folders. Nothing is computed, and torch is loaded late."""

from __future__ import annotations

import sys
import time
import webbrowser
from pathlib import Path

import typer

from gnas.cli.options import Options, refuse_existing
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
        from gnas.cli.job import list_parts, show_leaderboard
        from gnas.report.answer import describe_run
        from gnas.run.record import read_run

        job = read_run(run)
    size, files = _size(run)
    screen.pair("run", f"{run} ({known.job} on {known.dataset}, {known.state}; {files:,} files, {size / 1e6:.1f} MB)")
    for number, sentence in enumerate(describe_run(job)):
        screen.pair("" if number else "result", sentence)
    if job.leaderboard is not None:
        show_leaderboard(screen, job.leaderboard)
    if job.genotype is not None:
        screen.pairs("network", list_parts(job.genotype), style="green")
    if (run / REPORT).exists():
        screen.pair("report", str(run / REPORT))
    found = {
        "formulas": list(job.genotype.formulas()) if job.genotype else None,
        "leaderboard": job.leaderboard.to_dict() if job.leaderboard else None,
        "result": job.result,
    }
    screen.result({**known.to_dict(), "bytes": size, "config": job.config, **found})


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


# -- pages and pictures -----------------------------------------------------------------------------------------------


def report(options: Options, screen: Screen) -> None:
    """Write the page of one run, or one that compares several."""
    runs, out, pictures = options.runs, options.out, options.pictures
    if pictures is not None and len(runs) > 1:
        raise InputError("--pictures writes the plots of one run; name one")
    for folder in runs:
        summarise_run(folder)
    if out is None and len(runs) > 1:
        out = Path("comparison.html")
    refuse_existing(out, options.overwrite)
    with screen.waiting("writing"):
        from gnas.report.html import compare_report, write_report

        path = write_report(runs[0], out=out) if len(runs) == 1 else compare_report(runs, out or Path())
    screen.pair("report", str(path))
    saved: list[str] = []
    if pictures is not None:
        from gnas.report.pictures import save_pictures

        saved = [str(file) for file in save_pictures(runs[0], pictures)]
        screen.pair("pictures", f"{pictures}: {len(saved)} files")
    screen.result({"runs": [str(folder) for folder in runs], "report": str(path), "pictures": saved})


def watch(options: Options, screen: Screen) -> None:
    """Serve a page of a run until it is finished, or Ctrl-C."""
    from gnas.report.live import LiveServer
    from gnas.run.folder import stop_on_interrupt

    run = options.run
    summarise_run(run)
    with stop_on_interrupt() as stop, LiveServer(run, options.port) as live:
        screen.pair("watch", f"{live.address} (Ctrl-C ends)")
        screen.result({"run": str(run), "address": live.address})
        if options.browser and screen.live:
            webbrowser.open(live.address)
        ended: float | None = None
        while not stop and (ended is None or (time.monotonic() - ended < 3 and live.shown != "finished")):
            if options.until_finished and ended is None and live.state()["state"] == "finished":
                ended = time.monotonic()
            time.sleep(0.2)


def draw(options: Options, screen: Screen) -> None:
    """Draw an architecture, or a race."""
    what, formula, out = options.what, options.formula, options.out
    if (what is None) == (not formula):
        raise InputError("name a genotype file, a run folder, or a --formula")
    from gnas.cli.networks import read_formula, read_network
    from gnas.report.draw import save_drawing

    if options.race:
        _draw_race(screen, what, out, options.overwrite)
        return
    genotype = read_formula(formula, None) if formula else read_network(what or Path())
    given = out is not None
    if out is None:
        of_run = what is not None and what.is_dir()
        out = Path("formula.svg") if what is None else what / "genotype.svg" if of_run else what.with_suffix(".svg")
    refuse_existing(out, options.overwrite or (not given and what is not None and what.is_dir()))
    path = save_drawing(genotype, out, title=options.title)
    screen.pair("drawing", str(path))
    screen.result({"drawing": str(path), "genotype": genotype.id, "formulas": list(genotype.formulas())})


def _draw_race(screen: Screen, run: Path | None, out: Path | None, force: bool) -> None:
    from gnas.report.animation import save_animation

    if run is None or not run.is_dir():
        raise InputError("--race needs the folder of a run")
    refuse_existing(out, force)
    path = save_animation(run, out or run / "race.svg")
    screen.pair("drawing", str(path))
    screen.result({"drawing": str(path)})
