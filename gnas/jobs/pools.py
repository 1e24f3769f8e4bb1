"""What a runner asks of the workers it gives jobs to, and the simplest of them: this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gnas.jobs.perform import perform

Tell = Callable[
    [str, dict[str, Any]], None
]  # a job's key, and a message of it; a worker's death is the message ``died``


class Pool(Protocol):
    """Workers. Jobs are known by a key; what they say is handed on by ``wait``."""

    @property
    def slots(self) -> int:
        """Jobs that may be started before one has ended."""
        ...

    @property
    def width(self) -> int:
        """Jobs that are worked on at the same time."""
        ...

    def start(self, key: str, told: dict[str, Any], should_stop: Callable[[], bool]) -> None:
        """Give a job to a worker."""
        ...

    def wait(self, seconds: float, tell: Tell) -> None:
        """Hand on what was said, waiting so long for it."""
        ...

    def stop(self) -> None:
        """End all jobs under way, soon; those that can save their state first."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


class InProcess:
    """One job after the other, here."""

    slots = width = 1

    def __init__(self) -> None:
        self._given: tuple[str, dict[str, Any], Callable[[], bool]] | None = None

    def start(self, key: str, told: dict[str, Any], should_stop: Callable[[], bool]) -> None:
        self._given = key, told, should_stop

    def wait(self, seconds: float, tell: Tell) -> None:
        if self._given is None:
            return
        (key, told, should_stop), self._given = self._given, None
        perform(told, lambda message: tell(key, message), should_stop)

    def stop(self) -> None:
        self._given = None

    def close(self) -> None:
        pass
