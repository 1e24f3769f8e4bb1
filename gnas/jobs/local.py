"""Jobs in processes of this machine. Each worker gets its share of the cores and of the GPUs."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from dataclasses import replace

import torch

from gnas.distributed import available_cores, start_command
from gnas.errors import InputError
from gnas.jobs.messages import (
    BEAT_SECONDS,
    LAST,
    SILENT_SECONDS,
    Beat,
    Died,
    Message,
    Order,
    UnknownMessage,
    read_message,
)
from gnas.jobs.runner import Receive, Task
from gnas.printed import format_count, to_printable

GRACE = 15.0  # seconds for a worker to end its step and save
START_SECONDS = 600.0  # for a worker to start: a slow disk may hold the packages
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class LocalProcesses:
    """``count`` worker processes, each for many jobs; one that dies is replaced."""

    in_process = False

    def __init__(self, count: int, gpus_per_job: float | None = None, device: str = "cpu") -> None:
        self.slots = self.width = count
        visible = list_visible_gpus() if device.startswith("cuda") else []
        if ":" in device:  # only this GPU
            visible = visible[int(device.split(":")[1]) :][:1]
        self.gpus = share_gpus(count, gpus_per_job, visible) if visible or gpus_per_job else [()] * count
        self.threads = count_threads(count)
        self._workers: dict[int, _Worker] = {}
        self._selector = selectors.DefaultSelector()
        self._looked = time.monotonic()

    def start(self, task: Task) -> None:
        assert task.order is not None
        idle = [slot for slot in range(self.slots) if slot not in self._workers or self._workers[slot].key is None]
        started = [slot for slot in idle if slot in self._workers]  # those have imported everything already
        slot = (started or idle)[0]
        if slot not in self._workers:
            self._workers[slot] = _Worker(slot + 1, worker_environment(self.threads, self.gpus[slot]))
            self._selector.register(self._workers[slot].output, selectors.EVENT_READ, slot)
        self._workers[slot].send_order(task.key, replace(task.order, threads=self.threads))

    def wait(self, seconds: float, receive: Receive) -> None:
        self._end_silent()
        for ready, _ in self._selector.select(seconds):
            worker = self._workers[ready.data]
            messages, alive = worker.read_messages()
            for message in messages:
                key = worker.key
                if isinstance(message, LAST):
                    worker.key = None
                if key is not None and not isinstance(message, Beat):
                    receive(key, message)
            if not alive:
                self._drop(ready.data, receive)

    def _end_silent(self) -> None:
        """Kill workers that give no sign of life: their output ends, and others get their jobs."""
        now, before = time.monotonic(), self._looked
        self._looked = now
        passed = min(now - before, BEAT_SECONDS)  # this process itself may have been stopped, and read nothing
        for worker in self._workers.values():
            worker.silent += passed
            if worker.silent > (SILENT_SECONDS if worker.ready or worker.is_stopped() else START_SECONDS):
                worker.end(f"worker {worker.number} gave no sign of life for {worker.silent:.0f} seconds")

    def stop(self) -> None:
        self.close()

    def close(self) -> None:
        """End the input of every worker: it saves and exits. One that does not is killed."""
        for worker in self._workers.values():
            worker.end_input()
        until = time.monotonic() + GRACE
        for worker in self._workers.values():
            worker.wait_for_exit(until)
            self._selector.unregister(worker.output)
            worker.release()
        self._workers.clear()

    def _drop(self, slot: int, receive: Receive) -> None:
        worker = self._workers.pop(slot)
        self._selector.unregister(worker.output)
        reason = worker.explain_death()
        worker.release()
        if worker.key is not None:
            receive(worker.key, Died(reason))


class _Worker:
    """One process: orders go to its input, messages come from its output, all other output goes to a log."""

    def __init__(self, number: int, environment: dict[str, str]) -> None:
        self.number = number
        self.key: int | None = None  # of its job
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            start_command("gnas.jobs.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the driver, which ends the workers
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._half, self._fault = b"", ""
        self.silent, self.ready = 0.0, False  # seconds since its last sign of life, and whether there was one

    def send_order(self, key: int, order: Order) -> None:
        self.key = key
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is dead: its output ends too, and another worker gets the job
            self.process.stdin.write(order.to_json().encode() + b"\n")
            self.process.stdin.flush()

    def read_messages(self) -> tuple[list[Message], bool]:
        """The messages since the last call, and whether more may come."""
        lines, alive = [], True
        while True:
            data = self.output.read(65536)
            if data is None:
                break
            if not data:
                alive = False
                break
            self.silent, self.ready = 0.0, True
            *whole, self._half = (self._half + data).split(b"\n")
            lines += whole
        messages = []
        for line in filter(None, lines):
            try:
                messages.append(read_message(line))
            except UnknownMessage as error:  # this process cannot be trusted any more
                alive = False
                self.end(f"worker {self.number} sent an {error}")
                break
        return messages, alive

    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, as far as the system says: one that starts may be silent for long."""
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                return os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        return False

    def end(self, fault: str) -> None:
        """Kill it for a reason."""
        if not self._fault:
            self._fault = fault
            self.process.kill()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait_for_exit(self, until: float) -> None:
        while self.process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(ValueError):
                self.output.read(65536)  # a full pipe would block it
            time.sleep(0.02)
        if self.process.poll() is None:
            self.process.kill()

    def explain_death(self) -> str:
        """Why it died, as far as can be known."""
        code = self.process.wait()
        if self._fault:
            return self._fault
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}{': ' + to_printable(lines[-1][:300]) if lines else ''}"

    def release(self) -> None:
        self.end_input()
        self.process.wait()
        self.output.close()
        self.log.close()


def count_threads(count: int) -> int:
    """The share of the cores that each of ``count`` workers gets, at most what ``OMP_NUM_THREADS`` allows."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    most = int(limit) if limit.isdigit() and int(limit) > 0 else available_cores()
    return max(1, min(available_cores() // count, most))


def list_visible_gpus() -> list[str]:
    """The GPUs this process sees, by the names that ``CUDA_VISIBLE_DEVICES`` uses."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return [str(number) for number in range(torch.cuda.device_count())]


def share_gpus(count: int, each: float | None, visible: list[str]) -> list[tuple[str, ...]]:
    """The GPUs of each of ``count`` workers: in turn, or ``each`` whole ones or a share of one.

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
        raise InputError(
            f"{count} jobs at a time with {each:g} GPUs each need {needed}; this machine has "
            f"{format_count(len(visible), 'GPU')}: "
            "lower N in --on local:N, or --gpus-per-job"
        )
    if each < 1:
        return [(visible[slot // together],) for slot in range(count)]
    whole = int(each)
    return [tuple(visible[slot * whole : (slot + 1) * whole]) for slot in range(count)]


def worker_environment(threads: int, gpus: tuple[str, ...]) -> dict[str, str]:
    """This process's environment with the worker's share of cores and GPUs."""
    variables = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
    variables.setdefault("OMP_WAIT_POLICY", "passive")  # as for the driver: threads that wait must not spin
    if gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    return variables
