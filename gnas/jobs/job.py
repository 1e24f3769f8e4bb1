"""A job as a value: one of a few functions of this package by name, its arguments, and the run folder it works in."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from gnas.errors import InputError, RunError
from gnas.files import shorten
from gnas.run.folder import Run

Record = dict[str, Any]
Function = Callable[..., Any]

# The only functions a job can call. Without this list, an order could call any function.
FUNCTIONS = (
    *("gnas.compare.networks.training_job", "gnas.compare.strategies.strategy_job", "gnas.paper.schedule.run_job"),
    *("gnas.strategies.searches.search_job", "gnas.strategies.trials.trial_job"),
    *("gnas.strategies.race_job.race_job", "gnas.folds.search_job", "gnas.folds.compare_job"),
)


@dataclass(frozen=True)
class Job:
    """A call ``function(work, **arguments)`` in this process or in a worker.

    A job can be killed at any moment and is then called again: it resumes from what its folder holds, and returns at once
    if the folder holds its result. In this process the arguments and the result are passed as they are. For a worker they
    become JSON (``gnas.jobs.codec``).

    Args:
        function: One of ``FUNCTIONS``.
        folder: The job's own folder, relative to the root of the runner.
        arguments: Keyword arguments of the function.
        also: Other folders that the job writes.
        reads: Folders that the job only reads.
        labels: Values that every record of the job gets, such as ``{"model": "gin"}``.
    """

    function: str
    folder: str
    arguments: dict[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    labels: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise InputError(f"a job cannot call {shorten(self.function)!r}; it can call: {', '.join(FUNCTIONS)}")
        for folder in (*self.written, *self.reads):
            check_below(folder)

    @property
    def written(self) -> tuple[str, ...]:
        """The folders it writes, its own first."""
        return self.folder, *self.also

    @property
    def is_lazy(self) -> bool:
        """Whether an argument is loaded when the job starts."""
        return any(isinstance(value, Lazy) for value in self.arguments.values())

    def load_arguments(self) -> dict[str, Any]:
        """The arguments, with the lazy ones loaded."""
        return {name: one.load() if isinstance(one, Lazy) else one for name, one in self.arguments.items()}

    def conflicts(self, other: Job) -> bool:
        """Whether one of the two writes a folder that the other uses: they cannot run at the same time."""
        mine, theirs = set(self.written), set(other.written)
        return bool(mine & (theirs | set(other.reads)) or theirs & set(self.reads))


@dataclass(frozen=True)
class Lazy:
    """An argument that is loaded when its job starts, such as a dataset. If that fails, only its job fails.

    For workers it is loaded and written once, however many jobs share this object.
    """

    load: Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """What a job gets beside its arguments."""

    root: Path | None  # None: nothing is written. For a worker at a URL it holds only the folders of this job
    folder: Path | None
    device: torch.device
    on_epoch: Callable[[Record], None] | None
    should_stop: Callable[[], bool] | None

    def open_run(self, config: dict[str, Any]) -> contextlib.AbstractContextManager[Run | None]:
        """The run in the job's folder, new or resumed; None if nothing is written."""
        return contextlib.nullcontext() if self.folder is None else Run(self.folder, config, resume=True)


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with its ``result``, or with an ``error`` in one line.

    ``number`` is the position of the job in its list; ``tries`` counts the workers it took. ``exception`` is the error
    itself if the job ran in this process.
    """

    job: Job
    number: int
    result: Any = None
    error: str | None = None
    tries: int = 1
    exception: Exception | None = field(default=None, compare=False)


class JobsFailed(RunError):
    """Some jobs failed; the results of the others are saved."""


def check_below(name: Any) -> str:
    """Return ``name`` if it is the relative path of a file or folder below the root."""
    path = PurePosixPath(name) if isinstance(name, str) else PurePosixPath("/")
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
        raise InputError(f"a job names {shorten(name)!r}; it must be a path below the run folder")
    return str(name)


def find_function(name: str) -> Function:
    """The function of a job."""
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]
