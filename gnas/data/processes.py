"""Long work on many texts by one process per core.

Processes are started as commands: a script without a main guard must not run again.
"""

from __future__ import annotations

import importlib
import io
import json
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from gnas.data.encoding import Array
from gnas.distributed import available_cores, start_command

Compute = Callable[[Sequence[str]], Mapping[str, Array]]


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
    command = start_command("gnas.data.processes", "serve", compute.__module__, compute.__qualname__)
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
