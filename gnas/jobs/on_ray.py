"""Jobs on a Ray cluster: each is a task whose messages are a stream; one whose worker dies is started again by the runner."""

from __future__ import annotations

import logging
import os
import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from gnas.errors import InputError
from gnas.jobs.perform import is_message
from gnas.jobs.pools import Tell


class RayTasks:
    """The cluster this machine belongs to or that ``RAY_ADDRESS`` names; where there is none, one on this machine."""

    slots = 1000  # they wait inside Ray, where a cluster that grows on demand sees them

    def __init__(self, gpus_per_job: float | None = None, device: str = "cpu", cpus_per_job: float = 1) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        self.ray: Any = ray
        self.gpus = (1.0 if device.startswith("cuda") else 0.0) if gpus_per_job is None else gpus_per_job
        self._ours = not ray.is_initialized()
        if self._ours:
            connect(ray)
        have = ray.cluster_resources()
        if self.gpus > have.get("GPU", 0):
            warnings.warn(
                f"the Ray cluster has {have.get('GPU', 0):g} GPUs now: jobs wait until {self.gpus:g} are there"
            )
        fit = have.get("CPU", 1) / cpus_per_job
        self.width = max(1, int(min(fit, have.get("GPU", 0) / self.gpus) if self.gpus else fit))
        self._task = ray.remote(stream).options(
            num_cpus=cpus_per_job, num_gpus=self.gpus, num_returns="streaming", max_retries=0, name="gnas job"
        )
        self._threads = max(1, int(cpus_per_job))
        self._running: dict[Any, str] = {}

    def start(self, key: str, told: dict[str, Any], should_stop: Callable[[], bool]) -> None:
        self._running[self._task.remote({**told, "threads": self._threads})] = key

    def wait(self, seconds: float, tell: Tell) -> None:
        if not self._running:
            return
        streams = list(self._running)
        ready, _ = self.ray.wait(streams, num_returns=1, timeout=seconds, fetch_local=False)
        if ready:
            ready, _ = self.ray.wait(streams, num_returns=len(streams), timeout=0, fetch_local=False)
        for one in ready:
            self._take(one, tell)

    def _take(self, one: Any, tell: Tell) -> None:
        """The next message of a job, or its end."""
        key = self._running[one]
        try:
            told = self.ray.get(next(one))
        except StopIteration:
            del self._running[one]
            return
        except self.ray.exceptions.RayError as error:
            del self._running[one]
            tell(key, {"died": _reason(error)})
            return
        if is_message(told):
            tell(key, told)
        else:
            del self._running[one]
            tell(key, {"died": "it said what is no message"})

    def stop(self) -> None:
        for one in self._running:
            self.ray.cancel(one, force=True)
        self._running.clear()

    def close(self) -> None:
        self.stop()
        if self._ours:
            self.ray.shutdown()


def connect(ray: Any) -> None:
    """Join a cluster, or start one here."""
    options: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "configure_logging": False,
        "include_dashboard": False,
    }
    address = os.environ.get("RAY_ADDRESS", "auto")
    try:
        if address != "local":
            options_there = {name: value for name, value in options.items() if name != "include_dashboard"}
            ray.init(address=address, **options_there)
            return
    except ConnectionError as error:
        if "RAY_ADDRESS" in os.environ:
            raise InputError(f"no Ray cluster answers at RAY_ADDRESS={address} ({_first_line(error)})") from None
    ray.init(address="local", **options)


def stream(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One job inside a Ray worker: what it says, as it says it."""
    said: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def work() -> None:
        from gnas.jobs.perform import perform

        try:
            perform(told, said.put, lambda: False, told["threads"])
        except BaseException as error:  # the stream must end
            said.put({"error": f"{type(error).__name__}: {error}"})
        finally:
            said.put(None)

    threading.Thread(target=work, daemon=True).start()
    while (message := said.get()) is not None:
        yield message


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {_first_line(error)[:200]}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
