"""``gnas report``, ``watch`` and ``draw``: pages and pictures from what is in a run folder; nothing is computed."""

from __future__ import annotations

import time
import webbrowser
from pathlib import Path

from gnas.cli.options import Options
from gnas.cli.screen import Screen
from gnas.errors import InputError
from gnas.files import check_target
from gnas.run.summary import summarise_run


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
    path = write_page(screen, runs, out)
    screen.pair("report", str(path))
    saved: list[str] = []
    if pictures is not None:
        from gnas.report.pictures import save_pictures

        saved = [str(file) for file in save_pictures(runs[0], pictures)]
        screen.pair("pictures", f"{pictures}: {len(saved)} files")
    screen.result({"runs": [str(folder) for folder in runs], "report": str(path), "pictures": saved})


def write_page(screen: Screen, runs: list[Path], out: Path | None) -> Path:
    """The page of one run, or one that compares several."""
    with screen.waiting("writing"):
        from gnas.report.html import compare_report, write_report

        return write_report(runs[0], out=out) if len(runs) == 1 else compare_report(runs, out or Path())


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


def refuse_existing(path: Path | None, force: bool) -> None:
    """An error rather than a file overwritten by accident, or a device replaced."""
    if path is not None and check_target(path).is_file() and not force:
        raise InputError(f"{path} exists; --force overwrites it")
