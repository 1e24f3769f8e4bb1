"""``gnas data``: which benchmarks there are, build their files, check them, pack your own graphs into one file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gnas.datasets import load
from gnas.datasets.named import BENCHMARKS, facts, list_benchmarks
from gnas.datasets.named import prepare as prepare_files
from gnas.datasets.verify import check as check_benchmark
from gnas.datasets.verify import megabytes

data_app = typer.Typer(name="data", help="Benchmarks and your own graphs.", no_args_is_help=True)

Root = Annotated[Path | None, typer.Option("--data-root", help="Folder of the data files (else GNAS_DATA).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Seed = Annotated[int, typer.Option(help="Of what is random in the data.")]
Name = Annotated[str, typer.Argument(help="A benchmark; 'gnas data list' shows them.")]


@data_app.command("list", epilog="Example: $ gnas data list --data-root /data")
def list_command(data_root: Root = None, as_json: Json = False, quiet: Quiet = False) -> None:
    """Show the benchmarks and where each would be read from now."""
    rows = list_benchmarks(data_root)
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
    elif not quiet:
        table = Table(box=None, pad_edge=False)
        for column in ("name", "train / val / test", "what", "source"):
            table.add_column(column, no_wrap=column in ("name", "train / val / test"), overflow="fold")
        for row in rows:
            table.add_row(row.name, " / ".join(f"{g:,}" for g in row.graphs), row.what, row.source)
        Console().print(table)


@data_app.command("prepare", epilog="Example: $ gnas data prepare mnist")
def prepare_command(
    name: Name,
    data_root: Root = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="Where superpixel edges are built: cpu or cuda.")] = "cpu",
    workers: Annotated[int, typer.Option(help="Processes for raw images; 0: all cores.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build a benchmark's file once, so that loading it takes seconds. Interrupted, it goes on where it was."""
    if name not in BENCHMARKS:
        facts(name)
        _say(f"{name} is built in: nothing to prepare", {"name": name, "source": "built in"}, as_json, quiet)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet or as_json) as bar:
        task = bar.add_task(name, total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{name}: {what}", completed=done, total=total)

        found = prepare_files(
            name,
            data_root=data_root,
            seed=seed,
            device=device,
            workers=workers or os.cpu_count() or 1,
            on_progress=report,
        )
    words = {"name": name, "source": found.source, "file": str(found.path or ""), "notes": list(found.notes)}
    text = [f"{name}: {found.source}", *found.notes]
    text += [f"file: {found.path}" if found.path else "read as it is, no file needed"]
    _say("\n".join(text), words, as_json, quiet)


@data_app.command("check", epilog="Example: $ gnas data check zinc --data-root /data")
def check_command(
    name: Name, data_root: Root = None, seed: Seed = 0, as_json: Json = False, quiet: Quiet = False
) -> None:
    """Verify a benchmark against its published statistics; exit code 1 if it differs."""
    known = facts(name)
    benchmark = load(name, data_root=data_root, seed=seed)
    checks, size = check_benchmark(benchmark, known), megabytes(benchmark)
    ok = all(c.ok for c in checks)
    if as_json:
        words = {"name": name, "source": benchmark.source, "ok": ok, "megabytes": round(size, 1)}
        typer.echo(json.dumps({**words, "checks": [c._asdict() for c in checks]}, indent=2))
    elif not quiet:
        table = Table("checked", "found", "expected", "", title=f"{name} ({benchmark.source})")
        for c in checks:
            table.add_row(c.what, c.found, c.expected, "ok" if c.ok else "DIFFERS")
        Console().print(table)
        typer.echo(f"memory: {size:,.0f} MB")
        for note in benchmark.notes:
            typer.echo(f"note: {note}")
    raise typer.Exit(0 if ok else 1)


@data_app.command("pack", epilog="Example: $ gnas data pack tables/ -o graphs.npz")
def pack_command(
    data: Annotated[str, typer.Argument(help="A benchmark's name, or the path of your own data.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")],
    data_root: Root = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write graphs, splits and task into one safe .npz file that loads anywhere."""
    from gnas.datasets.bundle import pack

    benchmark = load(data, data_root=data_root, seed=seed)
    pack(benchmark, output)
    counts = {split: len(graphs) for split, graphs in benchmark.splits().items()}
    text = f"{output}: {', '.join(f'{n:,} {split}' for split, n in counts.items())} graphs"
    _say(text, {"file": str(output), **counts}, as_json, quiet)


def _say(text: str, words: Mapping[str, object], as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(json.dumps(dict(words), indent=2))
    elif not quiet:
        typer.echo(text)
