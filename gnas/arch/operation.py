"""What each built-in operation is: its name, its level, its formula, and how drawings and plots show it.

A new built-in operation has one entry here, since genotypes are read and drawn without torch, and one class in
``gnas/model/operations``. Operations of plugins have no entry; their classes can declare a :class:`Look`.
"""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass
from typing import Literal

from gnas.errors import InputError, choose

# The colours of Okabe and Ito, which colour-blind readers can tell apart.
GREY, ORANGE, BLUE, VERMILLION = "#808080", "#E69F00", "#0072B2", "#D55E00"
GREEN, PURPLE, SKY = "#009E73", "#CC79A7", "#56B4E9"


@dataclass(frozen=True)
class Look:
    """How a line, a marker or a bar looks. Two looks differ in more than the colour, so that prints in grey work too.

    Args:
        colour: Hexadecimal RGB.
        dash: Lengths of strokes and gaps in pixels. Empty: a solid line.
        marker: Name of a shape in ``gnas/report/shapes.py``.
        hatch: Pattern of bars, as matplotlib writes it.
        width: Width of lines in pixels.
    """

    colour: str
    dash: tuple[float, ...]
    marker: str
    hatch: str
    width: float = 2.0


@dataclass(frozen=True)
class Code:
    """An operation as lines of an exported module in plain PyTorch.

    Args:
        doc: The docstring of its class.
        layers: Lines of ``__init__``. The names are those of the stacked layers and parameters of its Operation.
        reads: What ``forward`` reads beside ``h``: ``x`` (the cell's input), ``edge_index`` or nothing.
        steps: Lines of ``forward`` before its value. ``aggregate(h, edge_index, "sum")`` can be called.
        value: The expression of its value.
    """

    doc: str
    layers: tuple[str, ...] = ()
    reads: str = ""
    steps: tuple[str, ...] = ()
    value: str = "h"


@dataclass(frozen=True)
class OperationInfo:
    """One built-in operation.

    Args:
        name: Name in genotypes, formulas and settings.
        level: ``filter`` (levels 1 and 3 of a cell), ``message`` (what an aggregator reads along an edge), ``aggregator``
            (level 2), or ``search`` (never in a genotype).
        formula: What it computes, for the documentation.
        label: What it does, in a few words.
        look: How drawings and plots show it.
        in_paper: Whether the paper's search space has it as a candidate.
    """

    name: str
    level: Literal["filter", "message", "aggregator", "search"]
    formula: str
    label: str
    look: Look
    in_paper: bool = True


_DECLARED = (
    OperationInfo("identity", "filter", "H", "no change", Look(GREY, (), "square", "", 1.6)),
    OperationInfo(
        "sparse", "filter", "diag(sigmoid(fc([H, H_in]))) H", "one gate per node", Look(ORANGE, (6, 3), "diamond", "//")
    ),
    OperationInfo(
        "dense",
        "filter",
        "sigmoid(fc([H, H_in])) * H",
        "one gate per node and channel",
        Look(BLUE, (), "disc", "\\\\", 2.6),
    ),
    OperationInfo(
        "sum", "aggregator", "sum of H_j over neighbours j", "sum of neighbours", Look(VERMILLION, (), "up", "x", 2.6)
    ),
    OperationInfo(
        "mean",
        "aggregator",
        "mean of H_j over neighbours j",
        "mean of neighbours",
        Look(GREEN, (9, 3, 2, 3), "down", "-", 2.2),
    ),
    OperationInfo(
        "max",
        "aggregator",
        "maximum of H_j over neighbours j, per channel",
        "maximum of neighbours",
        Look(PURPLE, (3, 2), "hexagon", "+", 2.4),
    ),
    OperationInfo(
        "symmetric",
        "aggregator",
        "sum of H_j / sqrt(d_i d_j) over neighbours j",
        "sum of neighbours, scaled by degrees",
        Look(SKY, (), "left", "o", 2.4),
        in_paper=False,
    ),
    OperationInfo(
        "std",
        "aggregator",
        "sqrt(mean of H_j^2 - (mean of H_j)^2) over neighbours j, per channel",
        "standard deviation of neighbours",
        Look(BLUE, (9, 3), "plus", ".", 2.2),
        in_paper=False,
    ),
    OperationInfo("plain", "message", "H_j", "the neighbour", Look(GREY, (4, 2), "square", "")),
    OperationInfo(
        "edge",
        "message",
        "ReLU(H_j + W E_ij)",
        "neighbour and edge",
        Look(ORANGE, (8, 3), "diamond", "//"),
        in_paper=False,
    ),
    OperationInfo(
        "gated",
        "message",
        "sigmoid(A H_i + B H_j + C E_ij) * V H_j",
        "a gate per edge and channel",
        Look(BLUE, (8, 3, 2, 3), "disc", "\\\\", 2.6),
        in_paper=False,
    ),
    OperationInfo(
        "attention",
        "message",
        "softmax_j(a LeakyReLU(A H_i + B H_j + C E_ij)) V H_j",
        "a weight per edge and head",
        Look(GREEN, (2, 2), "down", "-"),
        in_paper=False,
    ),
    OperationInfo(
        "pair",
        "message",
        "A H_i + B H_j + C E_ij",
        "both ends and the edge",
        Look(PURPLE, (12, 3, 2, 3, 2, 3), "hexagon", "+"),
        in_paper=False,
    ),
    OperationInfo("skip", "filter", "H", "no operation", Look(GREY, (1.5, 3), "dash", "--", 1.6), in_paper=False),
    OperationInfo("zero", "search", "0", "no link", Look(GREY, (1, 2), "cross", "/", 1.4), in_paper=False),
)
OPERATIONS_INFO = {info.name: info for info in _DECLARED}


def operation_names(level: str, *, in_paper: bool = False) -> tuple[str, ...]:
    """Names of the operations of a level, in order. ``in_paper`` limits them to the candidates of the paper.

    >>> operation_names("aggregator"), operation_names("filter", in_paper=True)
    (('sum', 'mean', 'max', 'symmetric', 'std'), ('identity', 'sparse', 'dense'))
    """
    return tuple(info.name for info in _DECLARED if info.level == level and (info.in_paper or not in_paper))


FILTERS, AGGREGATORS = operation_names("filter"), operation_names("aggregator")
MESSAGES = operation_names("message")
PLAIN = "plain"  # the message of the paper: the neighbour itself
PAPER_AGGREGATORS = operation_names("aggregator", in_paper=True)


def split_operation(name: str) -> tuple[str, str]:
    """The aggregator and the message of a level-2 operation; ``plain`` where no message is named.

    >>> split_operation("mean(gated)"), split_operation("mean")
    (('mean', 'gated'), ('mean', 'plain'))
    """
    aggregator, _, message = name.removesuffix(")").partition("(")
    return aggregator, message or PLAIN


def join_operation(aggregator: str, message: str) -> str:
    """The level-2 operation of an aggregator and a message, the inverse of :func:`split_operation`."""
    return aggregator if message == PLAIN else f"{aggregator}({message})"


def check_name(name: object) -> str:
    """Return ``name`` if it can name an operation of a genotype; your own names are allowed.

    An aggregation of messages is written ``mean(gated)``; ``mean(plain)`` is ``mean``.
    """
    if isinstance(name, str) and "(" in name:
        return _check_aggregation(name)
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise InputError(
            f"operation {reprlib.repr(name)} is not a name; use lower-case letters, digits and _, such as {FILTERS[1]}"
        )
    if name == "zero":
        raise InputError("operation zero is a candidate of the search only; leave the link out instead")
    if name in MESSAGES:
        raise InputError(f"{name} is a message, which an aggregator reads; write sum({name})")
    return name


def _check_aggregation(name: str) -> str:
    aggregator, message = split_operation(name)
    if name not in (f"{aggregator}({message})",) or aggregator not in AGGREGATORS:
        raise InputError(
            f"operation {reprlib.repr(name)} is not an aggregation of messages; write one of {', '.join(AGGREGATORS)} "
            f"and one of {', '.join(MESSAGES)}, such as mean(gated)"
        )
    choose(message, MESSAGES, "message")
    return join_operation(aggregator, message)


def is_aggregator(token: str) -> bool:
    """Whether a token of a formula aggregates: a built-in aggregator, or one of your own, written ``@name``."""
    return split_operation(token)[0] in AGGREGATORS or token.startswith("@")
