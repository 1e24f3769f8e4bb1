"""The curves of a report: which plots a job has material for, each with a word on how to read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnas.model.task import higher_is_better
from gnas.report import plots
from gnas.report.answer import search_seconds
from gnas.report.axes import inline_svg
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A plot as SVG for a page, with its title and how to read it."""

    title: str
    caption: str
    svg: str


def job_pictures(job: RunRecord) -> list[Picture]:
    """Every plot this job has material for."""
    made = [*_strategies(job), *_comparison(job), *_training(job), *_search(job)]
    return [
        Picture(title, caption, inline_svg(figure, f"{job.name}-{n}", title))
        for n, (title, caption, figure) in enumerate(made)
    ]


def comparison_pictures(jobs: list[RunRecord]) -> list[Picture]:
    """Plots across several runs."""
    made = []
    for board in _merged(jobs):
        title = f"{board.dataset}: all networks"
        made.append((title, "Mean over the seeds; the bar is one standard deviation.", plots.leaderboard(board)))
    genotypes = {job.name: job.genotype for job in jobs if job.genotype is not None}
    if genotypes:
        caption = "How often each operation was chosen: filters on levels 1 and 3, aggregators on level 2."
        made.append(("Operations chosen", caption, plots.operation_distribution(genotypes)))
    return [
        Picture(title, caption, inline_svg(figure, f"runs-{n}", title))
        for n, (title, caption, figure) in enumerate(made)
    ]


def _merged(jobs: list[RunRecord]) -> Iterator[Leaderboard]:
    """One leaderboard for all runs on the same dataset and metric."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for job in jobs:
        board = job.leaderboard
        for row in board.rows if board else ():
            name = f"{row.name} ({job.name})"
            groups.setdefault((job.dataset, job.metric), []).append(dataclasses.replace(row, name=name))
    for (dataset, metric), rows in groups.items():
        rows.sort(key=lambda row: row.mean, reverse=higher_is_better(metric))
        yield Leaderboard(dataset, metric, tuple(rows))


def _comparison(job: RunRecord) -> Iterator[tuple[str, str, Figure]]:
    board = job.leaderboard
    if board is None or not board.rows:
        return
    yield "Leaderboard", "Mean over the seeds; the bar is one standard deviation.", plots.leaderboard(board)
    if all(row.seconds > 0 for row in board.rows):
        caption = "Seconds of one training; hollow: with the search that found the network added."
        yield "Cost against quality", caption, plots.cost_against_quality(board, search_seconds(job))


def _strategies(job: RunRecord) -> Iterator[tuple[str, str, Figure]]:
    if job.strategies is not None:
        caption = "Mean over the seeds from where all have a network; the shade spans the lowest and the highest."
        yield "Best network so far against cost", caption, plots.best_so_far(job.strategies)


def _training(job: RunRecord) -> Iterator[tuple[str, str, Figure]]:
    runs = {name: [training.history for training in group] for name, group in job.by_network().items()}
    if not any(history for histories in runs.values() for history in histories):
        return
    caption = "Mean over the seeds; the shade spans the lowest and the highest."
    yield "Training: validation metric", caption, plots.training_curves(runs, job.metric)
    yield "Training: training loss", caption, plots.training_curves(runs, job.metric, "train_loss")


def _search(job: RunRecord) -> Iterator[tuple[str, str, Figure]]:
    history, step = job.history, job.step
    if job.rounds:
        yield (
            "Depth search",
            "Rounds end when the searched depth is the one it began with.",
            plots.depth_rounds(job.rounds),
        )
    if not history:
        return
    if step == "trial":
        best = [{"epoch": record["epoch"], "val_metric": record.get("best_val_metric")} for record in history]
        runs = {"each trial": [history], "best so far": [best]}
        yield "Search: validation metric", "Candidates in turn.", plots.training_curves(runs, job.metric, step=step)
    else:
        curves = plots.training_curves({"supernet": [history]}, job.metric)
        yield "Search: validation metric", "The supernet, all operations mixed by their weights.", curves
    if any("depth" in record for record in history):
        cells = len(job.genotype) if job.genotype is not None else None
        caption = "Cells in which some aggregation reaches the output."
        yield "Depth as the search went on", caption, plots.depth_trajectory(history, cells, step)
    if any("second_level" in record for record in history):
        caption = "Places of level 2 by operation. Identity taking over would be a collapse."
        yield "Aggregators as the search went on", caption, plots.operation_counts(history)
    if job.genotype is not None:
        caption = "Filters stand on levels 1 and 3, aggregators on level 2."
        yield "Operations of the network", caption, plots.operation_distribution({job.name: job.genotype})
    space = job.space()
    if space is not None:
        caption = "Mean over the links of a cell; the shade spans the least and the most decided link."
        yield "Weights of the aggregators (level 2)", caption, plots.alpha_trajectories(history, space, 2)
        yield "Weights of the first filters (level 1)", caption, plots.alpha_trajectories(history, space, 1)
        yield "Weights of the last filters (level 3)", caption, plots.alpha_trajectories(history, space, 3)
