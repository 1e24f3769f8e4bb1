"""Limits on what a data file may take, checked before memory is taken: a small file cannot fill the machine."""

from __future__ import annotations

import os
import re

from gnas.errors import InputError

MEMORY, COLUMNS = "GNAS_MAX_MEMORY", "GNAS_MAX_COLUMNS"  # environment variables that replace the limits
FREE_BYTES = 2**26  # every file may take so much
MOST_GROWTH = 50  # a larger one at most this many times its size: for compressed graphs the factor is 1 to 10
MOST_BYTES = 16 * 2**30
MOST_COLUMNS = 100_000
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def allowed_memory(size: int, free: int = FREE_BYTES) -> int:
    """Bytes of memory that the content of a file of ``size`` bytes may take."""
    text = os.environ.get(MEMORY)
    if text is None:
        return min(MOST_BYTES, max(free, MOST_GROWTH * size))
    found = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise InputError(f"{MEMORY} is {text!r}; write it as a number of bytes or like 16GB")
    return int(found[1]) * _UNITS[found[2].upper()]


def check_memory(needed: int, size: int, where: str, free: int = FREE_BYTES) -> None:
    """An error if the content of a file of ``size`` bytes takes more memory than it may."""
    allowed = allowed_memory(size, free)
    if needed > allowed:
        raise InputError(
            f"{where} would take {needed:,} bytes of memory, from a file of {size:,}; allowed are {allowed:,}; if you trust "
            f"the file, set the environment variable {MEMORY}={-(-needed // 10**9)}GB"
        )


def check_columns(count: int, where: str) -> None:
    """An error if a table has more columns than it may."""
    text = os.environ.get(COLUMNS, str(MOST_COLUMNS))
    if not text.strip().isdecimal():
        raise InputError(f"{COLUMNS} is {text!r}; it must be a whole number")
    if count > int(text):
        raise InputError(
            f"{where}: {count:,} columns; allowed are {int(text):,}; remove some, or set the environment variable "
            f"{COLUMNS}={count}"
        )
