"""What does one step cost? Search steps (4 and 12 cells) and training steps (1 and 4 seeds) on ZINC, recorded and eager.

    python benchmarks/steps.py                 # a GPU if there is one
    python benchmarks/steps.py --device cpu --threads 1

Rows are appended to results/steps.csv. The width is 64 (search, batch 64) and 60 (training, batch 128), as in the figures
quoted from the authors' code.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import time
from pathlib import Path

import torch

import gnas
from gnas.authors import from_first
from gnas.datasets.base import Benchmark
from gnas.engine import Engine
from gnas.store import GraphStore, Planned
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.darts import Darts, DartsSearch
from gnas.strategies.single_level import SingleLevel, SingleLevelSearch
from gnas.training import TrainConfig, Trainer

COLUMNS = ("date", "hardware", "threads", "what", "cells", "replicas", "mode", "milliseconds")
# A genotype the authors published for ZINC.
PUBLISHED = """\
cell 1: I 1 0, s 2 0, d 3 0, d 4 0, sum 5 1, sum 6 2, sum 7 3, sum 8 4, I 9 8, d 10 8, s 11 10, I 12 11
cell 2: s 1 0, s 2 1, I 3 1, s 4 2, sum 5 1, sum 6 2, sum 7 3, sum 8 4, I 9 6, I 10 9, I 11 6, s 12 10
cell 3: s 1 0, s 2 0, s 3 0, s 4 3, sum 5 1, max 6 2, max 7 3, max 8 4, s 9 6, d 10 9, s 11 10, s 12 11
cell 4: I 1 0, s 2 0, s 3 2, s 4 2, max 5 1, max 6 2, sum 7 4, s 8 7, s 9 8, s 10 9, s 11 9
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "steps.csv")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    benchmark = gnas.load("zinc")
    for what, cells, replicas, mode in plan(device):
        milliseconds = measure(benchmark, what, cells, replicas, mode, device)
        row = {
            "date": datetime.date.today().isoformat(),
            "hardware": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
            "threads": torch.get_num_threads(),
            "what": what,
            "cells": cells,
            "replicas": replicas,
            "mode": mode,
            "milliseconds": round(milliseconds, 2),
        }
        add_row(arguments.results, row)
        print(row, flush=True)


def plan(device: torch.device) -> list[tuple[str, int, int, str]]:
    """What is measured on a device."""
    if device.type == "cpu":
        return [("single-level search", 4, 1, "eager"), ("darts1 search", 4, 1, "eager"), ("training", 4, 1, "eager")]
    searches = [(f"{kind} search", cells, 1, "graph") for kind in ("single-level", "darts1") for cells in (4, 12)]
    return [*searches, ("single-level search", 4, 1, "eager"), ("training", 4, 1, "graph"), ("training", 4, 4, "graph")]


def measure(benchmark: Benchmark, what: str, cells: int, replicas: int, mode: str, device: torch.device) -> float:
    """Milliseconds a round (one step of every replica), after warming up and recording."""
    work = (
        [search_steps(benchmark, what, cells, mode, device)]
        if "search" in what
        else training_steps(benchmark, replicas, mode, device)
    )
    warm, timed = (6, 60) if mode == "graph" else (2, 8)
    for step in range(warm):
        for engine, batches in work:
            engine(*batches[step])
    synchronize(device)
    started = time.perf_counter()
    for step in range(warm, warm + timed):
        for engine, batches in work:
            engine(*batches[step])
    synchronize(device)
    return (time.perf_counter() - started) / timed * 1e3


def search_steps(
    benchmark: Benchmark, what: str, cells: int, mode: str, device: torch.device
) -> tuple[Engine, list[tuple[Planned, ...]]]:
    problem = SearchProblem(benchmark.train, benchmark.val, benchmark.task, gnas.SearchSpace(), 64, cells)
    context = SearchContext(device=device, engine=mode)
    darts = what.startswith("darts")
    search = (
        DartsSearch(Darts(order=1), problem, context) if darts else SingleLevelSearch(SingleLevel(), problem, context)
    )
    KEPT.append(search)
    return search.engine, search.plan()


def training_steps(
    benchmark: Benchmark, replicas: int, mode: str, device: torch.device
) -> list[tuple[Engine, list[tuple[Planned, ...]]]]:
    genotype = from_first(PUBLISHED, "the published ZINC genotype")
    stores = {name: GraphStore(split, device) for name, split in benchmark.splits().items()}
    work = []
    for seed in range(replicas):
        network = gnas.Network(genotype, benchmark.task, 60)
        trainer = Trainer(network, TrainConfig(engine=mode), seed, device, stores)
        KEPT.append(trainer)
        work.append((trainer.engine, trainer.plan()))
    return work


KEPT: list[object] = []  # recorded steps read the memory of the objects they were recorded from


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def add_row(path: Path, row: dict[str, object]) -> None:
    new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
