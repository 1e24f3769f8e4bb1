"""A worker process: orders come as JSON lines on its input, messages go out the same way. Its end is the end of input.

Should the driver be killed, the input ends too: the job under way saves its state and the worker leaves.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from typing import Any

from gnas.errors import InputError
from gnas.jobs.perform import perform, read_order

GRACE = 10.0  # seconds from the end of input to a hard exit, should a step take longer


def main() -> None:
    """Perform orders until there are none."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to the log, not between the messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()
    orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_listen, args=(orders, stop), daemon=True).start()

    def say(message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # nobody listens any more: the input has ended too
            channel.write(json.dumps(message) + "\n")

    while not stop.is_set() and (told := orders.get()) is not None:
        if "wrong" in told:
            say({"error": told["wrong"]})
        else:
            perform(told, say, stop.is_set, told["threads"])
    with contextlib.suppress(BrokenPipeError):
        channel.close()
    os._exit(0)  # everything is on disk; taking torch down would be a second of waiting for the driver


def _listen(orders: queue.Queue[dict[str, Any] | None], stop: threading.Event) -> None:
    for line in sys.stdin.buffer:
        try:
            orders.put({"threads": 1, **read_order(line)})
        except InputError as error:
            orders.put({"wrong": str(error)})
    stop.set()
    orders.put(None)
    late = threading.Timer(GRACE, os._exit, (1,))
    late.daemon = True
    late.start()


if __name__ == "__main__":
    main()
