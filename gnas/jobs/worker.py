"""A worker process: orders come as lines of JSON on its input, messages leave on its output. It ends when its input ends.

If the driver is killed, the input ends too: the current job saves its state and the worker exits.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable

from gnas.errors import InputError
from gnas.jobs.messages import BEAT_SECONDS, Beat, Failed, Message, Order, write_message
from gnas.jobs.perform import perform_order

GRACE = 10.0  # seconds from the end of input to a hard exit, if a step takes longer


def main() -> None:
    """Perform orders until there are none."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints goes to the log, not between the messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()
    orders: queue.Queue[Order | InputError | None] = queue.Queue()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_listen, args=(orders, stop), daemon=True).start()

    guard = threading.Lock()

    def send(message: Message) -> None:
        with guard, contextlib.suppress(BrokenPipeError):  # the driver is gone: the input has ended too
            channel.write(write_message(message) + "\n")

    threading.Thread(target=_beat, args=(send,), daemon=True).start()

    while not stop.is_set() and (order := orders.get()) is not None:
        if isinstance(order, InputError):
            send(Failed(str(order)))
        else:
            perform_order(order, send, stop.is_set)
    with guard, contextlib.suppress(BrokenPipeError):
        channel.flush()
    os._exit(0)  # everything is on disk; the driver would wait a second for torch to shut down


def _beat(send: Callable[[Message], None]) -> None:
    while True:
        send(Beat())
        time.sleep(BEAT_SECONDS)


def _listen(orders: queue.Queue[Order | InputError | None], stop: threading.Event) -> None:
    for line in sys.stdin.buffer:
        try:
            orders.put(Order.from_json(line))
        except InputError as error:
            orders.put(error)
    stop.set()
    orders.put(None)
    late = threading.Timer(GRACE, os._exit, (1,))
    late.daemon = True
    late.start()


if __name__ == "__main__":
    main()
