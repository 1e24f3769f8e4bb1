"""A searched architecture as a picture, in the manner of the figure in the paper's appendix: SVG text or a PNG file.

A cell is a tree that grows downwards: the input on top, then the three levels as bands. The column of a node is its
place in the level, and its row is the one below the node that it reads. So every line enters its node from above,
through the label of its operation, and no line crosses a node or a label.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from gnas.arch.architecture import Architecture, describe_stack
from gnas.arch.genotype import CellGenotype, Link
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.report.palette import BAND, FAINT, INK, PAPER, look_of, sort_operations
from gnas.report.shapes import (
    Box,
    Curve,
    Drawing,
    Group,
    Point,
    Shape,
    Text,
    drawing_png,
    make_arrow,
    make_marker,
    to_svg,
)

GUTTER, PITCH, EDGE = 68.0, 86.0, 12.0  # level names, a column, the margin
ROW, NODE, CHIP = 82.0, 24.0, 18.0  # a row, the height of a node, the height of an operation's label
TITLE, FORMULA, LEGEND = 34.0, 16.0, 24.0
LETTER = 0.6  # width of a letter against its size
LEVELS = {1: "filter", 2: "aggregate", 3: "filter"}
LONGEST = 18  # letters of an operation's name that are shown


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


# -- the layout -------------------------------------------------------------------------------------------------------


def layout_cell(
    cell: CellGenotype,
    number: int = 1,
    *,
    rows: tuple[int, int] | None = None,
    formula: bool = True,
    legend: bool = True,
) -> Drawing:
    """The drawing of one cell, with its formula and a legend below.

    ``rows`` are reserved on levels 1 and 3, so that drawings of several cells align.
    """
    places, height = _places(cell, rows or count_rows([cell]))
    width = _width(cell)
    shapes: list[Shape] = [
        Text(EDGE, 18, f"Cell {number}", 14, "start", bold=True),
        Text(width - EDGE, 18, _role(cell), 11, "end", FAINT),
        *_bands(rows or count_rows([cell]), width),
        *(_link(cell, link, number, places) for link in cell.links),
        *(_node(cell, node, number, places[node]) for node in cell.present()),
    ]
    if formula:
        lines = wrap_formula(str(cell.tree()), int((width - 2 * EDGE) / (LETTER * 11)))
        shapes.append(_formula(lines, height))
        height += FORMULA * len(lines) + 8
    if legend:
        key, tall = _legend([cell], width)
        shapes.append(key.moved(0, height))
        height += tall
    return Drawing(width, height, tuple(shapes), f"Cell {number}: {cell.tree()}")


def layout_genotype(architecture: Architecture, *, title: str = "", columns: int = 4) -> Drawing:
    """All cells in reading order, ``columns`` cells per row, with one legend below."""
    cells = architecture.cells
    if not cells:
        raise InputError(f"{architecture.title} is not made of GAP cells: it cannot be drawn")
    columns = max(1, min(columns, len(cells)))
    wide = max(_width(cell) for cell in cells)
    shapes: list[Shape] = []
    y = TITLE if title else 6.0
    for start in range(0, len(cells), columns):
        line = cells[start : start + columns]
        rows, height = count_rows(line), 0.0
        for place, cell in enumerate(line):
            part = layout_cell(cell, start + place + 1, rows=rows, legend=False)
            shapes.append(Group("cell", tuple(s.moved(place * wide, y) for s in part.shapes), part.label))
            height = max(height, part.height)
        y += height + 10
    if title:
        shapes.insert(0, Text(EDGE, 20, title, 16, "start", bold=True))
    around = describe_stack(architecture)
    key, tall = _legend(cells, columns * wide, f"around the cells: {around}" if around else "")
    label = (
        f"{title or 'Genotype ' + architecture.id}: {len(cells)} cells, message-passing depth {architecture.depth()}"
    )
    return Drawing(columns * wide, y + tall, (*shapes, key.moved(0, y)), label)


def count_rows(cells: Iterable[CellGenotype]) -> tuple[int, int]:
    """Number of rows on levels 1 and 3: the longest chain of nodes inside the level."""
    first = third = 1
    for cell in cells:
        for node, rank in _ranks(cell).items():
            if cell.level(node) == 1:
                first = max(first, rank)
            elif cell.level(node) == 3:
                third = max(third, rank)
    return first, third


def layout_key(operation: str) -> Drawing:
    """A short line with the look of an operation, for the legend of a page."""
    group, _ = _sample(operation)
    return Drawing(30, LEGEND, group.shapes[:2], f"line of {operation}")


def node_name(node: int, number: int) -> str:
    """The name of a node, as in the paper: ``Input_x`` is the input of cell x, ``x_y`` its y-th latent embedding."""
    return f"{number}_{node}" if node else f"Input_{number}"


def wrap_formula(text: str, width: int) -> list[str]:
    """The formula in lines of about ``width`` letters. Lines break between branches; a long branch breaks at brackets."""
    pieces = text.replace(" | ", " | \0").split("\0")
    short = list(chain.from_iterable(_broken(piece, width) for piece in pieces))
    lines = [short[0]]
    for piece in short[1:]:
        if len(lines[-1]) + len(piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            lines.append(piece)
    return [line.rstrip() for line in lines]


def _broken(piece: str, width: int) -> Iterator[str]:
    while len(piece) > width:
        cut = piece.rfind("(", 0, width) + 1 or width
        yield piece[:cut]
        piece = piece[cut:]
    yield piece


def _ranks(cell: CellGenotype) -> dict[int, int]:
    """For each node, how many nodes of its level lie on the way to it, itself included."""
    ranks: dict[int, int] = {0: 0}
    for link in cell.links:
        same = cell.level(link.source) == cell.level(link.target)
        ranks[link.target] = ranks[link.source] + 1 if same else 1
    return ranks


def _column(cell: CellGenotype, node: int) -> float:
    if node == 0:
        return (max(cell.nodes, cell.outputs) - 1) / 2
    return float((node - 1) % cell.nodes if node <= 2 * cell.nodes else node - 2 * cell.nodes - 1)


def _pitch(cell: CellGenotype) -> float:
    longest = max((min(len(link.operation), LONGEST) for link in cell.links), default=0)
    return max(PITCH, longest * LETTER * 11 + 36)


def _width(cell: CellGenotype) -> float:
    return GUTTER + EDGE + _pitch(cell) * max(cell.nodes, cell.outputs)


def _tops(rows: tuple[int, int]) -> tuple[float, float, float, float]:
    """The top of the bands of levels 1, 2 and 3, and the bottom of the last."""
    first = TITLE + NODE + 10
    second = first + rows[0] * ROW + 4
    third = second + ROW + 4
    return first, second, third, third + rows[1] * ROW


def _places(cell: CellGenotype, rows: tuple[int, int]) -> tuple[dict[int, Point], float]:
    """The centre of every node, and the height so far."""
    tops, pitch = _tops(rows), _pitch(cell)
    places = {}
    for node, rank in _ranks(cell).items():
        x = GUTTER + pitch * (_column(cell, node) + 0.5)
        y = TITLE + NODE / 2 if node == 0 else tops[cell.level(node) - 1] + rank * ROW - NODE / 2 - 8
        places[node] = (x, y)
    return places, tops[-1] + 10


def _bands(rows: tuple[int, int], width: float) -> Iterator[Shape]:
    tops = _tops(rows)
    for level, word in LEVELS.items():
        top, bottom = tops[level - 1], tops[level] - (4 if level < 3 else 0)
        yield Box(EDGE / 2, top, width - EDGE, bottom - top, 6, BAND, role="band")
        yield Text(EDGE, top + 18, f"Level {level}", 11, "start", bold=True)
        yield Text(EDGE, top + 33, word, 11, "start", FAINT)


def _link(cell: CellGenotype, link: Link, number: int, places: dict[int, Point]) -> Group:
    look = look_of(link.operation)
    (x0, y0), (x1, y1) = places[link.source], places[link.target]
    start, end = y0 + NODE / 2, y1 - NODE / 2
    chip = end - 11 - CHIP / 2
    below = min(start + 36, chip - CHIP / 2)
    turn = (start + below) / 2
    steps: list[tuple[Point, ...]] = [((x0, turn), (x1, turn), (x1, below))] if x0 != x1 else []
    steps.append(((x1, end - 6),))
    shapes: list[Shape] = [
        Curve((x0, start), tuple(steps), look.colour, look.width, look.dash),
        make_arrow(x1, end, look.colour),
        *_chip(link.operation, x1, chip),
    ]
    label = f"{node_name(link.target, number)} = {link.operation}({node_name(link.source, number)})"
    return Group(f"link {link.operation}", tuple(shapes), label, link.target not in cell.live())


def _chip(operation: str, x: float, y: float) -> Iterator[Shape]:
    look = look_of(operation)
    name = operation if len(operation) <= LONGEST else operation[: LONGEST - 1] + "…"
    width = len(name) * LETTER * 11 + 26
    yield Box(x - width / 2, y - CHIP / 2, width, CHIP, CHIP / 2, PAPER, look.colour, 1.2)
    yield make_marker(look.marker, x - width / 2 + 11, y, 8, look.colour)
    yield Text(x + 7, y, name, 11)


def _node(cell: CellGenotype, node: int, number: int, place: Point) -> Group:
    name, (x, y) = node_name(node, number), place
    width = max(40.0, len(name) * LETTER * 12 + 14)
    shapes: list[Shape] = [Box(x - width / 2, y - NODE / 2, width, NODE, 5, PAPER, INK, 1.2)]
    is_output = node in cell.output_nodes()
    if is_output:
        shapes.append(Box(x - width / 2 + 3, y - NODE / 2 + 3, width - 6, NODE - 6, 3, "none", INK, 0.9))
    shapes.append(Text(x, y, name, 12, bold=node == 0))
    label = f"{name}, part of the output" if is_output else name
    return Group("node output" if is_output else "node", tuple(shapes), label, node not in cell.live())


def _formula(lines: list[str], y: float) -> Group:
    texts = (Text(EDGE, y + FORMULA * (n + 0.5), line, 11, "start", mono=True) for n, line in enumerate(lines))
    return Group("formula", tuple(texts))


def _role(cell: CellGenotype) -> str:
    counts = cell.aggregations()
    parts = (f"{name} ×{counts[name]}" if counts[name] > 1 else name for name in sort_operations(set(counts)))
    return "aggregates: " + ", ".join(parts) if counts else "no message passing"


def _legend(cells: Iterable[CellGenotype], width: float, around: str = "") -> tuple[Group, float]:
    """A legend of the operations, of double borders and of faded branches, and a line on what is around the cells."""
    cells = list(cells)
    items = [_sample(name) for name in sort_operations({link.operation for cell in cells for link in cell.links})]
    items.append(_note("double border: part of the output"))
    if any(set(cell.present()) - cell.live() for cell in cells):
        items.append(_note("faded: does not reach the output"))
    x, y, shapes = EDGE, 4.0, []
    for group, wide in items:
        if x > EDGE and x + wide > width - EDGE:
            x, y = EDGE, y + LEGEND
        shapes.append(group.moved(x, y))
        x += wide + 16
    for line in textwrap.wrap(around, int((width - 2 * EDGE) / (LETTER * 11))):
        y += LEGEND
        shapes.append(_note(line)[0].moved(EDGE, y))
    return Group("legend", tuple(shapes)), y + LEGEND + 6


def _sample(operation: str) -> tuple[Group, float]:
    look = look_of(operation)
    shapes: tuple[Shape, ...] = (
        Curve((0, LEGEND / 2), (((30, LEGEND / 2),),), look.colour, look.width, look.dash),
        make_marker(look.marker, 15, LEGEND / 2, 9, look.colour),
        Text(36, LEGEND / 2, operation, 11, "start"),
    )
    return Group(f"key {operation}", shapes), 36 + len(operation) * LETTER * 11


def _note(text: str) -> tuple[Group, float]:
    return Group("note", (Text(0, LEGEND / 2, text, 11, "start", FAINT),)), len(text) * LETTER * 10
