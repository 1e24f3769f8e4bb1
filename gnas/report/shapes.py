"""Shapes of a drawing in pixels, with y downwards. Each can be moved, written as SVG and painted by matplotlib for a PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from gnas.report.palette import BAND, FAINT, INK, LIGHT, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point: TypeAlias = tuple[float, float]
Colours: TypeAlias = Callable[[str], str]  # from a colour of the palette, or any other, to one that a file can have
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
FADED = 0.28  # opacity of faded groups
PAGE_COLOURS = {INK: "currentColor", **{name: f"var(--{name},{LIGHT[name]})" for name in (PAPER, BAND, FAINT)}}
LARGEST = 8000  # pixels of a PNG's longer side
DPI = 72.0  # a pixel of a drawing is a point of the figure


@dataclass(frozen=True)
class Box:
    """A rectangle with rounded corners."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 0.0
    fill: str = "none"
    stroke: str = "none"
    line: float = 1.0
    role: str = ""

    def moved(self, dx: float, dy: float) -> Box:
        return replace(self, x=self.x + dx, y=self.y + dy)

    def to_svg(self, colours: Colours) -> str:
        role = f' class="{self.role}"' if self.role else ""
        place = (
            f'x="{_number(self.x)}" y="{_number(self.y)}" width="{_number(self.width)}" height="{_number(self.height)}"'
        )
        corners = f' rx="{_number(self.radius)}"' if self.radius else ""
        line = f' stroke="{colours(self.stroke)}" stroke-width="{_number(self.line)}"' if self.stroke != "none" else ""
        return f'<rect{role} {place}{corners} fill="{colours(self.fill)}"{line}/>'

    def paint(self, axes: Axes, colours: Colours, order: int) -> None:
        from matplotlib.patches import BoxStyle, FancyBboxPatch

        style = BoxStyle.Round(pad=0, rounding_size=self.radius) if self.radius else BoxStyle.Square(0)
        line = self.line if self.stroke != "none" else 0
        look: dict[str, Any] = {"fc": colours(self.fill), "ec": colours(self.stroke), "lw": line, "zorder": order}
        axes.add_patch(FancyBboxPatch((self.x, self.y), self.width, self.height, boxstyle=style, **look))


@dataclass(frozen=True)
class Polygon:
    """A filled polygon."""

    points: tuple[Point, ...]
    fill: str

    def moved(self, dx: float, dy: float) -> Polygon:
        return replace(self, points=_move(self.points, dx, dy))

    def to_svg(self, colours: Colours) -> str:
        return f'<path d="M{"L".join(map(_point, self.points))}Z" fill="{colours(self.fill)}"/>'

    def paint(self, axes: Axes, colours: Colours, order: int) -> None:
        from matplotlib import patches

        axes.add_patch(patches.Polygon(self.points, closed=True, fc=colours(self.fill), lw=0, zorder=order))


@dataclass(frozen=True)
class Curve:
    """A line from ``start``: each step is one point (straight) or three (a cubic Bezier)."""

    start: Point
    steps: tuple[tuple[Point, ...], ...]
    stroke: str
    line: float = 2.0
    dash: tuple[float, ...] = ()

    def moved(self, dx: float, dy: float) -> Curve:
        (start,) = _move((self.start,), dx, dy)
        return replace(self, start=start, steps=tuple(_move(step, dx, dy) for step in self.steps))

    def to_svg(self, colours: Colours) -> str:
        steps = (("C" if len(step) == 3 else "L") + " ".join(map(_point, step)) for step in self.steps)
        dash = f' stroke-dasharray="{" ".join(map(_number, self.dash))}"' if self.dash else ""
        stroke = f'stroke="{colours(self.stroke)}" stroke-width="{_number(self.line)}"{dash}'
        return f'<path d="M{_point(self.start)}{"".join(steps)}" fill="none" {stroke}/>'

    def paint(self, axes: Axes, colours: Colours, order: int) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        points, codes = [self.start], [Path.MOVETO]
        for step in self.steps:
            points += step
            codes += [Path.CURVE4] * 3 if len(step) == 3 else [Path.LINETO]
        dash = (0, tuple(length / self.line for length in self.dash)) if self.dash else "solid"
        look = {"fc": "none", "ec": colours(self.stroke), "lw": self.line, "ls": dash, "zorder": order}
        axes.add_patch(PathPatch(Path(points, codes), **look))


@dataclass(frozen=True)
class Text:
    """One line of text; ``y`` is its middle, ``anchor`` is start, middle or end."""

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: str = "middle"
    fill: str = INK
    bold: bool = False
    mono: bool = False

    def moved(self, dx: float, dy: float) -> Text:
        return replace(self, x=self.x + dx, y=self.y + dy)

    def to_svg(self, colours: Colours) -> str:
        place = f'x="{_number(self.x)}" y="{_number(self.y + 0.35 * self.size)}" font-size="{_number(self.size)}"'
        anchor = "" if self.anchor == "start" else f' text-anchor="{self.anchor}"'
        weight = ' font-weight="600"' if self.bold else ""
        family = f' font-family="{MONO}"' if self.mono else ""
        return f'<text {place} fill="{colours(self.fill)}"{anchor}{weight}{family}>{escape(self.text)}</text>'

    def paint(self, axes: Axes, colours: Colours, order: int) -> None:
        axes.text(
            self.x,
            self.y,
            self.text,
            fontsize=self.size * (0.92 if self.mono else 1.0),
            color=colours(self.fill),
            ha={"start": "left", "middle": "center", "end": "right"}[self.anchor],
            va="center_baseline",
            weight="bold" if self.bold else "normal",
            family="monospace" if self.mono else "sans-serif",
            zorder=order,
            parse_math=False,
        )


@dataclass(frozen=True)
class Group:
    """Shapes that belong together. In SVG, ``role`` becomes the class and ``label`` the tooltip."""

    role: str
    shapes: tuple[Shape, ...]
    label: str = ""
    faded: bool = False

    def moved(self, dx: float, dy: float) -> Group:
        return replace(self, shapes=tuple(shape.moved(dx, dy) for shape in self.shapes))

    def to_svg(self, colours: Colours) -> str:
        role = f"{self.role} dead" if self.faded else self.role
        faded = f' opacity="{FADED}"' if self.faded else ""
        title = f"<title>{escape(self.label)}</title>" if self.label else ""
        inner = "".join(shape.to_svg(colours) for shape in self.shapes)
        return f'<g class="{escape(role)}"{faded}>{title}{inner}</g>'

    def paint(self, axes: Axes, colours: Colours, order: int) -> None:
        for shape in self.shapes:
            shape.paint(axes, _faded_colour if self.faded else colours, order)


Shape: TypeAlias = Box | Polygon | Curve | Text | Group


@dataclass(frozen=True)
class Drawing:
    """Shapes on an area of ``width`` by ``height``. ``label`` says in words what it shows."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    label: str = ""


def make_marker(kind: str, x: float, y: float, size: float, fill: str) -> Shape:
    """A marker of about ``size`` around a point."""
    r = size / 2
    if kind == "disc":
        return Box(x - r, y - r, size, size, r, fill)
    if kind in ("square", "dash"):
        height = size * (0.85 if kind == "square" else 0.3)
        return Box(x - r * 0.85, y - height / 2, size * 0.85, height, 0, fill)
    if kind in ("cross", "plus"):
        return Polygon(tuple((x + r * a, y + r * b) for a, b in _cross(45 if kind == "cross" else 0)), fill)
    corners, turn = {
        "diamond": (4, -90),
        "up": (3, -90),
        "down": (3, 90),
        "right": (3, 0),
        "left": (3, 180),
        "hexagon": (6, -90),
    }[kind]
    angles = [math.radians(turn + 360 * corner / corners) for corner in range(corners)]
    return Polygon(tuple((x + 1.1 * r * math.cos(a), y + 1.1 * r * math.sin(a)) for a in angles), fill)


def _cross(turn: float) -> list[Point]:
    """The twelve corners of a plus sign, turned by ``turn`` degrees."""
    arm = 0.3
    points = []
    for k in range(4):
        cos, sin = math.cos(math.radians(90 * k + turn)), math.sin(math.radians(90 * k + turn))
        points += [(a * cos - b * sin, a * sin + b * cos) for a, b in ((arm, arm), (arm, 1.0), (-arm, 1.0))]
    return points


def make_arrow(x: float, y: float, fill: str, size: float = 7.0) -> Polygon:
    """An arrow head that points down to (x, y)."""
    return Polygon(((x, y), (x - size / 2, y - size), (x + size / 2, y - size)), fill)


def to_svg(drawing: Drawing, *, page: bool = False) -> str:
    """The drawing as SVG text: a file of its own, or a part of an HTML ``page`` with the colours and fonts of the page."""
    width, height = _number(drawing.width), _number(drawing.height)
    names = PAGE_COLOURS if page else LIGHT
    inner = "".join(shape.to_svg(lambda name: names.get(name, name)) for shape in drawing.shapes)
    opening = f'class="gnas-drawing" viewBox="0 0 {width} {height}"'
    label = f'role="img" aria-label="{escape(drawing.label)}"'
    if page:
        return f"<svg {opening} {label}>{inner}</svg>"
    area = f'width="{width}" height="{height}"'
    return f'<svg{NAMESPACE} {opening} {area} font-family="{SANS}" {label}><rect {area} fill="{LIGHT[PAPER]}"/>{inner}</svg>'


def drawing_png(drawing: Drawing, scale: float) -> bytes:
    """The drawing as the content of a PNG file, with ``scale`` times as many pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.width / DPI, drawing.height / DPI), dpi=DPI, facecolor=LIGHT["paper"])
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for order, shape in enumerate(drawing.shapes):
        shape.paint(axes, _plain_colour, order)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI * min(scale, LARGEST / max(drawing.width, drawing.height)))
    return content.getvalue()


def _plain_colour(name: str) -> str:
    return LIGHT.get(name, name)


def _faded_colour(name: str) -> str:
    """The colour mixed with that of the bands. Unlike a transparent colour, it hides what lies below, as in the SVG."""
    if name == "none":
        return name
    colour, below = ([int(_plain_colour(n)[i : i + 2], 16) for i in (1, 3, 5)] for n in (name, BAND))
    mixed = (round(FADED * a + (1 - FADED) * b) for a, b in zip(colour, below, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _move(points: tuple[Point, ...], dx: float, dy: float) -> tuple[Point, ...]:
    return tuple((x + dx, y + dy) for x, y in points)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _point(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"
