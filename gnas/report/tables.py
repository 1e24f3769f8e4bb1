"""The tables of a report, as values: a column knows how it sorts, a cell what it shows and what it sorts by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gnas.model.task import higher_is_better
from gnas.report.answer import best_baseline, found_row, search_seconds, verdict
from gnas.report.record import Job, Training
from gnas.run.leaderboard import Leaderboard
from gnas.run.strategy_curves import StrategyComparison
from gnas.run.words import direction, duration, figure, spread, unit


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number it sorts by (None: sorts by its text)."""

    text: str
    sort: float | None = None


@dataclass(frozen=True)
class Table:
    """Columns, rows of cells, the numbers of the rows to stress, and by which column it is sorted already."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    stressed: frozenset[int] = frozenset()
    sorted_by: int | None = None
    descending: bool = False
    numeric: frozenset[int] = frozenset()


def leaderboard_table(board: Leaderboard) -> Table:
    """Networks from best to worst."""
    metric, remarks = board.metric, any(row.remark for row in board.rows)
    rows = tuple(
        (
            Cell(f"{row.name} (found)" if row.found else row.name),
            Cell(figure(metric, row.mean), row.mean),
            Cell(figure(metric, row.std) if row.seeds > 1 else "–", row.std),
            Cell(str(row.seeds), row.seeds),
            Cell(figure(metric, row.val), row.val),
            Cell(str(row.depth), row.depth),
            Cell(f"{row.num_weights:,}", row.num_weights),
            Cell(f"{row.seconds_per_epoch:.2f}", row.seconds_per_epoch),
            Cell(duration(row.seconds / max(row.seeds, 1)), row.seconds / max(row.seeds, 1)),
            *((Cell(row.remark),) if remarks else ()),
        )
        for row in board.rows
    )
    columns = ("network", f"test {unit(metric)}", "± std", "seeds", f"validation {unit(metric)}", "depth", "weights")
    return Table(
        f"Test {unit(metric)}: {direction(metric)}. Mean and standard deviation over the seeds, at the epoch of best "
        "validation metric.",
        (*columns, "s an epoch", "one training", *(("remark",) if remarks else ())),
        rows,
        frozenset(place for place, row in enumerate(board.rows) if row.found),
        1,
        higher_is_better(metric),
        frozenset(range(1, 9)),
    )


def trainings_table(job: Job) -> Table:
    """Every network and seed on its own."""
    rows = tuple(_training(training, job.metric) for group in job.by_network().values() for training in group)
    metric = unit(job.metric)
    columns = ("network", "seed", "state", "epochs", "best epoch", f"train {metric}", f"validation {metric}")
    caption = f"{metric}: {direction(job.metric)}." if job.metric != "metric" else "Every training."
    return Table(caption, (*columns, f"test {metric}", "time"), rows, numeric=frozenset((1, *range(3, 9))))


def _training(training: Training, metric: str) -> tuple[Cell, ...]:
    result = training.result or {}
    last = training.history[-1] if training.history else {}
    val = result.get("val", last.get("val_metric"))
    train, test = result.get("train", last.get("train_metric")), result.get("test")
    seconds = result.get("seconds", last.get("seconds"))
    best = result.get("best_epoch")
    return (
        Cell(training.name),
        Cell(str(training.seed), training.seed),
        Cell("finished" if training.result else "unfinished"),
        Cell(str(len(training.history)), len(training.history)),
        Cell("–" if best is None else str(best), best),
        Cell(figure(metric, train), train),
        Cell(figure(metric, val), val),
        Cell(figure(metric, test), test),
        Cell(duration(seconds), seconds),
    )


def rounds_table(job: Job) -> Table:
    """The rounds of a depth search."""
    rows = []
    for number, one in enumerate(job.rounds, start=1):
        metric, seconds, searched = one.get("val_metric"), one.get("seconds"), one.get("searched")
        rows.append(
            (
                Cell(str(number), number),
                Cell(str(one.get("initial")), one.get("initial")),
                Cell("–" if searched is None else str(searched), searched),
                Cell(figure(job.metric, metric), metric),
                Cell(duration(seconds), seconds),
            )
        )
    columns = ("round", "cells at the start", "searched depth", f"validation {unit(job.metric)}", "time")
    return Table("The rounds of the depth search.", columns, tuple(rows), numeric=frozenset(range(5)))


def strategies_table(comparison: StrategyComparison) -> Table:
    """Strategies from best to worst, each at the end of its budget."""
    metric = comparison.metric
    rows = tuple(
        (
            Cell(row.strategy),
            Cell(spread(metric, row.best, row.std, row.seeds), row.best),
            Cell(figure(metric, row.halfway), row.halfway),
            Cell(str(row.seeds), row.seeds),
            Cell(f"{row.networks:.1f}", row.networks),
            Cell(f"{row.epochs:.0f}", row.epochs),
            Cell(duration(row.seconds), row.seconds),
            Cell(f"{row.num_weights:,.0f}", row.num_weights),
            Cell(f"{row.depth:.1f}", row.depth),
        )
        for row in comparison.rows()
    )
    columns = ("strategy", f"best validation {unit(metric)}", "at half the budget", "seeds", "networks tried")
    caption = f"{comparison.rule} Means over the seeds; {direction(metric)}."
    sizes = ("epochs", "time", "weights", "depth")
    return Table(caption, (*columns, *sizes), rows, frozenset(), 1, higher_is_better(metric), frozenset(range(1, 9)))


def splits_table(data: Mapping[str, Any]) -> Table:
    """Sizes of train, val and test."""
    rows = []
    for name, split in data.get("splits", {}).items():
        graphs = max(split["graphs"], 1)
        rows.append(
            (
                Cell(name),
                Cell(f"{split['graphs']:,}", split["graphs"]),
                Cell(f"{split['nodes']:,}", split["nodes"]),
                Cell(f"{split['edges']:,}", split["edges"]),
                Cell(f"{split['nodes'] / graphs:.1f}", split["nodes"] / graphs),
                Cell(f"{split['nodes_min']}–{split['nodes_max']}", split["nodes_max"]),
            )
        )
    columns = ("split", "graphs", "nodes", "edges", "nodes a graph", "smallest–largest")
    return Table("The splits of the data.", columns, tuple(rows), numeric=frozenset(range(1, 6)))


def values_table(caption: str, values: Mapping[str, Any]) -> Table:
    """Settings or versions by name; nested names are joined by a dot."""
    return Table(caption, ("name", "value"), tuple((Cell(name), Cell(text)) for name, text in _flat(values)))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{name}", ", ".join(map(str, value)) or "none"
        else:
            yield f"{prefix}{name}", str(value)


def runs_table(jobs: list[Job]) -> Table:
    """Several runs side by side, one in a row."""
    columns = (
        "run",
        "dataset",
        "state",
        "depth",
        "cells",
        "test metric",
        "best baseline",
        "verdict",
        "weights",
        "search",
    )
    rows = tuple(_run(job) for job in jobs)
    return Table("The runs compared.", columns, rows, numeric=frozenset((3, 4, 5, 8, 9)))


def _run(job: Job) -> tuple[Cell, ...]:
    board, genotype = job.leaderboard, job.genotype
    row = found_row(board) if board else None
    rival = best_baseline(board) if board else None
    metric = job.metric
    seconds = search_seconds(job)
    return (
        Cell(job.name),
        Cell(job.dataset),
        Cell(job.state),
        Cell(str(genotype.depth()), genotype.depth()) if genotype else Cell("–"),
        Cell(str(len(genotype)), len(genotype)) if genotype else Cell("–"),
        Cell(f"{spread(metric, row.mean, row.std, row.seeds)} {unit(metric)}", row.mean) if row else Cell("–"),
        Cell(f"{rival.name} {spread(metric, rival.mean, rival.std, rival.seeds)}") if rival else Cell("–"),
        Cell(verdict(metric, row, rival)) if row and rival else Cell("–"),
        Cell(f"{row.num_weights:,}", row.num_weights) if row else Cell("–"),
        Cell(duration(seconds), seconds),
    )
