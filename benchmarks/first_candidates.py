"""Which networks should a race try first? Each is trained alone for a few seconds, on training parts of many datasets.

    python benchmarks/pays.py prepare --data-root FOLDER --out PACKED
    python benchmarks/first_candidates.py --data PACKED                    # 5 networks, 9 datasets, 12 seconds each
    python benchmarks/first_candidates.py --data PACKED --only digits

The training part of one split is split again, so that neither validation nor test graphs of pays.py are read. Seconds are of
processor time, on one core. Validation selects the epoch; ``held_out`` is the metric on graphs that played no part.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from pays_data import SOURCES, Drawn, read_part
from rows import Rows, parser

from gnas.data.benchmark import Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.strategies.candidate import RaceCandidate

COLUMNS = ("dataset", "network", "seconds", "metric", "val", "held_out", "weights", "epochs", "best_epoch")
DATASETS = (
    "esol",
    "bace",
    "hiv",
    "nci109",
    "molecules-mini",
    "cluster-mini",
    "pattern-mini",
    "digits",
    "zinc",
    "mnist",
)
HAND_MADE = ("gin+", "gatedgcn", "gine", "gcn+")
TRAIN, VAL = 0.76, 0.12  # shares of the training part; the rest is held out
DRAW = 7  # the seed of datasets that are drawn: none of those of pays.py


def main() -> None:
    chosen = arguments()
    time.monotonic = time.perf_counter = time.process_time  # before anything else reads the clock
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = Rows(chosen.out, torch.device("cpu"), COLUMNS)
    for name in chosen.only or DATASETS:
        drawn = isinstance(SOURCES[name], Drawn)
        benchmark = split_again(read_part(chosen.data, name, DRAW if drawn else 0))
        for row in measure(benchmark, chosen.seconds):
            rows.add(dataset=name, seconds=chosen.seconds, metric=benchmark.task.metric, **row)


def split_again(benchmark: Benchmark) -> Benchmark:
    """Train, validation and held-out graphs, all from the training part."""
    order = np.random.default_rng(0).permutation(len(benchmark.train))
    ends = [int(TRAIN * len(order)), int((TRAIN + VAL) * len(order))]
    parts = (benchmark.train.select(np.sort(part)) for part in np.split(order, ends))
    return replace(benchmark, **dict(zip(("train", "val", "test"), parts, strict=True)))


def measure(benchmark: Benchmark, seconds: float) -> Iterator[dict[str, object]]:
    """The figures of each network after the same time."""
    from pays_methods import Work, make_trainer, time_epoch

    from gnas.training.sampling import open_store

    work = Work(benchmark, seconds, 0, time.monotonic())
    ready = with_encodings(benchmark, work.settings.data.get("encodings"), None)
    work = replace(work, benchmark=ready)
    space = work.space()
    splits = {name: open_store(graphs, torch.device("cpu")) for name, graphs in ready.splits().items()}
    zoo = {one.title.split(",")[0]: one for one in space.hand_made()}
    known: list[tuple[str, RaceCandidate]] = [(one.architecture.formulas()[0], one) for one in space.derive()]
    for label, one in [*((name, zoo[name]) for name in HAND_MADE), *known]:
        candidate = space.fit_width(one)
        assert candidate is not None
        speed = time_epoch(make_trainer(work, candidate, splits, 1), seconds / 100)
        trainer = make_trainer(
            work, candidate, splits, int(max(1, min(seconds / speed, work.settings.training.epochs)))
        )
        for _ in trainer.steps():
            pass
        found = trainer.result()
        yield {
            "network": label,
            "val": found.val,
            "held_out": found.test,
            "weights": found.num_weights,
            "epochs": found.epochs,
            "best_epoch": found.best_epoch,
        }


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "first_candidates.csv")
    words.add_argument("--data", type=Path, required=True, help="the folder that `pays.py prepare` wrote")
    words.add_argument("--only", nargs="+", default=[], choices=DATASETS)
    words.add_argument("--seconds", type=float, default=12.0, help="of each training")
    return words.parse_args()


if __name__ == "__main__":
    main()
