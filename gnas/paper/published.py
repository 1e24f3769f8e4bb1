"""What the paper prints: the lines of its tables, read from ``published.csv``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("published.csv")
DATASETS = ("zinc", "pattern", "cluster", "mnist", "cifar10")
HAND_MADE = ("mlp", "gcn", "gin", "graphsage", "gat", "gatedgcn", "monet")
TITLES = {
    "mlp": "MLP",
    "gcn": "GCN",
    "gin": "GIN",
    "graphsage": "GraphSage",
    "gat": "GAT",
    "gatedgcn": "GatedGCN",
    "monet": "MoNet",
    "graphnas": "GraphNAS",
    "gnas": "GNAS",
    "algorithm-1": "GNAS, Algorithm 1",
    "zinc": "ZINC",
    "pattern": "PATTERN",
    "cluster": "CLUSTER",
    "mnist": "MNIST",
    "cifar10": "CIFAR10",
}
METRICS = dict.fromkeys(DATASETS, "accuracy") | {
    "zinc": "mae",
    "pattern": "class_accuracy",
    "cluster": "class_accuracy",
}


@dataclass(frozen=True)
class Entry:
    """One line of a table. ``budget`` is the paper's number of weights; searched networks of ours have no more."""

    table: str
    dataset: str
    model: str
    depth: int
    budget: int
    metric: float | None = None
    std: float | None = None
    train_metric: float | None = None
    search_hours: float | None = None
    train_hours: float | None = None

    @property
    def metric_name(self) -> str:
        return METRICS[self.dataset]


@cache
def read_published() -> tuple[Entry, ...]:
    """The lines of all tables, in the order of the paper."""
    with open(FILE, newline="", encoding="utf-8") as file:
        return tuple(_parse_entry(row) for row in csv.DictReader(file))


def _parse_entry(row: dict[str, str]) -> Entry:
    figures = {name: float(row[name]) if row[name] else None for name in list(row)[5:]}
    budget = round(float(row["millions"]) * 1e6)
    return Entry(row["table"], row["dataset"], row["model"], int(row["depth"]), budget, **figures)
