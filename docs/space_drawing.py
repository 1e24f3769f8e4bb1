"""Write docs/images/space.svg, the drawing of the search space, from the package's lists: ``python docs/space_drawing.py``.

A test fails when the drawing is out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gnas.arch.operation import BLUE, ORANGE, PLAIN, operation_names
from gnas.arch.stack import EDGE_STATES, ENCODINGS, READOUTS
from gnas.report.palette import BAND, FAINT, INK, PAPER
from gnas.report.shapes import Box, Curve, Drawing, Shape, Text, make_arrow, to_svg

FILE = Path(__file__).with_name("images") / "space.svg"
WIDTH, LEFT, RIGHT, ROW, CHIP = 840.0, 24.0, 620.0, 50.0, 22.0
LETTER = 6.9  # width of a letter of a chip


class Row(NamedTuple):
    """One place of the space: its name, what it does, and the choices. Those of the paper are marked."""

    name: str
    words: str
    choices: tuple[str, ...]
    paper: tuple[str, ...]


FILTERS = tuple(name for name in operation_names("filter") if name != "skip")
AGGREGATORS = ("identity", *operation_names("aggregator"))
IN_PAPER = ("identity", *operation_names("aggregator", in_paper=True))
INPUT = Row("input", "the data's columns, and", ENCODINGS, ())
CELL = (
    Row("filter", "level 1", FILTERS, FILTERS),
    Row("message", "along an edge", operation_names("message"), (PLAIN,)),
    Row("aggregate", "level 2", AGGREGATORS, IN_PAPER),
    Row("filter", "level 3", FILTERS, FILTERS),
    Row("fuse", "then norm, ReLU, residual", ("1 linear layer", "2 linear layers", "dropout"), ("1 linear layer",)),
    Row("after the cell", "", ("nothing", "feed-forward layer"), ("nothing",)),
)
OUTPUT = Row("read-out", "from nodes to graph", READOUTS, ("mean",))


def draw_space() -> Drawing:
    """The places from the input to the output, top to bottom, and the state of the edges beside the cell."""
    shapes: list[Shape] = [Text(LEFT, 20, "What can be found", 15, "start", bold=True), *_legend()]
    y = 44.0
    shapes += _row(INPUT, y)
    top, y = y + ROW + 18, y + ROW + 44
    frame = Box(LEFT - 10, top, WIDTH - 2 * LEFT + 20, 26 + ROW * len(CELL) + 4, 10, "none", FAINT, 1.2)
    shapes += [frame, Text(LEFT, top + 14, "a cell, repeated", 11, "start", FAINT), *_arrow(top)]
    for row in CELL:
        shapes += _row(row, y)
        y += ROW
    shapes += _edge_state(top + 26 + ROW)
    y += 22
    shapes += [*_arrow(y - 2), *_row(OUTPUT, y)]
    return Drawing(WIDTH, y + ROW + 4, tuple(shapes), "The search space: the places of a network and their choices")


def _row(row: Row, y: float) -> list[Shape]:
    shapes: list[Shape] = [
        Box(LEFT, y, RIGHT - LEFT, ROW - 8, 6, BAND),
        Text(LEFT + 10, y + 14, row.name, 12, "start", bold=True),
        Text(LEFT + 10, y + 30, row.words, 10, "start", FAINT),
    ]
    return shapes + _chips(row.choices, row.paper, LEFT + 178, y + 10)


def _chips(choices: tuple[str, ...], paper: tuple[str, ...], x: float, y: float) -> list[Shape]:
    shapes: list[Shape] = []
    for name in choices:
        text, wide = name.replace("_", " "), len(name) * LETTER + 12
        colour = BLUE if name in paper else ORANGE
        shapes += [
            Box(x, y, wide, CHIP, CHIP / 2 if name in paper else 3, PAPER, colour, 1.6),
            Text(x + wide / 2, y + CHIP / 2, text, 11, mono=True),
        ]
        x += wide + 6
    return shapes


def _edge_state(y: float) -> list[Shape]:
    """The relation that messages read, and the state of the edges, right of the rows."""
    x, wide = RIGHT + 16, WIDTH - RIGHT - LEFT - 16
    place = y + ROW / 2 - 4
    shapes: list[Shape] = [
        Box(x, y, wide, 2 * ROW - 8, 6, BAND),
        Text(x + 10, y + 14, "relation, edge state", 12, "start", bold=True),
        Text(x + 10, y + 34, "r = A xᵢ + B xⱼ + C e", 10, "start", mono=True),
        Curve((x, place), (((RIGHT + 7, place),),), INK, 1.4),
        Text(RIGHT + 3, place, "◀", 10),
    ]
    return shapes + _chips(EDGE_STATES, (), x + 10, y + 54)


def _arrow(y: float) -> list[Shape]:
    """A line down to ``y``."""
    x = LEFT + 60
    return [Curve((x, y - 24), (((x, y - 6),),), INK, 1.4), make_arrow(x, y, INK)]


def _legend() -> list[Shape]:
    paper = _chips(("in the paper",), ("in the paper",), RIGHT - 198, 9)
    return [*paper, *_chips(("beyond it",), (), RIGHT - 96, 9)]


if __name__ == "__main__":
    FILE.write_text(to_svg(draw_space()) + "\n", encoding="utf-8")
