"""A lock without the help of the system: a file that names its owner and changes every few seconds while the owner lives.

It is for run folders on file systems without ``flock``, and for run folders at a URL. No clocks are compared: whoever finds the
file of an owner on another machine watches whether it changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
import threading
import time
import warnings
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from gnas.errors import InputError, RunError
from gnas.files import read_bytes, write_atomic

FORMAT = "gnas-lease-1"
BEAT = 10.0  # seconds between two changes of the file
WATCH = 3 * BEAT  # a file that has not changed for this time has no owner any more


class LeaseHeld(InputError):
    """Another process holds the lock."""


class Slot(Protocol):
    """The place of a lease: one small file that may not be there."""

    @property
    def name(self) -> str:
        """What is locked, for messages."""
        ...

    @property
    def settle(self) -> float:
        """Seconds to wait after a write: of two processes that write at once, both then see who was the last."""
        ...

    def read(self) -> bytes | None: ...

    def create(self, data: bytes) -> bool:
        """Write the file unless there is one; whether this process has written it."""
        ...

    def write(self, data: bytes) -> None: ...

    def remove(self, data: bytes) -> None:
        """Remove the file if this is its content."""
        ...


@dataclass(frozen=True)
class Holder:
    """The content of a lease."""

    owner: Owner
    token: str
    beat: int = 0

    def to_bytes(self) -> bytes:
        values = {"format": FORMAT, "token": self.token, "beat": self.beat, **asdict(self.owner)}
        return json.dumps(values).encode()


def read_holder(data: bytes | None) -> Holder | None:
    """The holder that a file names; None if there is no file, or if it names no holder."""
    try:
        values = json.loads(data or b"")
    except (ValueError, RecursionError):
        return None
    owner = read_owner(values)
    if owner is None or not isinstance(values.get("token"), str) or type(values.get("beat")) is not int:
        return None
    return Holder(owner, values["token"], values["beat"])


class Lease:
    """A lock on a slot that this process holds until ``close``. A thread renews it."""

    def __init__(self, slot: Slot) -> None:
        self.slot, self.lost = slot, False
        self._holder = Holder(this_process(), secrets.token_hex(8))
        self._over, self._guard = threading.Event(), threading.Lock()
        self._take()
        threading.Thread(target=self._renew, daemon=True, name="gnas lease").start()

    def _take(self) -> None:
        for _ in range(3):
            data = self.slot.read()
            if data is not None:
                self._check_over(data)
                self.slot.remove(data)
            if self.slot.create(self._holder.to_bytes()) and self._is_mine():
                return
        raise LeaseHeld(f"{self.slot.name}: another process is working here")

    def _is_mine(self) -> bool:
        """Whether the slot is still this one's a moment later: another process may have been about to write it."""
        time.sleep(self.slot.settle)
        found = read_holder(self.slot.read())
        return found is not None and found.token == self._holder.token

    def _check_over(self, data: bytes) -> None:
        """An error if the holder of the slot still lives."""
        holder = read_holder(data)
        gone = None if holder is None else holder.owner.is_gone()
        who = "another process" if holder is None else holder.owner
        if gone is None:
            warnings.warn(
                f"{self.slot.name}: {who} worked here; waiting {WATCH:g} seconds to see whether it still does"
            )
            gone = not _changes(self.slot, data)
        if not gone:
            raise LeaseHeld(f"{self.slot.name}: {who} is working here; wait until it ends, or stop it")

    def _renew(self) -> None:
        while not self.lost and not self._over.wait(BEAT):
            # Every kind of storage has errors of its own; the next try may succeed.
            with self._guard, contextlib.suppress(Exception):
                self._beat()

    def _beat(self) -> None:
        found = read_holder(self.slot.read())
        self.lost = found is not None and found.token != self._holder.token
        if not self.lost and not self._over.is_set():
            self._holder = Holder(self._holder.owner, self._holder.token, self._holder.beat + 1)
            self.slot.write(self._holder.to_bytes())

    def check(self) -> None:
        """An error if another process has taken over, because this one was stopped for long."""
        if self.lost:
            raise RunError(
                f"{self.slot.name}: another process took over while this one was stopped; its work goes on there"
            )

    def close(self) -> None:
        """Release the lock."""
        self._over.set()
        with self._guard, contextlib.suppress(Exception):
            data = self.slot.read()
            found = read_holder(data)
            if data is not None and found is not None and found.token == self._holder.token:
                self.slot.remove(data)


def wait_for_lease(slot: Slot) -> Lease:
    """The lease, as soon as its holder gives it back."""
    while True:
        try:
            return Lease(slot)
        except LeaseHeld:
            time.sleep(0.2)


def _changes(slot: Slot, data: bytes) -> bool:
    until = time.monotonic() + WATCH
    while time.monotonic() < until:
        time.sleep(min(0.5, WATCH / 10))
        if slot.read() != data:
            return True
    return False


@dataclass(frozen=True)
class FileSlot:
    """A lease as a file of this machine."""

    path: Path
    settle = 0.02

    @property
    def name(self) -> str:
        return str(self.path.parent)

    def read(self) -> bytes | None:
        try:
            return read_bytes(self.path, follow=False)
        except FileNotFoundError:
            return None

    def create(self, data: bytes) -> bool:
        whole = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")  # appears complete, or not at all
        write_atomic(whole, data)
        try:
            os.link(whole, self.path)
            return True
        except FileExistsError:
            return False
        except OSError:  # no hard links here
            return self._create_directly(data)
        finally:
            whole.unlink(missing_ok=True)

    def _create_directly(self, data: bytes) -> bool:
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return True

    def write(self, data: bytes) -> None:
        write_atomic(self.path, data)

    def remove(self, data: bytes) -> None:
        """Moved away first: of two processes that remove a file, only one has it, and sees whether it is the right one."""
        moved = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        if self.read() != data:
            return
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(moved)
            if moved.read_bytes() != data:
                with contextlib.suppress(OSError):
                    os.link(moved, self.path)
            moved.unlink()

    def is_held(self) -> bool:
        """Whether its owner lives, as far as can be known at once."""
        data = self.read()
        if data is None:
            return False
        holder = read_holder(data)
        gone = None if holder is None else holder.owner.is_gone()
        try:
            return time.time() - self.path.stat().st_mtime < WATCH if gone is None else not gone
        except OSError:
            return False


# -- whose a file is --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Owner:
    """A process. ``machine`` is the same for processes that see each other: one boot, one container."""

    host: str
    machine: str
    pid: int
    started: str  # empty if the system does not say

    def is_gone(self) -> bool | None:
        """Whether the process has ended; None if that cannot be known here."""
        if self.machine != this_machine():
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):  # it belongs to another user
            return False
        started = start_time(self.pid)
        return bool(self.started and started and started != self.started)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """The process that calls."""
    return Owner(platform.node(), this_machine(), os.getpid(), start_time(os.getpid()))


def read_owner(values: Any) -> Owner | None:
    """The owner that a file names; None if it names none."""
    kinds = {"host": str, "machine": str, "pid": int, "started": str}
    if not isinstance(values, dict) or any(type(values.get(name)) is not kind for name, kind in kinds.items()):
        return None
    return Owner(**{name: values[name] for name in kinds}) if values["pid"] > 0 else None


@cache
def this_machine() -> str:
    """A name for all processes that see each other's numbers: same host, same boot, same container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:  # not Linux
        boot = space = ""
    return hashlib.sha256("\n".join((platform.node(), boot, space)).encode()).hexdigest()[:16]


def start_time(pid: int) -> str:
    """When a process started, in ticks since the boot; empty if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
