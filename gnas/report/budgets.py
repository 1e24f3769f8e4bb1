"""The plot of a comparison of strategies: the best network so far against what finding it has cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnas.report.axes import WIDTH, head, legend, line, sheet
from gnas.report.palette import SERIES
from gnas.run.strategy_curves import StrategyComparison
from gnas.run.words import direction, unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {"epochs": "trained epochs", "seconds": "seconds"}


def best_so_far(comparison: StrategyComparison) -> Figure:
    """Best validation metric so far against trained epochs and against seconds.

    A line is the mean over the seeds, from where every seed has a network; the shade spans the lowest and the highest.
    """
    figure, panels = sheet(1, 2, width=2 * WIDTH, height=3.6)
    handles: list[object] = []
    for panel, (cost, label) in zip(panels, LABELS.items(), strict=True):
        handles = []
        for number, name in enumerate(comparison.strategies()):
            curve, look = comparison.curve(name, cost), SERIES[number % len(SERIES)]
            costs = [point.cost for point in curve]
            low, high = [point.low for point in curve], [point.high for point in curve]
            panel.fill_between(costs, low, high, step="post", color=look.colour, alpha=0.12, linewidth=0)
            drawn = line(look) | {"markersize": 5, "markeredgewidth": 1.2, "drawstyle": "steps-post"}
            drawn["markevery"] = max(1, len(curve) // 8)
            handles += panel.plot(costs, [point.mean for point in curve], **drawn)
        panel.set_xlim(left=0)
        panel.set_xlabel(label)
    head(panels[0], f"best validation {unit(comparison.metric)} so far ({direction(comparison.metric)})")
    names = comparison.strategies()
    legend(figure, handles, names, loc="outside upper center", ncols=min(len(names), 6))
    return figure
