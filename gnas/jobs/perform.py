"""Performing one job, wherever that happens, and telling about it in messages of plain values.

Messages: ``began`` (which process), ``record`` (an epoch), ``warning``; and one of these last: ``result``, ``stopped``,
``error``.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gnas
from gnas.engine import use_deterministic
from gnas.errors import InputError
from gnas.jobs.job import Job, Record, Work, find_function
from gnas.jobs.storage import Storage
from gnas.runs import Interrupted, Locked

Say = Callable[[dict[str, Any]], None]
PUSH_SECONDS = 30.0  # between two pushes of a job's folder: what is lost, at most, with a worker and its disk
LOCK_SECONDS = 60.0  # a worker whose driver was killed saves its state before it lets go of the folder


def order(job: Job, root: Path, sync: str | None, device: str, push_seconds: float = PUSH_SECONDS) -> dict[str, Any]:
    """What a worker is sent."""
    return {
        "function": job.function,
        "folder": job.folder,
        "arguments": job.arguments,
        "root": str(root.resolve()),
        "sync": sync,
        "push_seconds": push_seconds,
        "device": device,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "version": gnas.__version__,
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
        known = isinstance(error, InputError) or type(error).__name__ == "NotFinite"
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
    if told["version"] != gnas.__version__:
        raise InputError(
            f"{platform.node()} has gnas {gnas.__version__}, the driver {told['version']}; install the same"
        )
    if threads is not None:
        torch.set_num_threads(threads)
    if told["deterministic"]:
        use_deterministic()
    function, root = find_function(told["function"]), Path(told["root"])
    device = torch.device(told["device"])
    if told["sync"] is None:
        if not root.is_dir():
            raise InputError(
                f"{root} is not there on {platform.node()}: choose a run folder that all machines share, or --sync URL"
            )
        folder = root / told["folder"]
        work = Work(folder, device, lambda record: say({"record": record}), should_stop, lambda name: root / name)
        return _when_free(lambda: function(work, **told["arguments"]))
    return _apart(told, function, device, say, should_stop)


def _apart(
    told: dict[str, Any], function: Callable[..., Any], device: torch.device, say: Say, should_stop: Callable[[], bool]
) -> Any:
    """The job in a folder of its own on this machine, begun from the storage and pushed to it."""
    storage, name = Storage(told["sync"]), told["folder"]
    sweep()
    place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    folder, last = place / name, time.monotonic()

    def on_epoch(record: Record) -> None:
        nonlocal last
        say({"record": record})
        if time.monotonic() - last >= told["push_seconds"]:
            try:
                storage.push(folder, name)
            except Exception as error:  # every kind of storage has errors of its own; the next push may succeed
                warnings.warn(f"{name}: not pushed to {told['sync']} this time ({' '.join(str(error).split())[:200]})")
            last = time.monotonic()

    try:
        storage.pull(name, folder)
        cache = Path(tempfile.gettempdir()) / f"{_PREFIX}files-{os.getuid()}"
        work = Work(folder, device, on_epoch, should_stop, lambda file: storage.fetch(file, cache / Path(file).name))
        try:
            result = function(work, **told["arguments"])
        finally:
            if folder.is_dir():
                storage.push(folder, name)
        return result
    finally:
        shutil.rmtree(place, ignore_errors=True)


_PREFIX = "gnas-job-"


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
