"""Plots of networks and strategies. Each function returns a matplotlib figure; ``save_plot`` writes it to SVG or PNG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gnas.arch.genotype import Genotype
from gnas.arch.operation import operation_names
from gnas.report.axes import (
    WIDTH,
    add_legend,
    line_style,
    new_figure,
    save_plot,
    set_heading,
    use_log_axis,
    use_whole_counts,
)
from gnas.report.palette import INK, LIGHT, SERIES, look_of, sort_operations
from gnas.report.trajectories import (
    draw_alphas,
    draw_depth,
    draw_depth_rounds,
    draw_operation_counts,
    draw_training_curves,
)
from gnas.run.leaderboard import Leaderboard
from gnas.run.strategy_curves import StrategyComparison
from gnas.run.words import describe_direction, label_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "draw_alphas",
    "draw_best_so_far",
    "draw_cost",
    "draw_depth",
    "draw_depth_rounds",
    "draw_leaderboard",
    "draw_operation_counts",
    "draw_operations",
    "draw_training_curves",
    "save_plot",
]


def draw_operations(genotypes: Mapping[str, Genotype]) -> Figure:
    """How often each genotype has each operation: filters on levels 1 and 3, aggregators on level 2."""
    figure, axes = new_figure(1, 2, share=False)
    for panel, title, levels in zip(axes, ("filters", "aggregators"), ((1, 3), (2,)), strict=True):
        counts = {name: _level_counts(genotype, levels) for name, genotype in genotypes.items()}
        usual = {"identity", *operation_names("filter" if levels == (1, 3) else "aggregator", in_paper=True)}
        names = sort_operations(usual.union(*counts.values()))
        width = 0.8 / max(len(counts), 1)
        handles = []
        for series, found in enumerate(counts.values()):
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
        panel.set_title(title)
        panel.margins(y=0.15)
        use_whole_counts(panel)
    axes[0].set_ylabel("links", fontsize=10)
    if len(genotypes) > 1:
        add_legend(figure, handles, list(genotypes), loc="outside upper center", ncols=min(len(genotypes), 4))
    return figure


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
    panel.set_xlabel(f"test {label_metric(board.metric)} ({describe_direction(board.metric)})")
    return figure


def draw_cost(board: Leaderboard, search_seconds: float | None = None) -> Figure:
    """Test metric against the seconds of one training. A hollow marker shows the searched network with its search."""
    figure, (panel,) = new_figure()
    for number, row in enumerate(sorted(board.rows, key=lambda row: not row.found)):
        look = SERIES[number % len(SERIES)]
        x = row.seconds / max(row.seeds, 1)
        mark: dict[str, Any] = {
            "color": look.colour,
            "marker": "D" if row.found else "o",
            "markersize": 9,
            "linestyle": "none",
        }
        panel.plot([x], [row.mean], **mark)
        offset: dict[str, Any] = {"xytext": (8, 5), "textcoords": "offset points", "fontsize": 9, "color": LIGHT[INK]}
        panel.annotate(row.name, (x, row.mean), fontweight="bold" if row.found else "normal", **offset)
        if row.found and search_seconds:
            panel.plot([x, x + search_seconds], [row.mean] * 2, color=look.colour, linestyle=(0, (2, 2)), linewidth=1.2)
            panel.plot([x + search_seconds], [row.mean], **(mark | {"markerfacecolor": "none"}))
            panel.annotate("with search", (x + search_seconds, row.mean), **(offset | {"xytext": (8, -12)}))
    use_log_axis(panel)
    panel.margins(x=0.25, y=0.2)
    panel.set_xlabel("seconds of one training (log scale)")
    set_heading(panel, f"test {label_metric(board.metric)} ({describe_direction(board.metric)})")
    return figure


def draw_best_so_far(comparison: StrategyComparison) -> Figure:
    """Best validation metric so far against trained epochs and against seconds.

    A line is the mean over the seeds and begins where every seed has a network. The shade spans the lowest and highest.
    """
    figure, panels = new_figure(1, 2, width=2 * WIDTH, height=3.6)
    handles: list[object] = []
    for panel, (cost, label) in zip(panels, (("epochs", "trained epochs"), ("seconds", "seconds")), strict=True):
        handles = []
        for number, name in enumerate(comparison.strategies()):
            curve, look = comparison.curve(name, cost), SERIES[number % len(SERIES)]
            costs = [point.cost for point in curve]
            low, high = [point.low for point in curve], [point.high for point in curve]
            panel.fill_between(costs, low, high, step="post", color=look.colour, alpha=0.12, linewidth=0)
            drawn = line_style(look) | {"markersize": 5, "markeredgewidth": 1.2, "drawstyle": "steps-post"}
            drawn["markevery"] = max(1, len(curve) // 8)
            handles += panel.plot(costs, [point.mean for point in curve], **drawn)
        panel.set_xlim(left=0)
        panel.set_xlabel(label)
    set_heading(
        panels[0], f"best validation {label_metric(comparison.metric)} so far ({describe_direction(comparison.metric)})"
    )
    names = comparison.strategies()
    add_legend(figure, handles, names, loc="outside upper center", ncols=min(len(names), 6))
    return figure


def _level_counts(genotype: Genotype, levels: tuple[int, ...]) -> Counter[str]:
    return Counter(link.operation for cell in genotype for link in cell.links if cell.level(link.target) in levels)
