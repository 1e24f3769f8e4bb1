"""What do rich atoms, bonds, encodings and descriptors add to a network, and how does a random forest do on the same splits?

    python benchmarks/inputs.py --data FOLDER                   # FOLDER has esol.csv, freesolv.csv, ...; an hour on 2 cores
    python benchmarks/inputs.py --data FOLDER --pack DIR        # only prepare what --inputs names, for each dataset and split
    python benchmarks/inputs.py --packed DIR --device cuda      # train what was prepared, on a machine without RDKit
    python benchmarks/inputs.py --data FOLDER --forest          # only the forest
    python benchmarks/inputs.py --data FOLDER --encodings none size,degree walks,edge_walks auto --networks gin gine gatedgcn \\
        --datasets freesolv MUTAG PROTEINS zinc cluster-mini pattern-mini --graphs 400 --epochs 30    # what each encoding adds

Three splits of each dataset: random for regression, by scaffold for classes, whose metric is ROC-AUC. Inputs: ``tokens`` (that
of gnas 0.1: one token per atom, which is the element with its charge and the hydrogens written in brackets, no bonds, size and
degree), ``element`` (the element of each atom, no bonds, no encodings), ``rich`` (eight columns per atom, four per bond,
encodings by rule) and ``descriptors`` (rich, and RDKit's 2D descriptors at the read-out). The epoch is chosen by validation.
The forest has 500 trees on RDKit's 2D descriptors of the same training rows and chooses nothing.

With ``--encodings``, all columns and each of these encodings in turn. Datasets may also be folders of TU files below FOLDER
(split by class 60/20/20, ROC-AUC) and built-in names. ``--graphs N`` takes at most N graphs for train and half as many for
validation and test. Each split has its own seed of training.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rows import Rows, parser

import gnas
from gnas.arch.hand_made import HandMade
from gnas.data.benchmark import Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.data.own.molecules import find_scaffolds
from gnas.data.smiles import import_rdkit
from gnas.data.splits import group_split, random_split
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.model.build import build_network
from gnas.run.protocol import TrainConfig
from gnas.training.train import train_seeds

COLUMNS = ("dataset", "metric", "split", "input", "network", "weights", "val", "test", "seconds")
REGRESSION, CLASSES = ("esol", "freesolv"), ("bace", "clintox", "tox21")
INPUTS = ("tokens", "element", "rich", "descriptors")
NETWORKS, LAYERS = ("gin", "gatedgcn"), 4
SPLITS = ("train", "val", "test")


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    if chosen.encodings:
        compare_encodings(chosen, rows)
        return
    for dataset in chosen.datasets:
        for split in chosen.splits:
            if chosen.packed is None:
                table = write_split(chosen.data / f"{dataset}.csv", split, chosen.work)
                if not chosen.pack:
                    rows.add(dataset=dataset, split=split, **measure_forest(table))
            place = chosen.packed or chosen.pack or chosen.work
            file, tokens = (place / f"{dataset}-{split}{kind}.safetensors" for kind in ("", "-tokens"))
            if chosen.packed is None and not chosen.forest:
                about = {"name": dataset, "metric": metric_of(dataset)}
                if set(chosen.inputs) != {"tokens"}:
                    save_benchmark(gnas.load(table, descriptors="rdkit", encodings="none", **about), file)
                if "tokens" in chosen.inputs:
                    save_benchmark(gnas.load(table, atoms="tokens", edges="none", structure="auto", **about), tokens)
            for name in () if chosen.pack or chosen.forest else chosen.inputs:
                benchmark = load_benchmark(tokens) if name == "tokens" else reduce_input(load_benchmark(file), name)
                for network in chosen.networks:
                    found = measure_network(benchmark, network, chosen, chosen.seeds)
                    rows.add(dataset=dataset, split=split, input=name, **found)


def metric_of(dataset: str) -> str:
    """The metric that selects and is compared with that of the forest."""
    return "mae" if dataset in REGRESSION else "roc_auc"


def compare_encodings(chosen: argparse.Namespace, rows: Rows) -> None:
    """A row for each dataset, split, encoding and network."""
    for split in chosen.splits:
        for dataset in chosen.datasets:
            file = (chosen.packed or chosen.pack or chosen.work) / f"{dataset}-{split}-plain.safetensors"
            if chosen.packed is None:
                save_benchmark(take_part(load_plain(chosen, dataset, split), chosen.graphs, split), file)
            for encodings in () if chosen.pack else chosen.encodings:
                benchmark = with_encodings(load_benchmark(file), encodings, None)
                for network in chosen.networks:
                    found = measure_network(benchmark, network, chosen, [seed + split for seed in chosen.seeds])
                    rows.add(dataset=dataset, split=split, input=f"all columns, {encodings}", **found)


def load_plain(chosen: argparse.Namespace, dataset: str, split: int) -> Benchmark:
    """All columns without encodings: of a TU folder, a table of SMILES, or a built-in benchmark with its own split."""
    folder, table = chosen.data / dataset, chosen.data / f"{dataset}.csv"
    if (folder / f"{dataset}_A.txt").is_file():
        fractions = (0.6, 0.2, 0.2)
        return gnas.load(folder, name=dataset, split="stratified", fractions=fractions, seed=split, metric="roc_auc")
    if table.is_file():
        return gnas.load(write_split(table, split, chosen.work), name=dataset, metric=metric_of(dataset))
    return gnas.load(dataset, edges="auto", data_root=chosen.data)


def take_part(benchmark: Benchmark, most: int | None, seed: int) -> Benchmark:
    """At most so many graphs for train and half as many for validation and test, drawn from the seed."""
    if most is None:
        return benchmark
    drawn = np.random.RandomState(seed)
    parts = {}
    for name, graphs in benchmark.splits().items():
        order = drawn.permutation(len(graphs))[: most if name == "train" else most // 2]
        parts[name] = graphs.select(np.sort(order))
    return replace(benchmark, **parts)


def reduce_input(benchmark: Benchmark, name: str) -> Benchmark:
    """The benchmark with this input: without descriptors, or without bonds and all columns but the element too."""
    dropped: dict[str, Any] = {}
    changed: dict[str, Any] = {}
    if name != "descriptors":
        dropped["graph_attr"], changed["graph_channels"] = None, 0
    if name == "element":
        dropped["edge_attr"], changed["edge_categories"] = None, ()
        changed |= {"categories": benchmark.task.categories[:1], "other": (), "edge_other": ()}
    task = replace(benchmark.task, **changed)
    splits = {key: replace(graphs, **dropped) for key, graphs in benchmark.splits().items()}
    if name == "element":
        splits = {key: replace(graphs, x=graphs.x[:, :1]) for key, graphs in splits.items()}
    found = replace(benchmark, **splits, task=task, encoding=None)
    return found if name == "element" else with_encodings(found, "auto", None)


def write_split(path: Path, split: int, folder: Path) -> Path:
    """The readable rows of a dataset with a ``split`` column."""
    chem = import_rdkit()
    with open(path, newline="") as file:
        table = [row for row in csv.DictReader(file) if chem.MolFromSmiles(row["smiles"])]
    fractions = (0.8, 0.1, 0.1)
    if path.stem in REGRESSION:
        codes = random_split(len(table), fractions, split)
    else:
        codes = group_split(find_scaffolds([row["smiles"] for row in table]), fractions, split)
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{path.stem}-{split}.csv"
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, [*table[0], "split"])
        writer.writeheader()
        writer.writerows({**row, "split": SPLITS[code]} for row, code in zip(table, codes.tolist(), strict=True))
    return out


def targets_of(table: Path) -> list[str]:
    """Every column but the SMILES and the split."""
    with open(table, newline="") as file:
        return [name for name in next(csv.reader(file)) if name not in ("smiles", "split")]


def measure_network(
    benchmark: Benchmark, network: str, chosen: argparse.Namespace, seeds: Sequence[int]
) -> dict[str, object]:
    """One hand-made network, trained from each seed."""
    task = benchmark.task
    made = HandMade(network, LAYERS, budget=chosen.budget)
    config = TrainConfig(
        epochs=chosen.epochs,
        batch_size=chosen.batch,
        optimizer="adamw",
        weight_decay=1e-5,
        schedule="cosine",
        warmup=5,
        clip=1.0,
    )
    started = time.perf_counter()
    build = partial(build_network, made, task, dropout=chosen.dropout)
    trained = train_seeds(build, benchmark, config, seeds, device=chosen.device)
    return {
        "metric": task.metric,
        "network": network,
        "weights": trained.results[0].num_weights,
        "val": sum(one.val for one in trained.results) / len(trained.results),
        "test": trained.mean,
        "seconds": time.perf_counter() - started,
    }


def measure_forest(table: Path) -> dict[str, object]:
    """A random forest on descriptors: its mean error, or the mean ROC-AUC over the targets."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.metrics import mean_absolute_error, roc_auc_score

    started = time.perf_counter()
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    x = describe_molecules([row["smiles"] for row in rows])
    part = np.array([row["split"] for row in rows])
    found: dict[str, list[float]] = {"val": [], "test": []}
    regression = table.stem.split("-")[0] in REGRESSION
    for target in targets_of(table):
        y = np.array([float(row[target]) if row[target] else math.nan for row in rows])
        train = (part == "train") & ~np.isnan(y)
        forest = (RandomForestRegressor if regression else RandomForestClassifier)(500, n_jobs=-1, random_state=0)
        forest.fit(x[train], y[train])
        for name in found:
            here = (part == name) & ~np.isnan(y)
            if regression:
                found[name].append(mean_absolute_error(y[here], forest.predict(x[here])))
            elif len(np.unique(y[here])) == 2:
                found[name].append(roc_auc_score(y[here], forest.predict_proba(x[here])[:, 1]))
    figures = {name: float(np.mean(values)) for name, values in found.items()}
    return {
        "metric": "mae" if regression else "roc_auc",
        "input": "descriptors",
        "network": "forest",
        **figures,
        "seconds": time.perf_counter() - started,
    }


def describe_molecules(smiles: list[str]) -> np.ndarray:
    """RDKit's 2D descriptors, finite."""
    chem = import_rdkit()
    from rdkit.Chem import Descriptors

    values = [list(Descriptors.CalcMolDescriptors(chem.MolFromSmiles(text)).values()) for text in smiles]
    return np.clip(np.nan_to_num(np.array(values, float), posinf=0, neginf=0), -1e6, 1e6)


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "inputs.csv")
    words.add_argument("--data", type=Path, help="folder of the CSV files")
    words.add_argument("--pack", type=Path, help="prepare files here and train nothing")
    words.add_argument("--packed", type=Path, help="train the files that --pack prepared")
    words.add_argument("--forest", action="store_true", help="only the forest")
    words.add_argument("--inputs", nargs="+", choices=INPUTS, default=INPUTS)
    words.add_argument("--encodings", nargs="+", default=[], help="only these encodings, with all columns")
    words.add_argument("--work", type=Path, default=Path("inputs-work"), help="folder of the tables with a split")
    words.add_argument("--datasets", nargs="+", default=[*REGRESSION, *CLASSES])
    words.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    words.add_argument("--networks", nargs="+", default=NETWORKS)
    words.add_argument("--seeds", nargs="+", type=int, default=[41])
    words.add_argument("--epochs", type=int, default=100)
    words.add_argument("--batch", type=int, default=32)
    words.add_argument("--dropout", type=float, default=0.1)
    words.add_argument("--graphs", type=int, help="with --encodings: take at most so many for train")
    words.add_argument("--budget", type=int, default=100_000, help="weights of a network")
    words.add_argument("--threads", type=int, default=1)
    chosen = words.parse_args()
    if (chosen.data is None) == (chosen.packed is None):
        words.error("give --data FOLDER or --packed DIR")
    return chosen


if __name__ == "__main__":
    main()
