"""Messages between a driver and its workers, each a line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, get_origin, get_type_hints

import torch

from gnas.errors import InputError
from gnas.files import shorten
from gnas.jobs.job import Job, Record

MOST_THREADS = 4096
BEAT_SECONDS = 5.0  # between two signs of life
SILENT_SECONDS = 60.0  # a worker that sends nothing for this time was stopped, or hangs: it is replaced


@dataclass(frozen=True)
class Order:
    """A job for a worker: the job with its arguments as JSON, and where and how to do it."""

    function: str
    folder: str
    also: list[str]
    reads: list[str]
    arguments: dict[str, Any]
    root: str
    sync: str | None
    push_seconds: float
    device: str
    deterministic: bool
    version: str
    threads: int = 1

    def __post_init__(self) -> None:
        _check_types(self)
        Job(self.function, self.folder, {}, tuple(self.also), tuple(self.reads))  # checks these
        if not 1 <= self.threads <= MOST_THREADS:
            raise InputError(f"an order has {self.threads} threads; allowed: 1 to {MOST_THREADS}")
        try:
            torch.device(self.device)
        except RuntimeError:
            raise InputError(f"an order names the device {shorten(self.device)!r}, which does not exist") from None

    def job(self, arguments: dict[str, Any]) -> Job:
        """The job with its arguments decoded."""
        return Job(self.function, self.folder, arguments, tuple(self.also), tuple(self.reads))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str | bytes) -> Order:
        """The order that ``to_json`` wrote; an error in one line for anything else."""
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError("an order is not valid JSON") from None
        names = [f.name for f in fields(Order)]
        if not isinstance(values, dict) or set(values) != set(names):
            raise InputError(f"an order has the keys {', '.join(names)}")
        return Order(**values)


@dataclass(frozen=True)
class Started:
    """A worker has started a job."""

    kind: ClassVar[str] = "began"
    pid: int
    host: str


@dataclass(frozen=True)
class Beat:
    """A heartbeat: a worker sends one every few seconds, whatever its job does."""

    kind: ClassVar[str] = "beat"


@dataclass(frozen=True)
class Epoch:
    """The record of an epoch or a trial."""

    kind: ClassVar[str] = "epoch"
    record: Record


@dataclass(frozen=True)
class Warned:
    """A warning of this package."""

    kind: ClassVar[str] = "warning"
    text: str


@dataclass(frozen=True)
class Finished:
    """The job is done; ``result`` is encoded if it comes from a worker."""

    kind: ClassVar[str] = "result"
    result: Any


@dataclass(frozen=True)
class Stopped:
    """The worker has stopped on request; the job's state is saved."""

    kind: ClassVar[str] = "stopped"
    text: str


@dataclass(frozen=True)
class Failed:
    """The job failed; ``exception`` is known in the same process only."""

    kind: ClassVar[str] = "error"
    text: str
    exception: Exception | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Died:
    """The worker is gone. The pool makes this message."""

    kind: ClassVar[str] = "died"
    text: str
    counts: bool = True  # False: its machine has gone, too, which is not one of the job's tries


Message = Started | Beat | Epoch | Warned | Finished | Stopped | Failed | Died
FROM_WORKERS = {kind.kind: kind for kind in (Started, Beat, Epoch, Warned, Finished, Stopped, Failed)}
LAST = (Finished, Stopped, Failed)  # one of these ends a job


class UnknownMessage(InputError):
    """A worker sent what is not a message."""


def write_message(message: Message) -> str:
    """A message as a line of JSON."""
    values = {f.name: getattr(message, f.name) for f in fields(message) if f.name != "exception"}
    return json.dumps({"kind": message.kind, **values})


def read_message(line: str | bytes) -> Message:
    """The message that ``write_message`` wrote; an error for anything else."""
    try:
        values = json.loads(line)
        message = FROM_WORKERS[values.pop("kind")](**values)
        _check_types(message)
        return message
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        text = line.decode(errors="replace") if isinstance(line, bytes) else line
        raise UnknownMessage(f"unknown message: {shorten(text)}") from None


def _check_types(value: Order | Message) -> None:
    """JSON can hold anything: a value of another type than its field's is an error that names it."""
    hints = get_type_hints(type(value))
    for part in fields(value):
        hint, content = hints[part.name], getattr(value, part.name)
        kind = float | int if hint is float else get_origin(hint) if get_origin(hint) in (list, dict) else hint
        if kind is not Any and (not isinstance(content, kind) or (isinstance(content, bool) and kind is not bool)):
            raise InputError(f"{type(value).__name__.lower()}: {part.name} is {shorten(content)!r}, not {part.type}")
