"""The tables of a report that are made from a run's records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gnas.report.answer import best_baseline, found_row, search_seconds, verdict
from gnas.report.record import Job, Training
from gnas.run.leaderboard import Row
from gnas.run.table import NONE, Column, Table, show_count
from gnas.run.words import direction, duration, format_metric, format_spread, unit


def trainings_table(job: Job) -> Table[Training]:
    """One row per network and seed."""
    trainings = [training for group in job.by_network().values() for training in group]
    label, show = unit(job.metric), partial(format_metric, job.metric)
    columns = (
        Column[Training]("network", "name"),
        Column[Training]("seed", "seed"),
        Column[Training]("state", lambda one: "finished" if one.result else "unfinished"),
        Column[Training]("epochs", lambda one: len(one.history)),
        Column[Training]("best epoch", lambda one: (one.result or {}).get("best_epoch")),
        Column[Training](f"train {label}", lambda one: _latest(one, "train", "train_metric"), show),
        Column[Training](f"validation {label}", lambda one: _latest(one, "val", "val_metric"), show),
        Column[Training](f"test {label}", lambda one: (one.result or {}).get("test"), show),
        Column[Training]("time", lambda one: _latest(one, "seconds", "seconds"), duration),
    )
    caption = f"{label}: {direction(job.metric)}." if job.metric != "metric" else "Every training."
    return Table(columns, trainings, caption)


def _latest(training: Training, in_result: str, in_history: str) -> Any:
    """A figure of the result, or of the last epoch where the training is not finished."""
    last = training.history[-1] if training.history else {}
    return (training.result or {}).get(in_result, last.get(in_history))


def rounds_table(job: Job) -> Table[tuple[int, Mapping[str, Any]]]:
    """One row per round of a depth search."""
    Numbered = Column[tuple[int, Mapping[str, Any]]]
    columns = (
        Numbered("round", lambda one: one[0]),
        Numbered("cells at the start", lambda one: one[1].get("initial")),
        Numbered("searched depth", lambda one: one[1].get("searched")),
        Numbered(
            f"validation {unit(job.metric)}", lambda one: one[1].get("val_metric"), partial(format_metric, job.metric)
        ),
        Numbered("time", lambda one: one[1].get("seconds"), duration),
    )
    return Table(columns, list(enumerate(job.rounds, start=1)), "The rounds of the depth search.")


def splits_table(data: Mapping[str, Any]) -> Table[Mapping[str, Any]]:
    """One row per split: how many graphs, nodes and edges it has."""
    Split = Column[Mapping[str, Any]]
    columns = (
        Split("split", "name"),
        Split("graphs", "graphs", show_count),
        Split("nodes", "nodes", show_count),
        Split("edges", "edges", show_count),
        Split("nodes per graph", lambda split: split["nodes"] / max(split["graphs"], 1), "{:.1f}".format),
        Split("smallest to largest", "nodes_max", text=lambda split: f"{split['nodes_min']} to {split['nodes_max']}"),
    )
    rows = [{"name": name, **split} for name, split in data.get("splits", {}).items()]
    return Table(columns, rows, "The splits of the data.")


def values_table(caption: str, values: Mapping[str, Any]) -> Table[Any]:
    """Settings or versions by name; nested names are joined by a dot."""
    return Table.from_tuples(("name", "value"), _flatten(values), caption)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def runs_table(jobs: list[Job]) -> Table[Job]:
    """One row per run."""
    columns = (
        Column[Job]("run", "name"),
        Column[Job]("dataset", "dataset"),
        Column[Job]("state", "state"),
        Column[Job]("depth", lambda job: job.genotype.depth() if job.genotype else None),
        Column[Job]("cells", lambda job: len(job.genotype) if job.genotype else None),
        Column[Job]("test metric", lambda job: row.mean if (row := _found(job)) else None, text=_test_metric),
        Column[Job]("best baseline", _baseline),
        Column[Job]("verdict", _verdict),
        Column[Job]("weights", lambda job: row.num_weights if (row := _found(job)) else None, show_count),
        Column[Job]("search", search_seconds, duration),
    )
    return Table(columns, jobs, "The runs compared.")


def _found(job: Job) -> Row | None:
    return found_row(job.leaderboard) if job.leaderboard else None


def _rival(job: Job) -> Row | None:
    return best_baseline(job.leaderboard) if job.leaderboard else None


def _test_metric(job: Job) -> str:
    row = _found(job)
    return f"{format_spread(job.metric, row.mean, row.std, row.seeds)} {unit(job.metric)}" if row else NONE


def _baseline(job: Job) -> str:
    row = _rival(job)
    return f"{row.name} {format_spread(job.metric, row.mean, row.std, row.seeds)}" if row else NONE


def _verdict(job: Job) -> str:
    row, rival = _found(job), _rival(job)
    return verdict(job.metric, row, rival) if row and rival else NONE
