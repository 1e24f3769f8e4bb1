"""Paints a drawing as SVG text."""

from __future__ import annotations

from html import escape

from gnas.report.palette import BAND, FAINT, INK, LIGHT, PAPER
from gnas.report.shapes import Box, Curve, Drawing, Group, Point, Polygon, Shape, Text

NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
FADED = "0.28"


def svg(drawing: Drawing, *, page: bool = False) -> str:
    """SVG text: a file of its own, or (``page``) a part of an HTML page, whose colours and fonts it then takes."""
    width, height = _n(drawing.width), _n(drawing.height)
    size = "" if page else f' width="{width}" height="{height}"'
    font = "" if page else f' font-family="{SANS}"'
    opening = (
        f'<svg{"" if page else NAMESPACE} class="gnas-drawing" viewBox="0 0 {width} {height}"{size}{font} role="img"'
    )
    colours = _page if page else _sheet
    parts = [f'{opening} aria-label="{escape(drawing.label)}">']
    if not page:
        parts.append(f'<rect width="{width}" height="{height}" fill="{LIGHT[PAPER]}"/>')
    painter = _Painter(colours)
    parts += [painter.paint(shape) for shape in drawing.shapes]
    return "".join([*parts, "</svg>"])


class _Painter:
    def __init__(self, colours: dict[str, str]) -> None:
        self.colours = colours

    def paint(self, shape: Shape) -> str:
        if isinstance(shape, Group):
            return self._group(shape)
        if isinstance(shape, Box):
            return self._box(shape)
        if isinstance(shape, Polygon):
            return f'<path d="M{"L".join(map(_p, shape.points))}Z" fill="{self._colour(shape.fill)}"/>'
        return self._curve(shape) if isinstance(shape, Curve) else self._text(shape)

    def _group(self, group: Group) -> str:
        role = f"{group.role} dead" if group.faded else group.role
        faded = f' opacity="{FADED}"' if group.faded else ""
        title = f"<title>{escape(group.label)}</title>" if group.label else ""
        return f'<g class="{escape(role)}"{faded}>{title}{"".join(map(self.paint, group.shapes))}</g>'

    def _box(self, box: Box) -> str:
        round_ = f' rx="{_n(box.radius)}"' if box.radius else ""
        line = f' stroke="{self._colour(box.stroke)}" stroke-width="{_n(box.line)}"' if box.stroke != "none" else ""
        ends = f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'
        role = f' class="{box.role}"' if box.role else ""
        return f'<rect{role} {ends}{round_} fill="{self._colour(box.fill)}"{line}/>'

    def _curve(self, curve: Curve) -> str:
        path = f"M{_p(curve.start)}" + "".join(
            ("C" if len(s) == 3 else "L") + " ".join(map(_p, s)) for s in curve.steps
        )
        dash = f' stroke-dasharray="{" ".join(map(_n, curve.dash))}"' if curve.dash else ""
        stroke = f'stroke="{self._colour(curve.stroke)}" stroke-width="{_n(curve.line)}"{dash}'
        return f'<path d="{path}" fill="none" {stroke}/>'

    def _text(self, text: Text) -> str:
        anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
        weight = ' font-weight="600"' if text.bold else ""
        family = f' font-family="{MONO}"' if text.mono else ""
        place = f'x="{_n(text.x)}" y="{_n(text.y + 0.35 * text.size)}" font-size="{_n(text.size)}"'
        return f'<text {place} fill="{self._colour(text.fill)}"{anchor}{weight}{family}>{escape(text.text)}</text>'

    def _colour(self, name: str) -> str:
        return self.colours.get(name, name)


_sheet = LIGHT
_page = {INK: "currentColor", **{name: f"var(--{name},{LIGHT[name]})" for name in (PAPER, BAND, FAINT)}}


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"
