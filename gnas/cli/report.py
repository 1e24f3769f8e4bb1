"""``gnas report`` and ``gnas draw``: pages and pictures from what is in a run folder; nothing is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnas.cli import options as o
from gnas.cli.screen import Screen
from gnas.errors import InputError
from gnas.files import check_target
from gnas.run.summary import summarise_run

EXAMPLES = {
    "report": (
        "gnas report runs/cluster-mini-single-level-seed0",
        "gnas report runs/zinc-single-level-seed0 --watch",
        "gnas report runs/zinc-random-seed0 runs/zinc-evolution-seed0 --out comparison.html",
    ),
    "watch": (
        "gnas watch runs/molecules-race-seed0",
        "gnas watch runs/zinc-single-level-seed0 --until-finished --port 8000",
    ),
    "draw": (
        "gnas draw runs/cluster-mini-single-level-seed0",
        "gnas draw genotype.yaml -o architecture.png",
        "gnas draw runs/molecules-race-seed0 --race -o race.svg",
        r"gnas draw --formula '\[identity | dense(sum(dense))]' -o gatedgcn.svg",
    ),
}


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; several are compared.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: RUN/report.html; of several runs comparison.html."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it again while the run continues; the page reloads itself.")
    ] = False,
    pictures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write every plot of the run as SVG and PNG here.")
    ] = None,
    force: o.Overwrite = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Write the report of a run as one HTML file, or of several runs beside each other."""
    screen = Screen(as_json, quiet)
    if pictures is not None and len(runs) > 1:
        raise InputError("--pictures writes the plots of one run; name one")
    if watch and len(runs) > 1:
        raise InputError("--watch follows one run; name one")
    for folder in runs:
        summarise_run(folder)
    if out is None and len(runs) > 1:
        out = Path("comparison.html")
    refuse_existing(out, force)
    path = follow_run(screen, runs[0], out) if watch else write_page(screen, runs, out)
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


def follow_run(screen: Screen, folder: Path, out: Path | None) -> Path:
    """Keep the report of a running job up to date until it is finished, or Ctrl-C."""
    from gnas.report.html import watch
    from gnas.run.folder import stop_on_interrupt

    written: list[Path] = []

    def on_write(path: Path) -> None:
        if not written:
            screen.pair("watch", f"{path} (open it in a browser; Ctrl-C stops)")
        written.append(path)

    with stop_on_interrupt() as stop:
        return watch(folder, out=out, should_stop=lambda: bool(stop), on_write=on_write)


def watch_run(
    run: o.RunFolder,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Default: any free one.")] = 0,
    until_finished: Annotated[bool, typer.Option("--until-finished", help="End when the run is finished.")] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Follow a run on a local page: the leaders' curves, what was dropped, the architecture, the time left.

    Only this machine can open the page, and only at the address that is printed. The run folder is read, not written.
    """
    import time
    import webbrowser

    from gnas.report.live import LiveServer
    from gnas.run.folder import stop_on_interrupt

    screen = Screen(as_json, quiet)
    summarise_run(run)
    with stop_on_interrupt() as stop, LiveServer(run, port) as live:
        screen.pair("watch", f"{live.address} (Ctrl-C ends)")
        screen.result({"run": str(run), "address": live.address})
        if browser and screen.live:
            webbrowser.open(live.address)
        ended: float | None = None
        while not stop and (ended is None or (time.monotonic() - ended < 3 and live.shown != "finished")):
            if until_finished and ended is None and live.state()["state"] == "finished":
                ended = time.monotonic()
            time.sleep(0.2)


def draw(
    what: Annotated[
        Path | None,
        typer.Argument(
            metavar="GENOTYPE|RUN",
            help="A genotype file, a run folder, or one that comes with gnas, such as zinc-12.",
            show_default=False,
        ),
    ] = None,
    formula: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Draw a formula instead; repeated, one for each cell.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="A .svg or .png file. Default: RUN/genotype.svg, or FILE.svg."
        ),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Above the drawing.")] = "",
    race: Annotated[bool, typer.Option("--race", help="Draw the race of a run as an animated .svg file.")] = False,
    force: o.Overwrite = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Draw a found architecture: three levels a cell, a colour an operation, dead branches faded, the formula below."""
    if (what is None) == (not formula):
        raise InputError("name a genotype file, a run folder, or a --formula")
    from gnas.cli.networks import read_formula, read_network
    from gnas.report.draw import save_drawing

    screen = Screen(as_json, quiet)
    if race:
        _draw_race(screen, what, out, force)
        return
    genotype = read_formula(formula, None) if formula else read_network(what or Path())
    given = out is not None
    if out is None:
        out = (
            Path("formula.svg")
            if what is None
            else what / "genotype.svg"
            if what.is_dir()
            else what.with_suffix(".svg")
        )
    refuse_existing(out, force or (not given and what is not None and what.is_dir()))
    path = save_drawing(genotype, out, title=title)
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
