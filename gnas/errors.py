"""Errors of this package: bad input, a run that failed, a run that was stopped. Each message is a single line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gnas.printed import to_printable

NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")  # as PyTorch says it
NOT_LOADED = ("failed to map segment", "cannot allocate memory")  # as the system says it of a library that is imported


class InputError(ValueError):
    """Bad input. The message is one line a user can act on; the command line prints it and exits with 2.

    >>> gnas.load("no-such-data")
    Traceback (most recent call last):
        ...
    gnas.errors.InputError: ...
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(to_printable(" ".join(str(message).splitlines())))  # what it quotes may hold line breaks


class RunError(RuntimeError):
    """A run failed for a reason that the message explains in one line; the command line prints it and exits with 1."""

    def __init__(self, message: object = "") -> None:
        super().__init__(to_printable(str(message)))


class OutOfMemory(RunError):
    """The memory is full; the message says what to lower."""


class Interrupted(Exception):
    """The user asked a run to stop; its state is saved."""


def choose(value: str, choices: Iterable[str], what: str) -> str:
    """Return ``value`` if it is one of ``choices``; otherwise an error that lists them and the nearest one."""
    known = list(choices)
    if value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    listed = f"choose one of: {', '.join(known)}" if known else "there is none to choose"
    raise InputError(f"unknown {what} {value!r}; {listed}{hint}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, PyTorch or a library of the GPU had no memory left. PyTorch has several errors for it."""
    if isinstance(error, ImportError):
        return any(words in str(error).lower() for words in NOT_LOADED)
    if isinstance(error, RunError) or not isinstance(error, RuntimeError):
        return isinstance(error, OutOfMemory | MemoryError)
    return any(words in str(error) for words in NO_MEMORY)


@contextmanager
def explain_memory(device: object, lower: str) -> Iterator[None]:
    """Inside, running out of memory raises an :class:`OutOfMemory` that says what to ``lower``, unless it was raised already."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, OutOfMemory) or not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"out of {name_memory(device)}; lower {lower}") from error


def name_memory(device: object) -> str:
    """The memory of a device in words."""
    return "memory" if str(device) == "cpu" else f"the memory of {device}"


@contextmanager
def name_place(place: str) -> Iterator[None]:
    """Put ``place`` in front of the message of an InputError raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
