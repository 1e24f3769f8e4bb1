"""The training protocol as a value."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from gnas.errors import choose
from gnas.fields import check_fields, setting

if TYPE_CHECKING:
    from gnas.data.benchmark import Benchmark

OPTIMIZERS = ("adam", "adamw")
SCHEDULES = ("plateau", "cosine", "restarts")
GROWTH = 3  # of `restarts`: how many times as many epochs there are at the end of the next cosine
PRECISIONS = ("float32", "tf32", "bf16")
ENGINES = ("auto", "eager", "graph", "compiled")  # how a step is run: see gnas/training/engine.py

PRECISION = "`float32`, `tf32` or `bf16`, on a GPU"
PRECISE_NORMS = (
    "batches over which the statistics of batch norm are measured before an evaluation; `0`: running averages"
)
EPOCH_STEPS = "least steps of an epoch: a few graphs, or one, are passed several times in an epoch"
SYNC_BN = "with several processes: batch norm over the nodes of all of them"


@dataclass(frozen=True)
class TrainConfig:
    """The training protocol. The defaults are the paper's; :meth:`paper` adds the patience of a benchmark.

    >>> gnas.TrainConfig(epochs=100, optimizer="adamw", schedule="cosine", clip=1.0).epochs
    100
    """

    epochs: int = setting(1000, "epochs of a training, at most", at_least=1)
    batch_size: int = setting(128, "graphs in a batch", at_least=1)
    epoch_steps: int = setting(1, EPOCH_STEPS, at_least=1)
    optimizer: str = setting("adam", "`adam` or `adamw`", choices=OPTIMIZERS)
    lr: float = setting(1e-3, "learning rate", at_least=1e-12, at_most=1e6)
    weight_decay: float = setting(0.0, "decoupled with `adamw`", at_least=0, at_most=1e6)
    schedule: str = setting(
        "plateau",
        "`plateau`: reduce the rate on a plateau, stop below `min_lr`; `cosine` over `epochs`; `restarts`: `cycles` "
        "cosines one after the other, which end after ..., 1/27, 1/9, 1/3 and all of `epochs`",
        choices=SCHEDULES,
    )
    cycles: int = setting(4, "cosines of `restarts`", at_least=1, at_most=8)
    ends: tuple[int, ...] = setting(
        (), "epochs after which the cosines of `restarts` end; none: by `cycles`", at_least=1
    )
    factor: float = setting(0.5, "of the rate on a plateau", at_least=1e-6, at_most=1 - 1e-6)  # 1 would never end
    patience: int = setting(10, "epochs without a lower validation loss before the rate is reduced", at_least=0)
    min_lr: float = setting(1e-5, "a training on a plateau ends below this rate", at_least=0, at_most=1e6)
    warmup: int = setting(0, "epochs until the full rate", at_least=0)
    clip: float = setting(0.0, "largest norm of the gradient; `0`: no limit", at_least=0, at_most=1e6)
    ema: float = setting(
        0.0,
        "evaluate an average of the weights with this decay; after t steps the decay is at most (1 + t) / (10 + t)",
        at_least=0,
        at_most=1 - 1e-9,
    )
    precision: str = setting("tf32", PRECISION, choices=PRECISIONS)
    engine: str = setting(
        "auto", "how a step is run ([performance](performance.md#how-a-step-is-run))", choices=ENGINES
    )
    test_curve: bool = setting(False, "also record the test metric of every epoch, for plots only")
    precise_norms: int = setting(0, PRECISE_NORMS, at_least=0)
    checkpoint_every: int = setting(1, "epochs between two checkpoints", at_least=1)
    sync_bn: bool = setting(False, SYNC_BN)

    def __post_init__(self) -> None:
        check_fields(self)

    @staticmethod
    def paper(benchmark: Benchmark) -> TrainConfig:
        """The paper's protocol, with the benchmark's own patience."""
        return TrainConfig(patience=benchmark.patience)

    def cycle_ends(self) -> tuple[int, ...]:
        """The epochs after which the cosines of ``restarts`` end.

        >>> TrainConfig(epochs=60).cycle_ends()
        (2, 7, 20, 60)
        """
        if self.ends:
            return tuple(dict.fromkeys(self.ends))
        ends = (round(self.epochs / GROWTH**number) for number in reversed(range(self.cycles)))
        return tuple(dict.fromkeys(max(end, 1) for end in ends))

    def with_(self, **changes: Any) -> TrainConfig:
        """A copy with other values; an unknown name is an error that suggests the nearest."""
        for name in changes:
            choose(name, [f.name for f in fields(self)], "training setting")
        return replace(self, **changes)
