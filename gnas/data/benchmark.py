"""A benchmark: three splits, the task they pose, and where the data came from."""

from __future__ import annotations

from dataclasses import dataclass, field

from gnas.data.encoding import Encoding
from gnas.graph import GraphSet
from gnas.model.task import Task


@dataclass(frozen=True)
class Benchmark:
    """Graphs to learn from, to choose by and to report on, with the task they pose."""

    name: str
    train: GraphSet
    val: GraphSet
    test: GraphSet
    task: Task
    source: str
    notes: tuple[str, ...] = field(default=())
    encoding: Encoding | None = None  # how raw columns became tensors; None where the data came as tensors

    def splits(self) -> dict[str, GraphSet]:
        """The three splits by name."""
        return {"train": self.train, "val": self.val, "test": self.test}
