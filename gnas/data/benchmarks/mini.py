"""Small benchmarks that come with the package: built in under a second, trained in seconds, for demos and tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import sbm, zinc
from gnas.data.benchmarks.blocks import Blocks, ClusterModel, PatternModel, generate
from gnas.data.benchmarks.catalogue import DIGITS, SPLITS, Facts, image_task, node_task
from gnas.data.benchmarks.molecules_mini import molecules
from gnas.data.benchmarks.shapes import digits
from gnas.data.compact import Compact, Splits
from gnas.graph import GraphSet
from gnas.model.task import Task

PATTERN_MINI = PatternModel(Blocks(3, (4, 9), 0.5, 0.2), patterns=20, pattern_sizes=(5, 9))
CLUSTER_MINI = ClusterModel(Blocks(4, (4, 9), 0.7, 0.1))

# The numbers are those of seed 0; other seeds draw other graphs of the same kind.
MINIS = {
    "pattern-mini": Facts(
        "small stochastic block models, find the planted pattern",
        node_task(2, 3),
        (240, 60, 60),
        *(9_503, 17, 35, 267.8),
        symmetric=True,
        tolerance=0.06,
        slack=3,
        patience=5,
    ),
    "cluster-mini": Facts(
        "small stochastic block models, find the communities",
        node_task(4, 5),
        (240, 60, 60),
        *(9_324, 18, 35, 157.3),
        symmetric=True,
        tolerance=0.06,
        slack=3,
        patience=5,
    ),
    "digits": Facts(
        "superpixels of drawn digits",
        image_task(3, DIGITS),
        (400, 100, 100),
        *(14_301, 19, 28, 190.7),
        symmetric=False,
        tolerance=0.06,
        slack=3,
    ),
    "molecules-mini": Facts(
        "small molecules, octanol-water coefficient logP",
        Task("graph", "regression", 1, (28,), loss="l1", metric="mae", labels=("logP",)),
        (400, 88, 88),
        *(4_968, 4, 16, 17.0),
        symmetric=True,
    ),
}


def load_mini(name: str, seed: int = 0) -> Benchmark:
    """Build one of ``MINIS``."""
    facts = MINIS[name]
    build, graph_set = _BUILDERS[name]
    splits = build(dict(zip(SPLITS, facts.graphs, strict=True)), seed)
    sets = {split: graph_set(name, splits[split]) for split in SPLITS}
    task = _standardised(facts.task, sets["train"]) if facts.task.kind == "regression" else facts.task
    return Benchmark(name, **sets, task=task, source="built in", patience=facts.patience)


def _standardised(task: Task, train: GraphSet) -> Task:
    return dataclasses.replace(task, center=(float(train.y.mean()),), scale=(float(train.y.std()),))


def _pattern(counts: dict[str, int], seed: int) -> Splits:
    return generate(PATTERN_MINI, tuple(counts.values()), seed)


def _cluster(counts: dict[str, int], seed: int) -> Splits:
    return generate(CLUSTER_MINI, tuple(counts.values()), seed)


def _digit_set(name: str, split: Compact) -> GraphSet:
    x, label = (torch.from_numpy(split.columns[key]) for key in ("x", "label"))
    return split.graph_set(x, label.long(), "graph")


_Builder = tuple[Callable[[dict[str, int], int], Splits], Callable[[str, Compact], GraphSet]]
_BUILDERS: dict[str, _Builder] = {
    "pattern-mini": (_pattern, sbm.graph_set),
    "cluster-mini": (_cluster, sbm.graph_set),
    "digits": (digits, _digit_set),
    "molecules-mini": (molecules, zinc.graph_set),
}
