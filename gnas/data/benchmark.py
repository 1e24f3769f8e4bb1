"""A benchmark: three splits, the task they pose, and where the data came from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gnas.data.encoding import Encoding
from gnas.graph import GraphSet
from gnas.model.task import Task

PATIENCE = 10  # epochs without a gain before the learning rate is reduced; PATTERN and CLUSTER have 5
READER_VERSION = 1  # part of every fingerprint: raise it when the same file is read as other graphs


@dataclass(frozen=True)
class Benchmark:
    """Graphs to learn from, to choose by and to report on, with the task they pose.

    ``patience`` belongs to the training protocol of the benchmark; see ``gnas.TrainConfig.paper``.
    """

    name: str
    train: GraphSet
    val: GraphSet
    test: GraphSet
    task: Task
    source: str
    notes: tuple[str, ...] = field(default=())
    encoding: Encoding | None = None  # how raw columns became tensors; None where the data came as tensors
    patience: int = PATIENCE

    def splits(self) -> dict[str, GraphSet]:
        """The three splits by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides a result: the graphs of each split, the task, the encoding and the reader's version.

        The same data has the same fingerprint on every machine, whatever its name and the path it was read from.
        """
        hashes: dict[int, str] = {}  # splits may share tensors: each is hashed once
        splits = {name: _describe_split(graphs, hashes) for name, graphs in self.splits().items()}
        content = {
            "reader": READER_VERSION,
            "splits": splits,
            "task": asdict(self.task),
            "encoding": None if self.encoding is None else _describe_encoding(self.encoding),
        }
        return hashlib.sha256(json.dumps(_round_floats(content), sort_keys=True).encode()).hexdigest()


def _describe_split(graphs: GraphSet, hashes: dict[int, str]) -> dict[str, Any]:
    values = {f.name: getattr(graphs, f.name) for f in fields(graphs)}
    for name, value in values.items():
        if isinstance(value, Tensor):
            if id(value) not in hashes:
                hashes[id(value)] = _hash_tensor(value)
            values[name] = hashes[id(value)]
    return values


def _describe_encoding(encoding: Encoding) -> dict[str, Any]:
    """All but the caller's wording of the target and the reasons, which are words for people."""
    return {name: value for name, value in encoding.to_dict().items() if name not in ("asked", "reasons")}


def _hash_tensor(tensor: Tensor) -> str:
    content = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{content.dtype} {tuple(content.shape)} ".encode())
    if content.numel():
        digest.update(content.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _round_floats(value: Any) -> Any:
    """Means and spreads to 4 digits: their last digits depend on the order in which a processor adds."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return {key: _round_floats(item) for key, item in value.items()}
    return [_round_floats(item) for item in value] if isinstance(value, list | tuple) else value
