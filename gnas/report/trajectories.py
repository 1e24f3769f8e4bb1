"""Plots by epoch: the weights of candidates, the chosen operations, the depth, the metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gnas.arch.operation import PAPER_AGGREGATORS
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.report.axes import (
    add_legend,
    line_style,
    new_figure,
    set_heading,
    space_markers,
    use_whole_counts,
    use_whole_epochs,
)
from gnas.report.palette import FAINT, INK, LIGHT, SERIES, look_of, sort_operations
from gnas.run.record import RoundRecord
from gnas.run.words import describe_direction, label_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
T = TypeVar("T")


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
            values = [[link[place] for link in epoch] for epoch in shares]
            look = look_of(name)
            panel.fill_between(
                epochs, [min(v) for v in values], [max(v) for v in values], color=look.colour, alpha=0.12, linewidth=0
            )
            mean = [sum(v) / len(v) for v in values]
            handles += panel.plot(epochs, mean, **line_style(look), **space_markers(len(epochs)))
        panel.set_title(f"cell {cell + 1}")
        use_whole_epochs(panel)
    for panel in axes[cells:]:
        panel.set_visible(False)
    figure.supxlabel("epoch", fontsize=10, color=LIGHT[INK])
    figure.supylabel("softmax weight (0 to 1)", fontsize=10, color=LIGHT[INK])
    add_legend(figure, handles, candidates, loc="outside upper center", ncols=min(len(candidates), 4))
    return figure


def draw_operation_counts(history: Sequence[Record]) -> Figure:
    """Number of links on level 2 by operation and epoch. A collapse shows as identity on almost all links."""
    figure, (panel,) = new_figure()
    handles, names = fill_operation_counts(panel, history)
    panel.set_xlabel("epoch")
    set_heading(panel, "links on level 2")
    add_legend(figure, handles, names, loc="outside upper center", ncols=min(len(names), 4))
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
        look: dict[str, Any] = {
            "facecolor": look_of(name).colour,
            "hatch": look_of(name).hatch,
            "edgecolor": "white",
            "linewidth": 0.8,
        }
        handles.append(panel.stairs(top, edges, baseline=floor, fill=True, **look))
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
    epochs = [record["epoch"] for record in records]
    look = line_style(SERIES[0]) | {"marker": "o"}
    panel.step(epochs, [record["depth"] for record in records], where="mid", **look, **space_markers(len(epochs)))
    if cells:
        panel.axhline(cells, color=LIGHT[FAINT], linestyle=(0, (4, 3)), linewidth=1.2)
        panel.annotate(
            f"number of cells: {cells}",
            (0.99, cells),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=9,
            color=LIGHT[INK],
        )
    panel.set_ylim(0, max([cells or 1, *(record["depth"] for record in records)]) * 1.18)
    panel.set_xlabel(step)
    set_heading(panel, "message-passing depth (cells)")
    use_whole_epochs(panel)
    use_whole_counts(panel)
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
    panel.set_xlabel("round")
    set_heading(panel, "message-passing depth (cells)")
    use_whole_epochs(panel)
    use_whole_counts(panel)
    add_legend(figure, handles, ("cells at the start", "searched depth"), loc="outside upper center", ncols=2)
    return figure


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
        look, epochs = SERIES[number % len(SERIES)], _thin(sorted(by_epoch), 250)
        if not epochs:
            continue
        values = [by_epoch[epoch] for epoch in epochs]
        if len(histories) > 1:
            low, high = [min(v) for v in values], [max(v) for v in values]
            panel.fill_between(epochs, low, high, color=look.colour, alpha=0.12, linewidth=0)
        handles += panel.plot(
            epochs, [sum(v) / len(v) for v in values], **line_style(look), **space_markers(len(epochs))
        )
        names.append(name)
    panel.set_xlabel(step)
    set_heading(panel, _axis(key, metric))
    use_whole_epochs(panel)
    if len(names) > 1:
        add_legend(figure, handles, names, loc="outside upper center", ncols=min(len(names), 4))
    return figure


def _axis(key: str, metric: str) -> str:
    split, _, what = key.partition("_")
    split = {"val": "validation", "train": "training"}.get(split, split)
    if what == "loss":
        return f"{split} loss (lower is better)"
    return f"{split} {label_metric(metric)} ({describe_direction(metric)})"


def _thin(items: list[T], most: int = 60) -> list[T]:
    """At most about ``most`` items, evenly spaced, with the last one. More points than pixels only make files larger."""
    stride = math.ceil(len(items) / most) or 1
    return items[(len(items) - 1) % stride :: stride]


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]
