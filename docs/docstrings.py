"""Docstrings as the page of the API shows them: examples are code, and names of Python objects are code without a role."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`~?([^`]+)`")
EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent) *\S.*)*", re.M)
LITERAL = re.compile(r"::$", re.M)
DIRECTIVE = re.compile(r" *# doctest:.*")


class Docstrings(griffe.Extension):
    """Changes the text of every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring whose examples are fenced blocks: Markdown takes ``>>>`` for a quotation.

    >>> print(as_markdown("See :func:`gnas.load`."))
    See `gnas.load`.
    """
    return EXAMPLE.sub(_fence, LITERAL.sub(":", ROLE.sub(r"`\1`", text)))


def _fence(found: re.Match[str]) -> str:
    indent = found["indent"]
    return "\n".join((f"{indent}```pycon", DIRECTIVE.sub("", found[0]), f"{indent}```"))
