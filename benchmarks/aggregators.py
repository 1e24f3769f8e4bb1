"""What does a search gain from aggregators that the paper's space does not have, or from measures of the graph as input?

    python benchmarks/aggregators.py                       # half an hour on a CPU core
    python benchmarks/aggregators.py --datasets cluster-mini --seeds 0 --add symmetric
    python benchmarks/aggregators.py --add symmetric symmetric+size+degree   # in both the wider space, one with structure
    python benchmarks/aggregators.py --datasets cluster --graphs 1000 --search-epochs 20 --epochs 20 --budget 120000

The same search (preset ``fast``) in the paper's space and with what is added, from several seeds. What is found is trained
at the same number of weights, from two seeds, with ``precise_norms``. ``cluster`` and
``pattern`` are ``--graphs`` graphs of our generator.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial

import torch
from norms import drawn
from rows import Rows, parser

import gnas
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks.sbm import MODELS
from gnas.data.graph_encodings import with_encodings
from gnas.model.structure import MEASURES
from gnas.run.settings import Settings
from gnas.training.train import train_seeds
from gnas.workflow import make_candidate, strategy_from_settings, train_config

COLUMNS = ("dataset", "metric", "added", "seed", "second_level", "weights", "val", "test", "tests")
DATASETS = ("cluster-mini", "pattern-mini", "molecules-mini")
TRAININGS = (41, 95)


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for dataset in chosen.datasets:
        for seed in chosen.seeds:
            for added in chosen.add if chosen.no_plain else ("", *chosen.add):
                rows.add(**measure(dataset, seed, added, chosen))


def measure(dataset: str, seed: int, added: str, chosen: argparse.Namespace) -> dict[str, object]:
    """One search and the trainings of what it found."""
    more = [name for name in added.split("+") if name]
    benchmark = drawn(dataset, chosen.graphs) if dataset in MODELS else gnas.load(dataset)
    benchmark = with_encodings(benchmark, [name for name in more if name in MEASURES])
    settings = Settings.resolve(
        "fast",
        aggregators=(*SearchSpace.aggregators, *(name for name in more if name not in MEASURES)),
        budget=chosen.budget,
        epochs=chosen.epochs,
        search_epochs=chosen.search_epochs,
        training={"precise_norms": 8},
    )
    result = gnas.search(
        benchmark,
        settings.space.search_space(),
        strategy_from_settings(settings),
        channels=settings.space.channels,
        num_cells=settings.space.cells,
        seed=seed,
        device=chosen.device,
    )
    level = Counter(link.operation for cell in result.genotype for link in cell.links if cell.level(link.target) == 2)
    return {
        "dataset": dataset,
        "metric": benchmark.task.metric,
        "added": added,
        "seed": seed,
        "second_level": " ".join(f"{name} {count}" for name, count in sorted(level.items())),
        **trained_to_the_end(result.genotype, benchmark, settings, chosen.device),
    }


def trained_to_the_end(
    genotype: Genotype, benchmark: Benchmark, settings: Settings, device: torch.device | str
) -> dict[str, object]:
    """What a found network gives, from two seeds."""
    config = train_config(settings, benchmark.patience)
    trained = train_seeds(
        partial(make_candidate(genotype, benchmark, settings).build, benchmark.task),
        benchmark,
        config,
        TRAININGS,
        device=device,
    )
    return {
        "weights": trained.results[0].num_weights,
        "val": trained.val,
        "test": trained.mean,
        "tests": " ".join(f"{one.test:.4f}" for one in trained.results),
    }


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "aggregators.csv")
    words.add_argument("--datasets", nargs="+", default=list(DATASETS))
    words.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of the searches")
    words.add_argument("--add", nargs="+", default=["symmetric"], metavar="NAMES", help="what is added, each by itself")
    words.add_argument("--no-plain", action="store_true", help="leave the paper's space out")
    words.add_argument("--graphs", type=int, default=2000, help="of cluster and pattern, to train on")
    words.add_argument("--budget", type=int, default=40_000, help="weights of a trained network")
    words.add_argument("--search-epochs", type=int, default=40)
    words.add_argument("--epochs", type=int, default=60)
    words.add_argument("--threads", type=int, default=1)
    return words.parse_args()


if __name__ == "__main__":
    main()
