"""The size of the reproduction: that of the paper, or a quick one with small data by the same code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnas.data import Benchmark, load
from gnas.paper.published import DATASETS

SEEDS = (41, 95, 12, 35)
GRID = tuple(range(2, 25, 2))  # depths of the figure on depth


@dataclass(frozen=True)
class Source:
    """The dataset that is loaded for one of the paper's."""

    name: str
    seed: int = 0

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.seed}" if self.seed else self.name

    def load(self, **options: Any) -> Benchmark:
        return load(self.name, seed=self.seed, **options)


@dataclass(frozen=True)
class Scale:
    """Datasets, depths, widths and epochs in place of the paper's. The keys of ``depths`` are the paper's depths."""

    name: str
    sources: Mapping[str, Source]
    depths: Mapping[int, int] = field(default_factory=dict)
    weights: float = 1.0  # share of the paper's
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None  # of strategies by trials; None: their own
    seeds: tuple[int, ...] = SEEDS
    grid: tuple[int, ...] = GRID

    def depth(self, of_paper: int) -> int:
        return self.depths.get(of_paper, of_paper)

    def budget(self, of_paper: int) -> int:
        return round(of_paper * self.weights)


PAPER = Scale("paper", {name: Source(name) for name in DATASETS})

QUICK = Scale(
    "quick",
    {
        "zinc": Source("molecules-mini"),
        "pattern": Source("pattern-mini"),
        "cluster": Source("cluster-mini"),
        "mnist": Source("digits"),
        "cifar10": Source("digits", 1),
    },
    depths={4: 2, 8: 3, 12: 4, 16: 5},
    weights=0.05,
    settings={
        "space": {"channels": 12},
        "search": {"epochs": 4, "batch_size": 64, "alpha_lr": 1e-2, "lr": 0.1},
        "training": {"epochs": 4, "batch_size": 64, "lr": 3e-3},
    },
    trials=2,
    seeds=(41, 95),
    grid=(1, 2, 4),
)
