"""How an operation looks: an Okabe-Ito colour, a line style and a marker, so that each can be missed."""

from __future__ import annotations

from dataclasses import dataclass

INK, PAPER, BAND, FAINT = "ink", "paper", "band", "faint"  # follow the page: light or dark
LIGHT = {INK: "#1c2430", PAPER: "#ffffff", BAND: "#f3f5f8", FAINT: "#6a7484"}

GREY, ORANGE, BLUE, VERMILLION = "#808080", "#E69F00", "#0072B2", "#D55E00"
GREEN, PURPLE, SKY = "#009E73", "#CC79A7", "#56B4E9"


@dataclass(frozen=True)
class Style:
    """The looks of an operation: ``dash`` in pixels (empty: solid), ``marker`` in drawings, ``hatch`` in bars."""

    colour: str
    dash: tuple[float, ...]
    marker: str
    hatch: str
    width: float = 2.0


STYLES = {
    "identity": Style(GREY, (), "square", "", 1.6),
    "sparse": Style(ORANGE, (6, 3), "diamond", "//"),
    "dense": Style(BLUE, (), "disc", "\\\\", 2.6),
    "sum": Style(VERMILLION, (), "up", "x", 2.6),
    "mean": Style(GREEN, (9, 3, 2, 3), "down", "-", 2.2),
    "max": Style(PURPLE, (3, 2), "hexagon", "+", 2.4),
    "symmetric": Style(SKY, (), "left", "o", 2.4),
    "skip": Style(GREY, (1.5, 3), "dash", "--", 1.6),
    "zero": Style(GREY, (1, 2), "cross", "/", 1.4),
}
OWN = (
    Style(SKY, (8, 4), "plus", "|"),
    Style(SKY, (2, 2, 6, 2), "cross", "||"),
    Style(SKY, (12, 3), "left", "|||"),
    Style(SKY, (4, 4), "right", "---"),
)
ORDER = tuple(STYLES)

# Networks in comparisons: the found one first, then the others in turn.
SERIES = (
    Style(BLUE, (), "disc", "", 2.6),
    Style(VERMILLION, (6, 3), "square", "//", 1.8),
    Style(GREEN, (9, 3, 2, 3), "up", "\\\\", 1.8),
    Style(PURPLE, (3, 2), "diamond", "xx", 1.8),
    Style(ORANGE, (12, 3), "down", "--", 1.8),
    Style(GREY, (1.5, 2), "cross", "++", 1.8),
    Style(SKY, (8, 2, 1, 2, 1, 2), "plus", "|", 1.8),
)


def style(operation: str) -> Style:
    """The style of an operation; user-defined ones share a colour and differ by line style and marker."""
    return STYLES.get(operation) or OWN[sum(operation.encode()) % len(OWN)]


def in_order(operations: set[str]) -> list[str]:
    """Filters, aggregators, then user-defined operations by name."""
    return [name for name in ORDER if name in operations] + sorted(operations - set(ORDER))
