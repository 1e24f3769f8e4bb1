"""Networks with relations on ZINC and CIFAR10, by one protocol: the recipes of today, three plain stacks, and what was found.

    python benchmarks/relations.py --networks gin+ gatedgcn+ stack-gine stack-gated stack-many      # ZINC, 300 epochs
    python benchmarks/relations.py --genotypes found.yaml --seeds 41 95 12 35
    python benchmarks/relations.py --dataset cifar10 --networks gatedgcn+ --epochs 60 --batch 64 --lr 2e-3 --dropout 0.1

Bonds or distances on the edges; on ZINC also random walks of 20 steps, of nodes and of edges. At most 500,000 weights on
ZINC and 119,000 on CIFAR10. AdamW, weight decay 1e-5, cosine, gradient clip 1, averaged weights; the epoch is chosen by
validation. The stacks are those of a sketch: GINE, GatedGCN with edge state, and sum, mean and maximum side by side, each with
feed-forward layers. A stopped run goes on from the folder that ``--runs`` names.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import torch
from rows import Rows, parser

import gnas
from gnas.arch import gap
from gnas.arch.architecture import Architecture, load_genotype
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.stack import Stack
from gnas.data.benchmark import Benchmark
from gnas.model import baselines
from gnas.model.build import build_network, width_of
from gnas.model.network import width_for
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.training.train import train_seeds

COLUMNS = ("dataset", "network", "cells", "weights", "epochs", "batch", "seeds", "val", "test", "tests", "seconds")
DATA = {
    "zinc": {"edges": "yes", "encodings": "walks:20,edge_walks:20", "readout": "sum"},
    "cifar10": {"edges": "yes"},
}
WIDTHS = 4  # widths are multiples of it: others are slower on a GPU
BUDGETS = {"zinc": 500_000, "cifar10": 119_000}
LAYERS = {"gcn+": (12, 5), "gin+": (12, 5), "gatedgcn+": (9, 10), "gine": (12, 5)}
STACKS = {
    "stack-gine": ("[identity | sum(edge)]", Stack(ffn=True, mlp=2), (12, 8)),
    "stack-gated": ("[identity | mean(gated)]", Stack(ffn=True, edges="updated"), (10, 10)),
    "stack-many": ("[identity | sum(edge) | mean(edge) | max(edge)]", Stack(ffn=True), (8, 6)),
}


def main() -> None:
    chosen = arguments()
    benchmark = gnas.load(chosen.dataset, **DATA[chosen.dataset])
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for name in chosen.networks:
        rows.add(**measure(name, find_architecture(name, chosen.dataset, benchmark.task), benchmark, chosen))
    for file in chosen.genotypes:
        rows.add(**measure(file.stem, load_genotype(file), benchmark, chosen))


def find_architecture(name: str, dataset: str, task: Task) -> Architecture:
    """A stack or a hand-made network by name, with its usual number of layers."""
    place = list(DATA).index(dataset)
    if name in STACKS:
        formula, stack, layers = STACKS[name]
        return Genotype(gap.genotype(formula, layers[place]).cells, "bare", stack)
    layers = LAYERS.get(name, (8, 8))[place]
    build = partial(baselines.build, name, task, num_layers=layers)
    return HandMade(name, layers, width_for(BUDGETS[dataset], lambda width: build(channels=width), WIDTHS))


def measure(
    name: str, architecture: Architecture, benchmark: Benchmark, chosen: argparse.Namespace
) -> dict[str, object]:
    """Train one network from every seed."""
    config = TrainConfig(
        epochs=chosen.epochs,
        batch_size=chosen.batch,
        optimizer="adamw",
        lr=chosen.lr,
        weight_decay=1e-5,
        schedule="cosine",
        warmup=5,
        clip=1.0,
        ema=0.999,
        precise_norms=16,
        checkpoint_every=10,
    )
    channels = width_of(architecture, benchmark.task, 64, BUDGETS[chosen.dataset], WIDTHS)
    build = partial(build_network, architecture, benchmark.task, channels=channels, dropout=chosen.dropout)
    folder = chosen.runs / f"{chosen.dataset}-{name}"
    started = time.perf_counter()
    runs = [Run(folder / str(seed), {"network": name, "seed": seed}, resume=True) for seed in chosen.seeds]
    trained = train_seeds(build, benchmark, config, chosen.seeds, device=chosen.device, runs=runs)
    for run in runs:
        run.close()
    return {
        "dataset": chosen.dataset,
        "network": name,
        "cells": len(architecture.formulas()),
        "weights": trained.results[0].num_weights,
        "epochs": chosen.epochs,
        "batch": chosen.batch,
        "seeds": " ".join(map(str, chosen.seeds)),
        "val": trained.val,
        "test": trained.mean,
        "tests": " ".join(f"{one.test:.4f}" for one in trained.results),
        "seconds": time.perf_counter() - started,
    }


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "relations.csv")
    words.add_argument("--dataset", default="zinc", choices=list(DATA))
    words.add_argument("--networks", nargs="+", default=[], metavar="NAME", help=f"hand-made, or {', '.join(STACKS)}")
    words.add_argument("--genotypes", nargs="+", default=[], type=Path, metavar="FILE")
    words.add_argument("--seeds", nargs="+", type=int, default=[41, 95, 12, 35])
    words.add_argument("--epochs", type=int, default=300)
    words.add_argument("--batch", type=int, default=128)
    words.add_argument("--lr", type=float, default=1e-3)
    words.add_argument("--dropout", type=float, default=0.0)
    words.add_argument("--runs", type=Path, default=Path("relations-runs"), help="folder of the trainings")
    return words.parse_args()


if __name__ == "__main__":
    main()
