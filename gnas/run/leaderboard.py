"""The leaderboard: one row per network, from best to worst, and its files."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnas.files import write_atomic, write_json
from gnas.model.task import decimals
from gnas.run.table import csv_text, markdown_table


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

    COLUMNS = ("name", "metric", "std", "seeds", "val", "weights", "depth", "s/epoch", "seconds", "remark")

    def table(self) -> list[tuple[str, ...]]:
        """Cells as text, one tuple per row, in the order of ``COLUMNS``."""
        digits = decimals(self.metric)
        return [
            (
                row.name,
                f"{row.mean:.{digits}f}",
                f"{row.std:.{digits}f}" if row.seeds > 1 else "–",  # one seed has no spread
                str(row.seeds),
                f"{row.val:.{digits}f}",
                f"{row.num_weights:,}",
                str(row.depth),
                f"{row.seconds_per_epoch:.2f}",
                f"{row.seconds:.1f}",
                row.remark,
            )
            for row in self.rows
        ]

    def to_markdown(self) -> str:
        return markdown_table(self.COLUMNS, self.table()) + "\n"

    def to_csv(self) -> str:
        return csv_text(list(Row.__dataclass_fields__), map(asdict, self.rows))

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
