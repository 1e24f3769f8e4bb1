"""Run folders for the tests: a real one, made by the main job in seconds, and made-up ones of any size."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tiny import ring

from gnas.arch.space import SearchSpace
from gnas.data.benchmark import Benchmark
from gnas.graph import GraphSet
from gnas.model.task import Task
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.settings import Settings
from gnas.run.strategy_curves import Point, StrategyComparison
from gnas.workflow import discover

BASELINES = {"gatedgcn": 0.301, "gin": 0.353, "gcn": 0.41}


def real_job(folder: Path, **settings: Any) -> Path:
    """The main job on a handful of rings: two epochs of search, two of training, two seeds."""
    splits = [[ring(5 + k % 4, 100 * part + k) for k in range(count)] for part, count in enumerate((12, 6, 6))]
    sets = (GraphSet.from_data(split) for split in splits)
    benchmark = Benchmark("rings", *sets, Task("graph", "regression", 1, categories=(3,)), "tests", ("a note",))
    small = {"cells": 2, "channels": 4, "search_epochs": 2, "epochs": 2, "seeds": (1, 2), "baselines": ("gcn",)}
    discover(benchmark, Settings.resolve("fast", **{**small, **settings}), folder)
    return folder


def made_up_history(epochs: int, cells: int, seed: int = 0) -> list[dict[str, Any]]:
    """What a search of so many epochs might have written; its last genotypes keep still."""
    rng, space = np.random.default_rng(seed), SearchSpace()
    genotype, alphas = space.sample(rng, cells), np.zeros((cells, len(space.links()), 4))
    history = []
    for epoch in range(1, epochs + 1):
        alphas = alphas + rng.normal(size=alphas.shape) * 0.05
        if epoch < 0.8 * epochs:
            genotype = space.mutate(genotype, rng)
        second = [link.operation for cell in genotype for link in cell.links if cell.level(link.target) == 2]
        metric = 0.3 + math.exp(-epoch / 20)
        history.append(
            {
                "epoch": epoch,
                **dict.fromkeys(("train_loss", "train_metric", "val_loss", "val_metric"), metric),
                "depth": genotype.depth(),
                "second_level": {name: second.count(name) for name in set(second)},
                "genotype": genotype.to_yaml(),
                "alphas": alphas.tolist(),
                "seconds": 2.0 * epoch,
            }
        )
    return history


def board(dataset: str = "zinc", metric: str = "mae", seeds: int = 4) -> Leaderboard:
    networks = {"gnas": 0.276, **BASELINES}
    rows = (Row(n, m, 0.003, seeds, m, 100_000, 4, 1.5, 600.0, n == "gnas") for n, m in networks.items())
    return Leaderboard(dataset, metric, tuple(rows))


def made_up_job(
    folder: Path, *, dataset: str = "zinc", epochs: int = 12, cells: int = 3, stage: str = "finished", age: float = 0
) -> Path:
    """A job that has come to ``stage``: begun, searching, training or finished; last written ``age`` seconds ago."""
    settings = {"space": {"nodes": 3, "cells": cells, "channels": 16}, "search": {"epochs": epochs}}
    config = {"job": "search", "dataset": dataset, "settings": settings}
    task = {"level": "graph", "kind": "regression", "num_outputs": 1, "categories": [28], "in_channels": 0}
    task |= {"loss": "l1", "metric": "mae", "readout": "mean", "center": [0.0], "scale": [1.0], "labels": []}
    split = {"graphs": 10, "nodes": 200, "edges": 400, "nodes_min": 3, "nodes_max": 40}
    put(folder / "config.yaml", yaml.safe_dump(config))
    put(
        folder / "data.json",
        {"name": dataset, "source": "made up", "notes": [], "task": task, "splits": {"train": split}},
    )
    if stage != "begun":
        history = made_up_history(epochs, cells)
        put(folder / "search" / "config.yaml", yaml.safe_dump(config))
        put(folder / "search" / "history.jsonl", "".join(json.dumps(record) + "\n" for record in history))
    if stage in ("training", "finished"):
        put(
            folder / "search" / "result.json",
            {"seconds": 65.0, "strategy": "single-level", "trained_epochs": epochs, "seed": 0},
        )
        put(folder / "genotype.yaml", history[-1]["genotype"])
        for name in ("gnas", *BASELINES):
            one_training(folder / "trained" / name / "seed-41", name, done=stage == "finished" or name == "gnas")
    if stage == "finished":
        put(folder / "leaderboard.json", board(dataset).to_dict())
        put(folder / "result.json", {})
    for file in (file for file in folder.rglob("*") if file.is_file()):
        about = file.stat()
        os.utime(file, (about.st_atime, about.st_mtime - age))
    return folder


def one_training(folder: Path, name: str, done: bool) -> None:
    value = {"gnas": 0.276, **BASELINES}[name]
    records = [{"epoch": e, "train_loss": value, "val_metric": value + 1 / e, "seconds": 1.0 * e} for e in range(1, 31)]
    put(folder / "config.yaml", yaml.safe_dump({"model": name, "seed": 41}))
    put(folder / "history.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    if done:
        result = {
            "seed": 41,
            "test": value,
            "val": value,
            "train": value,
            "best_epoch": 7,
            "epochs": 30,
            "metric": "mae",
        }
        put(folder / "result.json", {**result, "seconds": 30.0, "num_weights": 100_000})


def put(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def made_up_comparison(metric: str = "mae") -> StrategyComparison:
    """Two strategies, two seeds; one of a network's trainings failed."""
    told = {
        ("random", 0): ((5, 1.0, 0.9), (10, 2.0, 0.5)),
        ("random", 1): ((5, 1.5, None), (10, 2.5, 0.7)),
        ("$one_$hot", 0): ((8, 4.0, 0.4),),
        ("$one_$hot", 1): ((8, 5.0, 0.6),),
    }
    points = []
    for (name, seed), run in told.items():
        best = None
        for number, (epochs, seconds, val) in enumerate(run, start=1):
            best = val if best is None else min(best, val)
            points.append(Point(name, seed, number, epochs, seconds, val, best, f"g{number}", 2, 1000))
    return StrategyComparison("rings", metric, {"epochs": 10}, "A rule.", tuple(points))
