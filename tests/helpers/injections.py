"""Faults inside a process that is about to run a command: it dies at a write, a call fails, the clock jumps, limits are low.

A task names them (see ``Nursery.start``). All calls below one folder count, so that a fault hits what the command writes.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

DAY = 86_400.0
WRITING = frozenset("wax+")


class Writes:
    """Counts flushes and renames of files whose path holds ``among``, before each and after it; acts at the n-th."""

    def __init__(self, die_at: int, full_at: int, among: str) -> None:
        self.count, self.die_at, self.full_at, self.among = 0, die_at, full_at, among

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            path = path_of(args[0]) if isinstance(args[0], int) else str(args[-1])
            if self.among not in path:
                return call(*args, **more)
            self._one(path)
            result = call(*args, **more)
            self._one(path)
            return result

        return counted

    def _one(self, path: str) -> None:
        self.count += 1
        if self.count == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.full_at and self.count >= self.full_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class Calls:
    """Counts writes, renames, flushes and new files below a folder; the n-th of one kind fails, alone or with all after it."""

    def __init__(self, within: str, kind: str = "", at: int = 0, error: int = 0, once: bool = True) -> None:
        self.within, self.kind, self.at, self.error, self.once = within, kind, at, error, once
        self.counts: Counter[str] = Counter()
        self.failed = 0

    def check(self, kind: str, path: str) -> None:
        if not path.startswith(self.within):
            return
        self.counts[kind] += 1
        if kind == self.kind and (self.counts[kind] == self.at if self.once else self.counts[kind] >= self.at):
            self.failed += 1
            raise OSError(self.error, os.strerror(self.error), path)

    def install(self) -> None:
        """Take the place of the calls of the system."""

        def wrapped(call: Callable[..., Any], kind: str, place: int) -> Callable[..., Any]:
            def checked(*args: Any, **more: Any) -> Any:
                if len(args) > place:
                    self.check(kind, path_of(args[place]))
                return call(*args, **more)

            return checked

        for name, kind, place in (
            *(("fsync", "fsync", 0), ("replace", "rename", 1), ("rename", "rename", 1)),
            *(("mkdir", "create", 0), ("link", "create", 1), ("sendfile", "write", 0)),
        ):
            setattr(os, name, wrapped(getattr(os, name), kind, place))
        plain_open = os.open

        def checked_open(path: Any, flags: int, *args: Any, **more: Any) -> int:
            if flags & os.O_CREAT and not os.path.exists(path):
                self.check("create", path_of(path))
            return plain_open(path, flags, *args, **more)

        os.open = checked_open
        plain = io.open

        def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **more: Any) -> Any:
            if not WRITING & set(mode) or not path_of(file).startswith(self.within):
                return plain(file, mode, buffering, *args, **more)
            return self._open(file, mode, buffering, *args, **more)

        io.open = builtins.open = opened  # type: ignore[assignment]

    def _open(
        self,
        file: Any,
        mode: str,
        buffering: int,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        calls, path = self, path_of(file)

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                calls.check("write", path)
                return super().write(data)

        raw = File(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if "b" in mode and buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)


def path_of(file: Any) -> str:
    """The path of a file that is named, or open."""
    if not isinstance(file, int):
        return os.path.abspath(os.fspath(file)) if isinstance(file, str | os.PathLike) else str(file)
    try:
        return os.readlink(f"/proc/self/fd/{file}")
    except OSError:
        return ""


def jump() -> None:
    """A wall clock that somebody sets forth and back by up to ten days."""
    clock = time.time
    time.time = lambda: clock() + random.uniform(-10, 10) * DAY  # type: ignore[assignment]


def set_limits(limits: dict[str, int]) -> None:
    """``memory``: KB beyond what is used now; ``files``: more open files than now; ``size``: bytes of the largest file."""
    if "memory" in limits:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limits["memory"] * 2**10, resource.RLIM_INFINITY))
    if "files" in limits:
        most = max(map(int, os.listdir("/proc/self/fd"))) + limits["files"]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    if "size" in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits["size"], resource.RLIM_INFINITY))


# -- workers that start at once ----------------------------------------------------------------------------------------

SILENT = 3.0  # seconds without a sign of life after which a worker is replaced, and
BEAT = 0.3  # between two signs of life


def fork_workers() -> None:
    """Workers of ``--on local:N`` are forks of this process, which has imported everything; signs of life come often."""
    from gnas.jobs import local

    local.subprocess = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    local.SILENT_SECONDS, local.BEAT_SECONDS = SILENT, BEAT


class ForkedWorker:
    """What ``subprocess.Popen`` is for a worker."""

    def __init__(self, words: Sequence[str], *, env: dict[str, str], stderr: Any, **_: Any) -> None:
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        self.pid, self.returncode = os.fork(), None
        if self.pid == 0:
            os.setsid()
            os.environ.update(env)
            for source, target in ((to_read, 0), (from_write, 1), (stderr.fileno(), 2)):
                os.dup2(source, target)
            os.closerange(3, 256)
            _work()
        os.close(to_read)
        os.close(from_write)
        self.stdin, self.stdout = os.fdopen(to_write, "wb"), os.fdopen(from_read, "rb")

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def _work() -> None:
    import sys

    from gnas.jobs import worker

    try:
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        worker.BEAT_SECONDS = BEAT
        worker.main()
    finally:
        os._exit(1)
