"""Targets that are passed beside the graphs, and scores of predictions."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from gnas.data.benchmark import Benchmark
from gnas.data.own.load import as_table, is_frame
from gnas.data.own.pyg import collect_graphs
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.training.prediction import find_known


def with_targets(dataset: Any, y: Any, classify: bool = False) -> tuple[Any, np.ndarray | None]:
    """Copies of a list of graphs with these targets, one entry for each graph, and the values that stand for classes.

    Texts become class numbers, and with ``classify`` other values too. A list of SMILES or a DataFrame becomes a table with
    the targets beside them.
    """
    named = isinstance(dataset, str | Path)  # a benchmark or a file
    y = y.to_numpy() if hasattr(y, "to_numpy") and not (is_frame(y) and not classify) else y
    values = None
    if is_frame(dataset) or (not named and len(dataset) and all(isinstance(item, str) for item in dataset)):
        y, values = _numbered(y) if classify else (y, None)
        return as_table(dataset, y), values
    parts = None if named else collect_graphs(dataset)
    if parts is None or not all(isinstance(graph, Data) for graph in parts.graphs):
        raise InputError("y goes with a list of PyG Data or of SMILES; other data bring their own targets")
    if len(parts.graphs) != len(y):
        raise InputError(f"y has {len(y)} entries for {len(parts.graphs)} graphs")
    y = y.to_numpy() if is_frame(y) else y
    if classify or all(isinstance(one, str) for one in y):
        y, values = _numbered(y)
    graphs = []
    for graph, target in zip(parts.graphs, y, strict=True):
        graphs.append(copy.copy(graph))
        graphs[-1].y = torch.as_tensor(_to_numbers(target))
    return graphs, values


def _numbered(y: Any) -> tuple[Any, np.ndarray | None]:
    """Class numbers and the value of each class; ``y`` itself if some targets are unknown or are not single values."""
    try:
        values, numbers = np.unique(np.asarray(y).squeeze(), return_inverse=True)
    except (TypeError, ValueError):
        return y, None
    missing = values.dtype.kind == "f" and bool(np.isnan(values).any())
    if values.dtype.kind == "f" and not missing and bool((values != np.round(values)).any()):
        raise InputError("Unknown label type: continuous numbers in y are not classes; use GNASRegressor")
    return (y, None) if missing or numbers.ndim != 1 or len(numbers) != len(y) else (numbers, values)


def count_columns(y: Any) -> int:
    """Targets of a row; 1 if there is no ``y``."""
    if y is None or not len(y):
        return 1
    shape: tuple[int, ...] = np.asarray(y[:1] if isinstance(y, list | tuple) else y).shape
    return shape[1] if len(shape) > 1 else 1


def _to_numbers(values: Any) -> np.ndarray:
    """Targets as an array; None becomes NaN."""
    array = np.asarray(values)
    try:
        return array.astype(np.float64) if array.dtype.kind == "O" else array
    except (TypeError, ValueError):
        raise InputError("y holds values that are not numbers; give numbers, or a text for each graph") from None


def with_class_names(benchmark: Benchmark, values: np.ndarray | None) -> tuple[Benchmark, np.ndarray | None]:
    """The benchmark with the names of classes in the place of their numbers, and their values in the order of outputs."""
    if values is None or benchmark.encoding is None:
        return benchmark, values
    values = values[[int(number) for number in benchmark.encoding.labels]]
    names = tuple(map(str, values))
    encoding = replace(benchmark.encoding, labels=names)
    return replace(benchmark, task=replace(benchmark.task, labels=names), encoding=encoding), values


def flatten_targets(y: Any, level: str) -> np.ndarray:
    """Targets as predictions come: an entry for each graph, or the nodes' or edges' of all graphs in a row."""
    if level == "graph" or not len(y):
        return np.asarray(y)
    return np.concatenate([np.atleast_1d(np.asarray(one)) for one in y])


def find_known_rows(found: Tensor, graphs: GraphSet) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and targets of the rows that belong to the split and have a target (not all NaN, no class -1)."""
    rows = find_known(graphs.y)
    rows = rows if graphs.mask is None else rows & graphs.mask
    return found[rows].numpy(), graphs.y[rows].numpy()


def measure_accuracy(found: np.ndarray, wanted: np.ndarray) -> float:
    """The share of rows that agree."""
    return float((found == wanted).mean())


def measure_label_accuracy(found: np.ndarray, wanted: np.ndarray) -> float:
    """The share of rows of which all known labels agree; rows without any do not count."""
    found, wanted = _as_columns(found, wanted)
    known = np.isfinite(wanted)
    right = (found == wanted) | ~known
    return float(right.all(1)[known.any(1)].mean()) if known.any() else math.nan


def measure_r_squared(found: np.ndarray, wanted: np.ndarray) -> float:
    """1 - squared error / variance over the known entries, the mean over targets that have any.

    Of a constant target it is 1 if it is met and 0 if not.
    """
    found, wanted = _as_columns(found, wanted)
    known = np.isfinite(wanted)
    scores = [_r_squared(found[rows, k], wanted[rows, k]) for k, rows in enumerate(known.T) if rows.any()]
    return float(np.mean(scores)) if scores else math.nan


def _r_squared(found: np.ndarray, wanted: np.ndarray) -> float:
    error, spread = ((found - wanted) ** 2).sum(), ((wanted - wanted.mean()) ** 2).sum()
    return float(1 - error / spread) if spread else float(error == 0)


def _as_columns(found: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as ``[rows, targets]`` floats."""
    found, wanted = (_to_numbers(one).reshape(len(one), -1).astype(np.float64) for one in (found, wanted))
    if found.shape != wanted.shape:
        raise InputError(f"targets have {wanted.shape[1]} columns, predictions have {found.shape[1]}")
    return found, wanted


SCORES = {"classification": measure_accuracy, "multilabel": measure_label_accuracy, "regression": measure_r_squared}


def read_class_values(names: Sequence[str]) -> np.ndarray:
    """Class names as an array; of whole numbers where they are."""
    whole = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", name) for name in names)
    return np.array([int(name) for name in names]) if whole else np.array(names)
