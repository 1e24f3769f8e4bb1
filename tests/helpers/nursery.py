"""A process that has imported everything and forks a child for each command it is told: starting one takes no time.

With ``--fresh`` it keeps some new processes waiting instead: what a GPU's driver sets up does not survive a fork.

A child can be told to kill itself at its n-th write, which no signal from outside could hit: before or after a flush to
the disk, before or after a rename; to find the disk full from its n-th write on; to live with a clock that jumps; and to
take the paper's datasets for small ones.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jinja2  # noqa: F401 - what a report or a data file would import in every child anew
import matplotlib.backends.backend_svg  # noqa: F401
import torch

from gnas.cli import app, job, prepare, show  # noqa: F401 - imported before the first fork
from gnas.data.benchmarks import DATASETS, images
from gnas.report import html, pictures  # noqa: F401

DAY = 86_400.0


class Writes:
    """Counts flushes and renames of files whose path holds ``among``, before each and after it; acts at the n-th."""

    def __init__(self, die_at: int, full_at: int, among: str) -> None:
        self.count, self.die_at, self.full_at, self.among = 0, die_at, full_at, among

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{args[0]}") if isinstance(args[0], int) else str(args[-1])
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


def jumping(clock: Callable[[], float]) -> Callable[[], float]:
    """A wall clock that somebody sets forth and back by up to ten days."""
    return lambda: clock() + random.uniform(-10, 10) * DAY


def shrink() -> None:
    """PATTERN and MNIST with few graphs: preparing them takes a second."""
    for name, graphs in (("pattern", (60, 20, 20)), ("mnist", (60, 20, 40))):
        facts = dataclasses.replace(DATASETS[name].facts, graphs=graphs)
        DATASETS[name] = dataclasses.replace(DATASETS[name], facts=facts)
    images._PART = 20


def child(task: dict[str, Any]) -> None:
    log = os.open(task["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    writes = Writes(task["die_at"], task["full_at"], task["among"])
    os.fsync, os.replace = writes.wrapped(os.fsync), writes.wrapped(os.replace)  # type: ignore[assignment]
    if task["jumps"]:
        time.time = jumping(time.time)  # type: ignore[assignment]
    if task["small"]:
        shrink()
    code = 1
    try:
        app(task["argv"])
    except SystemExit as end:
        code = int(end.code or 0)
    print(f"writes: {writes.count}", flush=True)
    os._exit(code)


def forked(task: dict[str, Any]) -> None:
    pid = os.fork()
    if pid == 0:
        child(task)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


class Waiting:
    """New processes that import everything and wait for a command."""

    def __init__(self, count: int = 6) -> None:
        self.processes = [self._new() for _ in range(count)]

    def __call__(self, task: dict[str, Any]) -> None:
        one = self.processes.pop(0)
        self.processes.append(self._new())
        print(one.pid, flush=True)
        one.communicate(json.dumps(task))
        print(one.returncode, flush=True)

    def _new(self) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, __file__, "--wait"], stdin=subprocess.PIPE, text=True)

    def end(self) -> None:
        for one in self.processes:
            one.communicate("")


def main() -> None:
    torch.set_num_threads(1)
    if "--wait" in sys.argv:
        task = sys.stdin.readline()
        if task:
            child(json.loads(task))
        return
    waiting = Waiting() if "--fresh" in sys.argv else None
    for line in sys.stdin:
        (waiting or forked)(json.loads(line))
    if waiting:
        waiting.end()


if __name__ == "__main__":
    main()
