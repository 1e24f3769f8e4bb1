"""Search strategies, one file each, and :func:`search`, which runs any of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from gnas.arch.space import SearchSpace
from gnas.data.benchmark import Benchmark
from gnas.errors import choose, explain_memory
from gnas.jobs import Runner
from gnas.model.stage import OperationTypes
from gnas.plugins import resolve_plugin
from gnas.run.folder import Run
from gnas.strategies.base import OnLeaders, SearchContext, SearchProblem, SearchResult, SearchStrategy
from gnas.strategies.darts import Darts
from gnas.strategies.evolution import Evolution
from gnas.strategies.graphnas import GraphNAS
from gnas.strategies.race import Race
from gnas.strategies.random import RandomSearch
from gnas.strategies.single_level import SingleLevel
from gnas.training.loop import Record

STRATEGIES: dict[str, Callable[..., SearchStrategy]] = {
    "single-level": SingleLevel,
    "darts": Darts,
    "darts1": functools.partial(Darts, order=1),
    "darts2": functools.partial(Darts, order=2),
    "random": RandomSearch,
    "evolution": Evolution,
    "graphnas": GraphNAS,
    "race": Race,
}

__all__ = [
    "STRATEGIES",
    "Darts",
    "Evolution",
    "GraphNAS",
    "Race",
    "RandomSearch",
    "SearchProblem",
    "SearchResult",
    "SearchStrategy",
    "SingleLevel",
    "search",
    "strategy",
]


def strategy(name: str, **settings: Any) -> SearchStrategy:
    """The strategy of this name with these settings: one of ours, or an entry point of the group ``gnas.strategies``."""
    make = resolve_plugin(name, STRATEGIES, "gnas.strategies", "strategy")
    known = inspect.signature(make).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        for setting in settings:
            choose(setting, [parameter.name for parameter in known], f"setting of the strategy {name}")
    return make(**settings)


def search(
    benchmark: Benchmark,
    space: SearchSpace | None = None,
    strategy: SearchStrategy | None = None,
    *,
    channels: int = 64,
    num_cells: int = 4,
    seed: int = 0,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    operations: OperationTypes | None = None,
    run: Run | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    runner: Runner | None = None,
    on_leaders: OnLeaders | None = None,
) -> SearchResult:
    """Search a network for a benchmark. Only train, val and task reach the strategy.

    Args:
        benchmark: The data. The test split is not read.
        space: The search space; by default the paper's.
        strategy: The strategy; by default :class:`SingleLevel`.
        channels: Width of the networks in the search.
        num_cells: Number of cells.
        seed: Decides everything random.
        device: Where to compute.
        engine: How steps are executed; ``auto`` chooses the fastest for the device.
        operations: Your own operations by name.
        run: A run folder. With it, the search can be stopped and resumed.
        on_epoch: Gets a record per epoch or trial.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.
        runner: Workers for the jobs of the search (each seed of a gradient search, each trial), with a root above the
            folder of ``run``; by default this process.
        on_leaders: Gets the best candidates so far of a race after every round, and the protocol of their training.

    >>> result = gnas.search(gnas.load("cluster-mini"), strategy=gnas.SingleLevel(epochs=2))  # doctest: +SKIP
    >>> result.genotype.formulas()  # doctest: +SKIP
    """
    strategy = strategy or SingleLevel()
    problem = SearchProblem(
        benchmark.train, benchmark.val, benchmark.task, space or SearchSpace(), channels, num_cells, operations
    )
    context = SearchContext(seed, torch.device(device), engine, run, on_epoch, should_stop, runner, on_leaders)
    with explain_memory(
        device, f"the batch size of the search, channels (now {channels}) or num_cells (now {num_cells})"
    ):
        result = strategy.search(problem, context)
    if run is not None:
        run.write_genotype(result.genotype)
        run.write_json("result", result.to_dict())
    return result
