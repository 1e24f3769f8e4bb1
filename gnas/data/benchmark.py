"""A benchmark: three splits, the task they pose, and where the data came from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gnas.data.encoding import Column, Encoding
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task

SPLIT_NAMES = ("train", "val", "test")
PATIENCE = 10  # epochs without a gain before the learning rate is reduced; PATTERN and CLUSTER have 5
READER_VERSION = 2  # part of the fingerprint of own data: raise it when the same file is read as other graphs


@dataclass(frozen=True, repr=False)
class Benchmark:
    """Graphs to learn from, to choose by and to report on, with the task they pose. :func:`gnas.load` makes one.

    Args:
        name: The name in reports.
        train, val, test: The three splits.
        task: What is predicted, and from what.
        source: Where the graphs came from, in words.
        notes: What was done to the data.
        encoding: How new data is read in the same way.
        patience: Epochs without progress of the benchmark's own protocol; see :meth:`gnas.TrainConfig.paper`.
        files: The files that were read.
        left_out: What the data has and networks do not read.
        problems: What looks wrong.

    >>> data = gnas.load("cluster-mini")
    >>> len(data.train), data.task.metric, data.test[0].num_nodes > 0
    (240, 'class_accuracy', True)
    >>> print(data)  # one screen: what was read, what was inferred  # doctest: +SKIP
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
    files: tuple[str, ...] = ()  # what was read, with its size
    left_out: tuple[str, ...] = ()  # what was found and is not used, with the reason
    problems: tuple[str, ...] = ()  # what looks wrong in the data, with what to do

    def splits(self) -> dict[str, GraphSet]:
        """The three splits by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    @property
    def has_one_graph(self) -> bool:
        """Whether these are own data and the targets of train are nodes, or pairs of nodes, of a single graph."""
        return self.encoding is not None and self.task.level in ("node", "link") and len(self.train) == 1

    def nbytes(self) -> int:
        """Bytes that the tensors of all splits take."""
        return sum(graphs.nbytes() for graphs in self.splits().values())

    def describe(self) -> str:
        """One screen of text: what was read, what is used and how, what was inferred, left out, and what looks wrong."""
        from gnas.data.describe import describe_benchmark  # late: it imports this module

        return str(describe_benchmark(self))

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from gnas.data.describe import describe_benchmark

        return describe_benchmark(self).to_html()

    @property
    def identity(self) -> dict[str, str]:
        """Name and fingerprint: what the settings of a run hold of its data."""
        return {"dataset": self.name, "fingerprint": self.fingerprint}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides a result: the graphs of each split, the task, the encoding and the reader's version.

        The same data has the same fingerprint on every machine, whatever its name and the path it was read from.
        """
        hashes: dict[int, str] = {}  # splits may share tensors: each is hashed once
        splits = {name: _describe_split(graphs, hashes) for name, graphs in self.splits().items()}
        content = {
            "reader": 1 if self.encoding is None else READER_VERSION,
            "splits": splits,
            "task": _describe_value(self.task),
            "encoding": None if self.encoding is None else _describe_encoding(self.encoding),
        }
        return hashlib.sha256(json.dumps(_round_floats(content), sort_keys=True).encode()).hexdigest()


# -- the fingerprint -----------------------------------------------------------------------------------------------


def _describe_split(graphs: GraphSet, hashes: dict[int, str]) -> dict[str, Any]:
    values = {f.name: getattr(graphs, f.name) for f in _counted_fields(graphs)}
    for name, value in values.items():
        if isinstance(value, Tensor):
            if id(value) not in hashes:
                hashes[id(value)] = _hash_tensor(value)
            values[name] = hashes[id(value)]
    return values


def _describe_encoding(encoding: Encoding) -> dict[str, Any]:
    """All but the columns as the caller named them and the reasons, which are words for people."""
    leave = ("requested", "reasons", "smiles")
    return {name: value for name, value in _describe_value(encoding).items() if name not in leave}


# What the fingerprint of 0.1 counts. A field that came later counts where it is set, so that older data keeps its own.
_FIRST = {
    GraphSet: "x edge_index node_ptr edge_ptr y level mask edge_attr pos sample_neighbors",
    Task: "level kind num_outputs categories in_channels loss metric readout center scale labels structure "
    "structure_center structure_scale",
    Encoding: "source level kind nodes edges targets labels requested reasons",
    Column: "name kind size values",
}
_DERIVED = ("rows", "node_pe", "edge_pe", "absent")  # where graphs came from; what edges, task and x decide


def _counted_fields(value: Any) -> list[Field[Any]]:
    first = _FIRST.get(type(value), "").split()

    def is_set(one: Field[Any]) -> bool:
        content = getattr(value, one.name)
        return one.name not in _DERIVED and (isinstance(content, Tensor) or content != one.default)

    return [one for one in fields(value) if one.name in first or is_set(one)]


def _describe_value(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _describe_value(getattr(value, f.name)) for f in _counted_fields(value)}
    return [_describe_value(item) for item in value] if isinstance(value, list | tuple) else value


def _hash_tensor(tensor: Tensor) -> str:
    content = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{content.dtype} {tuple(content.shape)} ".encode())
    if content.numel():
        digest.update(content.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _round_floats(value: Any) -> Any:
    """Means and spreads to 4 digits: their last digits depend on the order in which a processor adds."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return {key: _round_floats(item) for key, item in value.items()}
    return [_round_floats(item) for item in value] if isinstance(value, list | tuple) else value


# -- graphs too large to be computed whole: their neighbours are sampled -------------------------------------------

# A supernet of 3 cells and 32 channels needs about 4 GB for a graph of this size, gradients included.
WHOLE_NODES, WHOLE_EDGES = 100_000, 2_000_000
DEFAULT_HOPS = (10, 5)
ALL = -1  # every neighbour, as in PyG

Hops = Sequence[int] | str | None  # neighbours per hop, as a caller writes them


def check_sample_neighbors(requested: Hops) -> tuple[int, ...] | None:
    """Neighbours per hop; empty: whole graphs (``none``); None: decided by the size of the graphs.

    >>> check_sample_neighbors("10,5")
    (10, 5)
    """
    if requested is None:
        return None
    words = requested.replace(",", " ").split() if isinstance(requested, str) else list(requested)
    if words in (["none"], []):
        return ()
    try:
        numbers = tuple(int(word) for word in words)
    except (TypeError, ValueError):
        numbers = (0,)
    if not all(number == ALL or number > 0 for number in numbers):
        raise InputError(
            f"sample_neighbors is {requested!r}; give a number per hop, such as 10,5 (-1: all neighbours), or none"
        )
    return numbers


def is_large(graphs: GraphSet) -> bool:
    """Whether the targets are nodes of a graph too large to be computed whole."""
    if graphs.level != "node" or not len(graphs):
        return False
    return int(graphs.node_counts.max()) > WHOLE_NODES or int(graphs.edge_counts.max()) > WHOLE_EDGES


def with_sampling(benchmark: Benchmark, requested: Hops) -> Benchmark:
    """The benchmark with batches of sampled neighbourhoods, if requested or if a graph is large; a note says so."""
    hops = check_sample_neighbors(requested)
    if hops is None:
        hops = DEFAULT_HOPS if any(is_large(split) for split in benchmark.splits().values()) else ()
    if not hops:
        return benchmark
    if benchmark.task.level != "node":
        raise InputError(
            f"sample_neighbors needs targets of nodes; {benchmark.name} has targets of {benchmark.task.level}s, so its "
            "batches hold whole graphs"
        )
    before = benchmark.train.sample_neighbors
    replaced = {_sampling_note(before, automatic) for automatic in (True, False)}
    notes = (*(n for n in benchmark.notes if n not in replaced), _sampling_note(hops, requested is None))
    splits = {name: dataclasses.replace(split, sample_neighbors=hops) for name, split in benchmark.splits().items()}
    return dataclasses.replace(benchmark, **splits, notes=notes)  # type: ignore[arg-type]


def _sampling_note(hops: Sequence[int], automatic: bool) -> str:
    numbers = ", ".join("all" if number == ALL else str(number) for number in hops)
    reason = f" (a graph has more than {WHOLE_NODES:,} nodes or {WHOLE_EDGES:,} edges)" if automatic else ""
    return f"neighbours are sampled, hop by hop: {numbers}{reason}; the size of a batch counts its seed nodes alone"
