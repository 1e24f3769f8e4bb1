"""Plots of networks, searches and trainings. Each function returns a matplotlib figure; ``save_plot`` writes it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gnas.arch.genotype import Genotype
from gnas.arch.operation import PAPER_AGGREGATORS, operation_names
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.model.metrics import higher_is_better
from gnas.report.axes import (
    SHADE,
    WIDTH,
    add_legend,
    line_style,
    name_axis,
    new_figure,
    plot_band,
    save_plot,
    set_heading,
    space_markers,
    use_log_axis,
    use_whole_counts,
    use_whole_epochs,
)
from gnas.report.palette import FAINT, INK, LIGHT, SERIES, look_of, sort_operations
from gnas.report.progress import Racer
from gnas.run.leaderboard import Leaderboard
from gnas.run.record import RoundRecord
from gnas.run.strategy_curves import StrategyComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
T = TypeVar("T")

__all__ = [
    "draw_alphas",
    "draw_best_so_far",
    "draw_cost",
    "draw_depth",
    "draw_depth_rounds",
    "draw_leaderboard",
    "draw_operation_counts",
    "draw_operations",
    "draw_race_curves",
    "draw_training_curves",
    "save_plot",
]

LEADERS = 5  # candidates of a race with a colour of their own
MANY = 20  # points of a race, of which the worst tenth is not shown

# -- networks --------------------------------------------------------------------------------------------------------


def draw_operations(genotypes: Mapping[str, Genotype]) -> Figure:
    """How often each genotype has each operation: filters on levels 1 and 3, aggregators on level 2."""
    figure, axes = new_figure(1, 2)
    handles: list[Any] = []
    for panel, kind, levels in zip(axes, ("filter", "aggregator"), ((1, 3), (2,)), strict=True):
        counts = [_level_counts(genotype, levels) for genotype in genotypes.values()]
        names = sort_operations({"identity", *operation_names(kind, in_paper=True)}.union(*counts))
        width = 0.8 / max(len(counts), 1)
        handles = []
        for series, found in enumerate(counts):
            places = [place + (series - (len(counts) - 1) / 2) * width for place in range(len(names))]
            looks = [look_of(name) if len(counts) == 1 else SERIES[series % len(SERIES)] for name in names]
            colours, hatches = [look.colour for look in looks], [look.hatch for look in looks]
            heights = [found[name] for name in names]
            bars = panel.bar(places, heights, width * 0.9, color=colours, hatch=hatches, edgecolor="white")
            panel.bar_label(bars, fontsize=8, color=LIGHT[INK])
            handles.append(bars)
        panel.set_xticks(range(len(names)), names)
        if len(names) > 3:  # side by side they would overlap
            panel.tick_params(axis="x", labelrotation=40, labelsize=8.5)
        panel.set_title(f"{kind}s")
        panel.margins(y=0.15)
        use_whole_counts(panel)
    axes[0].set_ylabel("links", fontsize=10)
    if len(genotypes) > 1:
        add_legend(figure, handles, list(genotypes))
    return figure


def _level_counts(genotype: Genotype, levels: tuple[int, ...]) -> Counter[str]:
    return Counter(link.operation for cell in genotype for link in cell.links if cell.level(link.target) in levels)


def draw_leaderboard(board: Leaderboard) -> Figure:
    """Test metric of every network with its standard deviation over the seeds, best on top. Searched ones are filled."""
    figure, (panel,) = new_figure(height=max(1.6, 0.9 + 0.38 * len(board.rows)))
    for place, row in enumerate(board.rows):
        look = SERIES[0] if row.found else SERIES[5]
        panel.errorbar(
            row.mean,
            place,
            xerr=row.std if row.seeds > 1 else None,
            fmt="D" if row.found else "o",
            markersize=8 if row.found else 7,
            markerfacecolor=look.colour if row.found else "none",
            color=look.colour,
            elinewidth=2,
            capsize=4,
        )
    panel.set_yticks(range(len(board.rows)), [row.name for row in board.rows])
    for tick, row in zip(panel.get_yticklabels(), board.rows, strict=True):
        tick.set_fontweight("bold" if row.found else "normal")
    panel.set_ylim(len(board.rows) - 0.5, -0.5)
    panel.margins(x=0.12)
    panel.set_xlabel(name_axis("test", board.metric))
    return figure


def draw_cost(board: Leaderboard, search_seconds: float | None = None) -> Figure:
    """Test metric against the seconds of one training. A hollow marker shows the searched network with its search."""
    figure, (panel,) = new_figure()
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "color": LIGHT[INK]}
    for number, row in enumerate(sorted(board.rows, key=lambda row: not row.found)):
        colour, x = SERIES[number % len(SERIES)].colour, row.seconds / max(row.seeds, 1)
        mark: dict[str, Any] = {"color": colour, "marker": "D" if row.found else "o"}
        mark |= {"markersize": 9, "linestyle": "none"}
        weight = "bold" if row.found else "normal"
        panel.plot([x], [row.mean], **mark)
        panel.annotate(row.name, (x, row.mean), fontweight=weight, xytext=(8, 5), **text)
        if row.found and search_seconds:
            end = x + search_seconds
            panel.plot([x, end], [row.mean] * 2, color=colour, linestyle=(0, (2, 2)), linewidth=1.2)
            panel.plot([end], [row.mean], **mark, markerfacecolor="none")
            panel.annotate("with search", (end, row.mean), xytext=(8, -12), **text)
    use_log_axis(panel)
    panel.margins(x=0.25, y=0.2)
    panel.set_xlabel("seconds of one training (log scale)")
    set_heading(panel, name_axis("test", board.metric))
    return figure


# -- searches --------------------------------------------------------------------------------------------------------


def draw_best_so_far(comparison: StrategyComparison) -> Figure:
    """Best validation metric so far against trained epochs and against seconds.

    A line is the mean over the seeds and begins where every seed has a network. The shade spans the lowest and highest.
    """
    figure, panels = new_figure(1, 2, width=2 * WIDTH, height=3.6)
    names, handles = comparison.strategies(), list[Any]()
    for panel, (cost, label) in zip(panels, (("epochs", "trained epochs"), ("seconds", "seconds")), strict=True):
        handles = []
        for number, name in enumerate(names):
            curve, look = comparison.curve(name, cost), SERIES[number % len(SERIES)]
            costs = [point.cost for point in curve]
            low, high = [point.low for point in curve], [point.high for point in curve]
            panel.fill_between(costs, low, high, step="post", color=look.colour, alpha=SHADE, linewidth=0)
            style = {**space_markers(len(curve)), "markevery": max(1, len(curve) // 8), "drawstyle": "steps-post"}
            handles += panel.plot(costs, [point.mean for point in curve], **line_style(look), **style)
        panel.set_xlim(left=0)
        panel.set_xlabel(label)
    set_heading(panels[0], name_axis("best validation", comparison.metric).replace(" (", " so far ("))
    add_legend(figure, handles, names, ncols=min(len(names), 6))
    return figure


def draw_race_curves(racers: Sequence[Racer], metric: str) -> Figure:
    """The validation metric by trained epochs: the leaders in colours, all others grey."""
    figure, (panel,) = new_figure(height=3.6)
    for one in racers[LEADERS:]:
        if one.points:
            panel.plot(*zip(*one.points, strict=True), color=LIGHT[FAINT], linewidth=0.9, alpha=0.4, marker=".", ms=3)
    handles, names = [], []
    for one, look in reversed(list(zip(racers[:LEADERS], SERIES, strict=False))):
        if one.points:
            handles += panel.plot(*zip(*one.points, strict=True), **line_style(look), markersize=5)
            names.append(one.title)
    use_log_axis(panel)
    panel.set_xlabel("trained epochs")
    set_heading(panel, name_axis("validation", metric))
    values = sorted((value for one in racers for _, value in one.points), reverse=higher_is_better(metric))
    if len(values) >= MANY:  # a failed start would flatten all curves
        best, limit = values[0], values[int(0.9 * (len(values) - 1))]
        room = math.copysign(0.06 * abs(limit - best) or 1.0, best - limit)
        panel.set_ylim(*sorted((best + room, limit - room)))
    if names:
        add_legend(figure, handles[::-1], names[::-1], ncols=1)
    return figure


def draw_alphas(history: Sequence[Record], space: SearchSpace, level: int = 2) -> Figure:
    """Softmax weight of each candidate of a level by epoch, one panel per cell.

    A line is the mean over the links of the cell. The shade spans the lowest and highest link.
    """
    records = _thin([record for record in history if record.get("alphas")])
    if not records:
        raise InputError("this history has no alphas; only gradient strategies record them")
    links = [n for n, link in enumerate(space.links()) if space.level(link.target) == level]
    candidates = space.links()[links[0]].candidates
    cells = len(records[0]["alphas"])
    columns = min(2, cells)
    rows = math.ceil(cells / columns)
    figure, axes = new_figure(rows, columns, height=0.9 + 1.5 * rows, share=True)
    epochs = [record["epoch"] for record in records]
    handles: list[Any] = []
    for cell, panel in enumerate(axes[:cells]):
        shares = [[_softmax(record["alphas"][cell][n]) for n in links] for record in records]
        handles = []
        for place, name in enumerate(candidates):
            handles += plot_band(panel, epochs, [[link[place] for link in epoch] for epoch in shares], look_of(name))
        panel.set_title(f"cell {cell + 1}")
        use_whole_epochs(panel)
    for panel in axes[cells:]:
        panel.set_visible(False)
    figure.supxlabel("epoch", fontsize=10, color=LIGHT[INK])
    figure.supylabel("softmax weight (0 to 1)", fontsize=10, color=LIGHT[INK])
    add_legend(figure, handles, candidates)
    return figure


def draw_operation_counts(history: Sequence[Record]) -> Figure:
    """Number of links on level 2 by operation and epoch. A collapse shows as identity on almost all links."""
    figure, (panel,) = new_figure()
    handles, names = fill_operation_counts(panel, history)
    panel.set_xlabel("epoch")
    set_heading(panel, "links on level 2")
    add_legend(figure, handles, names)
    return figure


def fill_operation_counts(panel: Axes, history: Sequence[Record]) -> tuple[list[Any], list[str]]:
    """Stack the counts of level 2 on a panel. Returns handles and names for a legend."""
    records = [record for record in history if "second_level" in record]
    if not records:
        raise InputError("this history has no counts of operations")
    epochs = [record["epoch"] for record in records]
    names = sort_operations({"identity", *PAPER_AGGREGATORS}.union(*(record["second_level"] for record in records)))
    edges = [epoch - 0.5 for epoch in epochs] + [epoch + 0.5 for epoch in epochs[-1:]]
    floor, handles = [0] * len(records), []
    for name in names:
        top = [low + record["second_level"].get(name, 0) for low, record in zip(floor, records, strict=True)]
        style: dict[str, Any] = {"facecolor": look_of(name).colour, "hatch": look_of(name).hatch}
        style |= {"edgecolor": "white", "linewidth": 0.8}
        handles.append(panel.stairs(top, edges, baseline=floor, fill=True, **style))
        floor = top
    panel.set_xlim(edges[0], edges[-1])
    use_whole_epochs(panel)
    use_whole_counts(panel)
    return handles, names


def draw_depth(history: Sequence[Record], cells: int | None = None, step: str = "epoch") -> Figure:
    """Message-passing depth of the genotype by epoch (or ``step``). A dashed line marks the number of cells."""
    records = [record for record in history if "depth" in record]
    if not records:
        raise InputError("this history has no depths")
    figure, (panel,) = new_figure()
    epochs, depths = [record["epoch"] for record in records], [record["depth"] for record in records]
    look = line_style(SERIES[0]) | {"marker": "o"}
    panel.step(epochs, depths, where="mid", **look, **space_markers(len(epochs)))
    if cells:
        panel.axhline(cells, color=LIGHT[FAINT], linestyle=(0, (4, 3)), linewidth=1.2)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        place |= {"xytext": (0, 4), "ha": "right", "va": "bottom"}
        panel.annotate(f"number of cells: {cells}", (0.99, cells), fontsize=9, color=LIGHT[INK], **place)
    panel.set_ylim(0, max([cells or 1, *depths]) * 1.18)
    _label_depth(panel, step)
    return figure


def draw_depth_rounds(rounds: Sequence[RoundRecord]) -> Figure:
    """Depths by round of a depth search: the number of cells at the start, and how many of them aggregate at the end."""
    figure, (panel,) = new_figure()
    numbers = list(range(1, len(rounds) + 1))
    handles = []
    for key, look in (("initial", SERIES[5]), ("searched", SERIES[0])):
        depths = [math.nan if (depth := getattr(one, key)) is None else depth for one in rounds]
        handles += panel.plot(numbers, depths, **line_style(look), markersize=7)
    panel.set_ylim(bottom=0)
    _label_depth(panel, "round")
    add_legend(figure, handles, ("cells at the start", "searched depth"))
    return figure


def _label_depth(panel: Axes, step: str) -> None:
    panel.set_xlabel(step)
    set_heading(panel, "message-passing depth (cells)")
    use_whole_epochs(panel)
    use_whole_counts(panel)


# -- trainings -------------------------------------------------------------------------------------------------------


def draw_training_curves(
    runs: Mapping[str, Sequence[Sequence[Record]]], metric: str, key: str = "val_metric", step: str = "epoch"
) -> Figure:
    """One line per network: the value of ``key`` by epoch (or ``step``), as the mean over the seeds.

    The shade spans the lowest and highest seed.
    """
    figure, (panel,) = new_figure()
    handles, names = [], []
    for number, (name, histories) in enumerate(runs.items()):
        by_epoch: dict[int, list[float]] = {}
        for record in (record for history in histories for record in history if record.get(key) is not None):
            by_epoch.setdefault(record["epoch"], []).append(record[key])
        epochs = _thin(sorted(by_epoch), 250)
        if epochs:
            look = SERIES[number % len(SERIES)]
            handles += plot_band(panel, epochs, [by_epoch[epoch] for epoch in epochs], look)
            names.append(name)
    panel.set_xlabel(step)
    split, _, what = key.partition("_")
    split = {"val": "validation", "train": "training"}.get(split, split)
    set_heading(panel, f"{split} loss (lower is better)" if what == "loss" else name_axis(split, metric))
    use_whole_epochs(panel)
    if len(names) > 1:
        add_legend(figure, handles, names)
    return figure


def _thin(items: list[T], most: int = 60) -> list[T]:
    """At most about ``most`` items, evenly spaced, with the last one. More points than pixels only make files larger."""
    stride = math.ceil(len(items) / most) or 1
    return items[(len(items) - 1) % stride :: stride]


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]
