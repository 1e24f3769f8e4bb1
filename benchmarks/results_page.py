"""The generated parts of docs/results.md, docs/results-details.md and README.md: tables and a plot. relations.py writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inputs_report
import paper_rows
import relations_report
from paper_rows import PaperRow
from relations_report import Row
from rows import RESULTS, read

from gnas.files import write_atomic
from gnas.paper.catalogue import METRICS, TITLES
from gnas.report.axes import add_legend, line_style, new_figure, save_plot, set_heading, use_log_axis
from gnas.report.palette import FAINT, INK, LIGHT, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARK = re.compile(r"(<!-- results: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
PLOT = "images/results.svg"
SHORT = (  # rows of the paper in the short table
    *(("zinc", 4), ("zinc", 8), ("zinc", 12)),
    *(("pattern", 4), ("cluster", 4), ("cluster", 16), ("mnist", 4), ("cifar10", 4)),
)


def fill_page(page: Path, rows: Sequence[Row]) -> None:
    """Fill the parts between ``<!-- results: NAME -->`` and ``<!-- end -->``; the rest of the page stays."""
    text = page.read_text(encoding="utf-8")
    if not MARK.search(text):
        raise SystemExit(f"{page}: no part between <!-- results: beyond --> and <!-- end -->")
    write_atomic(page, fill(text, rows))
    if "<!-- results: plot -->" in text:
        save_plot(draw(rows, paper_rows.read_paper_rows()), page.parent / PLOT)


def fill(text: str, rows: Sequence[Row]) -> str:
    """The page with its parts made anew."""
    parts = {
        "plot": lambda: f"![Test error against weights, by dataset: our networks and published ones]({PLOT})\n",
        "beyond": lambda: relations_report.make_table(rows),
        "networks": lambda: relations_report.make_list(rows),
        "paper": lambda: paper_rows.make_table(paper_rows.read_paper_rows()),
        "molecules": lambda: inputs_report.make_table(read(RESULTS / "inputs.csv")),
        "encodings": lambda: inputs_report.make_encodings_table(read(RESULTS / "inputs.csv")),
        "short": lambda: make_short(rows, paper_rows.read_paper_rows()),
    }
    return MARK.sub(lambda match: f"{match[1]}\n{parts[match[2]]()}\n{match[4]}", text)


def make_short(rows: Sequence[Row], of_paper: Sequence[PaperRow]) -> str:
    """At most ten rows: the paper's networks, and the best found network of each dataset that reads edges."""
    lines = [
        "| dataset | cells | paper | gnas, the paper's input | gnas, more input |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in of_paper:
        if (row.entry.dataset, row.entry.depth) in SHORT:
            ours = " | ".join(paper_rows.show_ours(one, row.entry) for one in (row.plain, row.wider))
            name = f"{row.title}, {'MAE' if row.entry.dataset == 'zinc' else 'accuracy'}"
            lines.append(f"| {name} | {row.entry.depth} | {paper_rows.show_paper(row.entry)} | {ours} |")
    for dataset in relations_report.METRICS:
        found = next((one for one in relations_report.select(dataset, rows) if one["kind"] == "found"), None)
        if found is not None:
            mean, std = relations_report.spread(found)
            digits = 3 if dataset == "zinc" else 2
            figure = f"{paper_rows.trim(mean, digits)} ± {paper_rows.trim(std, digits)}"
            name = f"{TITLES[dataset]} with {'bonds and walks' if dataset == 'zinc' else 'distances'}, found by a race"
            lines.append(f"| {name} | {found['cells']} | | | **{figure}** |")
    return "\n".join([*lines, ""])


# -- plot ------------------------------------------------------------------------------------------------------------


def draw(rows: Sequence[Row], of_paper: Sequence[PaperRow]) -> Figure:
    """Test error against weights, a panel for each dataset; figures without a number of weights are lines."""
    figure, panels = new_figure(2, 3, width=9.5, height=6.0)
    handles: dict[str, Any] = {}
    for panel, dataset in zip(panels, METRICS, strict=False):
        for place, (name, points) in enumerate(_series(dataset, rows, of_paper).items()):
            style = line_style(SERIES[place]) | {"linestyle": "none", "markersize": 6, "zorder": 9 - place}
            if points:
                xs, ys = zip(*points, strict=True)
                handles.setdefault(name, (panel.plot(xs, [error_of(dataset, y) for y in ys], **style)[0], place))
        _draw_published(panel, dataset)
        use_log_axis(panel)
        panel.set_xlim(6e4, 2.6e6)
        panel.set_xlabel("weights")
        set_heading(panel, f"{TITLES[dataset]}, test {'MAE' if dataset == 'zinc' else 'error %'}")
    panels[-1].axis("off")
    shown = sorted(handles.items(), key=lambda one: one[1][1])
    add_legend(panels[-1], [handle for _, (handle, _) in shown], [name for name, _ in shown], loc="center left")
    return figure


def _series(dataset: str, rows: Sequence[Row], of_paper: Sequence[PaperRow]) -> dict[str, list[tuple[float, float]]]:
    """Weights and test metric of each kind of network."""
    own = [row for row in of_paper if row.entry.dataset == dataset]
    measured = relations_report.select(dataset, rows) if dataset in relations_report.METRICS else []
    points: dict[str, list[tuple[float, float]]] = {"found": [], "named": []}
    for one in measured:
        points[one["kind"]].append((float(one["weights"]), float(one["test"])))
    return {
        "gnas: found, with edges": points["found"],
        "gnas: hand-made, with edges": points["named"],
        "gnas: found, with size and degree": [(one.weights, one.mean) for row in own if (one := row.wider)],
        "gnas: found, the paper's input": [(one.weights, one.mean) for row in own if (one := row.plain)],
        "the paper": [(row.entry.budget, row.entry.metric) for row in own if row.entry.metric is not None],
    }


def _draw_published(panel: Axes, dataset: str) -> None:
    """Published figures as lines, named at the left and at the right by turns: neighbours do not overlap."""
    known = sorted(relations_report.read_published(dataset), key=lambda row: error_of(dataset, float(row["test"])))
    for place, row in enumerate(known):
        value, side = error_of(dataset, float(row["test"])), "left" if place % 2 else "right"
        panel.axhline(value, color=LIGHT[FAINT], linewidth=1, linestyle=(0, (4, 3)))
        panel.annotate(
            f"{row['network']} {row['year']}",
            (0.01 if place % 2 else 0.99, value),
            xycoords=("axes fraction", "data"),
            horizontalalignment=side,
            verticalalignment="bottom",
            fontsize=7.5,
            color=LIGHT[INK],
        )
        if row["weights"]:
            panel.plot([float(row["weights"])], [value], marker="*", color=LIGHT[INK], markersize=9)


def error_of(dataset: str, value: float) -> float:
    """What is drawn: MAE, or the share of errors in %."""
    return value if dataset == "zinc" else 100 - value
