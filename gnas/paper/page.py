"""Files of the tables and figures, and the pages that show them.

A page of your own can be filled too: this module replaces the text between ``<!-- gnas reproduce: table-zinc -->`` and
``<!-- end -->``, and leaves the rest of the page unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnas.errors import InputError, choose
from gnas.files import write_atomic
from gnas.paper.catalogue import (
    FIGURES,
    HAND_MADE,
    ITEMS,
    TITLES,
    Request,
    hand_made_run,
    list_depth_runs,
    list_depths,
    list_entries,
    search_run,
    train_run,
)
from gnas.paper.lines import select_genotypes, summarise_run
from gnas.paper.results import Results
from gnas.paper.runs import DATASETS
from gnas.paper.tables import PaperTable, make_tables, to_csv
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
from gnas.report.plots import fill_operation_counts
from gnas.run.words import describe_direction, label_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = "index.md"
MARK = re.compile(r"(<!-- gnas reproduce: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class DrawnItem:
    """One item of the catalogue with its tables or its figures."""

    item: str
    tables: tuple[PaperTable, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def title(self) -> str:
        return ITEMS[self.item]

    def to_markdown(self, folder: Path, complete: bool = True) -> str:
        """Markdown for a page in ``folder``. Unless ``complete``, rows that were not run are only named."""
        if self.tables:
            return "\n".join(table.to_markdown(complete) for table in self.tables)
        if not self.pictures:
            return "No finished run to draw it from.\n"
        return "\n".join(f"![{self.title}]({_relative(p.file, folder)})\n\n{p.caption}\n" for p in self.pictures)


def draw_item(item: str, request: Request, results: Results, failed: Mapping[str, str], out: Path) -> DrawnItem:
    """Write the files of one table or figure from finished runs: Markdown and CSV, or SVG and PNG."""
    if item in FIGURES:
        return DrawnItem(item, pictures=tuple(draw_figures(item, request, results, out / "figures")))
    drawn = DrawnItem(item, tables=tuple(make_tables(item, request, results, failed)))
    write_atomic(out / "tables" / f"{item}.md", f"## {drawn.title}\n\n{drawn.to_markdown(out / 'tables')}")
    write_atomic(out / "tables" / f"{item}.csv", to_csv(drawn.tables))
    return drawn


def write_page(drawn: Sequence[DrawnItem], out: Path, about: Sequence[str], failed: Mapping[str, str]) -> Path:
    """Write the page with all tables and figures. ``about`` are its first lines."""
    lines = ["# The paper, reproduced", "", *about, ""]
    if failed:
        lines += ["## Failed runs", "", *(f"- `{key}`: {reason}" for key, reason in failed.items()), ""]
    for one in drawn:
        lines += [f"## {one.title}", "", one.to_markdown(out)]
    return write_atomic(out / PAGE, "\n".join(lines))


def fill_page(page: Path, drawn: Sequence[DrawnItem], request: Request, results: Results) -> int:
    """Replace the text between the marks of a page. Figures go to ``images/`` beside it. Returns the number of marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page}: {error.strerror}") from None
    items = {one.item: one for one in drawn}
    count = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal count
        item = choose(match[2], ITEMS, f"table or figure in {page}")
        if item not in items:
            return match[0]
        count += 1
        one = items[item]
        if one.pictures:
            pictures = draw_figures(item, request, results, page.parent / "images", (".svg",))
            one = DrawnItem(item, pictures=tuple(pictures))
        return f"{match[1]}\n{one.to_markdown(page.parent, complete=False)}\n{match[4]}"

    new = MARK.sub(fill, text)
    if not MARK.search(text):
        raise InputError(f"{page}: no marks to fill, such as '<!-- gnas reproduce: table-zinc -->' and '<!-- end -->'")
    write_atomic(page, new)
    return count


def _relative(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.as_posix()


# Rows of the figure on collapse: the name of each, and what its alphas are trained by.
ROWS = {"darts1": ("bilevel", "validation loss"), "single-level": ("single level", "training loss")}


# -- figures ----------------------------------------------------------------------------------------------------------


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
    figure = plots.draw_operations({_name(name, request): one for name, one in genotypes.items()})
    figure.set_size_inches(9.5, 3.4)
    return figure, "How often each operation was chosen: filters on levels 1 and 3, aggregators on level 2."


# -- depth -----------------------------------------------------------------------------------------------------------------


def _depth(request: Request, results: Results) -> tuple[Figure, str] | None:
    found = collect_depths(request, results)
    curves = {name: points for name, points in collect_curves(request, results).items() if points}
    if not any(found) and not curves:
        return None
    figure, (left, right) = new_figure(1, 2, width=9.5, height=3.4)
    _found_panel(left, found)
    _curves_panel(figure, right, curves)
    return figure, (
        "Left: number of cells that aggregate, against the number of cells at the start: after the first search, and at the "
        "end of Algorithm 1. Right: test MAE against depth; the bars show one standard deviation over the seeds."
    )


def collect_depths(request: Request, results: Results) -> tuple[dict[int, int], dict[int, int]]:
    """By initial depth: the depth of the first search, and the depth Algorithm 1 ends with."""
    first, last = {}, {}
    for run in list_depth_runs(request):
        depth, one = results.find_first_depth(run), results.find_search(run)
        if depth is not None:
            first[run.start] = depth
        if one is not None:
            last[run.start] = int(one.result["depth"])
    return first, last


def collect_curves(request: Request, results: Results) -> dict[str, dict[int, tuple[float, float]]]:
    """Test metric and its standard deviation by network and depth."""
    scale = request.scale
    entries = [entry for entry in list_entries("table-zinc", request) if entry.model == "gnas"]
    runs = {"GNAS": {scale.depth(entry.depth): train_run(entry, request) for entry in entries}}
    depths = sorted({*list_depths(request), *map(scale.depth, request.depths or (4, 16))})
    for model in HAND_MADE[1:]:
        runs[TITLES[model]] = {depth: hand_made_run("zinc", model, depth, request) for depth in depths}
    curves: dict[str, dict[int, tuple[float, float]]] = {}
    for name, by_depth in runs.items():
        found = {depth: summarise_run(run, "mae", results, {})[0] for depth, run in by_depth.items()}
        curves[name] = {depth: (one.mean, one.std) for depth, one in found.items() if one is not None}
    return curves


def _found_panel(panel: Axes, found: Sequence[Mapping[int, int]]) -> None:
    starts = sorted(set().union(*found))
    if starts:
        panel.plot(starts, starts, color=LIGHT[FAINT], linestyle=(0, (4, 3)), linewidth=1.2)
        handles: list[Any] = []
        for depths, colour in zip(found, SERIES, strict=False):
            values = [depths[start] for start in sorted(depths)]
            handles += panel.plot(sorted(depths), values, **line_style(colour), markersize=6)
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
    set_heading(panel, f"test {label_metric('mae')} ({describe_direction('mae')})")
    use_whole_epochs(panel)
    if curves:
        add_legend(figure, handles, list(curves), loc="outside upper right", ncols=4)


# -- collapse ------------------------------------------------------------------------------------------------------------


def _collapse(request: Request, results: Results) -> tuple[Figure, str] | None:
    histories: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for dataset in DATASETS:
        for strategy in ROWS if request.includes(dataset, "gnas") else ():
            one = results.find_search(search_run(dataset, request, strategy))
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
            handles, names = fill_operation_counts(panel, histories[dataset, strategy])
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
