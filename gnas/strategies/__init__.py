"""Search strategies, one file each, and :func:`search`, which runs any of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
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
from gnas.strategies.searches import JUDGED
from gnas.strategies.single_level import SingleLevel
from gnas.training.loop import Record
from gnas.training.stages import Stage, show_progress

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
    "make_strategy",
    "search",
    "search_stages",
]


def make_strategy(name: str, **settings: Any) -> SearchStrategy:
    """The strategy of this name with these settings: one of ours, or an entry point of the group ``gnas.strategies``."""
    make = resolve_plugin(name, STRATEGIES, "gnas.strategies", "strategy")
    known = inspect.signature(make).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        for setting in settings:
            choose(setting, [parameter.name for parameter in known], f"setting of the strategy {name}")
    return make(**settings)


def search_stages(strategy: Any, key: str = "search") -> list[Stage]:
    """The stage of a search, by epochs or by trials; of several searches there is a second, in which they are judged."""
    trials, label = getattr(strategy, "trials", None), key.replace("-", " ")
    if isinstance(strategy, Race):
        return [Stage(key, "race", int(strategy.trials), unit="training", limit=strategy.max_seconds)]
    if trials is not None:
        return [Stage(key, label, int(trials), unit="trial")]
    epochs, searches = int(getattr(strategy, "epochs", 1)), int(getattr(strategy, "searches", 1))
    judged = [Stage(JUDGED, "judge what they found", searches, unit="trial")] if searches > 1 else []
    return [Stage(key, label, epochs, searches), *judged]


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
        on_epoch: Gets a record per epoch or trial. Without it, a notebook shows the progress.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.
        runner: Workers for the jobs of the search (each seed of a gradient search, each trial), with a root above the
            folder of ``run``; by default this process.
        on_leaders: Gets the best candidates so far of a race after every round, and the protocol of their training.

    >>> result = gnas.search(gnas.load("cluster-mini"), strategy=gnas.SingleLevel(epochs=2))  # doctest: +SKIP
    >>> result.genotype.formulas()  # doctest: +SKIP
    >>> result.network  # a plain module with new weights  # doctest: +SKIP
    """
    strategy = strategy or SingleLevel()
    problem = SearchProblem(
        benchmark.train, benchmark.val, benchmark.task, space or SearchSpace(), channels, num_cells, operations
    )
    memory = f"the batch size of the search, channels (now {channels}) or num_cells (now {num_cells})"
    with (
        show_progress(on_epoch, lambda: search_stages(strategy), benchmark.task.metric) as on_epoch,
        explain_memory(device, memory),
    ):
        context = SearchContext(seed, torch.device(device), engine, run, on_epoch, should_stop, runner, on_leaders)
        result = strategy.search(problem, context)
    result = replace(result, task=benchmark.task, channels=channels, operations=operations)
    if run is not None:
        run.write_genotype(result.genotype)
        run.write_json("result", result.to_dict())
    return result
