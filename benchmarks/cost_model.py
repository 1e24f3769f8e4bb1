"""How far off is the cost model? Predictions of ``gnas.cost`` against steps, searches and trainings that it was not fitted to.

    python benchmarks/cost_model.py                    # a GPU if there is one, about 30 s
    python benchmarks/cost_model.py --device cpu --clock cpu
    python benchmarks/cost_model.py --no-steps         # only what the other benchmarks have measured

Column ``source``: ``random sizes`` measures steps whose cells, channels, graphs, nodes and degree are drawn at random, so
that all differ from those of growth.py; ``searches`` runs real searches for three epochs; ``steps.csv`` takes the steps on
shapes of real datasets, one and four seeds; ``walltime.csv`` takes an epoch of whole searches and trainings (both files lie
beside ``--out``); ``run folders`` takes the searches in the archives of results/. ``off`` is predicted over measured, less 1.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import growth
import numpy as np
import torch
from rows import RESULTS, Rows, parser, read
from shapes import synthetic
from work import SEARCH_BATCH, SEARCH_CHANNELS, TRAIN_BATCH, TRAIN_CHANNELS

import gnas
from gnas.cost import Machine, Workload, find_machine, name_hardware
from gnas.data.benchmarks import PUBLISHED, find_facts
from gnas.files import read_config, read_json
from gnas.paper.archive import unpack_archive
from gnas.paper.runs import DATASETS
from gnas.run.settings import Settings
from gnas.strategies import SingleLevel
from gnas.workflow import train_config

COLUMNS = ("source", "what", "case", "measured", "predicted", "unit", "off", "measured_mb", "predicted_mb", "off_mb")
SHAPES = (("zinc", 10_000, 64), ("mnist", 8_000, 64), ("pattern", 2_000, 64))  # graphs and channels, on a GPU
Row = dict[str, object]


def main() -> None:
    words = parser(__doc__, "cost_model.csv")
    words.add_argument("--count", type=int, default=6, help="random sizes")
    words.add_argument("--no-steps", action="store_true", help="measure nothing")
    words.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time, one thread")
    words.add_argument("--seed", type=int, default=1)
    chosen = words.parse_args()
    device = torch.device(chosen.device)
    if chosen.clock == "cpu":
        torch.set_num_threads(1)
    rows = Rows(chosen.out, device, COLUMNS)
    known, same = find_machine(device)
    if not (same or chosen.no_steps):
        raise SystemExit(f"{name_hardware(device)} was not measured; run benchmarks/growth.py first")
    found = []
    sources = [steps(known, chosen.out.with_name("steps.csv")), searches(known, chosen.out.with_name("walltime.csv"))]
    sources.append(runs(known))
    if not chosen.no_steps:
        sources.insert(0, random_sizes(known, device, chosen.count, chosen.seed, chosen.clock))
        sources.insert(1, whole(known, device, chosen.clock))
    for source in sources:
        for row in source:
            rows.add(**row)
            found.append(row)
    for source in dict.fromkeys(row["source"] for row in found):
        off = [abs(float(str(row["off"]))) for row in found if row["source"] == source]
        print(f"{source}: {len(off)} cases, off by {statistics.median(off):.0%} (median), {max(off):.0%} at most")


def random_sizes(known: Machine, device: torch.device, count: int, seed: int, clock: str) -> Iterator[Row]:
    """Steps of sizes that differ from those fitted in everything at once."""
    rng, base = np.random.default_rng(seed), growth.BASE[device.type]
    # Timed with one thread: the model's figure before it counts the others.
    alone = replace(known, values={**known.values, "all_threads": 1.0}) if clock == "cpu" else known
    for _ in range(count):
        factor = 2 ** rng.uniform(-1, 1, 5)
        size = growth.Size(
            *(
                max(1, round(value * f))
                for value, f in zip(
                    (base.cells * 2, base.graphs, base.nodes, base.degree, base.channels), factor, strict=True
                )
            )
        )
        for what in ("search", "training"):
            one = growth.measure(what, size, device, 0.4, clock)
            sizes = tuple(float(str(one[name])) for name in ("nodes", "edges"))
            yield compared(
                "random sizes",
                what,
                f"{size.cells} cells, {size.channels} channels, {one['nodes']} nodes, {one['edges']} edges",
                float(str(one["milliseconds"])),
                alone.step_ms(what, *sizes, size.cells, size.channels),
                "ms",
                float(str(one["reserved_mb"])),
                known.step_mb(what, *sizes, size.cells, size.channels),
            )


def whole(known: Machine, device: torch.device, clock: str) -> Iterator[Row]:
    """Epochs after the first of real searches: batch assembly, evaluation and all."""
    alone = replace(known, values={**known.values, "all_threads": 1.0}) if clock == "cpu" else known
    now = time.perf_counter if clock == "wall" else time.process_time
    for shape, graphs, channels in (("zinc", 512, 32), ("mnist", 128, 16)) if device.type == "cpu" else SHAPES:
        benchmark = synthetic(shape, (graphs, graphs // 8, 2))
        ends: list[float] = []
        strategy = SingleLevel(epochs=3)
        options = {"channels": channels, "num_cells": 4, "device": device}
        gnas.search(benchmark, None, strategy, on_epoch=lambda record, ends=ends: ends.append(now()), **options)
        measured = (ends[-1] - ends[0]) / (len(ends) - 1)
        predicted = alone.epoch_seconds("search", Workload.of(benchmark), strategy.batch_size, 4, channels)
        case = f"{shape} shape, {graphs} graphs, 4 cells, {channels} channels, an epoch"
        yield compared("searches", "search", case, measured, predicted, "s")


def steps(known: Machine, path: Path) -> Iterator[Row]:
    """Steps of steps.csv in the mode that runs use, on all cores; the last of each kind."""
    mode = "graph" if known.device == "cuda" else "eager"
    cores = known.name.split()[1]
    latest = {}
    for row in read(path):
        usual = row["mode"] == mode and (known.device == "cuda" or row["threads"] == cores)
        if row["hardware"] == known.name and usual and row["what"] in ("search", "training"):
            latest[row["shape"], row["what"], row["cells"], row["replicas"]] = row
    for (shape, what, cells, replicas), row in latest.items():
        work = Workload.from_facts(shape.split()[0])
        batch, channels = (SEARCH_BATCH, SEARCH_CHANNELS) if what == "search" else (TRAIN_BATCH, TRAIN_CHANNELS)
        predicted = known.step_ms(what, batch * work.nodes, batch * work.edges, int(cells), channels, int(replicas))
        case = f"{shape}, {cells} cells, {replicas} at once"
        yield compared("steps.csv", what, case, float(row["milliseconds"]), predicted, "ms")


def searches(known: Machine, path: Path) -> Iterator[Row]:
    """Whole searches and trainings of walltime.csv."""
    settings = Settings.resolve("paper")
    for row in read(path):
        if row["hardware"] != known.name or not row["later_epoch_s"]:
            continue
        cells, seeds = int(row["cells"]), int(row["seeds"] or 1)
        columns = find_facts(row["dataset"]).task.in_channels or 1 if row["dataset"] in PUBLISHED else 1
        work = Workload(int(row["graphs"]), int(row["val_graphs"]), float(row["nodes"]), float(row["edges"]), columns)
        kind = "search" if row["what"] == "search" else "training"
        batch = settings.search.batch_size if kind == "search" else train_config(settings).batch_size
        epoch = known.epoch_seconds(kind, work, batch, cells, settings.space.channels, seeds)
        # On a CPU seeds run one after another: an epoch there is that of one seed.
        epoch /= seeds if known.device == "cpu" else 1
        batch = min(batch, work.graphs)
        memory = known.step_mb(kind, batch * work.nodes, batch * work.edges, cells, settings.space.channels)
        memory = memory * (seeds if known.device == "cuda" else 1) + work.store_mb()
        memory += float(known.values.get("process_mb", 0.0))
        case = f"{row['dataset']} ({row['data']}), {cells} cells, an epoch of {seeds} seed{'s' * (seeds != 1)}"
        # The peak of a process that trained after it searched may be the search's.
        measured_mb = float(row["peak_mb"]) if kind == "search" else None
        yield compared("walltime.csv", kind, case, float(row["later_epoch_s"]), epoch, "s", measured_mb, memory)


def runs(known: Machine) -> Iterator[Row]:
    """Single-level searches in the archives of results/."""
    datasets = filter(None, (unpack_archive(RESULTS, name) for name in DATASETS))
    for folder in sorted(folder for dataset in datasets for folder in dataset.glob("single-level-*")):
        versions, done = folder / "versions.json", folder / "search" / "result.json"
        if not (versions.exists() and done.exists()) or read_json(versions).get("device") != known.name:
            continue
        config, result = read_config(folder / "config.yaml"), read_json(done)
        settings = Settings.resolve(
            "paper", **{name: config.get(name) for name in ("cells", "channels", "search_batch")}
        )
        work = Workload.from_facts(config["dataset"])
        epoch = known.epoch_seconds(
            "search", work, settings.search.batch_size, settings.space.cells, settings.space.channels
        )
        epochs = result["trained_epochs"]
        case = f"{config['dataset']}, {settings.space.cells} cells, {epochs} epochs, {folder.name}"
        yield compared("run folders", "search", case, result["seconds"], epochs * epoch, "s")


def compared(
    source: str,
    what: str,
    case: str,
    measured: float,
    predicted: float,
    unit: str,
    measured_mb: float | None = None,
    predicted_mb: float | None = None,
) -> Row:
    row: Row = {
        "source": source,
        "what": what,
        "case": case,
        "measured": measured,
        "predicted": predicted,
        "unit": unit,
    }
    row["off"] = round(predicted / measured - 1, 3)
    if measured_mb and predicted_mb is not None:
        row |= {
            "measured_mb": measured_mb,
            "predicted_mb": predicted_mb,
            "off_mb": round(predicted_mb / measured_mb - 1, 3),
        }
    return row


if __name__ == "__main__":
    main()
