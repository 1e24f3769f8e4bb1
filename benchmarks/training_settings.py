"""What do settings of the training change? One network, a part of a dataset, the protocol but for what is set.

    python benchmarks/training_settings.py --set ema=0,0.99        # CIFAR10, 4,000 graphs: 20 minutes each on a CPU core
    python benchmarks/training_settings.py --dataset mnist --set batch_size=64,128 --set ema=0,0.99

Every combination of the values is trained, with the same seed and graphs. The network is the one shipped for the dataset, at most
``--budget`` weights wide. ``val`` is the best of all epochs, by which an epoch is chosen, ``val_end`` the mean of the last five:
an average of the weights should make the two alike. Nothing is tested.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
from functools import partial

import torch
import yaml
from rows import Rows, parser

import gnas
from gnas.data.benchmark import Benchmark
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings
from gnas.training.train import train
from gnas.workflow import make_candidate

COLUMNS = (
    *("dataset", "graphs", "weights", "dropout", "settings", "seed", "epochs", "best_epoch", "train", "val", "val_end"),
)


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    benchmark = part(chosen.dataset, chosen.graphs)
    genotype = gnas.load_genotypes(chosen.dataset)[chosen.cells]
    candidate = make_candidate(genotype, benchmark, Settings.resolve(budget=chosen.budget, dropout=chosen.dropout))
    base = TrainConfig.paper(benchmark).with_(epochs=chosen.epochs, precise_norms=16)
    names = [name for name, _ in chosen.set]
    for values in itertools.product(*(values for _, values in chosen.set)):
        changes = dict(zip(names, values, strict=True))
        result = train(
            partial(candidate.build, benchmark.task),
            benchmark,
            base.with_(**changes),
            chosen.seed,
            device=chosen.device,
        )
        rows.add(
            dataset=chosen.dataset,
            graphs=len(benchmark.train),
            weights=result.num_weights,
            dropout=chosen.dropout,
            settings=" ".join(f"{name}={value}" for name, value in changes.items()),
            seed=chosen.seed,
            epochs=result.epochs,
            best_epoch=result.best_epoch,
            train=result.history[-1]["train_metric"],
            val=result.val,
            val_end=statistics.fmean(record["val_metric"] for record in result.history[-5:]),
        )


def part(name: str, graphs: int) -> Benchmark:
    """The first graphs of training and validation; of the test split, which is not read, almost none."""
    whole = gnas.load(name)
    train_graphs, val_graphs = min(graphs, len(whole.train)), min(graphs // 2, len(whole.val))
    return dataclasses.replace(
        whole,
        train=whole.train.select(range(train_graphs)),
        val=whole.val.select(range(val_graphs)),
        test=whole.test.select(range(2)),
    )


def setting(text: str) -> tuple[str, list[object]]:
    """NAME=VALUE,VALUE,..."""
    name, _, values = text.partition("=")
    return name, [yaml.safe_load(value) for value in values.split(",")]


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "training_settings.csv")
    words.add_argument("--dataset", default="cifar10")
    words.add_argument("--cells", type=int, default=4)
    words.add_argument("--graphs", type=int, default=4000, help="to train on; half as many to validate")
    words.add_argument("--epochs", type=int, default=40)
    words.add_argument("--budget", type=int, default=100_000, help="weights of the network")
    words.add_argument("--dropout", type=float, default=0.2)
    words.add_argument("--seed", type=int, default=41)
    words.add_argument("--threads", type=int, default=1)
    words.add_argument(
        "--set", type=setting, action="append", default=[], metavar="NAME=A,B", help="of TrainConfig; repeatable"
    )
    return words.parse_args()


if __name__ == "__main__":
    main()
