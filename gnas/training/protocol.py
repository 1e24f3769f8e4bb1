"""The training protocol as a value."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

from gnas.data.benchmark import PATIENCE, Benchmark
from gnas.errors import InputError, choose
from gnas.training.engine import MODES

OPTIMIZERS = ("adam", "adamw")
SCHEDULES = ("plateau", "cosine")
PRECISIONS = ("float32", "tf32", "bf16")
LIMITS = {
    **dict.fromkeys(("epochs", "batch_size", "checkpoint_every"), (1, math.inf)),
    **dict.fromkeys(("patience", "warmup", "precise_norms"), (0, math.inf)),
    "lr": (1e-12, 1e6),
    "factor": (1e-6, 1 - 1e-6),  # 1 would never end
    "ema": (0, 1 - 1e-9),
    **dict.fromkeys(("weight_decay", "min_lr", "clip"), (0, 1e6)),
}


@dataclass(frozen=True)
class TrainConfig:
    """The training protocol; the defaults are the paper's (see :meth:`paper` for the patience of each dataset)."""

    epochs: int = 1000
    batch_size: int = 128
    optimizer: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "plateau"
    factor: float = 0.5
    patience: int = PATIENCE
    min_lr: float = 1e-5
    warmup: int = 0
    clip: float = 0.0
    ema: float = 0.0
    precision: str = "tf32"
    engine: str = "auto"
    test_curve: bool = False
    precise_norms: int = (
        0  # batches of training graphs the norms' statistics are taken over before an evaluation; 0: running averages
    )
    checkpoint_every: int = 1
    sync_bn: bool = False  # of several processes: batch norm over the nodes of all of them

    def __post_init__(self) -> None:
        choose(self.optimizer, OPTIMIZERS, "optimizer")
        choose(self.schedule, SCHEDULES, "schedule")
        choose(self.precision, PRECISIONS, "precision")
        choose(self.engine, MODES, "engine")
        for name, (low, high) in LIMITS.items():
            value, whole = getattr(self, name), isinstance(getattr(TrainConfig, name), int)
            number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
            if not (number and low <= value <= high):
                kind = "a whole number" if whole else "a number"
                limits = f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"
                raise InputError(f"{name} is {value!r}; it must be {kind} {limits}")

    @staticmethod
    def paper(benchmark: Benchmark) -> TrainConfig:
        """The paper's protocol, with the benchmark's own patience."""
        return TrainConfig(patience=benchmark.patience)

    def with_(self, **changes: Any) -> TrainConfig:
        """A copy with other values; an unknown name is an error that suggests the nearest."""
        for name in changes:
            choose(name, [f.name for f in fields(self)], "training setting")
        return replace(self, **changes)
