"""What every operation is: a stack of modules of one kind, and its code in exported networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from gnas.arch.operation import AGGREGATORS, FILTERS, Code, Look
from gnas.errors import choose
from gnas.graph import Neighbors


@dataclass(frozen=True)
class Variant:
    """Where the paper, the authors' released code and the bare formulas differ inside a cell."""

    name: str
    bare: frozenset[str]  # operations that no linear-norm-activation follows
    transform_messages: bool  # Linear + ReLU before mean and max
    hidden_gate: bool  # sparse gate sigmoid(a . ReLU(W [h, h_in])) instead of sigmoid(fc([h, h_in]))
    search_slope: float  # slope of the cell's activation below zero, while searching
    train_slope: float  # and while training a found network
    equal_head: bool  # whether all hidden widths of the head are equal


VARIANTS = {
    "paper": Variant("paper", frozenset({"skip"}), False, False, 0.0, 0.0, False),
    "reference": Variant("reference", frozenset({"skip", "identity"}), True, True, 0.1, 0.01, True),
    "bare": Variant("bare", frozenset({*FILTERS, *AGGREGATORS}), False, False, 0.0, 0.0, False),
}


def find_variant(name: str) -> Variant:
    """The variant of this name."""
    return VARIANTS[choose(name, VARIANTS, "variant")]


@dataclass(frozen=True)
class Reduction:
    """How an aggregator reduces messages that exist as rows, one for each edge.

    Args:
        words: The aggregator in the documentation of exported code, such as ``sum of the``.
        code: Its expression in exported code; ``{}`` stands for the messages.
        sums: The columns whose sums it needs: ``value``, ``square``, or ``scaled`` by the sender's degree. Empty: it is the
            maximum.
        finish: The result, from these sums and the neighbours; None: the sum itself.
    """

    words: str
    code: str
    sums: tuple[str, ...] = ("value",)
    finish: Callable[[Sequence[Tensor], Neighbors], Tensor] | None = None


class Operation(nn.Module):
    """A stack of ``count`` operations of one kind. Subclass it to add your own: see docs/extending.md.

    ``h`` is ``[count, nodes, channels]``, one slice per operation, and parameters have the same leading dimension.
    ``x`` is the cell's input H_in, ``[nodes, channels]``, which the filters use to compute their gates.
    """

    look: ClassVar[Look | None] = None  # of an operation of your own in drawings; None: chosen by its name
    reduction: ClassVar[Reduction | None] = None  # of messages, for a built-in aggregator

    def __init__(self, channels: int, count: int, variant: Variant) -> None:
        super().__init__()

    def forward(self, h: Tensor, x: Tensor, neighbors: Neighbors) -> Tensor:
        raise TypeError(f"{type(self).__name__} must define forward(h, x, neighbors)")

    @classmethod
    def export_code(cls, variant: Variant) -> Code | None:
        """The operation as plain PyTorch, with the names of this module's layers; None: it cannot be exported."""
        return None
