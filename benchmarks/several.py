"""What does the best of several searches gain, and does a brief training select it?

    python benchmarks/several.py                       # an hour on a CPU core
    python benchmarks/several.py --datasets cluster --graphs 1000 --search-epochs 20 --epochs 20 --budget 120000

Searches (preset ``fast``) from several seeds. What each finds is trained briefly, as ``gnas search --searches`` does, and then
to the end at the same number of weights, from two seeds, with ``precise_norms``.
``cluster`` and ``pattern`` are ``--graphs`` graphs of our generator.
"""

from __future__ import annotations

import argparse

import torch
from aggregators import DATASETS, trained_to_the_end
from norms import drawn
from rows import Rows, parser

import gnas
from gnas.data.benchmarks.sbm import MODELS
from gnas.run.settings import Settings
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.trial import TrialSettings
from gnas.strategies.trials import ListedTrials
from gnas.workflow import strategy_from_settings

COLUMNS = ("dataset", "metric", "seed", "depth", "supernet_val", "judged_val", "weights", "val", "test", "tests")
NORMS = 8  # batches for the norms' statistics


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for dataset in chosen.datasets:
        for seed in chosen.seeds:
            rows.add(**measure(dataset, seed, chosen))


def measure(dataset: str, seed: int, chosen: argparse.Namespace) -> dict[str, object]:
    """One search, the brief training of what it found, and the long ones."""
    benchmark = drawn(dataset, chosen.graphs) if dataset in MODELS else gnas.load(dataset)
    settings = Settings.resolve(
        "fast",
        budget=chosen.budget,
        epochs=chosen.epochs,
        search_epochs=chosen.search_epochs,
        training={"precise_norms": NORMS},
    )
    device = torch.device(chosen.device)
    space, channels, cells = settings.space.search_space(), settings.space.channels, settings.space.cells
    result = gnas.search(
        benchmark, space, strategy_from_settings(settings), channels=channels, num_cells=cells, seed=seed, device=device
    )
    problem = SearchProblem(benchmark.train, benchmark.val, benchmark.task, space, channels, cells)
    trial = TrialSettings(epochs=chosen.trial_epochs, batch_size=settings.search.batch_size, precise_norms=NORMS)
    judged = ListedTrials([result.genotype], trial, problem, SearchContext(device=device))
    judged.search("judged")
    return {
        "dataset": dataset,
        "metric": benchmark.task.metric,
        "seed": seed,
        "depth": result.genotype.depth(),
        "supernet_val": result.history[-1]["val_metric"],
        "judged_val": judged.history[0]["val_metric"],
        **trained_to_the_end(result.genotype, benchmark, settings, device),
    }


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "several.csv")
    words.add_argument("--datasets", nargs="+", default=list(DATASETS))
    words.add_argument("--seeds", nargs="+", type=int, default=list(range(6)), help="of the searches")
    words.add_argument("--graphs", type=int, default=2000, help="of cluster and pattern, to train on")
    words.add_argument("--budget", type=int, default=40_000, help="weights of a trained network")
    words.add_argument("--search-epochs", type=int, default=40)
    words.add_argument("--trial-epochs", type=int, default=10)
    words.add_argument("--epochs", type=int, default=60)
    words.add_argument("--threads", type=int, default=1)
    return words.parse_args()


if __name__ == "__main__":
    main()
