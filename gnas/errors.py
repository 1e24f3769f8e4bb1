"""Errors of this package: bad input, a run that failed, a run that was stopped. Each message is a single line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gnas.printed import printable


class InputError(ValueError):
    """Bad input. The message is one line a user can act on; the command line prints it and exits with 2."""

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(" ".join(str(message).splitlines())))  # what it quotes may hold line breaks


class RunError(RuntimeError):
    """A run failed for a reason that the message explains in one line; the command line prints it and exits with 1."""

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


class Interrupted(Exception):
    """The user asked a run to stop; its state is saved."""


def choose(value: str, choices: Iterable[str], what: str) -> str:
    """Return ``value`` if it is one of ``choices``; otherwise an error that lists them and the nearest one."""
    known = list(choices)
    if value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"unknown {what} {value!r}; choose one of: {', '.join(known)}{hint}")


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put ``place`` in front of the message of an InputError raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
