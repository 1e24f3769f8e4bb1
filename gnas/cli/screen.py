"""What a command prints: text for people, one JSON object for machines, or nothing."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gnas.printed import escape_controls, mask_secrets, to_printable

WIDTH = 110  # where the output is not a terminal
_WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


class Screen:
    """The answer goes to standard output; progress, warnings and errors go to standard error."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.out, self.err = _console(False), _console(True)

    @property
    def talks(self) -> bool:
        """Whether people read along."""
        return not (self.as_json or self.quiet)

    @property
    def live(self) -> bool:
        """Whether bars can move: both streams end on a terminal."""
        return self.out.is_terminal and self.err.is_terminal

    def say(self, *parts: Any, style: str = "") -> None:
        """Print for people."""
        if self.talks:
            for part in parts:
                text = to_printable(part) if isinstance(part, str) else part
                self.out.print(text, style=style, soft_wrap=isinstance(part, str | Text))

    def pair(self, name: str, value: str, style: str = "") -> None:
        """Print a named line, its name in a column of its own; further lines of the value stand below each other."""
        self.pairs(name, [(line, "") for line in value.splitlines()] or [("", "")], style)

    def pairs(self, name: str, lines: Sequence[tuple[str, str]], style: str = "") -> None:
        """Print lines of a word and a text, with a name before the first. Long lines are wrapped and indented."""
        if not self.talks:
            return
        name, lines = to_printable(name), [(to_printable(word), to_printable(text)) for word, text in lines]
        width = max((len(word) for word, text in lines if text), default=0)
        for number, (word, text) in enumerate(lines):
            head = f"{'' if number else name:<8} "
            body = f"{word:<{width}}  {text}" if text else word
            rows = [head + body]
            if self.out.is_terminal and len(rows[0]) > self.out.width:
                indent = " " * (len(head) + (width + 2 if text else 0))
                rows = textwrap.wrap(
                    body, self.out.width, initial_indent=head, subsequent_indent=indent, **_WHOLE_WORDS
                )
            for row in rows:
                line = Text(row.rstrip(), style=style)
                line.stylize("not dim bold cyan", 0, len(head))
                self.out.print(line, soft_wrap=True)

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Inside, a spinner turns on a terminal."""
        if self.quiet or not self.live:
            yield
            return
        with self.err.status(text, spinner="dots"):
            yield

    def result(self, value: Any) -> None:
        """Print the JSON object of ``--json``."""
        if self.as_json:
            print(json.dumps(to_json_numbers(value), indent=2, default=str), file=sys.stdout, flush=True)


class _SafeConsole(Console):
    """Names of files, datasets and labels may hold anything: only rich itself may send control characters."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


def _console(stderr: bool) -> Console:
    console = _SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def to_json_numbers(value: Any) -> Any:
    """The same value in JSON's own numbers: what is not finite becomes null. Secrets are masked."""
    if isinstance(value, dict):
        return {str(name): to_json_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_numbers(item) for item in value]
    if isinstance(value, str):
        return mask_secrets(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number_cells(formulas: Sequence[str]) -> list[tuple[str, str]]:
    """Names and formulas; equal neighbours share a line.

    >>> number_cells(("mean", "mean", "sum"))
    [('cells 1-2', 'mean'), ('cell 3', 'sum')]
    """
    groups: list[tuple[int, int, str]] = []
    for number, text in enumerate(formulas, start=1):
        if groups and groups[-1][2] == text:
            groups[-1] = (groups[-1][0], number, text)
        else:
            groups.append((number, number, text))
    return [(f"cell {a}" if a == b else f"cells {a}-{b}", text) for a, b, text in groups]
