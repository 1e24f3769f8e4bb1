"""A job as a value: one of a few functions of this package by name, plain arguments, and the run folder it works in."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from gnas.errors import InputError, RunError
from gnas.files import short

Record = dict[str, Any]
Function = Callable[..., Any]

# What a job can call, and nothing else: whoever can write an order could otherwise call any function there is.
FUNCTIONS = (
    *("gnas.compare.networks.training_job", "gnas.compare.strategies.strategy_job", "gnas.paper.apart.run_job"),
    *("gnas.strategies.search_apart.search_job", "gnas.strategies.trials_apart.trial_job"),
)


@dataclass(frozen=True)
class Job:
    """``function`` is called as ``function(work, **arguments)``, here or in a worker; its value must be JSON.

    A job can be killed at any moment and is then called again: it goes on from what lies in its folder, and returns at
    once where that holds its result. ``folder`` is relative to the root that the jobs of one call share; ``also`` are
    other folders below it that the job reads or writes.
    """

    function: str
    folder: str
    arguments: dict[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise InputError(f"a job cannot call {short(self.function)!r}; it can call: {', '.join(FUNCTIONS)}")
        for folder in self.folders:
            below(folder)
        try:
            same = isinstance(self.arguments, dict) and json.loads(json.dumps(self.arguments)) == self.arguments
        except (TypeError, ValueError, RecursionError):
            same = False
        if not same:
            raise InputError(f"{self.folder}: the arguments of a job must be plain JSON values")

    @property
    def folders(self) -> tuple[str, ...]:
        """Where it reads and writes, its own folder first."""
        return self.folder, *self.also


@dataclass(frozen=True)
class Work:
    """What a job is given beside its arguments."""

    root: Path  # of a worker at a URL: it holds the folders of this job alone
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


class JobsFailed(RunError):
    """Some jobs did not end well; the others are finished and kept."""


def below(name: Any) -> str:
    """``name`` if it is that of a file or folder below the root."""
    path = PurePosixPath(name) if isinstance(name, str) else PurePosixPath("/")
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
        raise InputError(f"{short(name)!r} is named by a job; it must be a path below the run folder")
    return str(name)


def find_function(name: str) -> Function:
    """The function of a job."""
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]
