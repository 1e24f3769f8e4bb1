"""Performing one job, wherever that happens, and telling about it in messages of plain values.

Messages: ``began`` (which process), ``record`` (an epoch), ``warning``; and one of these last: ``result``, ``stopped``,
``error``.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gnas
from gnas.errors import InputError, Interrupted, RunError
from gnas.files import short
from gnas.jobs.job import Job, Record, Work, below, find_function
from gnas.jobs.storage import Storage
from gnas.run.folder import Locked
from gnas.training.engine import use_deterministic

Say = Callable[[dict[str, Any]], None]
MESSAGES = {"began": dict, "record": dict, "warning": str, "result": object, "stopped": str, "error": str, "died": str}
PUSH_SECONDS = 30.0  # between two pushes of a job's folder: what is lost, at most, with a worker and its disk
LOCK_SECONDS = 60.0  # a worker whose driver was killed saves its state before it lets go of the folder


def order(job: Job, root: Path, sync: str | None, device: str, push_seconds: float = PUSH_SECONDS) -> dict[str, Any]:
    """What a worker is sent."""
    return {
        "function": job.function,
        "folder": job.folder,
        "also": list(job.also),
        "arguments": job.arguments,
        "root": str(root.resolve()),
        "sync": sync,
        "push_seconds": push_seconds,
        "device": device,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "version": gnas.__version__,
    }


def read_order(line: str | bytes) -> dict[str, Any]:
    """What ``order`` made, from JSON; whatever else it is, an error in one line."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError("an order is not valid JSON") from None
    return check_order(told)


def check_order(told: Any) -> dict[str, Any]:
    """An order whose values are of the kinds they must be; its job is checked where it is made."""
    if not isinstance(told, dict) or not _ORDER.keys() <= told.keys():
        raise InputError(f"an order has the names {', '.join(_ORDER)}")
    for name, kinds in _ORDER.items():
        if not isinstance(told[name], kinds) or (isinstance(told[name], bool) and kinds != (bool,)):
            raise InputError(f"an order has {short(told[name])!r} as its {name}")
    try:
        torch.device(told["device"])
    except RuntimeError:
        raise InputError(f"an order has {short(told['device'])!r} as its device") from None
    return told


def read_message(line: bytes) -> dict[str, Any] | None:
    """What a worker said, or None where that is no message."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if is_message(message) else None


def is_message(message: Any) -> bool:
    """Whether it is one kind of message with its value."""
    if not isinstance(message, dict) or len(message) != 1:
        return False
    ((kind, value),) = message.items()
    return kind in MESSAGES and isinstance(value, MESSAGES[kind])


def told_job(told: dict[str, Any]) -> Job:
    """The job of an order."""
    return Job(told["function"], told["folder"], told["arguments"], tuple(told["also"]))


_TEXT, _NONE = (str,), type(None)
_ORDER: dict[str, tuple[type, ...]] = {
    "function": _TEXT,
    "folder": _TEXT,
    "also": (list,),
    "arguments": (dict,),
    "root": _TEXT,
    "sync": (str, _NONE),
    "push_seconds": (int, float),
    "device": _TEXT,
    "deterministic": (bool,),
    "version": _TEXT,
}


def perform(told: dict[str, Any], say: Say, should_stop: Callable[[], bool], threads: int | None = None) -> None:
    """Do one job; every way it can end is a message. A worker says how many ``threads`` it has."""
    say({"began": {"pid": os.getpid(), "host": platform.node()}})
    try:
        with warnings.catch_warnings():
            if threads is not None:
                warnings.showwarning = _telling(say)
            say({"result": _perform(told, say, should_stop, threads)})
    except Interrupted as error:
        say({"stopped": str(error)})
    except Exception as error:
        known = isinstance(error, InputError | RunError)
        text = " ".join(str(error).split())
        where = "" if known else f" ({traceback.extract_tb(error.__traceback__)[-1].name})"
        say({"error": text if known else f"{type(error).__name__}: {text}{where}"})


def _telling(say: Say) -> Callable[..., None]:
    """Warnings of gnas as messages; those of other libraries are not for the driver."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        if Path(gnas.__file__).parent in Path(filename).resolve().parents:
            say({"warning": " ".join(str(message).split())})

    return show


def _perform(told: dict[str, Any], say: Say, should_stop: Callable[[], bool], threads: int | None) -> Any:
    job, root = told_job(check_order(told)), Path(told["root"])
    if told["version"] != gnas.__version__:
        raise InputError(
            f"{platform.node()} has gnas {gnas.__version__}, the driver {told['version']}; install the same"
        )
    if threads is not None:
        torch.set_num_threads(threads)
    if told["deterministic"]:
        use_deterministic()
    device = torch.device(told["device"])
    if told["sync"] is None:
        if not root.is_dir():
            raise InputError(
                f"{root} is not there on {platform.node()}: choose a run folder that all machines share, or --sync URL"
            )
        work = Work(
            *(root, root / job.folder, device, lambda record: say({"record": record}), should_stop),
            lambda name: root / below(name),
        )
        return _when_free(lambda: find_function(job.function)(work, **job.arguments))
    return _apart(told, job, device, say, should_stop)


def _apart(told: dict[str, Any], job: Job, device: torch.device, say: Say, should_stop: Callable[[], bool]) -> Any:
    """The job in folders of its own on this machine, begun from the storage and pushed to it."""
    storage = Storage(told["sync"])
    sweep()
    place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    last = time.monotonic()

    def push() -> None:
        for name in reversed(job.folders):  # its own, which may hold the result, last
            if (place / name).is_dir():
                storage.push(place / name, name)

    def on_epoch(record: Record) -> None:
        nonlocal last
        say({"record": record})
        if time.monotonic() - last >= told["push_seconds"]:
            try:
                push()
            except Exception as error:  # every kind of storage has errors of its own; the next push may succeed
                warnings.warn(
                    f"{job.folder}: not pushed to {told['sync']} this time ({' '.join(str(error).split())[:200]})"
                )
            last = time.monotonic()

    try:
        storage.sweep(job.folder)
        for name in job.folders:
            storage.pull(name, place / name)
        cache = _own_folder(Path(tempfile.gettempdir()) / f"{_PREFIX}files-{os.getuid()}")
        work = Work(
            *(place, place / job.folder, device, on_epoch, should_stop),
            lambda file: storage.fetch(below(file), cache / Path(file).name),
        )
        try:
            result = find_function(job.function)(work, **job.arguments)
        finally:
            push()
        return result
    finally:
        shutil.rmtree(place, ignore_errors=True)


_PREFIX = "gnas-job-"


def _own_folder(path: Path) -> Path:
    """A folder that nobody else can put files into: its name can be foreseen."""
    path.mkdir(mode=0o700, exist_ok=True)
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise InputError(f"{path} belongs to somebody else; remove it, or set TMPDIR to another folder")
    path.chmod(0o700)
    return path


def sweep() -> None:
    """Remove the folders of killed workers of this user."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*-*"):
        pid = left.name.removeprefix(_PREFIX).split("-")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)
        except (OSError, ValueError):  # somebody else's
            continue


def _when_free(call: Callable[[], Any]) -> Any:
    """Call, and wait a while if another process still holds the folder."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return call()
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
