"""What all plots share: figures without global state, line styles that work in black and white, atomic files."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnas.arch.operation import Look
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.report.palette import FAINT, INK, LIGHT
from gnas.run.words import describe_direction, label_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.6, 3.0  # inches: half a page on a desktop, a whole one on a phone
SHADE = 0.12  # opacity of what spans several seeds or links
MARKERS = {
    "disc": "o",
    "square": "s",
    "diamond": "D",
    "up": "^",
    "down": "v",
    "hexagon": "h",
    "dash": "_",
    "cross": "x",
    "plus": "P",
    "left": "<",
    "right": ">",
}


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = WIDTH, height: float = HEIGHT, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure and its axes in reading order. The figure is not registered with pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    axes = list(grid.flat)
    for one in axes:
        _quiet(one)
    return figure, axes


def line_style(look: Look) -> dict[str, Any]:
    """Keyword arguments of ``Axes.plot`` for a look."""
    dash = (0, tuple(length / look.width * 1.2 for length in look.dash)) if look.dash else "solid"
    return {"color": look.colour, "linestyle": dash, "linewidth": look.width, "marker": MARKERS[look.marker]}


def space_markers(length: int) -> dict[str, Any]:
    """Keyword arguments of ``Axes.plot`` for about ten markers on a line of ``length`` points."""
    return {"markevery": max(1, length // 10), "markersize": 5, "markeredgewidth": 1.2}


def set_heading(axes: Axes, text: str) -> None:
    """Say what the y axis shows. The text stands above the axis, where it has room."""
    axes.set_title(text, loc="left", fontsize=9.5, color=LIGHT[INK])


def name_axis(split: str, metric: str) -> str:
    """What an axis shows: ``test MAE (lower is better)``."""
    return f"{split} {label_metric(metric)} ({describe_direction(metric)})"


def add_legend(target: Axes | Figure, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> None:
    """Add a legend without a frame, by default above the figure. Labels that begin with an underscore are shown too."""
    safe = ["\u200b" + label if label.startswith("_") else label for label in labels]
    place = {} if "loc" in options else {"loc": "outside upper center", "ncols": min(len(safe), 4)}
    target.legend(
        list(handles), safe, **{"frameon": False, "fontsize": 9, "labelcolor": LIGHT[INK], **place, **options}
    )


def plot_band(axes: Axes, xs: Sequence[float], values: Sequence[Sequence[float]], look: Look) -> list[Any]:
    """Plot a line through the means of the values at each x. The shade spans the lowest and highest of several."""
    if max(map(len, values)) > 1:
        low, high = [min(v) for v in values], [max(v) for v in values]
        axes.fill_between(xs, low, high, color=look.colour, alpha=SHADE, linewidth=0)
    return axes.plot(xs, [sum(v) / len(v) for v in values], **line_style(look), **space_markers(len(xs)))


def use_whole_epochs(axes: Axes) -> None:
    """Put ticks of the x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))


def use_whole_counts(axes: Axes) -> None:
    """Put ticks of the y axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def use_log_axis(axes: Axes) -> None:
    """Make the x axis logarithmic, with ticks such as 5, 20 and 1k."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: shorten_number(value)))


def shorten_number(value: float) -> str:
    """``250``, ``5k``, ``2M``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def save_plot(figure: Figure, path: str | Path) -> Path:
    """Write a figure to a ``.svg`` or ``.png`` file, atomically, and return its path."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind == ".svg":
        return write_atomic(path, _svg(figure, path.stem, transparent=False))
    if kind == ".png":
        return write_atomic(path, _bytes(figure, "png", dpi=200))
    raise InputError(f"{path}: a plot is written as .svg or .png; use a name with one of these endings")


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as a part of an HTML page, in the colours of the page. ``name`` makes its ids unique."""
    from html import escape

    text = _svg(figure, name, transparent=True)
    text = text[text.index("<svg") :]
    for pattern, instead in _STRIPPED:
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), text)
    text = text.replace(LIGHT[INK], "currentColor").replace(LIGHT[FAINT], f"var(--{FAINT})")
    opening = f' role="img" aria-label="{escape(label)}">'
    return re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", lambda m: f"<svg {m[1]}{opening}", text, count=1)


# Removed from figures on a page: metadata, namespaces, ids, fonts, and the style sheet, which would apply to all of it.
_STRIPPED = (
    (r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", ""),
    (r"\s(?:xmlns(?::\w+)?|version)=\"[^\"]*\"", ""),
    (r"<g id=\"[^\"]*\"", "<g"),
    (r"xlink:href", "href"),
    (r"font-family: [^;\"]*; ?", ""),
    (r"\s*\n\s*", " "),
)


def _quiet(axes: Axes) -> None:
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LIGHT[FAINT])
    axes.tick_params(colors=LIGHT[INK], labelsize=9, length=3)
    axes.grid(True, axis="y", color=LIGHT[FAINT], alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(LIGHT[INK])
        text.set_fontsize(10)
    axes.set_facecolor("none")


def _plain_text(figure: Figure) -> None:
    """Show dollar signs, not formulas."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)


def _svg(figure: Figure, salt: str, *, transparent: bool) -> str:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        return _bytes(figure, "svg", transparent=transparent, metadata={"Date": None}).decode()


def _bytes(figure: Figure, kind: str, **options: Any) -> bytes:
    _plain_text(figure)
    content = io.BytesIO()
    figure.savefig(content, format=kind, **options)
    return content.getvalue()
