"""A process that has imported everything and forks a child for each command it is told: starting one takes no time.

A child can be told to kill itself at its n-th write, which no signal from outside could hit: before or after a flush to
the disk, before or after a rename.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import torch

from gnas.cli import app, begin, job, show  # noqa: F401 - imported before the first fork
from gnas.report import html  # noqa: F401


def dying(call: Callable[..., Any], count: list[int], die_at: int) -> Callable[..., Any]:
    """The same call; the process dies right before its n-th or right after it, counted over all such calls."""

    def count_one() -> None:
        count[0] += 1
        if count[0] == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(*args: Any, **more: Any) -> Any:
        count_one()
        result = call(*args, **more)
        count_one()
        return result

    return wrapped


def child(task: dict[str, Any]) -> None:
    log = os.open(task["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    count = [0]
    os.fsync = dying(os.fsync, count, task["die_at"])  # type: ignore[assignment]
    os.replace = dying(os.replace, count, task["die_at"])  # type: ignore[assignment]
    code = 1
    try:
        app(task["argv"])
    except SystemExit as end:
        code = int(end.code or 0)
    print(f"writes: {count[0]}", flush=True)
    os._exit(code)


def main() -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(task)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
