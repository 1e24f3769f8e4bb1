"""Jobs on a Ray cluster. Each is a task that streams its messages; if its worker dies, the runner starts it again."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import queue
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnas.distributed import at_root
from gnas.errors import InputError, RunError
from gnas.jobs.messages import (
    BEAT_SECONDS,
    SILENT_SECONDS,
    Beat,
    Died,
    Order,
    Started,
    UnknownMessage,
    read_message,
    write_message,
)
from gnas.jobs.runner import Receive, Task
from gnas.printed import mask_secrets, to_printable


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
        self._silent: dict[Any, float] = {}  # for each job that has started: seconds since its last message
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
            self._silent[one] = 0.0
            self._receive_next(one, receive)
        self._end_silent(receive)

    def _receive_next(self, one: Any, receive: Receive) -> None:
        """Pass on the next message of a job, or note its end."""
        key = self._running[one]
        try:
            message = read_message(self.ray.get(next(one)))
            if isinstance(message, Started) and message.host == platform.node():
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
        """Give up jobs whose workers send nothing any more. Jobs that have not started wait for a machine."""
        now, before = time.monotonic(), self._looked
        self._looked = now
        passed = min(now - before, BEAT_SECONDS)  # this process itself may have been stopped, and read nothing
        self._silent = {one: silent + passed for one, silent in self._silent.items() if one in self._running}
        for one, silent in self._silent.items():
            if silent > SILENT_SECONDS:
                self.ray.cancel(one, force=True)
                kill_process(self._processes.pop(one, 0))  # a stopped one does not hear that it is cancelled
                receive(self._running.pop(one), Died(f"its worker gave no sign of life for {silent:.0f} seconds"))

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
    """The order of one job inside a Ray worker: yields each message when it arrives."""
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
    error = getattr(error, "cause", None) or error  # what was raised in the worker, where Ray says so
    return f"{type(error).__name__}: {_first_line(error)[:200]}"


def _first_line(error: Exception) -> str:
    return to_printable((str(error).strip().splitlines() or [""])[0])


# -- the cluster ------------------------------------------------------------------------------------------------------

# Ray itself waits for minutes where nobody answers, and ends the process if its head is gone. So an address is tried before
# it is joined, and now and then the head is called to see whether it still answers.
LOWEST = (2, 52)  # the first version with tokens: without them any user of a machine can run code in its clusters
CONNECT_SECONDS = 5.0  # for the head to accept a connection
JOIN_SECONDS = 45.0  # for a cluster to accept a driver
CHECK_SECONDS = 5.0  # between two questions whether the head lives
LOST_SECONDS = 20.0  # a head that does not answer for this time is gone
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray's switch for listening on 127.0.0.1 alone
_PROBE = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False); print('joined')"


class ClusterLost(RunError):
    """The Ray cluster is gone; what was saved stays."""


class Cluster:
    """The cluster this machine belongs to or that ``RAY_ADDRESS`` names; else a new one on this machine."""

    def __init__(self) -> None:
        ray = import_ray()
        self.ray = ray
        self.ours = not ray.is_initialized()
        self.started = False
        if self.ours:
            self.started = _connect(ray)
        _silence(ray)
        self.address = str(ray.get_runtime_context().gcs_address)
        self._node = ray.get_runtime_context().get_node_id()
        self._asked = self._answered = time.monotonic()

    @property
    def description(self) -> str:
        """Where it is, for people."""
        if self.started:
            return f"started for this run, listens on {self.address} (only this machine, with a token)"
        return f"joined the cluster at {self.address}"

    def check(self) -> None:
        """An error if the cluster has gone. It asks at most every few seconds."""
        now = time.monotonic()
        if now - self._asked < CHECK_SECONDS:
            return
        self._asked = now
        if is_listening(self.address, 2.0):
            self._answered = time.monotonic()
            self._check_own_node()
        elif time.monotonic() - self._answered > LOST_SECONDS:
            raise ClusterLost(
                f"the Ray cluster at {self.address} has not answered for {LOST_SECONDS:g} seconds; what its workers saved is "
                "kept: start the cluster again, then resume with --resume"
            )

    def _check_own_node(self) -> None:
        alive: dict[str, bool] = {}

        def ask() -> None:
            with contextlib.suppress(Exception):  # the head may end at this moment; then the next check fails
                alive.update((node["NodeID"], node["Alive"]) for node in self.ray.nodes())

        asking = threading.Thread(target=ask, daemon=True)  # Ray waits for a minute
        asking.start()
        asking.join(CHECK_SECONDS)
        if alive.get(self._node) is False:
            raise ClusterLost(
                f"this machine's part of the Ray cluster at {self.address} (its raylet) has died; what was saved is kept: "
                "resume with --resume"
            )

    def close(self) -> None:
        """Leave the cluster. One that was started here ends with all its processes, also if its head is gone."""
        if not self.ours:
            return
        left = list(list_descendants(os.getpid())) if self.started else []
        self.ray.shutdown()
        if not _wait_for_end(left, 3.0):
            for pid in left:
                kill_process(pid)
            _wait_for_end(left, 3.0)


def _wait_for_end(processes: list[int], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while any(map(_is_of_ray, processes)):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def import_ray() -> Any:
    """Ray, if its version is one that gnas works with."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    check_version(str(ray.__version__))
    return ray


def check_version(version: str) -> None:
    """An error for a version of Ray that has no authentication."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < LOWEST:
        lowest = ".".join(map(str, LOWEST))
        raise InputError(
            f"Ray {version} is too old: gnas needs {lowest} or later, which has tokens; pip install 'ray>={lowest}'"
        )


def _connect(ray: Any) -> bool:
    """Join a cluster, or start one here; whether it was started."""
    named = os.environ.get("RAY_ADDRESS")
    if named and named != "local":
        _join(ray, named if named != "auto" else (find_address() or _no_cluster()), f"RAY_ADDRESS={named}")
        return False
    found = None if named == "local" else find_address()
    if found is not None and is_listening(found, CONNECT_SECONDS):
        _join(ray, found, f"the address that ray start left ({found})")
        return False
    _start(ray)
    return True


def _no_cluster() -> str:
    raise InputError(
        "RAY_ADDRESS=auto, but no Ray cluster was started on this machine; start one with: ray start --head"
    )


def _join(ray: Any, address: str, what: str) -> None:
    if not is_listening(address, CONNECT_SECONDS):
        raise InputError(f"no Ray cluster answers at {what}; start one with: ray start --head, or unset RAY_ADDRESS")
    words = [sys.executable, "-c", _PROBE, address]
    try:  # Ray may wait without end, or end the process: so another process tries it first
        tried = subprocess.run(words, capture_output=True, text=True, timeout=JOIN_SECONDS, cwd="/")
    except subprocess.TimeoutExpired:
        raise InputError(
            f"what listens at {what} is no Ray cluster, or did not answer for {JOIN_SECONDS:g} seconds"
        ) from None
    if "joined" not in tried.stdout:
        lines = tried.stderr.strip().splitlines() or ["no reason given"]
        raise InputError(f"the Ray cluster at {what} refuses: {to_printable(lines[-1])[:300]}")
    with _without_secrets(ray), at_root():
        ray.init(address=address, **QUIET)


def _start(ray: Any) -> None:
    """A cluster on the loopback address. Its token keeps the other users of this machine out."""
    if "RAY_AUTH_MODE" not in os.environ:  # they stay: Ray reads them once
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        ray._raylet.Config.initialize("")  # Ray has read its environment already
    with _on_loopback(ray), _without_secrets(ray), at_root():
        ray.init(address="local", include_dashboard=False, **QUIET)


@contextlib.contextmanager
def _without_secrets(ray: Any) -> Iterator[None]:
    """Inside, Ray takes note of the words of this command without their secrets."""
    utils = ray._private.utils
    before = utils.get_entrypoint_name
    utils.get_entrypoint_name = lambda: mask_secrets(before())
    try:
        yield
    finally:
        utils.get_entrypoint_name = before


@contextlib.contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """Inside, a cluster that is started listens on 127.0.0.1."""
    constants = ray._private.ray_constants
    before, known = constants.ENABLE_RAY_CLUSTER, {name: os.environ.get(name) for name in LOOPBACK}
    constants.ENABLE_RAY_CLUSTER = False  # Ray has read its environment already
    os.environ.update(LOOPBACK)
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
        for name, value in known.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _silence(ray: Any) -> None:
    """Ray prints pages on standard output if a node dies, where the answer of a command belongs."""
    ray._private.worker.print_to_stdstream = lambda *_, **__: None


def find_address() -> str | None:
    """The address that ``ray start`` left on this machine, if its file belongs to this user or to root."""
    file = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    try:
        if file.stat().st_uid not in (os.getuid(), 0):
            return None
        return file.read_text().strip() or None
    except OSError:
        return None


def is_listening(address: str, seconds: float) -> bool:
    """Whether something accepts connections at an address such as ``10.0.0.1:6379`` or ``ray://host:10001``."""
    host, _, port = address.partition("://")[2 if "://" in address else 0].rpartition(":")
    if not port.isdecimal():  # another kind of address, which only Ray knows
        return True
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
        return True
    except (OSError, OverflowError):
        return False


def list_descendants(pid: int) -> Iterator[int]:
    """The processes of Ray that a process started, directly or not; empty where the system does not say."""
    parents: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = int(file.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(file.parent.name))
    waiting = list(parents.get(pid, ()))
    while waiting:
        child = waiting.pop()
        waiting += parents.get(child, ())
        if _is_of_ray(child):
            yield child


def kill_process(pid: int) -> None:
    """Kill a process of Ray, if it is one of this user."""
    if pid and _is_of_ray(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _is_of_ray(pid: int) -> bool:
    """Whether a process lives and belongs to Ray."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        return words.startswith(b"ray::") or b"/ray/core/src/ray" in words or b"/ray/_private/" in words
    return False
