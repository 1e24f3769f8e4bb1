"""A process that has imported everything and forks a child for each command it is told: starting one takes no time.

With ``--fresh`` it keeps some new processes waiting instead: what a GPU's driver sets up does not survive a fork.
``--warm`` words, joined by tabs, are commands that it runs itself first, so that no child imports or compiles anything.
Children may be told to suffer faults, see injections.py.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import jinja2  # noqa: F401 - what a report or a data file would import in every child anew
import matplotlib.backends.backend_svg  # noqa: F401
import torch
from injections import Calls, Writes, fork_workers, jump, set_limits

from gnas.cli import app, job, prepare  # noqa: F401 - imported before the first fork
from gnas.data.benchmarks import DATASETS, images
from gnas.report import html, live, pictures, uncertainty  # noqa: F401

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HUNG = 1000  # the exit code of a command that did not end in time, and was killed


def shrink() -> None:
    """PATTERN and MNIST with few graphs: preparing them takes a second."""
    for name, graphs in (("pattern", (60, 20, 20)), ("mnist", (30, 10, 20))):
        facts = dataclasses.replace(DATASETS[name].facts, graphs=graphs)
        DATASETS[name] = dataclasses.replace(DATASETS[name], facts=facts)
    images._PART = 10


def leave_out_pictures() -> None:
    """Plots take most of the time of a tiny run."""
    html.make_pictures = live.make_live_pictures = lambda *_: []
    uncertainty.DRAWS = 50


def run(words: list[str]) -> int:
    try:
        app(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def child(task: dict[str, Any]) -> None:
    log = os.open(task["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    if task["small"]:
        shrink()
    if not task["pictures"]:
        leave_out_pictures()
    if task["forked_workers"]:
        fork_workers()
    calls = Calls(**task["calls"]) if task["calls"] else None
    if calls is not None:
        calls.install()
    writes = Writes(task["die_at"], task["full_at"], task["among"])
    os.fsync, os.replace = writes.wrapped(os.fsync), writes.wrapped(os.replace)  # type: ignore[assignment]
    if task["jumps"]:
        jump()
    set_limits(task["limits"])
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        code = run(task["argv"])
    except KeyboardInterrupt:  # before the command itself could hear it
        print("stopped")
        code = 130
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    counted = {"writes": writes.count, "seconds": time.process_time()}
    if calls is not None:
        counted |= {"calls": calls.counts, "failed": calls.failed}
    os.write(log, f"\nended: {json.dumps(counted)}\n".encode())
    os._exit(code)


class Starter(Protocol):
    def start(self, task: dict[str, Any]) -> int: ...

    def wait(self, pid: int, seconds: float) -> int: ...


class Forked:
    """Children of this process, which also gets the processes that they leave behind."""

    def __init__(self) -> None:
        self.waiting: set[int] = set()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER

    def start(self, task: dict[str, Any]) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # a command hears them when it begins
        pid = os.fork()
        if pid == 0:
            os.setsid()
            child(task)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self.waiting.add(pid)
        return pid

    def wait(self, pid: int, seconds: float) -> int:
        until = time.monotonic() + seconds
        self.waiting.discard(pid)
        while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > until:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return HUNG
            time.sleep(0.003)
        return os.waitstatus_to_exitcode(ended[1])

    def left(self, seconds: float) -> int:
        """How many processes of ended commands are still there after so many seconds; they are killed."""
        until = time.monotonic() + seconds
        while there := [pid for pid in self._orphans() if os.waitpid(pid, os.WNOHANG)[0] == 0]:
            if time.monotonic() > until:
                for pid in there:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                return len(there)
            time.sleep(0.02)
        return 0

    def _orphans(self) -> list[int]:
        found = []
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(place.read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has just ended
                continue
            pid = int(place.parent.name)
            if parent == os.getpid() and pid not in self.waiting:
                found.append(pid)
        return found


class Fresh:
    """New processes that import everything and wait for a command."""

    def __init__(self, count: int = 6) -> None:
        self.processes = [self._new() for _ in range(count)]
        self.running: dict[int, subprocess.Popen[str]] = {}

    def start(self, task: dict[str, Any]) -> int:
        one = self.processes.pop(0)
        self.processes.append(self._new())
        self.running[one.pid] = one
        assert one.stdin is not None
        one.stdin.write(json.dumps(task))
        one.stdin.close()
        return one.pid

    def wait(self, pid: int, seconds: float) -> int:
        one = self.running.pop(pid)
        try:
            return one.wait(seconds)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
            return HUNG

    def _new(self) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, __file__, "--wait"], stdin=subprocess.PIPE, text=True)

    def end(self) -> None:
        for one in self.processes:
            one.communicate("")


def warm_up(commands: list[str]) -> None:
    plain = html.make_pictures, live.make_live_pictures, uncertainty.DRAWS
    leave_out_pictures()
    quiet, said = os.open(os.devnull, os.O_WRONLY), [os.dup(1), os.dup(2)]
    for stream in (1, 2):
        os.dup2(quiet, stream)
    for words in commands:
        run(words.split("\t"))
    for stream in (1, 2):
        os.dup2(said[stream - 1], stream)
    html.make_pictures, live.make_live_pictures, uncertainty.DRAWS = plain
    gc.freeze()


def main() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs without one
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup starts them so that they ignore it
    if "--wait" in sys.argv:
        task = sys.stdin.readline()
        if task:
            child(json.loads(task))
        return
    if "--warm" in sys.argv:
        warm_up(sys.argv[sys.argv.index("--warm") + 1 :])
    place = Fresh() if "--fresh" in sys.argv else Forked()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(place.wait(request["wait"], request["seconds"]), flush=True)
        elif "left" in request and isinstance(place, Forked):
            print(place.left(request["left"]), flush=True)
        else:
            print(place.start(request), flush=True)
    if isinstance(place, Fresh):
        place.end()


if __name__ == "__main__":
    main()
