"""Finding values in a list of known ones, many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def positions(known: Array, wanted: Array) -> Array:
    """Where each wanted value first stands in ``known``; -1 if nowhere. Both are numbers or both are texts."""
    if not len(known) or (known.dtype.kind == "S") != (wanted.dtype.kind == "S"):
        return np.full(len(wanted), -1)
    if known.dtype.kind == wanted.dtype.kind == "i":
        low, high = int(known.min()), int(known.max())
        if high - low < 4 * len(known) + 2**16:  # a table is several times faster than a search
            table = np.full(high - low + 1, -1)
            table[known[::-1] - low] = np.arange(len(known))[::-1]
            inside = (wanted >= low) & (wanted <= high)
            return np.where(inside, table[np.where(inside, wanted, low) - low], -1)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    return np.where(known[order[at]] == wanted, order[at], -1)


def first_repeat(known: Array) -> int | None:
    """The row of the first value that stood before."""
    repeats = positions(known, known) != np.arange(len(known))
    return int(repeats.argmax()) if repeats.any() else None
