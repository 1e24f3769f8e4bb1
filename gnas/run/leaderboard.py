"""The leaderboard: one row per network, from best to worst, and its files."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gnas.files import write_atomic, write_json
from gnas.model.task import higher_is_better
from gnas.run.table import Column, Table, show_count
from gnas.run.words import direction, duration, format_metric, format_spread, unit


@dataclass(frozen=True)
class Row:
    """One network: means over its seeds, except ``seconds``, which is the total time."""

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
        )


def describe_lag(results: Sequence[Mapping[str, Any]]) -> str:
    """A remark on trainings whose batch norms lag behind their weights; docs/faq.md says what to do."""
    count = sum(bool(result.get("norms_lag")) for result in results)
    return f"batch norms lag in {count} of {len(results)} seeds" if count else ""


@dataclass(frozen=True)
class Leaderboard:
    """Rows from best to worst."""

    dataset: str
    metric: str
    rows: tuple[Row, ...]

    def table(self) -> Table[Row]:
        """The leaderboard as a table. Networks that a search found stand out."""
        metric, label = self.metric, unit(self.metric)
        columns = (
            Column[Row]("network", "name", text=lambda row: f"{row.name} (found)" if row.found else row.name),
            Column[Row](f"test {label}", "mean", text=lambda row: format_spread(metric, row.mean, row.std, row.seeds)),
            Column[Row]("standard deviation", "std", csv_only=True),
            Column[Row]("seeds", "seeds"),
            Column[Row]("validation", "val", partial(format_metric, metric)),
            Column[Row]("weights", "num_weights", show_count),
            Column[Row]("depth", "depth"),
            Column[Row]("s per epoch", "seconds_per_epoch", "{:.2f}".format),
            Column[Row]("total time", "seconds", duration),
            Column[Row]("found", "found", csv_only=True),
            Column[Row]("remark", "remark", optional=True),
        )
        caption = (
            f"Test {label}: {direction(metric)}. Mean ± standard deviation over the seeds, at the epoch with the best "
            "validation metric."
        )
        return Table(columns, self.rows, caption, lambda row: row.found, columns[1].name, higher_is_better(metric))

    def to_markdown(self) -> str:
        return self.table().to_markdown() + "\n"

    def to_csv(self) -> str:
        return self.table().to_csv()

    def to_dict(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "metric": self.metric, "rows": [asdict(row) for row in self.rows]}

    @staticmethod
    def from_dict(value: dict[str, Any]) -> Leaderboard:
        return Leaderboard(value["dataset"], value["metric"], tuple(Row(**row) for row in value["rows"]))

    def save(self, folder: Path) -> None:
        """Write leaderboard.csv, .json and .md."""
        write_atomic(folder / "leaderboard.csv", self.to_csv())
        write_atomic(folder / "leaderboard.md", self.to_markdown())
        write_json(folder / "leaderboard.json", self.to_dict())
