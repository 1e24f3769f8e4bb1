"""Prepared files: named arrays in one uncompressed npz without pickles, with a format number; every array has a checksum.

The zip container keeps a CRC-32 of each array, which is compared on reading. Uncompressed, because reading is what
happens often: 1 GB/s against about 0.2 GB/s.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnas.files import write_atomic

Array = NDArray[Any]
FORMAT = 1


class BrokenFile(Exception):
    """A data file that cannot be used; the message says why."""


def write_arrays(path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Path:
    """Write the arrays and a few words about them; a crash leaves the old file or the new one."""
    buffer = io.BytesIO()
    header = {"format": np.array(FORMAT), "about": np.array(json.dumps(dict(about)))}
    np.savez(buffer, **header, **arrays)  # type: ignore[arg-type]
    return write_atomic(path, buffer.getvalue())


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the words about them; ``BrokenFile`` if anything is missing, cut off or altered."""
    arrays = read_npz(path)
    try:
        found, about = int(arrays.pop("format")), json.loads(str(arrays.pop("about")))
    except (KeyError, ValueError, TypeError):
        raise BrokenFile(f"{path} is not a prepared file of gnas") from None
    if found != FORMAT:
        raise BrokenFile(f"{path} has format {found}, this version reads {FORMAT}")
    return arrays, about


def read_npz(path: Path) -> dict[str, Array]:
    """All arrays of an npz file that holds no pickles."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # zipfile, zlib and numpy answer damage with a dozen kinds of errors
        raise BrokenFile(f"{path} cannot be read: {' '.join(str(error).split()) or type(error).__name__}") from None
