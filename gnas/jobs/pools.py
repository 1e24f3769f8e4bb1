"""What a runner expects of its workers, and the simplest pool: this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gnas.jobs.job import Job, Record
from gnas.jobs.messages import Message, Order
from gnas.jobs.perform import Place, perform_here

Receive = Callable[[int, Message], None]  # the key of a job, and a message about it


@dataclass(frozen=True)
class Task:
    """A job to start: the job itself for this process, its ``order`` for a worker."""

    key: int
    job: Job
    place: Place
    order: Order | None
    on_epoch: Callable[[Record], None] | None
    should_stop: Callable[[], bool] | None


class Pool(Protocol):
    """Workers. ``wait`` passes on what they send."""

    @property
    def in_process(self) -> bool:
        """Whether jobs run in this process, so that nothing is serialised."""
        ...

    @property
    def slots(self) -> int:
        """Jobs that may be started before one of them has ended."""
        ...

    @property
    def width(self) -> int:
        """Jobs that run at the same time."""
        ...

    def start(self, task: Task) -> None:
        """Give a job to a worker."""
        ...

    def wait(self, seconds: float, receive: Receive) -> None:
        """Pass on messages; wait so long for the first."""
        ...

    def stop(self) -> None:
        """End all jobs soon; those that can save their state do so."""
        ...

    def close(self) -> None:
        """Release the workers."""
        ...


class InProcess:
    """One job after the other in this process. Each gets its live arguments and checks itself whether to stop."""

    in_process = True
    slots = width = 1

    def __init__(self) -> None:
        self._next: Task | None = None

    def start(self, task: Task) -> None:
        self._next = task

    def wait(self, seconds: float, receive: Receive) -> None:
        if self._next is not None:
            task, self._next = self._next, None
            send = lambda message: receive(task.key, message)  # noqa: E731
            perform_here(task.job, task.place, send, task.on_epoch, task.should_stop)

    def stop(self) -> None:
        self._next = None

    def close(self) -> None:
        pass
