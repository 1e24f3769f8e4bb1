"""What does a network gain from the size of the graph and the degree as input (``structure``)?

    python benchmarks/structure.py                              # half an hour on a CPU core
    python benchmarks/structure.py --datasets pattern --networks found --measures none size
    python benchmarks/structure.py --datasets zinc --epochs 30 --lr 1e-3   # needs the dataset; five minutes each

A short training on a part of PATTERN or CLUSTER (2,000 graphs of our generator) or on ZINC, one seed,
``precise_norms``, with and without the measures. ``found``: four cells of sum and mean, as searches on PATTERN
and CLUSTER choose them, on ZINC the network found with the paper's input; ``symmetric``: the same cells with the symmetric
aggregator in place of the sum; the others are hand-made, all with at most 120,000 weights (ZINC 200,000).
Test is read at the best epoch by validation.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from norms import CELLS, drawn
from rows import RESULTS, Rows, parser

import gnas
from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.compare.networks import Candidate
from gnas.data.benchmark import Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings
from gnas.training.train import train
from gnas.workflow import make_baseline_candidate, make_candidate

COLUMNS = ("dataset", "graphs", "network", "measures", "weights", "epochs", "best_epoch", "train", "val", "test")
NETWORKS = ("found", "symmetric", "gin", "gatedgcn", "gcn")
MEASURES = ("none", "size", "degree", "size+degree")


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for name in chosen.datasets:
        plain = gnas.load(name) if name == "zinc" else drawn(name, chosen.graphs)
        budget = chosen.budget or (200_000 if name == "zinc" else 120_000)
        for network in chosen.networks:
            for measures in chosen.measures:
                benchmark = with_encodings(plain, None if measures == "none" else measures)
                config = TrainConfig.paper(benchmark).with_(
                    epochs=chosen.epochs, batch_size=64, lr=chosen.lr, precise_norms=8
                )
                one = candidate(network, benchmark, budget)
                result = train(partial(one.build, benchmark.task), benchmark, config, 41, device=chosen.device)
                rows.add(
                    dataset=name,
                    graphs=len(benchmark.train),
                    network=network,
                    measures=measures,
                    weights=result.num_weights,
                    epochs=result.epochs,
                    best_epoch=result.best_epoch,
                    train=result.train,
                    val=result.val,
                    test=result.test,
                )


def candidate(network: str, benchmark: Benchmark, budget: int) -> Candidate:
    """A network of at most ``budget`` weights."""
    if network not in ("found", "symmetric"):
        return make_baseline_candidate(network, benchmark, 4, budget)
    genotype = gnas.load_genotype(RESULTS / "zinc/single-level-4-seed0/genotype.yaml")
    if benchmark.name != "zinc":
        genotype = Genotype((gap.genotype(CELLS["sum, mean"])[0],) * 4)
    if network == "symmetric":
        genotype = Genotype.from_yaml(genotype.to_yaml().replace(": sum\n", ": symmetric\n"))
    return make_candidate(genotype, benchmark, Settings.resolve(budget=budget))


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "structure.csv")
    words.add_argument("--datasets", nargs="+", choices=("pattern", "cluster", "zinc"), default=["pattern", "cluster"])
    words.add_argument("--networks", nargs="+", choices=NETWORKS, default=["found", "gin"])
    words.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    words.add_argument(
        "--graphs", type=int, default=2000, help="to train on; a quarter as many to validate and to test"
    )
    words.add_argument("--epochs", type=int, default=12)
    words.add_argument("--lr", type=float, default=2e-3)
    words.add_argument("--budget", type=int, default=0, help="weights of a network; 0: as said above")
    words.add_argument("--threads", type=int, default=1)
    return words.parse_args()


if __name__ == "__main__":
    main()
