"""The benchmarks by name: the task each poses and the published numbers a copy of it is checked against."""

from __future__ import annotations

from dataclasses import dataclass

from gnas.data.benchmark import PATIENCE
from gnas.model.task import Task

SPLITS = ("train", "val", "test")
DIGITS = tuple("0123456789")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class Facts:
    """What is published of a dataset. ``tolerance`` is relative: 0 where every copy must be the same data."""

    what: str
    task: Task
    graphs: tuple[int, int, int]
    nodes: int  # in all splits
    smallest: int
    largest: int
    edges: float  # directed, mean of a graph
    symmetric: bool
    tolerance: float = 0.0
    slack: int = 0  # allowed difference of the smallest and the largest graph
    patience: int = PATIENCE  # of the training protocol

    @property
    def drawn(self) -> bool:
        """Whether the data is a random draw, so that another seed gives another dataset of the same kind."""
        return self.tolerance > 0


def node_task(classes: int, signals: int) -> Task:
    return Task("node", "classification", classes, (signals,), loss="weighted_cross_entropy", metric="class_accuracy")


def image_task(channels: int, labels: tuple[str, ...]) -> Task:
    return Task("graph", "classification", len(labels), in_channels=channels, metric="accuracy", labels=labels)


# PATTERN and CLUSTER are drawn at random: another draw agrees with the published one in its means only. The largest of
# 14,000 random graphs varies by a dozen nodes between draws.
BENCHMARKS = {
    "zinc": Facts(
        "molecules, constrained solubility",
        Task("graph", "regression", 1, (28,), loss="l1", metric="mae"),
        (10_000, 1_000, 1_000),
        *(277_864, 9, 37, 49.83),
        symmetric=True,
    ),
    "pattern": Facts(
        "stochastic block model, find the planted pattern",
        node_task(2, 3),
        (10_000, 2_000, 2_000),
        *(1_664_491, 44, 188, 6_099),
        symmetric=True,
        tolerance=0.01,
        slack=20,
        patience=5,
    ),
    "cluster": Facts(
        "stochastic block model, find the communities",
        node_task(6, 7),
        (10_000, 1_000, 1_000),
        *(1_406_436, 41, 190, 4_304),
        symmetric=True,
        tolerance=0.01,
        slack=20,
        patience=5,
    ),
    "mnist": Facts(
        "superpixels of handwritten digits",
        image_task(3, DIGITS),
        (55_000, 5_000, 10_000),
        *(4_939_668, 40, 75, 8 * 4_939_668 / 70_000),
        symmetric=False,
    ),
    "cifar10": Facts(
        "superpixels of small photographs",
        image_task(5, OBJECTS),
        (45_000, 5_000, 10_000),
        *(7_058_005, 85, 150, 8 * 7_058_005 / 60_000),
        symmetric=False,
    ),
}
