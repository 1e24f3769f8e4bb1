"""Shapes of a drawing in pixels, with y downwards, and the drawing as SVG text. ``draw.py`` paints the same shapes as PNG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import TypeAlias

from gnas.report.palette import BAND, FAINT, INK, LIGHT, PAPER

Point: TypeAlias = tuple[float, float]
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
FADED = 0.28  # opacity of faded groups
PAGE_COLOURS = {INK: "currentColor", **{name: f"var(--{name},{LIGHT[name]})" for name in (PAPER, BAND, FAINT)}}


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


@dataclass(frozen=True)
class Polygon:
    """A filled polygon."""

    points: tuple[Point, ...]
    fill: str


@dataclass(frozen=True)
class Curve:
    """A line from ``start``: each step is one point (straight) or three (a cubic Bezier)."""

    start: Point
    steps: tuple[tuple[Point, ...], ...]
    stroke: str
    line: float = 2.0
    dash: tuple[float, ...] = ()


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


@dataclass(frozen=True)
class Group:
    """Shapes that belong together. In SVG, ``role`` becomes the class and ``label`` the tooltip."""

    role: str
    shapes: tuple[Shape, ...]
    label: str = ""
    faded: bool = False


Shape: TypeAlias = "Box | Polygon | Curve | Text | Group"


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


def make_arrow(x: float, y: float, fill: str, size: float = 7.0) -> Polygon:
    """An arrow head that points down to (x, y)."""
    return Polygon(((x, y), (x - size / 2, y - size), (x + size / 2, y - size)), fill)


def move_shape(shape: Shape, dx: float, dy: float) -> Shape:
    """The same shape, moved by ``dx`` to the right and ``dy`` down."""
    if isinstance(shape, Group):
        return replace(shape, shapes=tuple(move_shape(inner, dx, dy) for inner in shape.shapes))
    if isinstance(shape, Polygon):
        return replace(shape, points=_move_points(shape.points, dx, dy))
    if isinstance(shape, Curve):
        steps = tuple(_move_points(step, dx, dy) for step in shape.steps)
        return replace(shape, start=(shape.start[0] + dx, shape.start[1] + dy), steps=steps)
    return replace(shape, x=shape.x + dx, y=shape.y + dy)


def _move_points(points: tuple[Point, ...], dx: float, dy: float) -> tuple[Point, ...]:
    return tuple((x + dx, y + dy) for x, y in points)


def _cross(turn: float) -> list[Point]:
    """The twelve corners of a plus sign, turned by ``turn`` degrees."""
    arm = 0.3
    quarter = [(arm, arm), (arm, 1.0), (-arm, 1.0)]
    points = []
    for k in range(4):
        angle = math.radians(90 * k + turn)
        points += [
            (a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)) for a, b in quarter
        ]
    return points


def to_svg(drawing: Drawing, *, page: bool = False) -> str:
    """The drawing as SVG text: a file of its own, or a part of an HTML ``page`` with the colours and fonts of the page."""
    width, height = _number(drawing.width), _number(drawing.height)
    size = "" if page else f' width="{width}" height="{height}"'
    font = "" if page else f' font-family="{SANS}"'
    opening = (
        f'<svg{"" if page else NAMESPACE} class="gnas-drawing" viewBox="0 0 {width} {height}"{size}{font} role="img"'
    )
    parts = [f'{opening} aria-label="{escape(drawing.label)}">']
    if not page:
        parts.append(f'<rect width="{width}" height="{height}" fill="{LIGHT[PAPER]}"/>')
    painter = _SvgPainter(PAGE_COLOURS if page else LIGHT)
    parts += [painter.paint(shape) for shape in drawing.shapes]
    return "".join([*parts, "</svg>"])


class _SvgPainter:
    """Shapes as SVG elements. ``colours`` maps the colours of the page."""

    def __init__(self, colours: Mapping[str, str]) -> None:
        self.colours = colours

    def paint(self, shape: Shape) -> str:
        if isinstance(shape, Group):
            return self._group(shape)
        if isinstance(shape, Box):
            return self._box(shape)
        if isinstance(shape, Polygon):
            return f'<path d="M{"L".join(map(_point, shape.points))}Z" fill="{self._colour(shape.fill)}"/>'
        return self._curve(shape) if isinstance(shape, Curve) else self._text(shape)

    def _group(self, group: Group) -> str:
        role = f"{group.role} dead" if group.faded else group.role
        faded = f' opacity="{FADED}"' if group.faded else ""
        title = f"<title>{escape(group.label)}</title>" if group.label else ""
        return f'<g class="{escape(role)}"{faded}>{title}{"".join(map(self.paint, group.shapes))}</g>'

    def _box(self, box: Box) -> str:
        corners = f' rx="{_number(box.radius)}"' if box.radius else ""
        line = (
            f' stroke="{self._colour(box.stroke)}" stroke-width="{_number(box.line)}"' if box.stroke != "none" else ""
        )
        place = f'x="{_number(box.x)}" y="{_number(box.y)}" width="{_number(box.width)}" height="{_number(box.height)}"'
        role = f' class="{box.role}"' if box.role else ""
        return f'<rect{role} {place}{corners} fill="{self._colour(box.fill)}"{line}/>'

    def _curve(self, curve: Curve) -> str:
        path = f"M{_point(curve.start)}" + "".join(
            ("C" if len(s) == 3 else "L") + " ".join(map(_point, s)) for s in curve.steps
        )
        dash = f' stroke-dasharray="{" ".join(map(_number, curve.dash))}"' if curve.dash else ""
        stroke = f'stroke="{self._colour(curve.stroke)}" stroke-width="{_number(curve.line)}"{dash}'
        return f'<path d="{path}" fill="none" {stroke}/>'

    def _text(self, text: Text) -> str:
        anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
        weight = ' font-weight="600"' if text.bold else ""
        family = f' font-family="{MONO}"' if text.mono else ""
        place = f'x="{_number(text.x)}" y="{_number(text.y + 0.35 * text.size)}" font-size="{_number(text.size)}"'
        return f'<text {place} fill="{self._colour(text.fill)}"{anchor}{weight}{family}>{escape(text.text)}</text>'

    def _colour(self, name: str) -> str:
        return self.colours.get(name, name)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _point(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"
