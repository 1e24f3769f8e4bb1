"""RDKit's two-dimensional descriptors of molecules, about 200 numbers each, computed by one process per core."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gnas.data.atoms import parse_canonical
from gnas.data.cache import cached_by_texts
from gnas.data.encoding import RDKIT, Array
from gnas.data.smiles import import_rdkit
from gnas.distributed import available_cores, start_command

LEFT_OUT = ("Ipc",)  # grows exponentially with the molecule; AvgIpc is its bounded form
FEWEST_PER_PROCESS = 500  # a process takes seconds to start


def list_descriptors() -> list[tuple[str, Any]]:
    """Names and functions of rdkit's descriptors."""
    import_rdkit()
    from rdkit.Chem import Descriptors

    return [(name, function) for name, function in Descriptors.descList if name not in LEFT_OUT]


def compute_descriptors(texts: Sequence[str]) -> dict[str, Array]:
    """Descriptors of molecules by name (``rdkit:TPSA``); NaN where rdkit cannot compute one."""
    import rdkit

    names = [name for name, _ in list_descriptors()]
    key = {"content": "descriptors", "version": 1, "rdkit": rdkit.__version__, "names": names}
    found = cached_by_texts("molecules", key, texts, lambda: {"values": _compute_apart(texts)})["values"]
    return {f"{RDKIT}{name}": found[:, i] for i, name in enumerate(names)}


def _compute_apart(texts: Sequence[str]) -> Array:
    """Descriptors by several processes. They are started as commands: a script without a main guard must not run again."""
    workers = min(available_cores(), len(texts) // FEWEST_PER_PROCESS)
    if workers < 2:
        return compute_here(texts)
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(_ask_worker, [list(texts[i::workers]) for i in range(workers)]))
    found = np.empty((len(texts), parts[0].shape[1]))
    for i, part in enumerate(parts):
        found[i::workers] = part
    return found


def _ask_worker(texts: Sequence[str]) -> Array:
    command = start_command("gnas.data.descriptors", "serve")
    ended = subprocess.run(command, input=json.dumps(texts).encode(), capture_output=True, check=False)
    size = len(texts) * len(list_descriptors()) * 8
    if ended.returncode or len(ended.stdout) != size:  # no process may be started here, or it was killed
        return compute_here(texts)
    return np.frombuffer(ended.stdout, np.float64).reshape(len(texts), -1)


def serve() -> None:
    """Read a JSON list of SMILES from standard input, write their descriptors as float64 to standard output."""
    sys.stdout.buffer.write(compute_here(json.loads(sys.stdin.buffer.read())).tobytes())


def compute_here(texts: Sequence[str]) -> Array:
    """Descriptors of each text, one row per molecule."""
    functions = [function for _, function in list_descriptors()]
    found = np.full((len(texts), len(functions)), np.nan)
    for row, text in enumerate(texts):
        parsed = parse_canonical(text)
        if parsed is not None:
            found[row] = [_call(function, parsed[0]) for function in functions]
    return np.where(np.isfinite(found), found, np.nan)


def _call(function: Any, molecule: Any) -> float:
    try:
        return float(function(molecule))
    except (ValueError, RuntimeError, ZeroDivisionError, OverflowError):  # rdkit's own complaints are among these
        return float("nan")
