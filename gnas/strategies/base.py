"""What every search strategy takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from gnas.arch.architecture import Architecture
from gnas.arch.space import SearchSpace
from gnas.graph import GraphSet
from gnas.jobs import Runner
from gnas.model.stage import OperationTypes
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.training.loop import Record


@dataclass(frozen=True)
class SearchProblem:
    """What a strategy is handed. There is no test split in it: a strategy cannot see one."""

    train: GraphSet
    val: GraphSet
    task: Task
    space: SearchSpace
    channels: int = 64
    num_cells: int = 4
    operations: OperationTypes | None = None


@dataclass(frozen=True)
class SearchContext:
    """How a search is run: seed, device, run folder, and whom to tell."""

    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    engine: str = "auto"
    run: Run | None = None
    on_epoch: Callable[[Record], None] | None = None
    should_stop: Callable[[], bool] | None = None
    runner: Runner | None = None  # workers for trials, with a run folder
    graphs: str = ""  # what they know the problem's graphs by


@dataclass(frozen=True)
class SearchResult:
    """What a search gives: the genotype, how it came about, and what it cost."""

    genotype: Architecture  # a Genotype from every strategy but GraphNAS
    history: list[Record] = field(repr=False)
    seconds: float
    strategy: str
    trained_epochs: int = 0
    seed: int = 0
    searches: tuple[Record, ...] = ()  # where it is the best of several: what each found, and how good that was

    def to_dict(self) -> dict[str, Any]:
        """Everything but the history, for result files."""
        several = {"searches": list(self.searches)} if self.searches else {}
        return {
            "genotype": self.genotype.id,
            "formulas": list(self.genotype.formulas()),
            "depth": self.genotype.depth(),
            "seconds": self.seconds,
            "strategy": self.strategy,
            "trained_epochs": self.trained_epochs,
            "seed": self.seed,
            **several,
        }


def finished_search(run: Run) -> SearchResult | None:
    """The result of the search that ended in this run folder; None if it has not ended."""
    record = run.read_search()
    if record.result is None or record.architecture is None:
        return None
    done = record.result
    return SearchResult(
        record.architecture, record.history, done.seconds, done.strategy, done.trained_epochs, done.seed, done.searches
    )


class SearchStrategy(Protocol):
    """A way to search: settings in its fields, the work in ``search``."""

    @property
    def name(self) -> str: ...

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult: ...
