"""Records of a run as lines of the logger ``gnas``, for use from Python."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from gnas.training.loop import Record

LOGGER = logging.getLogger("gnas")


@contextlib.contextmanager
def log_records(verbose: int) -> Iterator[Callable[[Record], None] | None]:
    """Inside, the value logs each record if ``verbose`` is 1. At 0 it is None, at -1 it does nothing."""
    if verbose <= 0:
        yield None if verbose == 0 else lambda record: None
        return
    handler, level = logging.StreamHandler(), LOGGER.level
    alone = not LOGGER.hasHandlers()
    if alone:
        LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield lambda record: LOGGER.info("%s", _line(record))
    finally:
        LOGGER.setLevel(level)
        if alone:
            LOGGER.removeHandler(handler)


def _line(record: Record) -> str:
    """A record for people: its short entries."""
    shown = {
        k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in record.items() if not isinstance(v, list | dict)
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items() if len(value) < 30)
