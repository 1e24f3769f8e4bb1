"""``gnas data``: list benchmarks, show what is read and how, build and check files, pack your own graphs into one file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from gnas.cli.options import Options, refuse_existing
from gnas.cli.prepare import choose_device, load_data
from gnas.cli.progress import count_progress
from gnas.cli.screen import Screen
from gnas.cli.settings import data_options, resolve_settings, usual_preset
from gnas.data import load
from gnas.data.benchmarks import PUBLISHED, check_benchmark, find_facts, list_benchmarks, prepare_benchmark
from gnas.data.describe import describe_benchmark
from gnas.data.storage import check_file_name, save_benchmark
from gnas.distributed import available_cores
from gnas.run.settings import Settings
from gnas.run.table import Column, Table, show_count


def list_data(options: Options, screen: Screen) -> None:
    """Print the benchmarks and where each would be read from now."""
    rows = list_benchmarks(options.data_root)
    columns = (
        Column[Any]("name", "name"),
        Column[Any]("train / val / test", "graphs", lambda graphs: " / ".join(map(show_count, graphs)), align="right"),
        Column[Any]("what", "what"),
        Column[Any]("source", "source"),
    )
    screen.say(Table(columns, rows).to_rich())
    screen.result({"benchmarks": [row._asdict() for row in rows]})


def show_data(options: Options, screen: Screen) -> None:
    """Print what a search would read."""
    given = {"data": _data_options(options) or None}
    usual, _ = usual_preset("search", options.dataset, choose_device(None), given)
    settings = resolve_settings(usual, options.preset, None, None, given)
    benchmark = load_data(screen, options.dataset, options.data_root, settings.data, show=False)
    description = describe_benchmark(benchmark)
    screen.pairs("data", description.lines)
    splits = {name: {"graphs": len(g), "targets": g.num_targets} for name, g in benchmark.splits().items()}
    words = {"name": benchmark.name, "source": benchmark.source, "fingerprint": benchmark.fingerprint, "splits": splits}
    screen.result({**words, "task": asdict(benchmark.task), "description": description.to_dict()})


def _data_options(options: Options) -> dict[str, Any]:
    return data_options(options.target, options.data) | ({} if options.seed is None else {"seed": options.seed})


def prepare_data(options: Options, screen: Screen) -> None:
    """Build the file of a benchmark."""
    name = options.name
    if name not in PUBLISHED:
        find_facts(name)
        screen.pair(name, "built in: nothing to prepare")
        screen.result({"name": name, "source": "built in", "file": None, "notes": []})
        return
    with count_progress(screen, name) as report:
        found = prepare_benchmark(
            name,
            data_root=options.data_root,
            seed=options.seed,
            device=options.device,
            workers=options.workers or available_cores(),
            on_progress=report,
            must_store=True,
        )
    screen.pair(name, "\n".join([found.source, *found.notes]))
    file = str(found.path) if found.path else None
    screen.pair("file", file or "read as it is, no file needed")
    screen.result({"name": name, "source": found.source, "file": file, "notes": list(found.notes)})


def check_data(options: Options, screen: Screen) -> None:
    """Compare a benchmark with its published statistics."""
    name, facts = options.name, find_facts(options.name)
    with count_progress(screen, name) as report:
        benchmark = load(name, data_root=options.data_root, seed=options.seed, on_progress=report)
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


def pack_data(options: Options, screen: Screen) -> None:
    """Write graphs of any kind into one file."""
    refuse_existing(check_file_name(options.out), options.overwrite)
    chosen = Settings().changed({"data": _data_options(options)}).data
    benchmark = load_data(screen, options.dataset, options.data_root, chosen)
    save_benchmark(benchmark, options.out)
    counts = {split: len(graphs) for split, graphs in benchmark.splits().items()}
    screen.pair("written", f"{options.out}: {', '.join(f'{n:,} {split}' for split, n in counts.items())} graphs")
    screen.result({"file": str(options.out), **counts})
