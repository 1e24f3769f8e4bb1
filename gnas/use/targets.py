"""Targets that come beside the graphs, and how well predictions meet them."""

from __future__ import annotations

import copy
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
from gnas.data.own.molecule_tables import as_table, is_frame
from gnas.data.own.pyg import collect_graphs
from gnas.errors import InputError
from gnas.graph import GraphSet


def with_targets(dataset: Any, y: Any) -> tuple[Any, tuple[str, ...]]:
    """Copies of a list of graphs with these targets, one entry for each graph; texts become class numbers and names.

    A list of SMILES or a DataFrame becomes a table with the targets beside them.
    """
    named = isinstance(dataset, str | Path)  # a benchmark or a file
    if is_frame(dataset) or (not named and len(dataset) and all(isinstance(item, str) for item in dataset)):
        return as_table(dataset, y), ()
    parts = None if named else collect_graphs(dataset)
    if parts is None or not all(isinstance(graph, Data) for graph in parts.graphs):
        raise InputError("y goes with a list of PyG Data or of SMILES; other data bring their own targets")
    if len(parts.graphs) != len(y):
        raise InputError(f"y has {len(y)} entries for {len(parts.graphs)} graphs")
    names: tuple[str, ...] = ()
    if all(isinstance(one, str) for one in y):
        found, y = np.unique(np.asarray(y), return_inverse=True)
        names = tuple(map(str, found))
    graphs = []
    for graph, target in zip(parts.graphs, y, strict=True):
        graphs.append(copy.copy(graph))
        graphs[-1].y = torch.as_tensor(np.asarray(target))
    return graphs, names


def renamed(benchmark: Benchmark, names: tuple[str, ...]) -> Benchmark:
    """The same benchmark with names in the place of class numbers."""
    if not names or benchmark.encoding is None:
        return benchmark
    encoding = replace(benchmark.encoding, labels=names)
    return replace(benchmark, task=replace(benchmark.task, labels=names), encoding=encoding)


def flat_targets(y: Any, level: str) -> np.ndarray:
    """Targets as predictions come: an entry for each graph, or the nodes' or edges' of all graphs in a row."""
    if level == "graph" or not len(y):
        return np.asarray(y)
    return np.concatenate([np.atleast_1d(np.asarray(one)) for one in y])


def known_rows(found: Tensor, graphs: GraphSet) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and targets of the rows that belong to the split and have a target (no NaN, no class -1)."""
    rows = torch.isfinite(graphs.y.reshape(len(graphs.y), -1)).all(1)
    rows &= torch.ones_like(rows) if graphs.y.is_floating_point() else graphs.y >= 0
    rows &= torch.ones_like(rows) if graphs.mask is None else graphs.mask
    return found[rows].numpy(), graphs.y[rows].numpy()


def accuracy(found: np.ndarray, wanted: np.ndarray) -> float:
    """The share of rows that agree."""
    return float((found == wanted).mean())


def r_squared(found: np.ndarray, wanted: np.ndarray) -> float:
    """1 - squared error / variance, the mean over targets; of a constant target 1 if it is met and 0 if not."""
    found, wanted = (one.reshape(len(one), -1).astype(np.float64) for one in (found, wanted))
    error, spread = ((found - wanted) ** 2).sum(0), ((wanted - wanted.mean(0)) ** 2).sum(0)
    constant = spread == 0
    return float(np.where(constant, error == 0, 1 - error / np.where(constant, 1, spread)).mean())


def class_values(names: Sequence[str]) -> np.ndarray:
    """Class names as an array; of whole numbers where they are."""
    whole = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", name) for name in names)
    return np.array([int(name) for name in names]) if whole else np.array(names)
