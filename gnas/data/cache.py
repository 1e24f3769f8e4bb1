"""The per-user folder for prepared data, and arrays in it that are computed once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gnas.data.encoding import Array
from gnas.data.storage import BrokenFile, read_arrays, write_arrays


def user_cache() -> Path:
    """The per-user folder for prepared data, under ``XDG_CACHE_HOME`` if that is set."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gnas" / "data"


def cached_arrays(kind: str, key: str, make: Callable[[], Mapping[str, Array]]) -> Mapping[str, Array]:
    """The arrays of this kind and key from the per-user folder; if they are not there, made and stored.

    ``key`` must be a hash of all that decides the content. A damaged file is made again; where nothing can be written,
    the arrays are made each time.
    """
    path = user_cache() / kind / f"{key}.safetensors"
    if path.is_file():
        with contextlib.suppress(BrokenFile):
            return read_arrays(path)[0]
    arrays = make()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, arrays, {"kind": kind})
    return arrays


FEWEST_TEXTS = 1000  # fewer are not stored: computing them again takes a second


def cached_by_texts(
    kind: str, about: Mapping[str, Any], texts: Sequence[str], make: Callable[[], Mapping[str, Array]]
) -> Mapping[str, Array]:
    """``cached_arrays`` for many texts. The key is a hash of them and of ``about``, which says how they are read."""
    if len(texts) < FEWEST_TEXTS:
        return make()
    content = json.dumps([dict(about), list(texts)], sort_keys=True)
    return cached_arrays(kind, hashlib.sha256(content.encode()).hexdigest()[:32], make)
