"""Who holds a folder or file: a process, known by more than its number, which another container or machine may use too."""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


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
