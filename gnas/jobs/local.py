"""Jobs in processes of this machine: each worker has its share of the cores and, where there are some, of the GPUs."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from gnas.errors import InputError
from gnas.jobs.perform import read_message
from gnas.jobs.pools import Tell

GRACE = 15.0  # seconds a worker has to end its step and save
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class LocalProcesses:
    """``count`` worker processes, each for many jobs; one that dies is replaced."""

    def __init__(self, count: int, gpus_per_job: float | None = None, device: str = "cpu") -> None:
        self.slots = self.width = count
        visible = visible_gpus() if device.startswith("cuda") else []
        if ":" in device:  # this one GPU alone
            visible = visible[int(device.split(":")[1]) :][:1]
        self.gpus = share_gpus(count, gpus_per_job, visible) if visible or gpus_per_job else [()] * count
        self.threads = threads_each(count)
        self._workers: dict[int, _Worker] = {}
        self._selector = selectors.DefaultSelector()

    def start(self, key: str, told: dict[str, Any], should_stop: Callable[[], bool]) -> None:
        idle = [slot for slot in range(self.slots) if slot not in self._workers or self._workers[slot].key is None]
        known = [slot for slot in idle if slot in self._workers]  # those have imported everything already
        slot = (known or idle)[0]
        if slot not in self._workers:
            self._workers[slot] = _Worker(worker_environment(self.threads, self.gpus[slot]))
            self._selector.register(self._workers[slot].output, selectors.EVENT_READ, slot)
        self._workers[slot].give(key, {**told, "threads": self.threads})

    def wait(self, seconds: float, tell: Tell) -> None:
        for ready, _ in self._selector.select(seconds):
            worker = self._workers[ready.data]
            messages, alive = worker.read()
            for message in messages:
                key = worker.key or ""
                if message.keys() & {"result", "stopped", "error"}:
                    worker.key = None
                tell(key, message)
            if not alive:
                self._drop(ready.data, tell)

    def stop(self) -> None:
        self.close()

    def close(self) -> None:
        """A worker whose input ends saves and leaves; one that does not is killed."""
        for worker in self._workers.values():
            worker.end_input()
        until = time.monotonic() + GRACE
        for worker in self._workers.values():
            worker.leave(until)
            self._selector.unregister(worker.output)
            worker.release()
        self._workers.clear()

    def _drop(self, slot: int, tell: Tell) -> None:
        worker = self._workers.pop(slot)
        self._selector.unregister(worker.output)
        reason = worker.last_words()
        worker.release()
        if worker.key is not None:
            tell(worker.key, {"died": reason})


class _Worker:
    """One process: orders go to its input as JSON lines, messages come from its output, the rest goes to a log."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.key: str | None = None
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gnas.jobs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the driver, which tells the workers
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._half, self._odd = b"", False

    def give(self, key: str, told: dict[str, Any]) -> None:
        self.key = key
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: its output ends too, and the job is given to another
            self.process.stdin.write(json.dumps(told).encode() + b"\n")
            self.process.stdin.flush()

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """What was said since, and whether there may be more to come."""
        lines, alive = [], True
        while True:
            data = self.output.read(65536)
            if data is None:
                break
            if not data:
                alive = False
                break
            *whole, self._half = (self._half + data).split(b"\n")
            lines += whole
        found = [read_message(line) for line in lines if line]
        if None in found:  # whatever it is, it is not our worker any more
            self._odd, alive = True, False
            self.process.kill()
        return [message for message in found[: found.index(None) if None in found else None] if message], alive

    def end_input(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def leave(self, until: float) -> None:
        while self.process.poll() is None and time.monotonic() < until:
            self.read()  # a full pipe would hold it
            time.sleep(0.02)
        if self.process.poll() is None:
            self.process.kill()

    def last_words(self) -> str:
        """Why it died, as far as can be known."""
        code = self.process.wait()
        if self._odd:
            return "it said what is no message"
        self.log.seek(0)
        said = self.log.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}{': ' + said[-1][:300] if said else ''}"

    def release(self) -> None:
        self.end_input()
        self.process.wait()
        self.output.close()
        self.log.close()


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_each(count: int) -> int:
    """The share of the cores that each of ``count`` workers has, at most as many as ``OMP_NUM_THREADS`` allows."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    most = int(given) if given.isdigit() and int(given) > 0 else available_cores()
    return max(1, min(available_cores() // count, most))


def visible_gpus() -> list[str]:
    """The names by which a worker can be given the GPUs this process sees."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(number) for number in range(torch.cuda.device_count())]


def share_gpus(count: int, each: float | None, visible: list[str]) -> list[tuple[str, ...]]:
    """The GPUs of each of ``count`` workers: by turns, or as asked: ``each`` whole ones or a share of one.

    >>> share_gpus(4, 0.5, ["0", "1"])
    [('0',), ('0',), ('1',), ('1',)]
    >>> share_gpus(3, None, ["0", "1"])
    [('0',), ('1',), ('0',)]
    """
    if each is None:
        return [(visible[slot % len(visible)],) for slot in range(count)]
    if each == 0:
        return [()] * count
    together = max(1, int(1 / each + 1e-9))  # jobs on one GPU
    needed = -(-count // together) if each < 1 else count * int(each)
    if needed > len(visible):
        have = f"{len(visible)} GPU{'s' * (len(visible) != 1)}"
        raise InputError(
            f"{count} jobs at a time with {each:g} GPUs each need {needed}; this machine has {have}: "
            "lower N in --on local:N, or --gpus-per-job"
        )
    if each < 1:
        return [(visible[slot // together],) for slot in range(count)]
    whole = int(each)
    return [tuple(visible[slot * whole : (slot + 1) * whole]) for slot in range(count)]


def worker_environment(threads: int, gpus: tuple[str, ...]) -> dict[str, str]:
    """This process's environment with the worker's share of cores and GPUs."""
    found = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
    found.setdefault("OMP_WAIT_POLICY", "passive")  # as for the driver: threads that wait must not spin
    if gpus:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    return found
