"""``gnas data``: list benchmarks, show what is read and how, build and check files, pack your own graphs into one file."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gnas.cli import options as o
from gnas.cli.options import format_examples
from gnas.cli.progress import count_progress
from gnas.cli.screen import Screen
from gnas.data import load
from gnas.data.benchmarks import PUBLISHED, find_facts, list_benchmarks, prepare_benchmark
from gnas.data.benchmarks.facts import check_benchmark
from gnas.run.table import Column, Table, show_count

data_app = typer.Typer(
    name="data",
    help="Benchmarks and your own graphs.",
    epilog=format_examples("gnas data list", "gnas data show molecules.csv", "gnas data check zinc"),
    no_args_is_help=True,
)

Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Of what is random in the data.")]
Data = Annotated[str, typer.Argument(metavar="DATA", help="A benchmark's name, or the path of your own data.")]
DataSeed = Annotated[int | None, typer.Option(metavar="N", min=0, help="Of what is random in the data.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A benchmark; 'gnas data list' shows them.")]


@data_app.command("list", epilog=format_examples("gnas data list", "gnas data list --data-root /data --json"))
def list_command(data_root: o.DataRoot = None, as_json: o.Json = False, quiet: o.Quiet = False) -> None:
    """Show the benchmarks and where each would be read from now."""
    screen, rows = Screen(as_json, quiet), list_benchmarks(data_root)
    columns = (
        Column[Any]("name", "name"),
        Column[Any]("train / val / test", "graphs", lambda graphs: " / ".join(map(show_count, graphs)), align="right"),
        Column[Any]("what", "what"),
        Column[Any]("source", "source"),
    )
    screen.say(Table(columns, rows).to_rich())
    screen.result({"benchmarks": [row._asdict() for row in rows]})


@data_app.command(
    "show", epilog=format_examples("gnas data show molecules.csv --target logP", "gnas data show MUTAG/ --json")
)
def show_command(
    data: Data,
    target: o.Target = None,
    option: o.DataOption = None,
    seed: DataSeed = None,
    preset: o.Preset = None,
    data_root: o.DataRoot = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Show what 'gnas search' would read: what is used and how, what was inferred, left out, and what looks wrong."""
    from gnas.cli.prepare import choose_device, load_data
    from gnas.cli.settings import resolve_settings, usual_preset
    from gnas.data.describe import describe_benchmark

    screen = Screen(as_json, quiet)
    given = {"data": _data_options(target, option, seed) or None}
    settings = resolve_settings(usual_preset("search", data, choose_device(None), given)[0], preset, None, None, given)
    benchmark = load_data(screen, data, data_root, settings.data, show=False)
    description = describe_benchmark(benchmark)
    screen.pairs("data", description.lines)
    splits = {name: {"graphs": len(g), "targets": g.num_targets} for name, g in benchmark.splits().items()}
    words = {"name": benchmark.name, "source": benchmark.source, "fingerprint": benchmark.fingerprint, "splits": splits}
    screen.result({**words, "task": asdict(benchmark.task), "description": description.to_dict()})


def _data_options(target: list[str] | None, option: list[str] | None, seed: int | None) -> dict[str, Any]:
    from gnas.cli.settings import data_options

    return data_options(target, option) | ({} if seed is None else {"seed": seed})


@data_app.command("prepare", epilog=format_examples("gnas data prepare mnist"))
def prepare_command(
    name: Name,
    data_root: o.DataRoot = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(metavar="NAME", help="Where superpixel edges are built: cpu or cuda.")] = "cpu",
    workers: Annotated[int, typer.Option(metavar="N", min=0, help="Processes for raw images; 0: all cores.")] = 0,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Build a benchmark's file once, so that loading it takes seconds. After an interruption, run it again to continue."""
    screen = Screen(as_json, quiet)
    if name not in PUBLISHED:
        find_facts(name)
        screen.pair(name, "built in: nothing to prepare")
        screen.result({"name": name, "source": "built in", "file": None, "notes": []})
        return
    with count_progress(screen, name) as report:
        found = prepare_benchmark(
            name,
            data_root=data_root,
            seed=seed,
            device=device,
            workers=workers or os.cpu_count() or 1,
            on_progress=report,
            must_store=True,
        )
    screen.pair(name, "\n".join([found.source, *found.notes]))
    screen.pair("file", str(found.path) if found.path else "read as it is, no file needed")
    file = str(found.path) if found.path else None
    screen.result({"name": name, "source": found.source, "file": file, "notes": list(found.notes)})


@data_app.command("check", epilog=format_examples("gnas data check zinc --data-root /data"))
def check_command(
    name: Name, data_root: o.DataRoot = None, seed: Seed = 0, as_json: o.Json = False, quiet: o.Quiet = False
) -> None:
    """Verify a benchmark against its published statistics; exit code 1 if it differs."""
    screen, facts = Screen(as_json, quiet), find_facts(name)
    with count_progress(screen, name) as report:
        benchmark = load(name, data_root=data_root, seed=seed, on_progress=report)
    checks, size = check_benchmark(benchmark, facts), benchmark.nbytes() / 1e6
    ok = all(c.ok for c in checks)
    screen.pair(name, benchmark.source)
    columns = (
        Column[Any]("checked", "what"),
        Column[Any]("value", "found", align="right"),
        Column[Any]("expected", "expected", align="right"),
        Column[Any]("", "ok", lambda same: "ok" if same else "DIFFERS", align="left"),
    )
    screen.say(Table(columns, checks).to_rich())
    screen.pair("memory", f"{size:,.0f} MB")
    for note in benchmark.notes:
        screen.pair("note", note)
    words = {"name": name, "source": benchmark.source, "ok": ok, "megabytes": round(size, 1)}
    screen.result({**words, "checks": [c._asdict() for c in checks]})
    raise typer.Exit(0 if ok else 1)


@data_app.command("pack", epilog=format_examples("gnas data pack tables/ -o graphs.safetensors"))
def pack_command(
    data: Data,
    out: Annotated[
        Path, typer.Option("--out", "--output", "-o", metavar="FILE", help="The .safetensors file to write.")
    ],
    target: o.Target = None,
    option: o.DataOption = None,
    seed: DataSeed = None,
    data_root: o.DataRoot = None,
    force: o.Overwrite = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Write graphs, splits and task into one safe file that loads anywhere."""
    from gnas.cli.prepare import load_data
    from gnas.cli.report import refuse_existing
    from gnas.data.storage import check_file_name, save_benchmark
    from gnas.run.settings import Settings

    screen = Screen(as_json, quiet)
    refuse_existing(check_file_name(out), force)
    options = Settings().changed({"data": _data_options(target, option, seed)}).data
    benchmark = load_data(screen, data, data_root, options)
    save_benchmark(benchmark, out)
    counts = {split: len(graphs) for split, graphs in benchmark.splits().items()}
    screen.pair("written", f"{out}: {', '.join(f'{n:,} {split}' for split, n in counts.items())} graphs")
    screen.result({"file": str(out), **counts})
