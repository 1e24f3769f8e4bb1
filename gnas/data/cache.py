"""Long work on data: done by one process per core, and kept in the per-user folder for prepared data.

Processes are started as commands: a script without a main guard must not run again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gnas.data.encoding import Array
from gnas.data.storage import BrokenFile, read_arrays, write_arrays
from gnas.distributed import available_cores, start_command

FEWEST_TEXTS = 1000  # fewer are not stored: computing them again takes a second
Compute = Callable[[Sequence[str]], Mapping[str, Array]]


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


def compute_by_texts(
    kind: str,
    about: Mapping[str, Any],
    texts: Sequence[str],
    compute: Compute,
    fewest: int,
    join: Callable[[list[Mapping[str, Array]]], Mapping[str, Array]],
) -> Mapping[str, Array]:
    """The arrays of many texts, from the per-user folder or by several processes, whose parts ``join`` puts together.

    The key is a hash of the texts and of ``about``, which says how they are read.
    """

    def make() -> Mapping[str, Array]:
        return join(compute_in_parts(compute, texts, fewest))

    if len(texts) < FEWEST_TEXTS:
        return make()
    content = json.dumps([dict(about), list(texts)], sort_keys=True)
    return cached_arrays(kind, hashlib.sha256(content.encode()).hexdigest()[:32], make)


# -- processes -------------------------------------------------------------------------------------------------------


def compute_in_parts(compute: Compute, texts: Sequence[str], fewest: int) -> list[Mapping[str, Array]]:
    """What ``compute``, a function of a module, gives for consecutive parts of the texts.

    Each part has a process of its own, of at least ``fewest`` texts: a process takes seconds to start.
    """
    workers = min(available_cores(), len(texts) // fewest)
    if workers < 2:
        return [compute(texts)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(partial(_ask_worker, compute), _split_evenly(texts, workers)))


def _split_evenly(texts: Sequence[str], parts: int) -> list[Sequence[str]]:
    """Consecutive parts of about the same number of characters."""
    total = np.cumsum([len(text) for text in texts])
    ends = np.searchsorted(total, total[-1] * np.arange(1, parts) / parts).tolist()
    return [texts[first:last] for first, last in pairwise([0, *ends, len(texts)])]


def _ask_worker(compute: Compute, texts: Sequence[str]) -> Mapping[str, Array]:
    command = start_command("gnas.data.cache", "serve", compute.__module__, compute.__qualname__)
    ended = subprocess.run(command, input=json.dumps(list(texts)).encode(), capture_output=True, check=False)
    if ended.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    try:
        with np.load(io.BytesIO(ended.stdout), allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile):  # no process may be started here, or it was killed
        return compute(texts)


def serve() -> None:
    """Read a JSON list of texts from standard input, write the arrays of a function of this package to standard output."""
    module, function = sys.argv[1:]
    compute: Compute = getattr(importlib.import_module(module), function)
    arrays: dict[str, Any] = dict(compute(json.load(sys.stdin)))
    content = io.BytesIO()
    np.savez(content, **arrays)
    sys.stdout.buffer.write(content.getvalue())
