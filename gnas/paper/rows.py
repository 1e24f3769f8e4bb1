"""Lines of the tables: what the paper prints, what our runs gave, and the difference."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gnas.model.task import higher_is_better
from gnas.paper.catalogue import Wanted, train_job
from gnas.paper.jobs import TrainJob
from gnas.paper.paper import Entry
from gnas.paper.shelf import Shelf, Trained
from gnas.run.leaderboard import describe_lag

METRICS = {"zinc": "mae", "pattern": "class_accuracy", "cluster": "class_accuracy"}  # accuracy elsewhere


@dataclass(frozen=True)
class Ours:
    """What our runs gave for one line. ``seconds`` is one training's, while all its seeds run."""

    mean: float
    std: float
    seeds: int
    val: float | None
    train: float | None
    weights: int
    cells: int | None
    depth: int | None
    search_seconds: float | None
    seconds: float
    epochs: float
    device: str = ""
    about: str = ""  # the run folder it comes from
    chosen_from: int = 1  # networks of which it is the best by validation
    lag: str = ""  # trainings that batch norm's running averages spoiled


@dataclass(frozen=True)
class Line:
    """One line of a table. ``state`` says what is missing, if anything is."""

    entry: Entry
    ours: Ours | None
    state: str = ""

    @property
    def metric(self) -> str:
        return METRICS.get(self.entry.dataset, "accuracy")

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.ours is None or self.entry.metric is None else self.ours.mean - self.entry.metric

    @property
    def better(self) -> bool | None:
        """Whether ours is at least as good as the paper's, at the digits the paper prints."""
        if self.difference is None:
            return None
        digits = 2 if higher_is_better(self.metric) else 3
        gain = round(self.difference, digits)
        return gain >= 0 if higher_is_better(self.metric) else gain <= 0


def line(entry: Entry, wanted: Wanted, shelf: Shelf, failed: Mapping[str, str]) -> Line:
    """A line as the finished runs have it. Of several networks that may stand in it, validation chooses."""
    job = train_job(entry, wanted)
    return Line(entry, *ours(job, METRICS.get(entry.dataset, "accuracy"), shelf, failed))


def ours(job: TrainJob, metric: str, shelf: Shelf, failed: Mapping[str, str]) -> tuple[Ours | None, str]:
    """What our runs gave for a job, and what is missing of it."""
    reasons = [failed[one.key] for one in (job, job.of) if one is not None and one.key in failed]
    networks = shelf.networks(job)
    if job.of is not None and job.budget:
        networks = [one for one in networks if one.weights <= job.budget]  # no more weights than the paper's
    whole = [one for one in networks if set(job.seeds) <= set(one.results)]
    pool = whole or networks
    if not pool:
        return None, f"failed: {reasons[0]}" if reasons else "not run"
    best = choose_network(pool, metric)
    missing = len(job.seeds) - sum(seed in best.results for seed in job.seeds)
    state = f"{len(job.seeds) - missing} of {len(job.seeds)} seeds" if missing else ""
    state += f"{'; ' * bool(state)}failed: {reasons[0]}" if reasons and missing else ""
    return summary(best, job.seeds, len(pool)), state


def choose_network(pool: Sequence[Trained], metric: str) -> Trained:
    """The network with the best mean validation metric; the test metric plays no part."""
    judged = [one for one in pool if one.val is not None]
    if not judged:
        return pool[0]
    return (max if higher_is_better(metric) else min)(judged, key=lambda one: one.val or 0.0)


def summary(network: Trained, seeds: Sequence[int], chosen_from: int = 1) -> Ours:
    """The figures of a network over its seeds."""
    results = [network.results[seed] for seed in seeds if seed in network.results]
    results = results or list(network.results.values())
    tests = [result["test"] for result in results]
    trains = [result["train"] for result in results if result.get("train") is not None]
    device = network.device or str(results[0].get("device", ""))
    found = network.architecture
    return Ours(
        mean=statistics.fmean(tests),
        std=statistics.pstdev(tests),
        seeds=len(tests),
        val=network.val,
        train=statistics.fmean(trains) if trains else None,
        weights=network.weights,
        cells=None if found is None else len(found.formulas()),
        depth=None if found is None else found.depth(),
        search_seconds=network.search_seconds,
        seconds=statistics.fmean(result["seconds"] for result in results),
        epochs=statistics.fmean(result["epochs"] for result in results),
        device=device,
        about=network.about,
        chosen_from=chosen_from,
        lag=describe_lag(results),
    )
