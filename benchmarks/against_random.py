"""Is a searched network better than a random one? Searches on the small datasets, trains the network found and 20 genotypes
drawn uniformly from the same space in the same way, and writes results/against_random.csv.

    python benchmarks/against_random.py
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import warnings
from pathlib import Path

import numpy as np
from rows import RESULTS, append

import gnas
from gnas.arch.genotype import Genotype
from gnas.run.protocol import TrainConfig

COLUMNS = (
    "date",
    "dataset",
    "seed",
    "metric",
    "found",
    "median",
    "best_random",
    "worst_random",
    "beaten",
    "search_seconds",
)
CELLS, CHANNELS, RANDOM = 2, 24, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["cluster-mini", "pattern-mini", "molecules-mini"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS / "against_random.csv")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.out.unlink(missing_ok=True)
    for dataset in arguments.datasets:
        for seed in arguments.seeds:
            row = measure(dataset, seed, arguments.epochs)
            append(arguments.out, COLUMNS, [row])
            print(row, flush=True)


def measure(dataset: str, seed: int, epochs: int) -> dict[str, object]:
    """One search against ``RANDOM`` random genotypes, all trained alike; figures are of the test split."""
    benchmark = gnas.load(dataset)
    strategy = gnas.SingleLevel(epochs=40, batch_size=16, alpha_lr=1e-2, lr=0.1)  # as in the preset fast
    result = gnas.search(benchmark, strategy=strategy, channels=CHANNELS, num_cells=CELLS, seed=seed)
    config = TrainConfig.paper(benchmark).with_(epochs=epochs, batch_size=32, lr=3e-3)

    def test_metric(genotype: Genotype) -> float:
        return gnas.train(lambda: gnas.Network(genotype, benchmark.task, CHANNELS), benchmark, config, seed=41).test

    found = test_metric(result.genotype)
    rng = np.random.default_rng(seed)
    drawn = [test_metric(gnas.SearchSpace().sample(rng, CELLS)) for _ in range(RANDOM)]
    return {
        "date": datetime.date.today().isoformat(),
        "dataset": dataset,
        "seed": seed,
        "metric": benchmark.task.metric,
        "found": round(found, 4),
        "median": round(statistics.median(drawn), 4),
        "best_random": round((max if benchmark.task.higher_is_better else min)(drawn), 4),
        "worst_random": round((min if benchmark.task.higher_is_better else max)(drawn), 4),
        "beaten": sum(benchmark.task.better(found, other) for other in drawn),
        "search_seconds": round(result.seconds, 1),
    }


if __name__ == "__main__":
    main()
