"""Plots of what happened epoch by epoch: how choices formed, how deep the network was, how it learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gnas.arch.formula import PAPER_AGGREGATORS
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.report.axes import head, legend, line, marks, sheet, whole_counts, whole_epochs
from gnas.report.palette import FAINT, INK, LIGHT, SERIES, look_of, sort_operations
from gnas.run.words import direction, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
T = TypeVar("T")


def alpha_trajectories(history: Sequence[Record], space: SearchSpace, level: int = 2) -> Figure:
    """How the choices of a level formed: for each cell, the softmax weight of each candidate, averaged over its links.

    The shade spans the least and the most decided link.
    """
    records = _thinned([record for record in history if record.get("alphas")])
    if not records:
        raise InputError("this history holds no alphas; only the gradient strategies write them")
    links = [n for n, link in enumerate(space.links()) if space.level(link.target) == level]
    candidates = space.links()[links[0]].candidates
    cells = len(records[0]["alphas"])
    columns = min(2, cells)
    rows = math.ceil(cells / columns)
    figure, axes = sheet(rows, columns, height=0.9 + 1.5 * rows, share=True)
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
            handles += panel.plot(epochs, mean, **line(look), **marks(len(epochs)))
        panel.set_title(f"cell {cell + 1}")
        whole_epochs(panel)
    for panel in axes[cells:]:
        panel.set_visible(False)
    figure.supxlabel("epoch", fontsize=10, color=LIGHT[INK])
    figure.supylabel("softmax weight (0 to 1)", fontsize=10, color=LIGHT[INK])
    legend(figure, handles, candidates, loc="outside upper center", ncols=len(candidates))
    return figure


def operation_counts(history: Sequence[Record]) -> Figure:
    """How many places of level 2 each operation holds, epoch by epoch. Identity taking over is a collapse."""
    figure, (panel,) = sheet()
    handles, names = draw_counts(panel, history)
    panel.set_xlabel("epoch")
    head(panel, "places on level 2")
    legend(figure, handles, names, loc="outside upper center", ncols=len(names))
    return figure


def draw_counts(panel: Axes, history: Sequence[Record]) -> tuple[list[Any], list[str]]:
    """Stack the counts of level 2 on a panel; returns what a legend needs."""
    records = [record for record in history if "second_level" in record]
    if not records:
        raise InputError("this history holds no counts of operations")
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
    whole_epochs(panel)
    whole_counts(panel)
    return handles, names


def depth_trajectory(history: Sequence[Record], cells: int | None = None, step: str = "epoch") -> Figure:
    """Message-passing depth of the genotype of every epoch (or ``step``), against the number of cells."""
    records = [record for record in history if "depth" in record]
    if not records:
        raise InputError("this history holds no depths")
    figure, (panel,) = sheet()
    epochs = [record["epoch"] for record in records]
    look = line(SERIES[0]) | {"marker": "o"}
    panel.step(epochs, [record["depth"] for record in records], where="mid", **look, **marks(len(epochs)))
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
    head(panel, "message-passing depth (cells)")
    whole_epochs(panel)
    whole_counts(panel)
    return figure


def depth_rounds(rounds: Sequence[Record]) -> Figure:
    """The depth search round by round: cells it began with, and cells that aggregate in what it found."""
    figure, (panel,) = sheet()
    numbers = list(range(1, len(rounds) + 1))
    handles = []
    for key, look in (("initial", SERIES[5]), ("searched", SERIES[0])):
        depths = [math.nan if one.get(key) is None else one[key] for one in rounds]
        handles += panel.plot(numbers, depths, **line(look), markersize=7)
    panel.set_ylim(bottom=0)
    panel.set_xlabel("round")
    head(panel, "message-passing depth (cells)")
    whole_epochs(panel)
    whole_counts(panel)
    legend(figure, handles, ("cells at the start", "searched depth"), loc="outside upper center", ncols=2)
    return figure


def training_curves(
    runs: Mapping[str, Sequence[Sequence[Record]]], metric: str, key: str = "val_metric", step: str = "epoch"
) -> Figure:
    """A figure of every epoch (or ``step``) by network: the mean over its seeds, shaded from lowest to highest."""
    figure, (panel,) = sheet()
    handles, names = [], []
    for number, (name, histories) in enumerate(runs.items()):
        byepoch: dict[int, list[float]] = {}
        for record in (record for history in histories for record in history if record.get(key) is not None):
            byepoch.setdefault(record["epoch"], []).append(record[key])
        look, epochs = SERIES[number % len(SERIES)], _thinned(sorted(byepoch), 250)
        if not epochs:
            continue
        values = [byepoch[epoch] for epoch in epochs]
        if len(histories) > 1:
            low, high = [min(v) for v in values], [max(v) for v in values]
            panel.fill_between(epochs, low, high, color=look.colour, alpha=0.12, linewidth=0)
        handles += panel.plot(epochs, [sum(v) / len(v) for v in values], **line(look), **marks(len(epochs)))
        names.append(name)
    panel.set_xlabel(step)
    head(panel, _axis(key, metric))
    whole_epochs(panel)
    if len(names) > 1:
        legend(figure, handles, names, loc="outside upper center", ncols=min(len(names), 4))
    return figure


def _axis(key: str, metric: str) -> str:
    split, _, what = key.partition("_")
    split = {"val": "validation", "train": "training"}.get(split, split)
    return f"{split} loss (lower is better)" if what == "loss" else f"{split} {unit(metric)} ({direction(metric)})"


def _thinned(items: list[T], most: int = 60) -> list[T]:
    """At most about ``most`` of them, evenly, the last included: more points than pixels only make a file larger."""
    stride = math.ceil(len(items) / most) or 1
    return items[(len(items) - 1) % stride :: stride]


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]
