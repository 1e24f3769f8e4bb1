"""The arguments and the result of every search strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from gnas.arch.architecture import Architecture
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.jobs import Runner
from gnas.model.build import build_network
from gnas.model.network import GraphModule
from gnas.model.stage import OperationTypes
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.training.loop import Record

OnLeaders = Callable[[Sequence[Record], TrainConfig], None]


@dataclass(frozen=True)
class SearchProblem:
    """What a strategy gets. It holds no test split, so no strategy can see one."""

    train: GraphSet
    val: GraphSet
    task: Task
    space: SearchSpace
    channels: int = 64
    num_cells: int = 4
    operations: OperationTypes | None = None


@dataclass(frozen=True)
class SearchContext:
    """How a search is run: seed, device, run folder, progress and workers."""

    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    engine: str = "auto"
    run: Run | None = None
    on_epoch: Callable[[Record], None] | None = None
    should_stop: Callable[[], bool] | None = None
    runner: Runner | None = None  # None: jobs run in this process
    on_leaders: OnLeaders | None = None  # of a race: gets the best so far

    def get_runner(self) -> Runner:
        """The runner for the jobs of this search. Workers need a run folder; without one, jobs run in this process."""
        if self.runner is not None and (self.run is not None or self.runner.in_process):
            return self.runner
        return Runner(None if self.run is None else self.run.path.resolve().parent, device=self.device)

    def name_folder(self, runner: Runner, part: str = "") -> str:
        """The folder of a job in a part of this search's run folder, or a name for it if nothing is written."""
        name = "search" if self.run is None else runner.name_folder(self.run.path)
        return f"{name}/{part}" if part else name


@dataclass(frozen=True)
class SearchResult:
    """The result of a search: the architecture, the history, and the cost.

    Args:
        genotype: The architecture; a :class:`Genotype` from every strategy except GraphNAS.
        history: A record per epoch or trial.
        seconds: How long the search took.
        strategy: Its name.
        trained_epochs: Epochs that were trained in all.
        seed: The seed of the search.
        searches: Of several searches: the result of each, and its validation metric.
        finalists: Of a race: the candidates that were trained to the end, best first.
        task, channels, operations: What ``network`` is built for.

    >>> result = gnas.search(data, strategy=gnas.SingleLevel(epochs=1), channels=8, num_cells=2)
    >>> result.network(data.test[0].x, data.test[0].edge_index).shape[1]  # new weights
    4
    """

    genotype: Architecture
    history: list[Record] = field(repr=False)
    seconds: float
    strategy: str
    trained_epochs: int = 0
    seed: int = 0
    searches: tuple[Record, ...] = ()
    finalists: tuple[Record, ...] = ()
    task: Task | None = field(default=None, repr=False, compare=False)
    channels: int = field(default=64, repr=False, compare=False)
    operations: OperationTypes | None = field(default=None, repr=False, compare=False)

    @property
    def network(self) -> GraphModule:
        """The network that was found, as wide as in the search, as an ordinary module with new weights."""
        if self.task is None:
            raise InputError(
                "this search result has no task; build its network with gnas.Network(result.genotype, task)"
            )
        return build_network(self.genotype, self.task, channels=self.channels, operations=self.operations)

    def to_dict(self) -> dict[str, Any]:
        """What result files hold."""
        several = {name: list(values) for name in ("searches", "finalists") if (values := getattr(self, name))}
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


def read_finished_search(run: Run) -> SearchResult | None:
    """The result of the search that ended in this run folder; None if it has not ended."""
    record = run.read_search()
    if record.result is None or record.architecture is None:
        return None
    done = record.result
    return SearchResult(
        record.architecture,
        record.history,
        done.seconds,
        done.strategy,
        done.trained_epochs,
        done.seed,
        done.searches,
        done.finalists,
    )


class SearchStrategy(Protocol):
    """A way to search: settings in its fields, the work in ``search``."""

    @property
    def name(self) -> str: ...

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult: ...
