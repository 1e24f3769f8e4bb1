"""What is chosen once for a whole network, around its cells.

Feed-forward layers, dropout, read-out, the state of edges, encodings, and whether outputs of nodes are propagated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import total_ordering
from typing import Any

import numpy as np

from gnas.errors import InputError, choose
from gnas.fields import check_fields, convert_fields, setting

READOUTS = ("mean", "sum", "max", "mean_max")
EDGE_STATES = ("kept", "updated")
ENCODINGS = ("structure", "walks", "laplacian", "edge_walks")


@total_ordering
@dataclass(frozen=True)
class Stack:
    """The parts of a network that are not cells. The default is the paper's network.

    Example:
        >>> Stack(ffn=True, edges="updated").to_dict()
        {'ffn': True, 'edges': 'updated'}
    """

    ffn: bool = setting(False, "a feed-forward layer of twice the width after every cell")
    mlp: int = setting(1, "linear layers that fuse the outputs of a cell", choices=(1, 2))
    dropout: float | None = setting(None, "dropout rate; null: the training setting", at_least=0, below=1)
    readout: str | None = setting(None, "from nodes to graph; null: the task's", choices=READOUTS)
    edges: str = setting("kept", "state of edges: `kept`, or `updated` by both ends in every cell", choices=EDGE_STATES)
    encodings: tuple[str, ...] | None = setting(
        None, "encodings that the network reads; null: all that the data has", choices=ENCODINGS
    )
    propagation: int = setting(
        0, "steps in which outputs of nodes spread over the graph (personalised PageRank); 0: none", at_least=0
    )

    def __post_init__(self) -> None:
        check_fields(self, "stack")
        if self.dropout is not None:
            object.__setattr__(self, "dropout", float(self.dropout))
        if self.encodings is not None:
            wrong = len(set(self.encodings)) < len(self.encodings)
            if wrong:
                raise InputError(f"stack.encodings is {list(self.encodings)}; name each once")
            object.__setattr__(self, "encodings", tuple(name for name in ENCODINGS if name in self.encodings))

    def __lt__(self, other: Stack) -> bool:
        return repr(self) < repr(other)

    def to_dict(self) -> dict[str, Any]:
        """The choices that differ from the default."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        changed = {name: value for name, value in values.items() if value != getattr(DEFAULT, name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Stack:
        """The inverse of ``to_dict``; texts of a file are brought to the type of their field."""
        for name in values:
            choose(str(name), [one.name for one in fields(Stack)], "part of a stack")
        return Stack(**convert_fields(Stack, values, "stack"))

    def describe(self) -> tuple[str, ...]:
        """The choices that differ from the default, in words.

        >>> Stack(ffn=True, edges="updated", readout="mean_max").describe()
        ('a feed-forward layer after every cell', 'read-out mean and max', 'edge states updated in every cell')
        """
        words = ["a feed-forward layer after every cell"] if self.ffn else []
        words += ["two linear layers fuse a cell"] if self.mlp > 1 else []
        words += [] if self.dropout is None else [f"dropout {self.dropout:g}"]
        words += [] if self.readout is None else [f"read-out {self.readout.replace('_', ' and ')}"]
        words += ["edge states updated in every cell"] if self.edges == "updated" else []
        if self.encodings is not None:
            words.append(f"encodings {', '.join(self.encodings)}" if self.encodings else "no encodings")
        words += [f"outputs propagated {self.propagation} steps"] if self.propagation else []
        return tuple(words)

    def reads(self, encoding: str) -> bool:
        """Whether the network reads this encoding, if the data has it."""
        return self.encodings is None or encoding in self.encodings


DEFAULT = Stack()


@dataclass(frozen=True)
class StackSpace:
    """The choices for each part of a :class:`Stack`. The first of each is what supernets are built with."""

    ffn: tuple[bool, ...] = (False,)
    mlp: tuple[int, ...] = (1,)
    dropout: tuple[float | None, ...] = (None,)
    readout: tuple[str | None, ...] = (None,)
    edges: tuple[str, ...] = ("kept",)
    encodings: tuple[tuple[str, ...] | None, ...] = (None,)
    propagation: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        for name, choices in self.choices().items():
            if isinstance(choices, str) or not isinstance(choices, Collection):
                raise InputError(
                    f"stack choices {name} are {choices!r}; give a tuple of choices, such as ({choices!r},)"
                )
            object.__setattr__(self, name, tuple(choices))
            if not choices or len(set(choices)) < len(choices):
                raise InputError(f"stack choices {name} are {list(choices)}; name at least one, each once")
            for choice in choices:
                Stack(**{name: choice})

    def choices(self) -> dict[str, tuple[Any, ...]]:
        """The choices by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def open(self) -> tuple[str, ...]:
        """The parts with more than one choice."""
        return tuple(name for name, choices in self.choices().items() if len(choices) > 1)

    def size(self) -> int:
        """The number of different stacks."""
        size = 1
        for choices in self.choices().values():
            size *= len(choices)
        return size

    def first(self) -> Stack:
        """The first choice of every part."""
        return Stack(**{name: choices[0] for name, choices in self.choices().items()})

    def sample(self, rng: np.random.Generator) -> Stack:
        """A stack drawn uniformly. Parts with a single choice draw nothing."""
        found = self.first()
        for name in self.open():
            choices = self.choices()[name]
            found = replace(found, **{name: choices[int(rng.integers(len(choices)))]})
        return found

    def mutate(self, stack: Stack, name: str, rng: np.random.Generator) -> Stack:
        """``stack`` with part ``name`` re-drawn uniformly among its other choices."""
        others = [choice for choice in self.choices()[name] if choice != getattr(stack, name)]
        return replace(stack, **{name: others[int(rng.integers(len(others)))]})

    def __contains__(self, stack: object) -> bool:
        if not isinstance(stack, Stack):
            return False
        return all(getattr(stack, name) in choices for name, choices in self.choices().items())


ONE_STACK = StackSpace()  # no choice: the paper's network
