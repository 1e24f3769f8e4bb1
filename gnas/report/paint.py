"""Paints a drawing with matplotlib, for PNG files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gnas.report.palette import BAND, LIGHT
from gnas.report.shapes import Box, Curve, Drawing, Group, Polygon, Shape, Text
from gnas.report.svg import FADED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

DPI = 72.0  # a pixel of a drawing is a point of the figure


def figure(drawing: Drawing) -> Figure:
    """The drawing as a matplotlib figure of the same size, a pixel for a point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(drawing.width / DPI, drawing.height / DPI), dpi=DPI, facecolor=LIGHT["paper"])
    FigureCanvasAgg(sheet)
    axes = sheet.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for order, shape in enumerate(drawing.shapes):
        _paint(axes, shape, _full, order)
    return sheet


def _full(name: str) -> str:
    return LIGHT.get(name, name)


def _faded(name: str) -> str:
    """The colour mixed with that of the bands: unlike a transparent one it hides what is below it, as in the SVG."""
    if name == "none":
        return name
    colour, below = ([int(_full(n)[i : i + 2], 16) for i in (1, 3, 5)] for n in (name, BAND))
    mixed = (round(float(FADED) * a + (1 - float(FADED)) * b) for a, b in zip(colour, below, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _paint(axes: Axes, shape: Shape, colour: Callable[[str], str], order: int) -> None:
    if isinstance(shape, Group):
        for inner in shape.shapes:
            _paint(axes, inner, _faded if shape.faded else colour, order)
    elif isinstance(shape, Text):
        _text(axes, shape, colour, order)
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


def _text(axes: Axes, text: Text, colour: Callable[[str], str], order: int) -> None:
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
