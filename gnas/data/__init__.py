"""Graphs to learn from: ``load`` takes a benchmark's name, a file, a folder or PyG objects and returns a ``Benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks.named import NAMES, load_named
from gnas.errors import InputError

__all__ = ["NAMES", "Benchmark", "load"]


def load(data: Any, *, data_root: str | Path | None = None, seed: int = 0, **overrides: Any) -> Benchmark:
    """Three splits and their task, from a benchmark's name or from your own data.

    Args:
        data: one of ``NAMES``; or your own: a path (a folder with ``graphs.csv``, ``nodes.csv`` and ``edges.csv``, a CSV
            with a ``smiles`` column, an ``.npz`` bundle), a PyG dataset, ``Data`` or list of ``Data``, NetworkX graphs.
        data_root: folder of benchmark files; else ``GNAS_DATA``, else a per-user cache folder.
        seed: of what is random in the data: the draw of a generated benchmark, the split of your own graphs.
        **overrides: for a benchmark ``edge_attr``, ``device``, ``workers``, ``download``, ``on_progress``, ``loss``,
            ``metric``, ``readout``; for your own data any part of what is inferred.
    """
    if isinstance(data, str) and data in NAMES:
        return load_named(data, data_root=data_root, seed=seed, **overrides)
    if isinstance(data, str) and not _is_path(data):
        raise InputError(unknown(data))
    from gnas.data.own.custom import load_custom

    return load_custom(data, seed=seed, **overrides)


def _is_path(text: str) -> bool:
    try:
        return bool(text.strip()) and Path(text).expanduser().exists()
    except (OSError, RuntimeError):  # longer than a path may be, or the home of nobody
        return False


def unknown(data: str) -> str:
    """The error line for a text that is neither a benchmark nor a path."""
    return (
        f"{data[:80]!r} is neither a benchmark nor an existing path; benchmarks: {', '.join(NAMES)}; also accepted: a folder "
        "with graphs.csv, nodes.csv and edges.csv, a CSV with a smiles column, an .npz bundle, PyG or NetworkX graphs"
    )
