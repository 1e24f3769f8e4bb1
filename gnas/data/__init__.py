"""Graphs to learn from: ``load`` takes a benchmark's name, a file, a folder or PyG objects and returns a ``Benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import NAMES, is_dataset, list_names, load_from_package, load_named
from gnas.errors import InputError

__all__ = ["NAMES", "Benchmark", "load"]


def load(data: Any, *, y: Any = None, data_root: str | Path | None = None, seed: int = 0, **options: Any) -> Benchmark:
    """Three splits and their task, from a benchmark's name or from your own data.

    Example::

        benchmark = gnas.load("molecules.csv", target="logP", split="scaffold")
        print(benchmark.describe())

    Args:
        data: a benchmark's name, of the package or of an installed one; or your own data: a path (a folder with
            ``graphs.csv``, ``nodes.csv`` and ``edges.csv``, a CSV with a ``smiles`` column, a file of ``gnas data pack``), a
            PyG dataset, ``Data`` or list of ``Data``, NetworkX graphs.
        data_root: folder of benchmark files; else ``GNAS_DATA``, else a per-user cache folder.
        seed: of what is random in the data: the draw of a generated benchmark, the split of your own graphs.
        **options: for a benchmark see :func:`gnas.data.benchmarks.load_named`. For your own data, each one replaces what
            would be inferred: ``name``; ``level``, ``kind``, ``metric``, ``loss`` and ``readout`` of the task; ``target``,
            the names of attributes or columns; ``categorical`` (True, False or names of columns); ``split`` (``given``,
            ``random``, ``stratified``, ``scaffold``, ``group:COLUMN``, ``column:NAME``) and ``fractions``, or ``folds`` and
            ``fold``, the number of the test fold from 1; ``standardise`` regression targets for training;
            ``skip_bad``, to leave out SMILES that do not parse; ``sample_neighbors``, neighbours per hop such as
            ``(10, 5)`` for a graph too large to be computed whole; ``structure``, measures that nodes read besides their
            columns (``size``, ``degree``).
    """
    if isinstance(data, str) and y is not None:
        raise InputError(f"y goes with a list of SMILES or a DataFrame; {data[:80]!r} has its own targets")
    if isinstance(data, str) and data in NAMES:
        return load_named(data, data_root=data_root, seed=seed, **options)
    if isinstance(data, str) and is_dataset(data):
        return load_from_package(data, data_root=data_root, seed=seed, **options)
    if isinstance(data, str) and not _is_path(data):
        raise unknown_data(data)
    from gnas.data.own.load import load_own

    return load_own(data, y, seed=seed, **options)


def _is_path(text: str) -> bool:
    try:
        return bool(text.strip()) and Path(text).expanduser().exists()
    except (OSError, RuntimeError):  # longer than a path may be, or the home of a user that does not exist
        return False


def unknown_data(data: str) -> InputError:
    """The error for a text that is neither a benchmark nor a path."""
    return InputError(
        f"{data[:80]!r} is neither a benchmark nor an existing path; benchmarks: {', '.join(list_names())}; also accepted: "
        "a folder with graphs.csv, nodes.csv and edges.csv, a CSV with a smiles column, a file of gnas data pack, PyG or "
        "NetworkX graphs"
    )
