"""Networks with relations on ZINC and CIFAR10, by one protocol: the recipes of today, three plain stacks, and what was found.

    python benchmarks/relations.py --networks gin+ gatedgcn+ stack-gine stack-gated stack-many      # ZINC, 300 epochs
    python benchmarks/relations.py --genotypes runs/zinc-race-seed0      # the best found network of a run, or a file
    python benchmarks/relations.py --genotypes runs/zinc-race-seed0 --finalists 4     # the best four
    python benchmarks/relations.py --dataset cifar10 --networks gatedgcn+ --epochs 60 --batch 64 --lr 2e-3 --dropout 0.1
    python benchmarks/relations.py --page docs/results.md docs/results-details.md README.md   # trains nothing: fills tables, plot

Bonds or distances on the edges; on ZINC also random walks of 20 steps, of nodes and of edges. At most 500,000 weights on
ZINC and 119,000 on CIFAR10. AdamW, weight decay 1e-5, cosine, gradient clip 1, averaged weights; the epoch is chosen by
validation. The stacks are those of a sketch: GINE, GatedGCN with edge state, and sum, mean and maximum side by side, each with
feed-forward layers. A stopped run goes on from the folder that ``--runs`` names.

A run folder may be that of a race which was stopped: networks that it trained only briefly follow its finalists. A found network
of a race keeps its own learning rate, dropout, read-out and encodings, as the rows say; a genotype file alone has those of the
command. That of a run folder is written beside the rows (``relations_DATASET_ID.yaml``); ``--genotypes`` reads this file too.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import results_page
import torch
from rows import Rows, parser, read

import gnas
from gnas.arch import gap
from gnas.arch.architecture import Architecture, load_genotype
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.recipes import as_genotype
from gnas.arch.stack import Stack
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.files import dump_config, parse_yaml, read_text, write_atomic
from gnas.model import baselines
from gnas.model.build import width_of
from gnas.model.encoder import list_encodings
from gnas.model.metrics import higher_is_better
from gnas.model.network import width_for
from gnas.model.plan import select_encodings
from gnas.model.task import Task
from gnas.run import layout
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.run.record import SearchRecord, read_search
from gnas.strategies.candidate import RaceCandidate
from gnas.training.train import train_seeds

COLUMNS = (
    *("dataset", "kind", "network", "cell", "cells", "weights", "epochs", "batch", "lr", "dropout", "readout"),
    *("encodings", "seeds", "val", "test", "tests", "seconds"),
)
DATA = {
    "zinc": {"edges": "yes", "encodings": "walks:20,edge_walks:20", "readout": "sum"},
    "cifar10": {"edges": "yes"},
}
WIDTHS = 4  # widths are multiples of it: others are slower on a GPU
METRICS = {"zinc": "mae", "cifar10": "accuracy"}
BUDGETS = {"zinc": 500_000, "cifar10": 119_000}
LAYERS = {"gcn+": (12, 5), "gin+": (12, 5), "gatedgcn+": (9, 10), "gine": (12, 5)}
STACKS = {
    "stack-gine": ("[identity | sum(edge)]", Stack(ffn=True, mlp=2), (12, 8)),
    "stack-gated": ("[identity | mean(gated)]", Stack(ffn=True, edges="updated"), (10, 10)),
    "stack-many": ("[identity | sum(edge) | mean(edge) | max(edge)]", Stack(ffn=True), (8, 6)),
}


def main() -> None:
    chosen = arguments()
    if chosen.page:
        for page in chosen.page:
            results_page.fill_page(page, read(chosen.out))
        return
    benchmark = gnas.load(chosen.dataset, **DATA[chosen.dataset])
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for name in chosen.networks:
        made = RaceCandidate(find_architecture(name, chosen.dataset, benchmark.task), chosen.lr, chosen.dropout)
        rows.add(kind="named", **measure(name, made, benchmark, chosen))
    for path in chosen.genotypes:
        for name, found in read_found(path, chosen):
            rows.add(kind="found", **measure(name, found, benchmark, chosen))


def read_found(path: Path, chosen: argparse.Namespace) -> list[tuple[str, RaceCandidate]]:
    """Found networks and their names: the best of a race by validation, one that was written here, or a genotype file."""
    if path.is_dir():
        record = read_search(layout.search_folder(path))
        raced = list_raced(record, chosen.dataset)
        if not raced and isinstance(record.architecture, Genotype):  # of another strategy
            raced = [RaceCandidate(record.architecture, chosen.lr, chosen.dropout)]
        best = [one for one in raced if not one.is_hand_made][: chosen.finalists]
        if not best:
            raise InputError(f"{path}: no search that found a network; name another run or a file")
        for found in best:
            kept = chosen.out.parent / f"relations_{chosen.dataset}_{found.id}.yaml"
            write_atomic(kept, dump_config(found.to_dict()))
        return [(f"found {found.id}", found) for found in best]
    content = parse_yaml(read_text(path), str(path), typed=True)
    if isinstance(content, dict) and "architecture" in content:
        found = RaceCandidate.from_dict(content)
        return [(f"found {found.id}", found)]
    return [(path.stem, RaceCandidate(load_genotype(path), chosen.lr, chosen.dropout))]


def list_raced(record: SearchRecord, dataset: str) -> list[RaceCandidate]:
    """The candidates of a race, best first: its finalists, then the others by their best validation metric.

    A race may have been stopped, and its finalists may all be hand-made networks.
    """
    finalists = [RaceCandidate.from_dict(one["candidate"]) for one in record.result.finalists] if record.result else []
    tried = [one for one in record.history if "candidate" in one and one["val_metric"] is not None]
    tried.sort(key=lambda one: one["val_metric"], reverse=higher_is_better(METRICS[dataset]))
    others = [RaceCandidate.from_dict({**one["candidate"], "architecture": one["genotype"]}) for one in tried]
    return list({one.id: one for one in (*finalists, *others)}.values())


def find_architecture(name: str, dataset: str, task: Task) -> Architecture:
    """A stack or a hand-made network by name, with its usual number of layers."""
    place = list(DATA).index(dataset)
    if name in STACKS:
        formula, stack, layers = STACKS[name]
        return Genotype(gap.genotype(formula, layers[place]).cells, "bare", stack)
    layers = LAYERS.get(name, (8, 8))[place]
    build = partial(baselines.build_baseline, name, task, num_layers=layers)
    return HandMade(name, layers, width_for(BUDGETS[dataset], lambda width: build(channels=width), WIDTHS))


def measure(name: str, made: RaceCandidate, benchmark: Benchmark, chosen: argparse.Namespace) -> dict[str, object]:
    """Train one network from every seed."""
    config = TrainConfig(
        epochs=chosen.epochs,
        batch_size=chosen.batch,
        optimizer="adamw",
        lr=made.lr,
        weight_decay=1e-5,
        schedule="cosine",
        warmup=5,
        clip=1.0,
        ema=0.999,
        precise_norms=16,
        checkpoint_every=10,
    )
    made, task = with_width(made, benchmark.task, BUDGETS[chosen.dataset]), made.task_of(benchmark.task)
    folder = chosen.runs / f"{chosen.dataset}-{name.replace(' ', '-')}"
    started = time.perf_counter()
    about = {"network": name, "candidate": made.id, "epochs": chosen.epochs, "batch": chosen.batch}
    runs = [Run(folder / str(seed), {**about, "seed": seed}, resume=True) for seed in chosen.seeds]
    trained = train_seeds(
        lambda: made.build(benchmark.task), benchmark, config, chosen.seeds, device=chosen.device, runs=runs
    )
    for run in runs:
        run.close()
    return {
        "dataset": chosen.dataset,
        "network": name,
        **describe(made, task),
        "weights": trained.results[0].num_weights,
        "epochs": chosen.epochs,
        "batch": chosen.batch,
        "seeds": " ".join(map(str, chosen.seeds)),
        "val": trained.val,
        "test": trained.mean,
        "tests": " ".join(f"{one.test:.4f}" for one in trained.results),
        "seconds": time.perf_counter() - started,
    }


def with_width(made: RaceCandidate, task: Task, budget: int) -> RaceCandidate:
    """The candidate with its own width, or as wide as the budget allows if it has none or is heavier."""
    own = made.architecture.channels or made.channels
    if own and replace(made, channels=own).build(task).num_weights() <= budget:
        return replace(made, channels=own)
    return replace(made, channels=width_of(made.architecture, made.task_of(task), 64, budget, WIDTHS))


def describe(made: RaceCandidate, task: Task) -> dict[str, object]:
    """What a row says of a network: its cells, what is around them, and how it is trained. ``task``: as it reads it out."""
    genotype = as_genotype(made.architecture)
    formulas = Counter(made.architecture.formulas() if genotype is None else genotype.formulas())
    cells = [formula if len(formulas) == 1 else f"{count} x {formula}" for formula, count in formulas.items()]
    stack = Stack() if genotype is None else genotype.stack
    encodings = select_encodings(task, stack)
    around = replace(stack, dropout=None, readout=None, encodings=None).describe()  # they have columns of their own
    return {
        "cell": ", ".join([*cells, *around]),
        "cells": len(made.architecture.formulas()),
        "lr": made.lr,
        "dropout": made.dropout if stack.dropout is None else stack.dropout,
        "readout": stack.readout or task.readout,
        "encodings": " ".join(list_encodings(task) if encodings is None else encodings),
    }


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "relations.csv")
    words.add_argument("--dataset", default="zinc", choices=list(DATA))
    words.add_argument("--networks", nargs="+", default=[], metavar="NAME", help=f"hand-made, or {', '.join(STACKS)}")
    words.add_argument(
        "--genotypes", nargs="+", default=[], type=Path, metavar="PATH", help="run folders of races, or files"
    )
    words.add_argument("--finalists", type=int, default=1, help="found networks of a run folder, best first")
    words.add_argument("--seeds", nargs="+", type=int, default=[41, 95, 12, 35])
    words.add_argument("--epochs", type=int, default=300)
    words.add_argument("--batch", type=int, default=128)
    words.add_argument("--lr", type=float, default=1e-3)
    words.add_argument("--dropout", type=float, default=0.0)
    words.add_argument("--page", nargs="+", type=Path, help="fill these pages from all kept rows, and end")
    words.add_argument("--runs", type=Path, default=Path("relations-runs"), help="folder of the trainings")
    return words.parse_args()


if __name__ == "__main__":
    main()
