"""What a drawing is made of: a few kinds of shapes in pixels, y downwards. SVG and matplotlib paint the same list."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from gnas.report.palette import INK

Point: TypeAlias = tuple[float, float]


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
    """Shapes that belong together. ``role`` becomes the class in SVG, ``label`` what a reader or a tooltip says."""

    role: str
    shapes: tuple[Shape, ...]
    label: str = ""
    faded: bool = False


Shape: TypeAlias = "Box | Polygon | Curve | Text | Group"


@dataclass(frozen=True)
class Drawing:
    """Shapes on a sheet of ``width`` by ``height``; ``label`` is what it shows, in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    label: str = ""


def marker(kind: str, x: float, y: float, size: float, fill: str) -> Shape:
    """A small mark of about ``size`` around a point."""
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


def arrow(x: float, y: float, fill: str, size: float = 7.0) -> Polygon:
    """A head that points down to (x, y)."""
    return Polygon(((x, y), (x - size / 2, y - size), (x + size / 2, y - size)), fill)


def moved(shape: Shape, dx: float, dy: float) -> Shape:
    """The same shape elsewhere."""
    from dataclasses import replace

    if isinstance(shape, Group):
        return replace(shape, shapes=tuple(moved(inner, dx, dy) for inner in shape.shapes))
    if isinstance(shape, Polygon):
        return replace(shape, points=_moved(shape.points, dx, dy))
    if isinstance(shape, Curve):
        steps = tuple(_moved(step, dx, dy) for step in shape.steps)
        return replace(shape, start=(shape.start[0] + dx, shape.start[1] + dy), steps=steps)
    return replace(shape, x=shape.x + dx, y=shape.y + dy)


def _moved(points: tuple[Point, ...], dx: float, dy: float) -> tuple[Point, ...]:
    return tuple((x + dx, y + dy) for x, y in points)


def _cross(turn: float) -> list[Point]:
    """The twelve corners of a plus sign, turned."""
    arm = 0.3
    quarter = [(arm, arm), (arm, 1.0), (-arm, 1.0)]
    points = []
    for k in range(4):
        angle = math.radians(90 * k + turn)
        points += [
            (a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)) for a, b in quarter
        ]
    return points
