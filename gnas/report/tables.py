"""The tables of a report that are made from a run's records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from gnas.model.metrics import higher_is_better
from gnas.report.answer import best_baseline, found_row, judge_row, search_seconds
from gnas.run.folder import flatten_values
from gnas.run.record import RoundRecord, RunRecord, TrainingRecord
from gnas.run.table import NONE, Column, Table, show_count
from gnas.run.words import describe_direction, duration, format_metric, format_spread, label_metric, name_metric


def trainings_table(run: RunRecord) -> Table[TrainingRecord]:
    """One row per network and seed."""
    trainings = [training for group in run.by_network().values() for training in group]
    label, show = label_metric(run.metric), partial(format_metric, run.metric)
    Training = Column[TrainingRecord]
    columns = (
        Training("network", "name"),
        Training("seed", "seed"),
        Training("state", lambda one: "finished" if one.result else "unfinished"),
        Training("epochs", lambda one: len(one.history)),
        Training("best epoch", lambda one: one.result and one.result.best_epoch),
        Training(f"train {label}", lambda one: _latest(one, "train", "train_metric"), show),
        Training(f"validation {label}", lambda one: _latest(one, "val", "val_metric"), show),
        Training(f"test {label}", lambda one: one.result and one.result.test, show),
        Training("time", lambda one: _latest(one, "seconds", "seconds"), duration),
    )
    caption = f"{label}: {describe_direction(run.metric)}." if run.metric != "metric" else "Every training."
    return Table(columns, trainings, caption)


def _latest(training: TrainingRecord, in_result: str, in_history: str) -> Any:
    """A figure of the result, or of the last epoch where the training is not finished."""
    if training.result is not None:
        return getattr(training.result, in_result)
    return training.history[-1].get(in_history) if training.history else None


def ensemble_table(run: RunRecord) -> Table[Mapping[str, Any]]:
    """One row per member of an ensemble."""
    Member, found = Column[Mapping[str, Any]], run.ensemble or {}
    show = partial(format_metric, run.metric)
    columns = (
        Member("network", "name"),
        Member("seed", "seed"),
        Member("weight in the vote", "weight", "{:.0%}".format),
        Member(f"validation {label_metric(run.metric)}", "val", show),
    )
    members = found["members"]
    pick = max if higher_is_better(run.metric) else min
    best = pick((one["val"] for one in members if one["val"] is not None), default=None)
    caption = (
        f"Chosen on validation: {name_metric(run.metric, found['val'])}; its best member has {show(best)}. "
        f"On the test split it has {show(found['test'])}. All its networks together have {found['num_weights']:,} weights."
    )
    return Table(columns, sorted(members, key=lambda one: -one["weight"]), caption)


def rounds_table(run: RunRecord) -> Table[tuple[int, RoundRecord]]:
    """One row per round of a depth search."""
    Numbered = Column[tuple[int, RoundRecord]]
    columns = (
        Numbered("round", lambda one: one[0]),
        Numbered("cells at the start", lambda one: one[1].initial),
        Numbered("searched depth", lambda one: one[1].searched),
        Numbered(
            f"validation {label_metric(run.metric)}", lambda one: one[1].val_metric, partial(format_metric, run.metric)
        ),
        Numbered("time", lambda one: one[1].seconds, duration),
    )
    return Table(columns, list(enumerate(run.rounds, start=1)), "The rounds of the depth search.")


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
    return Table.from_tuples(("name", "value"), flatten_values(values).items(), caption)


def runs_table(runs: list[RunRecord]) -> Table[RunRecord]:
    """One row per run."""
    Run = Column[RunRecord]
    columns = (
        Run("run", "name"),
        Run("dataset", "dataset"),
        Run("state", "state"),
        Run("depth", lambda run: run.genotype and run.genotype.depth()),
        Run("cells", lambda run: run.genotype and len(run.genotype)),
        Run("test metric", lambda run: (row := found_row(run.leaderboard)) and row.mean, text=_test_metric),
        Run("best baseline", _baseline),
        Run("verdict", _verdict),
        Run("weights", lambda run: (row := found_row(run.leaderboard)) and row.num_weights, show_count),
        Run("search", search_seconds, duration),
    )
    return Table(columns, runs, "One row per run.")


def _test_metric(run: RunRecord) -> str:
    row = found_row(run.leaderboard)
    return f"{format_spread(run.metric, row.mean, row.std, row.seeds)} {label_metric(run.metric)}" if row else NONE


def _baseline(run: RunRecord) -> str:
    row = best_baseline(run.leaderboard)
    return f"{row.name} {format_spread(run.metric, row.mean, row.std, row.seeds)}" if row else NONE


def _verdict(run: RunRecord) -> str:
    row, rival = found_row(run.leaderboard), best_baseline(run.leaderboard)
    return judge_row(run.metric, row, rival) if row and rival else NONE
