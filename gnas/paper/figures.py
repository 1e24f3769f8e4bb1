"""The figures, drawn from finished runs as SVG and PNG files, with a caption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnas.paper.catalogue import Request, depth_runs, hand_made_run, list_depths, list_entries, search_run
from gnas.paper.lines import make_line, select_genotypes, summarise_run
from gnas.paper.published import DATASETS, HAND_MADE, TITLES
from gnas.paper.results import Results
from gnas.report import plots
from gnas.report.axes import (
    add_legend,
    line_style,
    new_figure,
    save_plot,
    set_heading,
    use_whole_counts,
    use_whole_epochs,
)
from gnas.report.draw import save_drawing
from gnas.report.palette import FAINT, LIGHT, SERIES
from gnas.report.trajectories import draw_operation_counts
from gnas.run.words import direction, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Rows of the figure on collapse: the name of each, and what its alphas are trained by.
ROWS = {"darts1": ("bilevel", "validation loss"), "single-level": ("single level", "training loss")}


@dataclass(frozen=True)
class Picture:
    """A figure that was written: its SVG file (a PNG is beside it) and its caption."""

    file: Path
    caption: str


def draw_figures(
    item: str, request: Request, results: Results, folder: Path, suffixes: tuple[str, ...] = (".svg", ".png")
) -> list[Picture]:
    """Write the figures of one item, one file per suffix. Without finished runs there are none."""
    if item == "figure-architectures":
        return list(_architectures(request, results, folder, suffixes))
    made = {"figure-operations": _operations, "figure-depth": _depth, "figure-collapse": _collapse}[item]
    found = made(request, results)
    if found is None:
        return []
    figure, caption = found
    for suffix in suffixes:
        save_plot(figure, folder / f"{item}{suffix}")
    return [Picture(folder / f"{item}.svg", caption)]


def _name(dataset: str, request: Request) -> str:
    source = request.scale.sources[dataset]
    return TITLES[dataset] if source.name == dataset else f"{TITLES[dataset]} ({source.folder})"


def _architectures(request: Request, results: Results, folder: Path, suffixes: tuple[str, ...]) -> Iterator[Picture]:
    for dataset, genotype in select_genotypes(request, results).items():
        name, cells = _name(dataset, request), len(genotype)
        for suffix in suffixes:
            save_drawing(genotype, folder / f"figure-architectures-{dataset}{suffix}", title=name)
        caption = f"{name}: {cells} cells, message-passing depth {genotype.depth()}; dead branches are faded."
        yield Picture(folder / f"figure-architectures-{dataset}.svg", caption)


def _operations(request: Request, results: Results) -> tuple[Figure, str] | None:
    genotypes = select_genotypes(request, results)
    if not genotypes:
        return None
    figure = plots.operation_distribution({_name(name, request): one for name, one in genotypes.items()})
    figure.set_size_inches(9.5, 3.4)
    return figure, "How often each operation was chosen: filters on levels 1 and 3, aggregators on level 2."


# -- depth -----------------------------------------------------------------------------------------------------------------


def _depth(request: Request, results: Results) -> tuple[Figure, str] | None:
    found = found_depths(request, results)
    curves = {name: points for name, points in metric_curves(request, results).items() if points}
    if not any(found) and not curves:
        return None
    figure, (left, right) = new_figure(1, 2, width=9.5, height=3.4)
    _found_panel(left, found)
    _curves_panel(figure, right, curves)
    return figure, (
        "Left: number of cells that aggregate, against the number of cells at the start: after the first search, and at the "
        "end of Algorithm 1. Right: test MAE against depth; the bars show one standard deviation over the seeds."
    )


def found_depths(request: Request, results: Results) -> tuple[dict[int, int], dict[int, int]]:
    """By initial depth: the depth of the first search, and the depth Algorithm 1 ends with."""
    first, last = {}, {}
    for run in depth_runs(request):
        depth, one = results.find_first_depth(run), results.find_search(run)
        if depth is not None:
            first[run.start] = depth
        if one is not None:
            last[run.start] = int(one.result["depth"])
    return first, last


def metric_curves(request: Request, results: Results) -> dict[str, dict[int, tuple[float, float]]]:
    """Test metric and its standard deviation by network and depth."""
    curves: dict[str, dict[int, tuple[float, float]]] = {"GNAS": {}}
    for entry in list_entries("table-zinc", request):
        if entry.model == "gnas":
            got = make_line(entry, request, results, {}).result
            if got is not None:
                curves["GNAS"][request.scale.depth(entry.depth)] = (got.mean, got.std)
    for model in HAND_MADE[1:]:
        points = {}
        for depth in sorted({*list_depths(request), *map(request.scale.depth, request.depths or (4, 16))}):
            got, _ = summarise_run(hand_made_run("zinc", model, depth, request), "mae", results, {})
            if got is not None:
                points[depth] = (got.mean, got.std)
        curves[TITLES[model]] = points
    return curves


def _found_panel(panel: Axes, found: Sequence[Mapping[int, int]]) -> None:
    starts = sorted(set().union(*found))
    if starts:
        panel.plot(starts, starts, color=LIGHT[FAINT], linestyle=(0, (4, 3)), linewidth=1.2)
        looks: list[dict[str, Any]] = [line_style(SERIES[0]), line_style(SERIES[1])]
        handles: list[Any] = []
        for depths, look in zip(found, looks, strict=True):
            handles += panel.plot(sorted(depths), [depths[start] for start in sorted(depths)], **look, markersize=6)
        add_legend(panel, handles, ("first search", "Algorithm 1"), loc="upper left")
        panel.set_ylim(bottom=0)
        use_whole_epochs(panel)
        use_whole_counts(panel)
    else:
        _not_run(panel)
    panel.set_xlabel("initial depth (cells)")
    set_heading(panel, "searched depth (cells)")


def _not_run(panel: Axes) -> None:
    panel.text(0.5, 0.5, "not run", ha="center", va="center", transform=panel.transAxes)
    panel.set_yticks([])
    panel.set_xticks([])


def _curves_panel(figure: Figure, panel: Axes, curves: Mapping[str, Mapping[int, tuple[float, float]]]) -> None:
    handles = []
    for number, points in enumerate(curves.values()):
        depths = sorted(points)
        means, spreads = ([points[depth][place] for depth in depths] for place in (0, 1))
        handles.append(
            panel.errorbar(depths, means, yerr=spreads, **line_style(SERIES[number % len(SERIES)]), markersize=5)
        )
    panel.set_xlabel("depth")
    set_heading(panel, f"test {unit('mae')} ({direction('mae')})")
    use_whole_epochs(panel)
    if curves:
        add_legend(figure, handles, list(curves), loc="outside upper right", ncols=4)


# -- collapse ------------------------------------------------------------------------------------------------------------


def _collapse(request: Request, results: Results) -> tuple[Figure, str] | None:
    histories: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for dataset in DATASETS:
        for strategy in ROWS:
            one = (
                results.find_search(search_run(dataset, request, strategy))
                if request.includes(dataset, "gnas")
                else None
            )
            if one is not None:
                histories[dataset, strategy] = one.history()
    named = [name for name in DATASETS if any(key[0] == name for key in histories)]
    if not named:
        return None
    figure, axes = new_figure(len(ROWS), len(named), width=max(4.6, 2.4 * len(named)), height=4.6)
    handles: list[Any] = []
    names: list[str] = []
    for place, (strategy, dataset) in enumerate((s, d) for s in ROWS for d in named):
        panel = axes[place]
        if (dataset, strategy) in histories:
            handles, names = draw_operation_counts(panel, histories[dataset, strategy])
        else:
            _not_run(panel)
        if place < len(named):
            panel.set_title(_name(dataset, request))
        else:
            panel.set_xlabel("epoch")
        if place % len(named) == 0:
            panel.set_ylabel(ROWS[strategy][0], fontsize=9)
    add_legend(figure, handles, names, loc="outside upper center", ncols=len(names))
    rows = "; ".join(f"{name}: alphas by {loss}" for name, loss in ROWS.values()).capitalize()
    return figure, f"Operations on level 2 by epoch. {rows}."
