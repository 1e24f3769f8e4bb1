"""Graphs as one file that cannot run code, so that workers have the same ones without preparing them again."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gnas.data.benchmark import PATIENCE, Benchmark
from gnas.data.encoding import Encoding
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task
from gnas.run import checkpoint

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Graphs:
    """Splits by name and their task: what jobs share. A search is given no test split."""

    task: Task
    splits: dict[str, GraphSet]
    about: dict[str, Any]

    def benchmark(self) -> Benchmark:
        """All of it as it was loaded."""
        about = self.about
        encoding = None if about["encoding"] is None else Encoding.from_dict(about["encoding"])
        return Benchmark(
            name=about["name"],
            task=self.task,
            source=about["source"],
            notes=tuple(about["notes"]),
            encoding=encoding,
            patience=about["patience"],
            **self.splits,
        )


def pack(benchmark: Benchmark, folder: Path, splits: Sequence[str] = SPLITS) -> Path:
    """Write these splits into ``folder``, in a file named by its content."""
    encoding = getattr(benchmark, "encoding", None)
    about = {
        "name": benchmark.name,
        "source": benchmark.source,
        "notes": list(getattr(benchmark, "notes", ())),
        "encoding": None if encoding is None else encoding.to_dict(),
        "patience": getattr(benchmark, "patience", PATIENCE),
    }
    graphs = {name: _plain(getattr(benchmark, name)) for name in splits}
    state = {"task": asdict(benchmark.task), "splits": graphs, "about": about}
    half = checkpoint.save(folder / ".graphs.safetensors", state)
    return half.replace(folder / f"graphs-{checkpoint.digest(half)[:16]}.safetensors")


@functools.lru_cache(maxsize=2)  # a worker does many jobs on the same graphs
def unpack(file: Path) -> Graphs:
    """The graphs that ``pack`` wrote."""
    state = checkpoint.load(file)
    try:
        splits = {name: GraphSet(**values) for name, values in state["splits"].items()}
        return Graphs(Task(**state["task"]), splits, state["about"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not packed graphs ({error})") from None


def _plain(split: GraphSet) -> dict[str, Any]:
    return {f.name: getattr(split, f.name) for f in fields(split)}
