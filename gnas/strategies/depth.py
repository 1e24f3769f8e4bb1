"""Algorithm 1: search the network and its message-passing depth together, beginning at half the graphs' diameter."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gnas.arch.architecture import Architecture
from gnas.arch.space import SearchSpace
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.jobs import Runner
from gnas.model.stage import OperationTypes
from gnas.run.folder import Run, plain_config
from gnas.strategies import GraphNAS, SearchResult, SearchStrategy, SingleLevel, search
from gnas.strategies.diameter import Diameter, average_diameter
from gnas.training.loop import Record, add_labels

__all__ = ["DepthResult", "DepthRound", "Diameter", "average_diameter", "search_depth"]

REASONS = {
    "unchanged": "the searched depth is the depth that the search began with",
    "cycle": "a depth came up a second time; of the rounds between, the one with the best validation metric is taken",
    "rounds": "the depth still changed in the last round allowed",
}


@dataclass(frozen=True)
class DepthRound:
    """One pass of the loop: a search with ``initial`` cells, of which ``searched`` aggregate in what it found."""

    initial: int
    searched: int
    genotype: Architecture
    val_metric: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the genotype by its id, its file lies in the round's folder."""
        return {**{f.name: getattr(self, f.name) for f in dataclasses.fields(self)}, "genotype": self.genotype.id}


@dataclass(frozen=True)
class DepthResult:
    """The trajectory, the network taken and why the loop ended (``reason``: one of REASONS)."""

    rounds: tuple[DepthRound, ...]
    genotype: Architecture
    depth: int
    reason: str
    notes: tuple[str, ...] = ()
    diameter: Diameter | None = None

    @property
    def trajectory(self) -> tuple[int, ...]:
        """The depth the loop began with, and the searched depth of each round."""
        return (self.rounds[0].initial, *(r.searched for r in self.rounds))

    def to_dict(self) -> dict[str, Any]:
        return {
            "depth": self.depth,
            "genotype": self.genotype.id,
            "formulas": list(self.genotype.formulas()),
            "trajectory": list(self.trajectory),
            "reason": self.reason,
            "explanation": REASONS[self.reason],
            "notes": list(self.notes),
            "rounds": [r.to_dict() for r in self.rounds],
            "diameter": None if self.diameter is None else asdict(self.diameter),
            "seconds": round(sum(r.seconds for r in self.rounds), 3),
        }


def search_depth(
    benchmark: Benchmark,
    space: SearchSpace | None = None,
    strategy: SearchStrategy | None = None,
    *,
    start: int | None = None,
    limit: int = 24,
    max_rounds: int = 10,
    folder: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    channels: int = 64,
    seed: int = 0,
    device: torch.device | str = "cpu",
    engine: str = "auto",
    operations: OperationTypes | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    runner: Runner | None = None,
    diameter: Diameter | None = None,
) -> DepthResult:
    """Search with as many cells as the last network had aggregating ones, until that number no longer changes.

    A network that aggregates nowhere counts as depth 1, which is noted. A network has no more aggregating cells than cells, so
    with our strategies the depth can only shrink; one of yours may grow it, which is what the guard against cycles and
    ``limit`` are for.

    Args:
        benchmark: The data. The test split is not read.
        space: The search space; by default the paper's.
        strategy: The strategy; by default :class:`SingleLevel`.
        start: Cells of the first search; by default half of the average ``diameter`` of the training graphs.
        limit: Most cells of a search.
        max_rounds: Most searches.
        folder: Every round is a run of its own in it, ``round-1``, ``round-2``, ...: a finished one is not repeated on resume,
            an unfinished one is resumed.
        resume, force: What to do if the folder holds a run: resume it, or start again.
        channels: Width of the networks in the search.
        seed: Decides everything random.
        device: Where to compute.
        engine: How steps are executed.
        operations: Your own operations by name.
        on_epoch: Gets a record per epoch, with its ``stage`` and number of ``cells``.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.
        runner: Workers, whose root is above ``folder``, for the searches; by default this process.
        diameter: The diameter of the graphs; measured if it is not given.

    >>> found = gnas.search_depth(data, strategy=gnas.SingleLevel(epochs=1), start=2, max_rounds=1, channels=8)
    >>> found.trajectory[0], found.depth <= 2
    (2, True)
    """
    if isinstance(strategy, GraphNAS):
        raise InputError("the depth search needs a strategy that finds genotypes; every layer of graphnas aggregates")
    if limit < 1 or max_rounds < 1 or (start is not None and start < 1):
        raise InputError(f"start, limit and max_rounds must be at least 1, not {start}, {limit} and {max_rounds}")
    space, strategy = space or SearchSpace(), strategy or SingleLevel()
    identity = {} if folder is None else benchmark.identity  # a fingerprint takes a pass over all data
    shared = {**identity, "space": space, "strategy": strategy, "channels": channels, "seed": seed}
    how: dict[str, Any] = {"channels": channels, "seed": seed, "device": device, "engine": engine}
    how |= {"operations": operations, "should_stop": should_stop, "runner": runner}
    config = plain_config({"job": "depth", **identity, "start": start, "limit": limit, **shared})
    with contextlib.nullcontext() if folder is None else Run(folder, config, resume=resume, force=force) as run:
        one_round = _Rounds(partial(search, benchmark, space, strategy, **how), shared, run, force, on_epoch)
        if start is None:
            diameter = diameter or average_diameter(benchmark.train, seed=seed)
            start = max(1, round(diameter.value / 2))
        else:
            diameter = None
        result = _settle(one_round, start, limit, max_rounds, benchmark.task.higher_is_better, diameter)
        if run is not None:
            run.write_genotype(result.genotype)
            run.write_json("result", result.to_dict())
        return result


@dataclass(frozen=True)
class _Rounds:
    """Rounds of a depth search. Each is a run inside ``run``, which is not repeated if it is finished."""

    search: Callable[..., SearchResult]
    settings: Record  # those that all rounds share
    run: Run | None
    force: bool
    on_epoch: Callable[[Record], None] | None

    def __call__(self, number: int, cells: int) -> DepthRound:
        stage, run = f"round-{number}", self.run
        config = plain_config({"job": "search", **self.settings, "cells": cells})
        with contextlib.nullcontext() if run is None else run.continue_run(stage, config, force=self.force) as part:
            done = _finished(part)
            if done is None:
                note = add_labels(self.on_epoch, stage=stage, cells=cells)
                done = _as_round(cells, self.search(num_cells=cells, run=part, on_epoch=note))
                if part is not None:
                    part.write_json("round", done.to_dict())
            return done


def _settle(
    one_round: Callable[[int, int], DepthRound],
    start: int,
    limit: int,
    max_rounds: int,
    higher_is_better: bool,
    diameter: Diameter | None,
) -> DepthResult:
    """The loop itself: rounds until the depth is settled, and which of them is taken."""
    notes: list[str] = []
    rounds: list[DepthRound] = []
    wanted, reason = _within(start, limit, "the start", notes), ""
    while not reason:
        taken = one_round(len(rounds) + 1, wanted)
        rounds.append(taken)
        wanted = _within(taken.searched, limit, f"round {len(rounds)}", notes)
        seen = [r.initial for r in rounds]
        if wanted == taken.initial:
            reason = "unchanged"
        elif wanted in seen:
            reason, cycle = "cycle", rounds[seen.index(wanted) :]
            taken = (max if higher_is_better else min)(cycle, key=lambda r: r.val_metric)
        elif len(rounds) == max_rounds:
            reason = "rounds"
    return DepthResult(tuple(rounds), taken.genotype, taken.searched, reason, tuple(notes), diameter)


def _within(depth: int, limit: int, where: str, notes: list[str]) -> int:
    """A number of cells that can be searched; what had to be changed is noted."""
    if depth > limit:
        notes.append(f"{where} asks for {depth} cells; the limit is {limit}")
        return limit
    if depth < 1:
        notes.append(f"{where} found a network in which no cell aggregates; 1 cell is taken")
        return 1
    return depth


def _finished(part: Run | None) -> DepthRound | None:
    """A round that is already there."""
    done, genotype = (None, None) if part is None else (part.read_json("round"), part.genotype())
    if done is None or genotype is None or done["genotype"] != genotype.id:
        return None
    return DepthRound(**{**done, "genotype": genotype})


def _as_round(cells: int, result: SearchResult) -> DepthRound:
    last = result.history[-1]
    metric = last["best_val_metric"] if "best_val_metric" in last else last["val_metric"]
    return DepthRound(cells, result.genotype.depth(), result.genotype, metric, result.seconds)
