"""The questions that every architecture answers, and one function that reads an architecture of any kind.

An architecture is an immutable value without weights. There are three kinds: ``found`` (:class:`Genotype`, the GAP cells
of a search), ``graphnas`` (:class:`GraphNASArchitecture`) and ``baseline`` (:class:`HandMade`).
:func:`gnas.model.build.build_network` builds the network of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from gnas.arch.authors import is_first, is_released, read_first, read_released
from gnas.arch.genotype import CellGenotype, Genotype
from gnas.arch.graphnas import GraphNASArchitecture
from gnas.arch.hand_made import HandMade
from gnas.errors import InputError
from gnas.files import read_text


class Architecture(Protocol):
    """What a network is: found, of GraphNAS, or hand-made."""

    @property
    def kind(self) -> str:
        """``found``, ``graphnas`` or ``baseline``: chooses the builder of the network."""
        ...

    @property
    def id(self) -> str:
        """Ten hex digits of the content, the same on every machine."""
        ...

    @property
    def name(self) -> str:
        """Its name in a leaderboard: that of a hand-made network, ``gnas`` for a found one."""
        ...

    @property
    def title(self) -> str:
        """Kind and id for people, such as ``genotype 0f3a90b2c1``."""
        ...

    @property
    def channels(self) -> int | None:
        """The width, if the architecture fixes it; None if any width can be built."""
        ...

    @property
    def cells(self) -> tuple[CellGenotype, ...]:
        """The GAP cells, which can be drawn and exported; empty if the network is not made of them."""
        ...

    def depth(self) -> int:
        """Number of cells or layers that pass messages."""
        ...

    def formulas(self) -> tuple[str, ...]:
        """One formula per cell or layer."""
        ...

    def with_output(self, output: str) -> Architecture:
        """The same links with another choice of output nodes; unchanged if there are no cells."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """What the description of a trained network (``model.json``) holds of it."""
        ...

    def to_yaml(self) -> str:
        """The text of a file that :func:`read_architecture` reads."""
        ...

    def save(self, path: str | Path) -> Path:
        """Write the file; a crash leaves the old file or the new one."""
        ...


FORMATS: dict[str, Callable[[str, str], Architecture]] = {
    "gnas-graphnas": GraphNASArchitecture.from_yaml,
    "gnas-baseline": HandMade.from_yaml,
}


def describe_stack(architecture: Architecture) -> str:
    """What is around the cells of a found network, in words; empty for the paper's network and for other kinds."""
    return ", ".join(architecture.stack.describe()) if isinstance(architecture, Genotype) else ""


def read_architecture(source: str | Path) -> Architecture:
    """Read an architecture of any kind: a ``Path`` is a file, a ``str`` is the text of one."""
    text, name = (read_text(source), str(source)) if isinstance(source, Path) else (source, "<string>")
    form = re.match(r"format:[ \t]*([a-z-]+)", text)
    return FORMATS.get(form[1] if form else "", parse_genotype)(text, name)


def load_genotype(path: str | Path, output: str | None = None) -> Genotype:
    """Read a genotype file, in our format or one of the authors' two.

    Args:
        path: The file.
        output: Which nodes are a cell's output (``third``, ``all`` or ``leaves``). Only files of the authors' first
            code leave that open.

    >>> gnas.load_genotype("runs/mine/genotype.yaml").formulas()  # doctest: +ELLIPSIS
    ('...', '...')
    """
    return parse_genotype(read_text(path), str(path), output)


def parse_genotype(text: str, source: str = "<string>", output: str | None = None) -> Genotype:
    """The genotype of a text; ``source`` names the text in errors."""
    if is_first(text):
        return read_first(text, source, output or "third")
    if output is not None:
        raise InputError(f"{source}: output={output!r} applies only to files of the authors' first code")
    return read_released(text, source) if is_released(text) else Genotype.from_yaml(text, source)
