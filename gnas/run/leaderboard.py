"""The leaderboard: one row per network, from best to worst, and its files."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gnas.files import write_atomic, write_json
from gnas.model.task import higher_is_better
from gnas.run.layout import LEADERBOARD
from gnas.run.table import Column, Table, show_count
from gnas.run.words import describe_direction, duration, format_metric, format_spread, label_metric

HAND_MADE = "hand-made"  # over folds: the row of the best hand-made network of each fold


@dataclass(frozen=True)
class Row:
    """One network: means over its seeds, except ``seconds``, which is the total time.

    With ``folds``, figures are means over the folds of the means over the seeds of each fold, and ``std`` is the spread over
    the folds.
    """

    name: str
    mean: float
    std: float
    seeds: int
    val: float
    num_weights: int
    depth: int
    seconds_per_epoch: float
    seconds: float
    found: bool = False
    remark: str = ""
    folds: int = 0  # 0: one split
    members: int = 0  # of an ensemble: the number of its networks
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)  # of val and test: every metric that is defined

    @property
    def runs(self) -> int:
        """How many figures the mean and the standard deviation are over."""
        return self.folds or self.seeds

    def to_dict(self) -> dict[str, Any]:
        """As JSON types; ``folds``, ``members`` and ``metrics`` only if there are any."""
        optional = ("folds", "members", "metrics")
        return {name: value for name, value in asdict(self).items() if value or name not in optional}

    def describe_runs(self) -> str:
        """``4 seeds``, ``one seed`` or ``5 folds``."""
        return f"{self.folds} folds" if self.folds else f"{self.seeds} seeds" if self.seeds > 1 else "one seed"

    @staticmethod
    def over_folds(rows: Sequence[Row]) -> Row:
        """The row of one network over several folds, from its row in each of them."""
        means, remarks = [row.mean for row in rows], {row.remark for row in rows} - {""}
        return replace(
            rows[0],
            mean=statistics.fmean(means),
            std=statistics.pstdev(means),
            val=statistics.fmean(row.val for row in rows),
            num_weights=round(statistics.fmean(row.num_weights for row in rows)),
            depth=round(statistics.fmean(row.depth for row in rows)),
            seconds_per_epoch=statistics.fmean(row.seconds_per_epoch for row in rows),
            seconds=sum(row.seconds for row in rows),
            remark=remarks.pop() if len(remarks) == 1 else "settings differ between the folds" if remarks else "",
            folds=len(rows),
            members=round(statistics.fmean(row.members for row in rows)),
            metrics=average_metrics([{"metrics": row.metrics} for row in rows]),
        )

    @staticmethod
    def from_results(
        name: str, depth: int, results: Sequence[Mapping[str, Any]], *, found: bool = False, remark: str = ""
    ) -> Row:
        """The row of one network from the results of its trainings, one result per seed."""
        tests = [result["test"] for result in results]
        return Row(
            name,
            statistics.fmean(tests),
            statistics.pstdev(tests),
            len(tests),
            statistics.fmean(result["val"] for result in results),
            results[0]["num_weights"],
            depth,
            statistics.fmean(result["seconds"] / max(result["epochs"], 1) for result in results),
            sum(result["seconds"] for result in results),
            found,
            "; ".join(filter(None, (remark, describe_lag(results)))),
            metrics=average_metrics(results),
        )


def average_metrics(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Means over the seeds of all metrics of val and test; without those that a seed does not have."""
    found = [result.get("metrics") or {} for result in results]
    means: dict[str, dict[str, float]] = {}
    for split, values in found[0].items():
        for name in values:
            every = [one.get(split, {}).get(name) for one in found]
            if None not in every:
                means.setdefault(split, {})[name] = statistics.fmean(every)
    return means


def _test_metric(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.metrics.get("test", {}).get(name)


def describe_lag(results: Sequence[Mapping[str, Any]]) -> str:
    """A remark on trainings whose batch norms lag behind their weights; docs/faq.md says what to do."""
    count = sum(bool(result.get("norms_lag")) for result in results)
    return f"batch norms lag in {count} of {len(results)} seeds" if count else ""


@dataclass(frozen=True)
class Leaderboard:
    """The networks of a comparison, from best to worst by the test metric.

    Args:
        dataset: The name of the data.
        metric: The metric of the columns.
        rows: A row per network.

    >>> from gnas.run.leaderboard import Leaderboard
    >>> import json
    >>> board = Leaderboard.from_dict(json.load(open("runs/mine/leaderboard.json")))
    >>> board.rows[0].name, board.metric
    ('gnas', 'mae')
    >>> print(board.to_markdown())  # doctest: +SKIP
    """

    dataset: str
    metric: str
    rows: tuple[Row, ...]

    def table(self) -> Table[Row]:
        """The leaderboard as a table. Networks that a search found stand out."""
        metric, label = self.metric, label_metric(self.metric)
        columns = (
            Column[Row]("network", "name", text=lambda row: f"{row.name} (found)" if row.found else row.name),
            Column[Row](f"test {label}", "mean", text=lambda row: format_spread(metric, row.mean, row.std, row.runs)),
            Column[Row]("standard deviation", "std", csv_only=True),
            *([Column[Row]("folds", "folds")] if any(row.folds for row in self.rows) else []),
            Column[Row]("seeds", "seeds"),
            Column[Row]("validation", "val", partial(format_metric, metric)),
            Column[Row]("weights", "num_weights", show_count),
            Column[Row]("depth", "depth"),
            Column[Row]("s per epoch", "seconds_per_epoch", "{:.2f}".format),
            Column[Row]("total time", "seconds", duration),
            Column[Row]("found", "found", csv_only=True),
            Column[Row]("remark", "remark", optional=True),
            *(Column[Row](f"test_{name}", _test_metric(name), csv_only=True) for name in self.other_metrics),
        )
        over = "folds" if any(row.folds for row in self.rows) else "seeds"
        caption = (
            f"Test {label}: {describe_direction(metric)}. Mean ± standard deviation over the {over}, at the epoch with the best "
            "validation metric."
        )
        return Table(columns, self.rows, caption, lambda row: row.found, columns[1].name, higher_is_better(metric))

    @property
    def other_metrics(self) -> tuple[str, ...]:
        """The metrics of the test split that a row has, without the one that selects."""
        names = dict.fromkeys(name for row in self.rows for name in row.metrics.get("test", {}))
        return tuple(name for name in names if name != self.metric)

    def metrics_table(self) -> Table[Row] | None:
        """All metrics of the test split, one row per network; None if there is only the one that selects."""
        if not self.other_metrics:
            return None
        columns = [
            Column[Row](label_metric(name), _test_metric(name), partial(format_metric, name), align="right")
            for name in self.other_metrics
        ]
        over = "folds" if any(row.folds for row in self.rows) else "seeds"
        caption = (
            f"Other metrics of the test split, means over the {over}. {label_metric(self.metric)} selects; those of validation "
            "are in leaderboard.json."
        )
        return Table((Column[Row]("network", "name"), *columns), self.rows, caption, lambda row: row.found)

    @staticmethod
    def over_folds(boards: Sequence[Leaderboard]) -> Leaderboard:
        """One leaderboard from those of the folds: the mean and the spread over the folds for every network.

        A race may train another hand-made network in each fold. A network that some folds lack has no rank: its folds may
        be the easy ones. It stands below the others, and the row ``hand-made`` takes from each fold the hand-made network
        that is best on validation there.
        """
        first, rows = boards[0], dict[str, list[Row]]()
        sign = -1 if higher_is_better(first.metric) else 1
        for row in (row for board in boards for row in board.rows):
            rows.setdefault(row.name, []).append(row)
        ranked = [Row.over_folds(one) for one in rows.values() if len(one) == len(boards)]
        partly = [Row.over_folds(one) for one in rows.values() if len(one) < len(boards)]
        if any(not (row.found or row.members) for row in partly):
            made = [[row for row in board.rows if not (row.found or row.members)] for board in boards]
            if all(made):
                best = [min(one, key=lambda row: sign * row.val) for one in made]
                ranked.append(
                    replace(Row.over_folds(best), name=HAND_MADE, remark="in each fold the best on validation")
                )
        ranked.sort(key=lambda row: sign * row.mean)
        below = [replace(row, remark=f"in {row.folds} of {len(boards)} folds: not ranked") for row in partly]
        return replace(first, rows=(*ranked, *below))

    def to_markdown(self) -> str:
        tables = [table for table in (self.table(), self.metrics_table()) if table is not None]
        return "\n\n".join(table.to_markdown() for table in tables) + "\n"

    def to_csv(self) -> str:
        return self.table().to_csv()

    def to_dict(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "metric": self.metric, "rows": [row.to_dict() for row in self.rows]}

    @staticmethod
    def from_dict(value: dict[str, Any]) -> Leaderboard:
        return Leaderboard(value["dataset"], value["metric"], tuple(Row(**row) for row in value["rows"]))

    def save(self, folder: Path) -> None:
        """Write leaderboard.csv, .json and .md."""
        write_atomic(folder / "leaderboard.csv", self.to_csv())
        write_atomic(folder / "leaderboard.md", self.to_markdown())
        write_json(folder / LEADERBOARD, self.to_dict())
