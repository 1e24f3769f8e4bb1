"""Packed benchmarks as version 0.1 wrote them: ``.npz`` files of arrays, with a description as JSON text."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gnas.data.benchmark import Benchmark
from gnas.data.storage import TENSORS


def bundle_arrays(benchmark: Benchmark) -> dict[str, Any]:
    """The arrays of the file."""
    arrays: dict[str, Any] = {}
    names: dict[int, str] = {}
    splits: dict[str, dict[str, str]] = {}
    for split, graphs in benchmark.splits().items():
        splits[split] = {}
        for field in TENSORS:
            tensor = getattr(graphs, field)
            if tensor is not None:
                name = names.setdefault(id(tensor), f"{split}.{field}")
                splits[split][field] = name
                arrays[name] = tensor.numpy()
    encoding = benchmark.encoding.to_dict() if benchmark.encoding else None
    if encoding is not None:
        encoding["asked"] = encoding.pop("requested")
    meta = {
        "format": "gnas-bundle",
        "version": 1,
        "name": benchmark.name,
        "source": benchmark.source,
        "notes": benchmark.notes,
        "task": asdict(benchmark.task),
        "encoding": encoding,
        "splits": splits,
    }
    return {**arrays, "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8)}


def write_bundle(benchmark: Benchmark, path: Path, compress: bool = False) -> Path:
    """Write the file."""
    (np.savez_compressed if compress else np.savez)(path, **bundle_arrays(benchmark))
    return path
