"""A job as a value: a function of this package by its name, plain arguments, and the run folder it works in."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from gnas.errors import InputError

Record = dict[str, Any]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Job:
    """``function`` is called as ``function(work, **arguments)``, here or in a worker; its value must be JSON.

    A job can be killed at any moment and is then called again: it goes on from what lies in its folder, and returns at
    once where that holds its result. ``folder`` is relative to the root that the jobs of one call share.
    """

    function: str
    folder: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path = PurePosixPath(self.folder)
        if not self.folder or path.is_absolute() or ".." in path.parts:
            raise InputError(f"the folder of a job is {self.folder!r}; it must be a path below the run folder")
        try:
            same = json.loads(json.dumps(self.arguments)) == self.arguments
        except (TypeError, ValueError):
            same = False
        if not same:
            raise InputError(f"{self.folder}: the arguments of a job must be plain JSON values")


@dataclass(frozen=True)
class Work:
    """What a job is given beside its arguments."""

    folder: Path
    device: torch.device
    on_epoch: Callable[[Record], None]
    should_stop: Callable[[], bool]
    file: Callable[[str], Path]  # a file below the root, by its relative name: brought here first if it lies elsewhere


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its ``result``, or the ``error``; ``tries`` counts the workers it took."""

    job: Job
    result: Any = None
    error: str | None = None
    tries: int = 1


class JobsFailed(RuntimeError):
    """Some jobs did not end well; the others are finished and kept."""


def find_function(name: str) -> Function:
    """The function of this package that has this full name."""
    module, _, function = name.rpartition(".")
    if module.split(".")[0] != "gnas":
        raise InputError(f"a job cannot call {name!r}: only functions of gnas")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        raise InputError(f"a job cannot call {name!r}: there is no such function") from None
    if not callable(found):
        raise InputError(f"a job cannot call {name!r}: it is not a function")
    return found
