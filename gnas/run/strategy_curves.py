"""Comparisons of strategies: the best network so far against the cost of the search, as points, curves and a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gnas.errors import InputError, choose
from gnas.files import is_number, read_json, write_atomic, write_json
from gnas.model.task import higher_is_better
from gnas.run.layout import COMPARISON
from gnas.run.table import Column, Table, show_count
from gnas.run.words import describe_direction, duration, format_metric, format_spread, label_metric

COSTS = ("epochs", "seconds")


@dataclass(frozen=True)
class Point:
    """One network of a search: its validation metric, and the cost of the search so far, with its training."""

    strategy: str
    seed: int
    network: int  # 1, 2, ... of this strategy and seed
    epochs: int  # trained in all, of supernets and of networks
    seconds: float
    val_metric: float | None  # None if its training failed
    best: float | None  # the best val_metric so far
    genotype: str
    depth: int
    num_weights: int


@dataclass(frozen=True)
class CurvePoint:
    """The best metric so far at a cost: mean, lowest and highest over the seeds."""

    cost: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class StrategyRow:
    """One strategy at the end of its budget. Costs and sizes are means over the seeds."""

    strategy: str
    best: float
    std: float
    halfway: float | None  # the best so far when half of the budget was spent; None: not every seed had one
    seeds: int
    networks: float
    epochs: float
    seconds: float
    num_weights: float
    depth: float


@dataclass(frozen=True)
class StrategyComparison:
    """All points of all strategies and seeds.

    Args:
        dataset: The name of the data.
        metric: The metric that networks are judged by.
        budget: The budget in numbers.
        rule: The budget in words.
        points: A point per network: its validation metric, and what the search had cost by then.

    >>> found = compare_strategies(data, {"random": gnas.RandomSearch()}, budget, (0,), "runs/both")  # doctest: +SKIP
    >>> print(found.to_markdown())  # doctest: +SKIP
    """

    dataset: str
    metric: str
    budget: dict[str, Any]
    rule: str
    points: tuple[Point, ...]

    @property
    def higher_is_better(self) -> bool:
        return higher_is_better(self.metric)

    def strategies(self) -> tuple[str, ...]:
        """Names of the strategies, in their original order."""
        return tuple(dict.fromkeys(point.strategy for point in self.points))

    def by_seed(self, strategy: str) -> dict[int, list[Point]]:
        """The points of a strategy, by seed."""
        groups: dict[int, list[Point]] = {}
        for point in self.points:
            if point.strategy == choose(strategy, self.strategies(), "strategy"):
                groups.setdefault(point.seed, []).append(point)
        return groups

    def curve(self, strategy: str, cost: str = "epochs") -> list[CurvePoint]:
        """The best metric so far against cost. The curve begins where every seed has a network."""
        choose(cost, COSTS, "cost")
        runs = list(self.by_seed(strategy).values())
        costs = sorted({float(getattr(point, cost)) for run in runs for point in run})
        bests = ((place, [best_at(run, place, cost) for run in runs]) for place in costs)
        return [CurvePoint(place, *_spread(values)) for place, values in bests if _complete(values)]

    def rows(self) -> list[StrategyRow]:
        """One row per strategy, best first."""
        rows = [row for name in self.strategies() for row in self._row(name)]
        return sorted(rows, key=lambda row: row.best, reverse=self.higher_is_better)

    def _row(self, name: str) -> Iterator[StrategyRow]:
        runs = list(self.by_seed(name).values())
        ends = [run[-1] for run in runs]
        best = [point.best for point in ends if point.best is not None]
        if len(best) < len(runs):
            return
        taken = [next((point for point in run if point.val_metric == run[-1].best), run[-1]) for run in runs]
        half = [best_at(run, self.budget["epochs"] / 2, "epochs") for run in runs]
        yield StrategyRow(
            name,
            statistics.fmean(best),
            statistics.pstdev(best),
            _spread(half)[0] if _complete(half) else None,
            len(runs),
            statistics.fmean(len({point.genotype for point in run}) for run in runs),
            statistics.fmean(end.epochs for end in ends),
            statistics.fmean(end.seconds for end in ends),
            statistics.fmean(point.num_weights for point in taken),
            statistics.fmean(point.depth for point in taken),
        )

    # -- files ------------------------------------------------------------------------------------------------------

    def table(self) -> Table[StrategyRow]:
        """One row per strategy, best first."""
        metric = self.metric
        columns = (
            Column[StrategyRow]("strategy", "strategy"),
            Column[StrategyRow](
                f"best validation {label_metric(metric)}",
                "best",
                text=lambda row: format_spread(metric, row.best, row.std, row.seeds),
            ),
            Column[StrategyRow]("standard deviation", "std", csv_only=True),
            Column[StrategyRow]("at half the budget", "halfway", partial(format_metric, metric)),
            Column[StrategyRow]("seeds", "seeds"),
            Column[StrategyRow]("networks", "networks", "{:.1f}".format),
            Column[StrategyRow]("epochs", "epochs", show_count),
            Column[StrategyRow]("time", "seconds", duration),
            Column[StrategyRow]("weights", "num_weights", show_count),
            Column[StrategyRow]("depth", "depth", "{:.1f}".format),
        )
        caption = f"{self.rule} Means over the seeds; {describe_direction(metric)}."
        return Table(columns, self.rows(), caption, None, columns[1].name, self.higher_is_better)

    def to_markdown(self) -> str:
        rule = f"{self.dataset}, validation {self.metric}. {self.rule}"
        return f"{rule}\n\n{self.table().to_markdown()}\n"

    def to_csv(self) -> str:
        """One row per point."""
        return Table.from_records(Point.__dataclass_fields__, self.points).to_csv()

    def to_dict(self) -> dict[str, Any]:
        names = ("dataset", "metric", "budget", "rule")
        about = {name: getattr(self, name) for name in names}
        return {**about, "rows": [asdict(r) for r in self.rows()], "points": [asdict(p) for p in self.points]}

    @staticmethod
    def from_dict(value: dict[str, Any]) -> StrategyComparison:
        dataset, metric, rule = texts = [value[name] for name in ("dataset", "metric", "rule")]
        if not all(isinstance(text, str) for text in texts) or not is_number(value["budget"]["epochs"]):
            raise TypeError
        return StrategyComparison(dataset, metric, value["budget"], rule, tuple(map(_point, value["points"])))

    def save(self, folder: Path) -> None:
        """Write strategies.csv (one row per point), .json and .md (the table)."""
        write_atomic(folder / "strategies.csv", self.to_csv())
        write_atomic(folder / "strategies.md", self.to_markdown())
        write_json(folder / COMPARISON, self.to_dict())

    @staticmethod
    def load(folder: str | Path) -> StrategyComparison:
        """Read the files that ``save`` wrote."""
        file = Path(folder) / COMPARISON
        try:
            return StrategyComparison.from_dict(read_json(file))
        except OSError as error:
            raise InputError(f"{file}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{file}: not a comparison of strategies; remove it and resume the run") from None


def read_points(values: Any, file: Path) -> list[Point]:
    """The points in a result file, as ``asdict`` wrote them."""
    try:
        return [_point(value) for value in values]
    except (KeyError, TypeError):
        raise InputError(f"{file}: its points are not those of a search; remove it and resume the run") from None


def _point(value: dict[str, Any]) -> Point:
    point = Point(**value)
    texts, counts = (point.strategy, point.genotype), (point.seed, point.network, point.epochs, point.depth)
    known = [number for number in (point.val_metric, point.best) if number is not None]
    sound = all(isinstance(text, str) for text in texts) and all(isinstance(number, int) for number in counts)
    if not sound or not all(map(is_number, (*known, point.seconds, point.num_weights, *counts))):
        raise TypeError
    return point


def best_at(run: Sequence[Point], place: float, cost: str) -> float | None:
    """The best metric of one seed when its cost was ``place``; None if it had no network yet."""
    done = [point for point in run if getattr(point, cost) <= place]
    return done[-1].best if done else None


def _complete(values: Sequence[float | None]) -> bool:
    return all(value is not None for value in values)


def _spread(values: Sequence[float | None]) -> tuple[float, float, float]:
    known = [value for value in values if value is not None]
    return statistics.fmean(known), min(known), max(known)
