"""Performs one job: in this process with live values, or in a worker from an order. A message says how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import stat
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import gnas
from gnas.errors import InputError, Interrupted, RunError
from gnas.jobs.codec import decode, encode
from gnas.jobs.job import Job, Record, Work, check_below, find_function
from gnas.jobs.messages import Epoch, Failed, Finished, Message, Order, Started, Stopped, Warned
from gnas.jobs.storage import Storage
from gnas.leases import Owner, this_process
from gnas.printed import to_printable
from gnas.run import layout
from gnas.run.folder import Locked
from gnas.training.engine import use_deterministic
from gnas.training.loop import labels_of, step_labels

Send = Callable[[Message], None]
StopCheck = Callable[[], bool]
PUSH_SECONDS = 30.0  # between two pushes of a job's folder: at most so much is lost with a worker and its disk
LOCK_SECONDS = 60.0  # a worker whose driver was killed saves its state before it releases the folder
QUIET_SECONDS = 7 * 86400.0  # a temporary folder of another machine that has not changed for this time is left over
_DATA: dict[str, Any] = {}  # data of the last order of this worker, by its description
_PREFIX = "gnas-job-"
_NAME = re.compile(_PREFIX + r"((?P<machine>[0-9a-f]{16})-)?(?P<pid>\d{1,9})-((?P<started>\d+)-)?\w+")


@dataclass(frozen=True)
class Place:
    """Where a job works: below ``root``, or in a folder of its own that is copied from and to the URL ``sync``."""

    root: Path | None
    device: str = "cpu"
    sync: str | None = None
    push_seconds: float = PUSH_SECONDS


def perform_here(
    job: Job, place: Place, send: Send, on_epoch: Callable[[Record], None] | None, should_stop: StopCheck | None
) -> None:
    """Do one job in this process, with its arguments as they are. A stop and Ctrl-C are raised, not sent."""
    try:
        arguments = job.load_arguments()
        with step_labels(labels_of(on_epoch)), _open_work(job, place, on_epoch, should_stop) as work:
            result = find_function(job.function)(work, **arguments)
        send(Finished(result))
    except Interrupted:
        raise
    except Exception as error:
        send(Failed(describe_error(error), error))


def perform_order(order: Order, send: Send, should_stop: StopCheck) -> None:
    """Do the job of an order in a worker. However it ends, a message says so."""
    send(Started(os.getpid(), platform.node()))
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _send_warnings(send)
            send(Finished(encode(_perform_order(order, send, should_stop))))
    except Interrupted as error:
        send(Stopped(str(error)))
    except Exception as error:
        send(Failed(describe_error(error)))


def _perform_order(order: Order, send: Send, should_stop: StopCheck) -> Any:
    if order.version != gnas.__version__:
        host = platform.node()
        raise InputError(
            f"{host} has gnas {gnas.__version__}, the driver has {order.version}; install the same version"
        )
    torch.set_num_threads(order.threads)
    if order.deterministic:
        use_deterministic()
    root = Path(order.root)
    if order.sync is None and not root.is_dir():
        host = platform.node()
        raise InputError(f"{host} has no folder {root}: choose a run folder that all machines share, or --sync URL")
    job = order.job(load_arguments(order.arguments, _file_finder(root, order.sync)))
    place = Place(root, order.device, order.sync, order.push_seconds)

    def call() -> Any:
        with _open_work(job, place, lambda record: send(Epoch(record)), should_stop) as work:
            return find_function(job.function)(work, **job.arguments)

    return _call_when_free(call)


def load_arguments(arguments: Mapping[str, Any], find_file: Callable[[str], Path]) -> dict[str, Any]:
    """The arguments of an order. Data that the last order had too is used again, with its graphs on the device.

    Files of graphs are named by their content: the same names are the same data.
    """
    texts = {name: json.dumps(value, sort_keys=True) for name, value in arguments.items() if _is_data(value)}
    for text in _DATA.keys() - texts.values():
        del _DATA[text]
    _DATA.update({text: decode(arguments[name], find_file) for name, text in texts.items() if text not in _DATA})
    rest = {name: decode(value, find_file) for name, value in arguments.items() if name not in texts}
    return {**rest, **{name: _DATA[text] for name, text in texts.items()}}


def _is_data(value: Any) -> bool:
    """Whether it is data of trials, which many jobs in a row have."""
    return isinstance(value, dict) and value.get("$class", ("",))[0] == "TrialData"


def describe_error(error: Exception) -> str:
    """An error as one line: its message, and for an unexpected one its type and the function that raised it."""
    text = to_printable(" ".join(str(error).split()))
    if isinstance(error, InputError | RunError):
        return text
    return f"{type(error).__name__}: {text} ({traceback.extract_tb(error.__traceback__)[-1].name})"


def _send_warnings(send: Send) -> Callable[..., None]:
    """Send the warnings of gnas as messages. Those of other libraries do not concern the driver."""

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        if Path(gnas.__file__).parent in Path(filename).resolve().parents:
            send(Warned(to_printable(" ".join(str(message).split()))))

    return show


def _call_when_free(call: Callable[[], Any]) -> Any:
    """Call; if another process still holds the folder, wait for it a while."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return call()
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


# -- the folders of a job ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_work(
    job: Job, place: Place, on_epoch: Callable[[Record], None] | None, should_stop: StopCheck | None
) -> Iterator[Work]:
    device = torch.device(place.device)
    if place.sync is not None:
        with _at_url(job, place, on_epoch) as (root, on_epoch):
            yield Work(root, root / job.folder, device, on_epoch, should_stop)
    else:
        folder = None if place.root is None else place.root / job.folder
        yield Work(place.root, folder, device, on_epoch, should_stop)


@contextlib.contextmanager
def _at_url(
    job: Job, place: Place, on_epoch: Callable[[Record], None] | None
) -> Iterator[tuple[Path, Callable[[Record], None]]]:
    """A temporary root for the job: its folders come from the URL, and what changes is pushed there."""
    assert place.sync is not None
    storage = Storage(place.sync)
    remove_old_folders()
    root = make_folder()
    last = time.monotonic()

    def push() -> None:
        for name in reversed(job.written):  # its own folder, which may hold the result, comes last
            if (root / name).is_dir():
                storage.push(root / name, name)

    def push_now_and_then(record: Record) -> None:
        nonlocal last
        if on_epoch is not None:
            on_epoch(record)
        if time.monotonic() - last >= place.push_seconds:
            try:
                push()
            except Exception as error:  # every kind of storage has errors of its own; the next push may succeed
                reason = " ".join(str(error).split())[:200]
                warnings.warn(to_printable(f"{job.folder}: not pushed to {place.sync} this time ({reason})"))
            last = time.monotonic()

    try:
        storage.sweep(job.folder)
        for name in (*job.written, *job.reads):
            storage.pull(name, root / name)
        try:
            yield root, push_now_and_then
        finally:
            push()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _file_finder(root: Path, sync: str | None) -> Callable[[str], Path]:
    """A function that opens files below the root by name; from a URL each is fetched once."""
    if sync is None:
        return lambda name: root / check_below(name)
    storage = Storage(sync)
    cache = _own_folder(Path(tempfile.gettempdir()) / f"{_PREFIX}files-{os.getuid()}")
    # Graphs are named by their content. Other files have the same name in many folders.
    return lambda name: storage.fetch(check_below(name), cache / name.replace("/", "-"))


def _own_folder(path: Path) -> Path:
    """A folder that only this user can write, because its name can be guessed."""
    path.mkdir(mode=0o700, exist_ok=True)
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise InputError(f"{path} belongs to another user; remove it, or set TMPDIR to another folder")
    path.chmod(0o700)
    return path


def make_folder() -> Path:
    """A temporary folder of this process. Its name says whose it is: the temporary folder may belong to many machines."""
    owner = this_process()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{owner.machine}-{owner.pid}-{owner.started or 0}-"))


def remove_old_folders() -> None:
    """Remove the temporary folders of killed workers of this user.

    Those of other containers and machines are left alone, unless nothing in them has changed for a week.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        named = _NAME.fullmatch(left.name)
        if named is None or not layout.is_folder(left):
            continue
        machine, pid, started = named.group("machine") or "", int(named["pid"]), named.group("started") or ""
        gone = Owner("", machine, pid, "" if started == "0" else started).is_gone()
        if _is_quiet(left) if gone is None else gone:
            shutil.rmtree(left, ignore_errors=True)


def _is_quiet(folder: Path) -> bool:
    """Whether nothing in a folder has changed for a week."""
    try:
        newest = max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
        return time.time() - newest > QUIET_SECONDS
    except OSError:  # somebody changes it now, or it belongs to another user
        return False
