"""SMILES as this network reads them. It needs rdkit, numpy and torch.

To use it::

    from model import load
    from molecules import read

    out = load()(**read(["CCO", "c1ccccc1"]))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from atoms import AtomTable, featurise_smiles
from torch import Tensor

ENCODING = json.loads((Path(__file__).parent / "model.json").read_text(encoding="utf-8"))["encoding"]
READS = ("x", "edge_index", "edge_attr", "batch")


def read(smiles: Sequence[str]) -> dict[str, Tensor]:
    """The arguments of the network for some molecules."""
    table = featurise_smiles(list(smiles))
    for text, count in zip(smiles, table.node_counts, strict=True):
        if not count:
            raise ValueError(f"the SMILES {text!r} does not parse")
    return {name: torch.from_numpy(part) for name, part in _arrays(table, smiles).items() if name in READS}


def _arrays(table: AtomTable, smiles: Sequence[str]) -> dict[str, np.ndarray]:
    first = table.node_counts.cumsum() - table.node_counts
    return {
        "x": _columns(ENCODING["nodes"], table.node_columns()),
        "edge_index": table.edge_index + np.repeat(first, table.edge_counts),
        "edge_attr": _columns(ENCODING["edges"], table.edge_columns()),
        "batch": np.repeat(np.arange(len(smiles)), table.node_counts),
    }


def _columns(columns: Sequence[dict[str, Any]], table: dict[str, np.ndarray]) -> np.ndarray:
    """Categories as numbers, or one-hot beside columns of numbers."""
    parts = [_read(column, table[column["name"]]) for column in columns]
    if all(column["size"] for column in columns):
        return np.stack(parts, axis=1) if parts else np.zeros((0, 0), np.int64)
    blocks = [_one_hot(column, part) if column["size"] else part[:, None] for column, part in zip(columns, parts)]
    return np.concatenate(blocks, axis=1).astype(np.float32)


def _read(column: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Numbers of categories, or standardised values."""
    if not column["size"]:
        return (values.astype(np.float64) - column["center"]) / column["scale"]
    seen = column["values"] if column["kind"] == "vocabulary" else range(column["size"] - column["other"])
    places = {value: place for place, value in enumerate(seen)}
    raw = [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
    unknown = sorted({str(value) for value in raw if value not in places})
    if unknown and not column["other"]:
        raise ValueError(f"{column['name']} {', '.join(unknown)}: not in the data that the network was trained on")
    return np.array([places.get(value, column["size"] - 1) for value in raw], np.int64)


def _one_hot(column: dict[str, Any], codes: np.ndarray) -> np.ndarray:
    """One column per category; zeros for a value that the training data does not have."""
    hot = np.eye(column["size"], dtype=np.float32)
    if column["other"]:
        hot[-1] = 0
    return hot[codes]
