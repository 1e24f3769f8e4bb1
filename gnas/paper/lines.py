"""Lines of the tables: what the paper prints, what our runs gave, and the difference."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gnas.arch.genotype import Genotype
from gnas.model.task import higher_is_better
from gnas.paper.catalogue import METRICS, SEARCHED_DEPTH, Entry, Request, gnas_entry, search_run, train_run
from gnas.paper.results import Results, TrainedNetwork
from gnas.paper.runs import DATASETS, TrainRun
from gnas.run.leaderboard import describe_lag


@dataclass(frozen=True)
class LineResult:
    """The figures of a network over its seeds. ``seconds`` is the time of one training while all its seeds run."""

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
    run: str = ""  # name of the run folder
    chosen_from: int = 1  # number of networks of which it is the best by validation
    lag: str = ""  # trainings for which the running averages of batch norm lag behind


@dataclass(frozen=True)
class Line:
    """One line of a table. ``state`` says what is missing, if anything."""

    entry: Entry
    result: LineResult | None
    state: str = ""

    @property
    def is_run(self) -> bool:
        return self.result is not None or self.state != NOT_RUN

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.result is None or self.entry.metric is None:
            return None
        return self.result.mean - self.entry.metric

    @property
    def is_better(self) -> bool | None:
        """Whether ours is at least as good as the paper's, at the digits that the paper prints."""
        if self.difference is None:
            return None
        higher = higher_is_better(self.entry.metric_name)
        gain = round(self.difference, count_printed_digits(self.entry.metric_name))
        return gain >= 0 if higher else gain <= 0


NOT_RUN = "not run"


def count_printed_digits(metric: str) -> int:
    """Digits of a metric in the paper's tables."""
    return 2 if higher_is_better(metric) else 3


def make_line(entry: Entry, request: Request, results: Results, failed: Mapping[str, str]) -> Line:
    """A line from finished runs. Of several networks that can stand in it, validation chooses."""
    return Line(entry, *summarise_run(train_run(entry, request), entry.metric_name, results, failed))


def summarise_run(
    run: TrainRun, metric: str, results: Results, failed: Mapping[str, str]
) -> tuple[LineResult | None, str]:
    """The figures of the network for a run, and what is missing."""
    reasons = [failed[one.key] for one in (run, run.of) if one is not None and one.key in failed]
    networks = list_eligible_networks(run, results)
    complete = [one for one in networks if set(run.seeds) <= set(one.results)]
    pool = complete or networks
    if not pool:
        return None, f"failed: {reasons[0]}" if reasons else NOT_RUN
    best = choose_network(pool, metric)
    missing = len(run.seeds) - sum(seed in best.results for seed in run.seeds)
    state = [f"{len(run.seeds) - missing} of {len(run.seeds)} seeds"] if missing else []
    state += [f"failed: {reasons[0]}"] if reasons and missing else []
    return summarise_network(best, run.seeds, len(pool)), "; ".join(state)


def list_eligible_networks(run: TrainRun, results: Results) -> list[TrainedNetwork]:
    """Trained networks that can stand in the line of a run: searched ones have no more weights than the paper's."""
    networks = results.list_networks(run)
    if run.of is None or not run.budget:
        return networks
    return [one for one in networks if one.num_weights <= run.budget]


def choose_network(pool: Sequence[TrainedNetwork], metric: str) -> TrainedNetwork:
    """The network with the best mean validation metric. The test metric is not used."""
    judged = [one for one in pool if one.val is not None]
    if not judged:
        return pool[0]
    return (max if higher_is_better(metric) else min)(judged, key=lambda one: one.val or 0.0)


def summarise_network(network: TrainedNetwork, seeds: Sequence[int], chosen_from: int = 1) -> LineResult:
    """The figures of a network over its seeds."""
    results = [network.results[seed] for seed in seeds if seed in network.results]
    results = results or list(network.results.values())
    tests = [result.test for result in results]
    trains = [result.train for result in results if result.train is not None]
    architecture = network.architecture
    return LineResult(
        mean=statistics.fmean(tests),
        std=statistics.pstdev(tests),
        seeds=len(tests),
        val=network.val,
        train=statistics.fmean(trains) if trains else None,
        weights=network.num_weights,
        cells=None if architecture is None else len(architecture.formulas()),
        depth=None if architecture is None else architecture.depth(),
        search_seconds=network.search_seconds,
        seconds=statistics.fmean(result.seconds for result in results),
        epochs=statistics.fmean(result.epochs for result in results),
        device=network.device,
        run=network.run,
        chosen_from=chosen_from,
        lag=describe_lag([result.to_dict() for result in results]),
    )


def select_genotypes(request: Request, results: Results) -> dict[str, Genotype]:
    """The network of each dataset that figures show: the one in the table if it is trained, else of the first search."""
    found = {name: _select_genotype(name, request, results) for name in DATASETS if request.includes(name, "gnas")}
    return {name: genotype for name, genotype in found.items() if genotype is not None}


def _select_genotype(dataset: str, request: Request, results: Results) -> Genotype | None:
    run = train_run(gnas_entry(dataset, SEARCHED_DEPTH), request)
    complete = [one for one in list_eligible_networks(run, results) if set(run.seeds) <= set(one.results)]
    if complete:
        best = choose_network(complete, METRICS[dataset]).architecture
        return best if isinstance(best, Genotype) else None
    searches = (one.architecture for one in results.list_searches(search_run(dataset, request)))
    return next((one for one in searches if isinstance(one, Genotype)), None)
