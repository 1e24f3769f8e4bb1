"""A searched architecture as a picture, in the manner of the figure in the paper's appendix: SVG text or a PNG file."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gnas.arch.architecture import Architecture
from gnas.arch.genotype import CellGenotype
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.report.layout import layout_cell, layout_genotype
from gnas.report.palette import BAND, LIGHT
from gnas.report.shapes import FADED, Box, Curve, Drawing, Group, Polygon, Shape, Text, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

LARGEST = 8000  # pixels of a PNG's longer side
DPI = 72.0  # a pixel of a drawing is a point of the figure


def draw_cell(cell: CellGenotype, number: int = 1) -> str:
    """One cell as SVG text: three levels, one line style per operation, dead branches faded, the formula below."""
    return to_svg(layout_cell(cell, number))


def draw_genotype(genotype: Architecture, *, title: str = "", columns: int = 4) -> str:
    """All cells as SVG text, ``columns`` cells per row."""
    return to_svg(layout_genotype(genotype, title=title, columns=columns))


def to_png(what: CellGenotype | Architecture, *, title: str = "", columns: int = 4, scale: float = 2.0) -> bytes:
    """The same picture as the content of a PNG file, with ``scale`` times as many pixels."""
    return drawing_png(_layout(what, title, columns), scale)


def save_drawing(what: CellGenotype | Architecture, path: str | Path, *, title: str = "", columns: int = 4) -> Path:
    """Write the picture of an architecture to a ``.svg`` or ``.png`` file and return its path.

    Args:
        what: An architecture or a cell.
        path: The file.
        title: Words above the drawing.
        columns: Cells in a row.

    >>> from gnas.report.draw import save_drawing
    >>> save_drawing(genotype, "genotype.svg").name
    'genotype.svg'
    """
    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png"):
        raise InputError(f"{path}: a drawing is written as .svg or .png; use a name with one of these endings")
    drawing = _layout(what, title, columns)
    return write_atomic(path, to_svg(drawing) if path.suffix.lower() == ".svg" else drawing_png(drawing, 2.0))


def _layout(what: CellGenotype | Architecture, title: str, columns: int) -> Drawing:
    if isinstance(what, CellGenotype):
        return layout_cell(what)
    return layout_genotype(what, title=title, columns=columns)


def drawing_png(drawing: Drawing, scale: float) -> bytes:
    """A drawing as the content of a PNG file."""
    scale = min(scale, LARGEST / max(drawing.width, drawing.height))
    content = io.BytesIO()
    _figure(drawing).savefig(content, format="png", dpi=DPI * scale)
    return content.getvalue()


def _figure(drawing: Drawing) -> Figure:
    """The drawing as a matplotlib figure of the same size. A pixel of the drawing is a point of the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(drawing.width / DPI, drawing.height / DPI), dpi=DPI, facecolor=LIGHT["paper"])
    FigureCanvasAgg(made)
    axes = made.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for order, shape in enumerate(drawing.shapes):
        _paint(axes, shape, _plain_colour, order)
    return made


def _plain_colour(name: str) -> str:
    return LIGHT.get(name, name)


def _faded_colour(name: str) -> str:
    """The colour mixed with that of the bands. Unlike a transparent colour, it hides what lies below, as in the SVG."""
    if name == "none":
        return name
    colour, below = ([int(_plain_colour(n)[i : i + 2], 16) for i in (1, 3, 5)] for n in (name, BAND))
    mixed = (round(FADED * a + (1 - FADED) * b) for a, b in zip(colour, below, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _paint(axes: Axes, shape: Shape, colour: Callable[[str], str], order: int) -> None:
    if isinstance(shape, Group):
        for inner in shape.shapes:
            _paint(axes, inner, _faded_colour if shape.faded else colour, order)
    elif isinstance(shape, Text):
        _paint_text(axes, shape, colour, order)
    else:
        axes.add_patch(_patch(shape, colour, order))


def _patch(shape: Box | Polygon | Curve, colour: Callable[[str], str], order: int) -> Patch:
    from matplotlib import patches
    from matplotlib.path import Path

    if isinstance(shape, Polygon):
        return patches.Polygon(shape.points, closed=True, fc=colour(shape.fill), lw=0, zorder=order)
    if isinstance(shape, Box):
        style = (
            patches.BoxStyle.Round(pad=0, rounding_size=shape.radius) if shape.radius else patches.BoxStyle.Square(0)
        )
        return patches.FancyBboxPatch(
            (shape.x, shape.y),
            shape.width,
            shape.height,
            boxstyle=style,
            fc=colour(shape.fill),
            ec=colour(shape.stroke),
            lw=shape.line if shape.stroke != "none" else 0,
            zorder=order,
        )
    points, codes = [shape.start], [Path.MOVETO]
    for step in shape.steps:
        points += step
        codes += [Path.CURVE4] * 3 if len(step) == 3 else [Path.LINETO]
    dash = (0, tuple(length / shape.line for length in shape.dash)) if shape.dash else "solid"
    return patches.PathPatch(
        Path(points, codes), fc="none", ec=colour(shape.stroke), lw=shape.line, ls=dash, zorder=order
    )


def _paint_text(axes: Axes, text: Text, colour: Callable[[str], str], order: int) -> None:
    axes.text(
        text.x,
        text.y,
        text.text,
        fontsize=text.size * (0.92 if text.mono else 1.0),
        color=colour(text.fill),
        ha={"start": "left", "middle": "center", "end": "right"}[text.anchor],
        va="center_baseline",
        weight="bold" if text.bold else "normal",
        family="monospace" if text.mono else "sans-serif",
        zorder=order,
        parse_math=False,
    )
