"""Colours of the page, and how operations and networks look in drawings and plots."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gnas.arch.operation import (
    BLUE,
    GREEN,
    GREY,
    OPERATIONS_INFO,
    ORANGE,
    PLAIN,
    PURPLE,
    SKY,
    VERMILLION,
    Look,
    split_operation,
)
from gnas.plugins import find_plugins, load_plugin

INK, PAPER, BAND, FAINT = "ink", "paper", "band", "faint"  # follow the page: light or dark
LIGHT = {INK: "#1c2430", PAPER: "#ffffff", BAND: "#f3f5f8", FAINT: "#6a7484"}

# Operations of plugins without a look of their own share a colour and differ in line and marker.
PLUGIN_LOOKS = (
    Look(SKY, (8, 4), "plus", "|"),
    Look(SKY, (2, 2, 6, 2), "cross", "||"),
    Look(SKY, (12, 3), "left", "|||"),
    Look(SKY, (4, 4), "right", "---"),
)

# Networks in comparisons: the searched one first, then the others in turn.
SERIES = (
    Look(BLUE, (), "disc", "", 2.6),
    Look(VERMILLION, (6, 3), "square", "//", 1.8),
    Look(GREEN, (9, 3, 2, 3), "up", "\\\\", 1.8),
    Look(PURPLE, (3, 2), "diamond", "xx", 1.8),
    Look(ORANGE, (12, 3), "down", "--", 1.8),
    Look(GREY, (1.5, 2), "cross", "++", 1.8),
    Look(SKY, (8, 2, 1, 2, 1, 2), "plus", "|", 1.8),
)


@lru_cache
def look_of(operation: str) -> Look:
    """The look that an operation declares: built in, or the class of a plugin. Others get one by their name.

    An aggregation of messages has the colour and the marker of its aggregator, and the line and the hatch of its message.
    """
    name, message = split_operation(operation)
    if name in OPERATIONS_INFO:
        look, line = OPERATIONS_INFO[name].look, OPERATIONS_INFO[message].look
        return look if message == PLAIN else replace(look, dash=line.dash, hatch=line.hatch)
    point = find_plugins("gnas.operations").get(operation)
    declared = None if point is None else getattr(load_plugin(point), "look", None)
    return declared if isinstance(declared, Look) else PLUGIN_LOOKS[sum(operation.encode()) % len(PLUGIN_LOOKS)]


def sort_operations(operations: set[str]) -> list[str]:
    """Built-in operations in the order of their declaration, then those of plugins by name."""
    return [name for name in OPERATIONS_INFO if name in operations] + sorted(operations - set(OPERATIONS_INFO))
