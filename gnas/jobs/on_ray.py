"""Jobs on a Ray cluster. Each is a task that streams its messages; if its worker dies, the runner starts it again."""

from __future__ import annotations

import platform
import queue
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gnas.jobs.messages import (
    BEAT_SECONDS,
    SILENT_SECONDS,
    Beat,
    Began,
    Died,
    Order,
    UnknownMessage,
    read_message,
    write_message,
)
from gnas.jobs.pools import Receive, Task
from gnas.jobs.ray_cluster import Cluster, kill_process
from gnas.printed import to_printable


class RayTasks:
    """The cluster this machine belongs to or that ``RAY_ADDRESS`` names; else a new one on this machine."""

    in_process = False
    slots = 1000  # jobs wait inside Ray, so that a cluster that grows on demand sees them

    def __init__(self, gpus_per_job: float | None = None, device: str = "cpu", cpus_per_job: float = 1) -> None:
        self.cluster = Cluster()
        self.ray: Any = self.cluster.ray
        ray = self.ray
        self.gpus = (1.0 if device.startswith("cuda") else 0.0) if gpus_per_job is None else gpus_per_job
        have = ray.cluster_resources()
        if self.gpus > have.get("GPU", 0):
            warnings.warn(
                f"the Ray cluster has {have.get('GPU', 0):g} GPUs now: jobs wait until {self.gpus:g} are there"
            )
        fit = have.get("CPU", 1) / cpus_per_job
        self.width = max(1, int(min(fit, have.get("GPU", 0) / self.gpus) if self.gpus else fit))
        self._task = ray.remote(print_stream).options(
            num_cpus=cpus_per_job, num_gpus=self.gpus, num_returns="streaming", max_retries=0, name="gnas job"
        )
        self._threads = max(1, int(cpus_per_job))
        self._running: dict[Any, int] = {}
        self._heard: dict[Any, float] = {}  # when each job that has begun last sent something
        self._processes: dict[Any, int] = {}  # of jobs on this machine
        self._looked = time.monotonic()

    @property
    def description(self) -> str:
        """Where the cluster is, for people."""
        return self.cluster.description

    def start(self, task: Task) -> None:
        assert task.order is not None
        order = replace(task.order, threads=self._threads)
        self._running[self._task.remote(order.to_json())] = task.key

    def wait(self, seconds: float, receive: Receive) -> None:
        self.cluster.check()
        if not self._running:
            return
        streams = list(self._running)
        ready, _ = self.ray.wait(streams, num_returns=1, timeout=seconds, fetch_local=False)
        if ready:
            ready, _ = self.ray.wait(streams, num_returns=len(streams), timeout=0, fetch_local=False)
        for one in ready:
            self._heard[one] = time.monotonic()
            self._receive_next(one, receive)
        self._end_silent(receive)

    def _receive_next(self, one: Any, receive: Receive) -> None:
        """Pass on the next message of a job, or note its end."""
        key = self._running[one]
        try:
            message = read_message(self.ray.get(next(one)))
            if isinstance(message, Began) and message.host == platform.node():
                self._processes[one] = message.pid
            if not isinstance(message, Beat):
                receive(key, message)
        except StopIteration:
            del self._running[one]
        except self.ray.exceptions.RayError as error:
            del self._running[one]
            receive(key, Died(_describe_error(error), counts=not self._is_of_node(error)))
        except UnknownMessage as error:
            del self._running[one]
            receive(key, Died(f"its worker sent an {error}"))

    def _end_silent(self, receive: Receive) -> None:
        """Give up jobs whose workers give no sign of life any more. Those that have not begun wait for a machine."""
        now, before = time.monotonic(), self._looked
        self._looked = now
        self._heard = {one: heard for one, heard in self._heard.items() if one in self._running}
        if now - before > BEAT_SECONDS:  # this process itself was stopped
            self._heard = dict.fromkeys(self._heard, now)
        for one, heard in self._heard.items():
            if now - heard > SILENT_SECONDS:
                self.ray.cancel(one, force=True)
                kill_process(self._processes.pop(one, 0))  # a stopped one does not hear that it is cancelled
                receive(self._running.pop(one), Died(f"its worker gave no sign of life for {now - heard:.0f} seconds"))

    def _is_of_node(self, error: Exception) -> bool:
        """Whether the machine of a job has gone, which is not the fault of the job."""
        names = ("NodeDiedError", "LocalRayletDiedError")
        return isinstance(error, tuple(getattr(self.ray.exceptions, name) for name in names))

    def stop(self) -> None:
        for one in self._running:
            self.ray.cancel(one, force=True)
        self._running.clear()

    def close(self) -> None:
        self.stop()
        self.cluster.close()


def print_stream(line: str) -> Iterator[str]:
    """The order of one job inside a Ray worker: yields its messages as they come."""
    lines: queue.Queue[str | None] = queue.Queue()

    def work() -> None:
        from gnas.jobs.messages import Failed
        from gnas.jobs.perform import perform_order

        try:
            perform_order(Order.from_json(line), lambda message: lines.put(write_message(message)), lambda: False)
        except BaseException as error:  # the stream must end
            lines.put(write_message(Failed(f"{type(error).__name__}: {error}")))
        finally:
            lines.put(None)

    threading.Thread(target=work, daemon=True).start()
    while True:
        try:
            message = lines.get(timeout=BEAT_SECONDS)
        except queue.Empty:
            message = write_message(Beat())
        if message is None:
            return
        yield message


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {_first_line(error)[:200]}"


def _first_line(error: Exception) -> str:
    return to_printable((str(error).strip().splitlines() or [""])[0])
