"""Pictures of a run for its page: plots with captions, and drawings of the architecture by epoch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnas.arch.genotype import CellGenotype, Genotype
from gnas.errors import InputError
from gnas.model.task import higher_is_better
from gnas.printed import format_count
from gnas.report import plots
from gnas.report.answer import search_seconds
from gnas.report.axes import inline_svg
from gnas.report.draw import count_rows, layout_cell
from gnas.report.progress import Racer, list_racers
from gnas.report.shapes import to_svg
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.record import RunRecord, read_run
from gnas.run.words import name_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWING_LIMIT = 1_500_000  # letters of drawings in one report
SEEDS = "Lines are means over the seeds. Shades span the lowest and the highest seed."
DEVIATION = "Points are means over the seeds. Bars show one standard deviation."
RACE = "Race: validation metric by trained epochs"
RACE_CAPTION = (
    "A line per candidate, a point per rung. The leaders have colours. Of many points the worst tenth is cut off."
)
LINKS = "Lines are means over the links of a cell. Shades span the lowest and the highest link."

Plots = Iterator[tuple[str, str, "Figure"]]  # title, caption, figure


# -- plots -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """A plot as SVG for a page, with its title and a caption that says how to read it."""

    title: str
    caption: str
    svg: str


def make_pictures(run: RunRecord) -> list[Picture]:
    """Every plot for which the run has records."""
    return _to_pictures(_plot_run(run), run.name)


def save_pictures(folder: str | Path, out: str | Path) -> list[Path]:
    """Write every plot of a run folder into another folder, each as ``.svg`` and ``.png``, and return their paths.

    >>> from gnas.report.pictures import save_pictures
    >>> sorted(path.name for path in save_pictures("runs/mine", "pictures"))[:2]  # doctest: +SKIP
    ['aggregators-by-epoch.png', 'aggregators-by-epoch.svg']
    """
    run, written = read_run(folder), []
    for title, _, figure in _plot_run(run):
        name = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
        written += [plots.save_plot(figure, Path(out) / f"{name}{kind}") for kind in (".svg", ".png")]
    return written


def _plot_run(run: RunRecord) -> Plots:
    yield from (*_plot_strategies(run), *_plot_board(run), *_plot_trainings(run), *_plot_search(run))


def make_live_pictures(run: RunRecord, racers: list[Racer]) -> list[Picture]:
    """The plots that a live view shows: the leaders of a race, or the search, and the trainings."""
    made = [(RACE, RACE_CAPTION, plots.draw_race_curves(racers, run.metric))] if racers else [*_plot_search(run)][:3]
    return _to_pictures([*made, *_plot_trainings(run)], run.name)


def make_comparison_pictures(runs: list[RunRecord]) -> list[Picture]:
    """Plots across several runs."""
    made = [
        (f"{board.dataset}: all networks", DEVIATION, plots.draw_leaderboard(board)) for board in _merge_boards(runs)
    ]
    genotypes = {run.name: run.genotype for run in runs if run.genotype is not None}
    if genotypes:
        caption = "Number of links by operation: filters on levels 1 and 3, aggregators on level 2."
        made.append(("Operations", caption, plots.draw_operations(genotypes)))
    return _to_pictures(made, "runs")


def _to_pictures(made: Iterable[tuple[str, str, Figure]], name: str) -> list[Picture]:
    return [
        Picture(title, caption, inline_svg(figure, f"{name}-{number}", title))
        for number, (title, caption, figure) in enumerate(made)
    ]


def _merge_boards(runs: list[RunRecord]) -> Iterator[Leaderboard]:
    """One leaderboard for all runs on the same dataset and metric."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for run in runs:
        for row in run.leaderboard.rows if run.leaderboard else ():
            named = replace(row, name=f"{row.name} ({run.name})")
            groups.setdefault((run.dataset, run.metric), []).append(named)
    for (dataset, metric), rows in groups.items():
        rows.sort(key=lambda row: row.mean, reverse=higher_is_better(metric))
        yield Leaderboard(dataset, metric, tuple(rows))


def _plot_strategies(run: RunRecord) -> Plots:
    if run.strategies is not None:
        caption = "Lines are means over the seeds and begin where every seed has a network."
        caption += " Shades span the lowest and the highest seed."
        yield "Best network so far against cost", caption, plots.draw_best_so_far(run.strategies)


def _plot_board(run: RunRecord) -> Plots:
    board = run.leaderboard
    if board is None or not board.rows:
        return
    yield "Leaderboard", DEVIATION, plots.draw_leaderboard(board)
    if all(row.seconds > 0 for row in board.rows):
        caption = "The cost is the time of one training. The hollow marker adds the time of the search."
        yield "Quality against cost", caption, plots.draw_cost(board, search_seconds(run))


def _plot_trainings(run: RunRecord) -> Plots:
    histories = {name: [training.history for training in group] for name, group in run.by_network().items()}
    if any(history for group in histories.values() for history in group):
        yield "Training: validation metric", SEEDS, plots.draw_training_curves(histories, run.metric)
        yield "Training: training loss", SEEDS, plots.draw_training_curves(histories, run.metric, "train_loss")


def _plot_search(run: RunRecord) -> Plots:
    history, step = run.history, run.step
    if run.rounds:
        caption = "The depth search ends when a round finds the depth it started with."
        yield "Depth search", caption, plots.draw_depth_rounds(run.rounds)
    if not history:
        return
    racers = list_racers(run)
    if racers:
        yield RACE, RACE_CAPTION, plots.draw_race_curves(racers, run.metric)
    elif step == "trial":
        best = [{"epoch": record["epoch"], "val_metric": record.get("best_val_metric")} for record in history]
        curves = plots.draw_training_curves({"each trial": [history], "best so far": [best]}, run.metric, step=step)
        yield "Search: validation metric", "Each trial trains one candidate.", curves
    else:
        caption = "The metric of the supernet, which mixes all operations by their weights."
        yield "Search: validation metric", caption, plots.draw_training_curves({"supernet": [history]}, run.metric)
    if any("depth" in record for record in history) and not racers:
        cells = len(run.genotype) if run.genotype is not None else None
        caption = "Number of cells with an aggregation that reaches the output."
        yield f"Depth by {step}", caption, plots.draw_depth(history, cells, step)
    if any("second_level" in record for record in history):
        caption = "Number of links on level 2 by operation. If identity takes almost all of them, the search collapsed."
        yield f"Aggregators by {step}", caption, plots.draw_operation_counts(history)
    if run.genotype is not None:
        caption = "Number of links by operation: filters on levels 1 and 3, aggregators on level 2."
        yield "Operations of the network", caption, plots.draw_operations({run.name: run.genotype})
    space = run.space()
    if space is not None:
        yield "Weights of the aggregators (level 2)", LINKS, plots.draw_alphas(history, space, 2)
        yield "Weights of the first filters (level 1)", LINKS, plots.draw_alphas(history, space, 1)
        yield "Weights of the last filters (level 3)", LINKS, plots.draw_alphas(history, space, 3)


# -- drawings by epoch -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """One position of the slider: the drawing of each cell by number, and the text above them."""

    label: str
    drawings: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Frames:
    """Each different drawing once, as (SVG, formula), and the frames that show them. ``left_out`` epochs have none."""

    drawings: tuple[tuple[str, str], ...]
    frames: tuple[Frame, ...]
    left_out: int = 0


def build_frames(run: RunRecord, limit: int = DRAWING_LIMIT) -> Frames:
    """One frame per epoch of the search and one for its result. Evenly spaced epochs are left out above the limit."""
    steps = _list_steps(run)
    rows = count_rows(cell for _, genotype, _ in steps for cell in genotype)
    for stride in (1, 2, 3, 5, 10, 20, 50, 100, 1000):
        shown = [step for place, step in enumerate(steps) if (len(steps) - 1 - place) % stride == 0]
        drawings, numbers = draw_each_cell((genotype for _, genotype, _ in shown), rows)
        if sum(len(picture) + len(formula) for picture, formula in drawings) <= limit:
            break
    frames = []
    for place, (label, genotype, record) in enumerate(shown):
        before = shown[place - 1][1] if place else None
        cells = tuple(numbers[number, cell] for number, cell in enumerate(genotype, start=1))
        frames.append(Frame(label, cells, _describe_step(label, genotype, record, before, run.metric)))
    return Frames(drawings, tuple(frames), len(steps) - len(shown))


def _list_steps(run: RunRecord) -> list[tuple[str, Genotype, dict[str, Any]]]:
    """Label, genotype and record of every epoch (or trial) whose genotype can be drawn."""
    known: dict[str, Genotype | None] = {}
    steps = []
    for record in run.history:
        text = record.get("genotype") or ""
        if text not in known:
            known[text] = read_genotype(text)
        genotype = known[text]
        if genotype is not None:
            steps.append((f"{run.step.capitalize()} {record['epoch']}", genotype, record))
    if run.genotype is not None and (not steps or steps[-1][1] != run.genotype):
        steps.append(("Final architecture" if run.search else "Architecture so far", run.genotype, {}))
    return steps


def read_genotype(text: str) -> Genotype | None:
    """A genotype, or None for an architecture that is not made of GAP cells."""
    try:
        return Genotype.from_yaml(text) if text else None
    except InputError:
        return None


def draw_each_cell(
    genotypes: Iterable[Genotype], rows: tuple[int, int]
) -> tuple[tuple[tuple[str, str], ...], dict[tuple[int, CellGenotype], int]]:
    """Each different cell once, as (SVG, formula), and the place of each cell among these drawings."""
    places: dict[tuple[int, CellGenotype], int] = {}
    for genotype in genotypes:
        for key in enumerate(genotype, start=1):
            places.setdefault(key, len(places))
    pictures = (layout_cell(cell, number, rows=rows, formula=False, legend=False) for number, cell in places)
    formulas = (str(cell.tree()) for _, cell in places)
    return tuple((to_svg(one, page=True), text) for one, text in zip(pictures, formulas, strict=True)), places


def _describe_step(label: str, genotype: Genotype, record: dict[str, Any], before: Genotype | None, metric: str) -> str:
    parts = [label, f"depth {genotype.depth()}"]
    if record.get("val_metric") is not None:
        parts.append(f"validation {name_metric(metric, record['val_metric'])}")
    if before is not None:
        pairs = zip(genotype.cells, before.cells, strict=False)
        changed = sum(len(set(new.links) - set(old.links)) for new, old in pairs)
        parts.append(f"{format_count(changed, 'link')} changed" if changed else "no change")
    return " · ".join(parts)
