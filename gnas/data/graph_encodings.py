"""The data option ``encodings``: what nodes and edges read of their place in the graph, prepared once when data is loaded."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnas.data.benchmark import Benchmark
from gnas.data.cache import cached_arrays
from gnas.errors import InputError, choose
from gnas.graph import GraphSet
from gnas.model.encoder import list_encodings
from gnas.model.encodings import DENSE_NODES, check_sizes, fill_encodings, walks_fit
from gnas.model.structure import AUTO, MEASURES, NONE, compute_moments, find_varying, parse_measures
from gnas.model.task import Task

COLUMNS = {"walks": 20, "edge_walks": 20, "laplacian": 8}  # encodings of several columns, and how many by default
MOST_COLUMNS = 256
SMALL_NODES = 200  # auto: graphs of at most this many nodes have walks
FEW_LARGE = 0.01  # auto: share of larger graphs that does not matter
CACHE_WORK = 2e9  # multiplications, some seconds: encodings that took longer are kept on disk
_VERSION = 1  # part of every key of the cache: raise it when encodings are computed in another way

Requested = str | Sequence[str] | None  # as a caller writes it


@dataclass(frozen=True)
class EncodingChoice:
    """Measures of nodes, and the number of columns of each other encoding."""

    structure: tuple[str, ...] = ()
    walks: int = 0
    edge_walks: int = 0
    laplacian: int = 0


def parse_encodings(requested: str | Sequence[str]) -> EncodingChoice | None:
    """Names of encodings, some with a number of columns; None stands for ``auto``.

    >>> parse_encodings("degree, walks:16, laplacian")
    EncodingChoice(structure=('degree',), walks=16, edge_walks=0, laplacian=8)
    """
    if not isinstance(requested, str | Sequence):
        raise InputError(f"encodings is {requested!r}; give names, such as 'degree, walks:16'")
    words = requested.replace(",", " ").replace("+", " ").split() if isinstance(requested, str) else list(requested)
    columns, measures = dict[str, int](), list[str]()
    for word in words:
        name, colon, number = str(word).partition(":")
        choose(name, (*MEASURES, *COLUMNS, AUTO, NONE), "encoding")
        if name in (AUTO, NONE) and (colon or len(words) > 1):
            raise InputError(f"encodings is {', '.join(map(str, words))}: {name} stands alone")
        if name not in COLUMNS:
            if colon:
                raise InputError(f"encodings has {word!r}: {name} is one column and takes no number")
            measures.append(name)
            continue
        if colon and not (number.isdecimal() and 0 < int(number) <= MOST_COLUMNS):
            raise InputError(
                f"encodings has {word!r}; write {name}:{COLUMNS[name]}, with a number up to {MOST_COLUMNS}"
            )
        columns[name] = int(number) if colon else COLUMNS[name]
    return None if AUTO in measures else EncodingChoice(tuple(n for n in MEASURES if n in measures), **columns)


def choose_encodings(benchmark: Benchmark) -> EncodingChoice:
    """The rules of ``auto``, which docs/own-data.md states.

    Nothing where neighbours are sampled. Else the measures that differ from node to node; walks of nodes and of edges where
    at most one graph in a hundred is larger than ``SMALL_NODES`` and all can be computed; no eigenvectors.
    """
    if benchmark.train.sample_neighbors:
        return EncodingChoice()
    measures = find_varying(benchmark.train)
    steps, splits = COLUMNS["walks"], benchmark.splits().values()
    nodes, edges = (torch.cat([getattr(graphs, name) for graphs in splits]) for name in ("node_counts", "edge_counts"))
    few = int((nodes > SMALL_NODES).sum()) <= FEW_LARGE * len(nodes)
    if not few or not walks_fit(nodes, edges, steps):
        return EncodingChoice(measures)
    return EncodingChoice(measures, walks=steps, edge_walks=COLUMNS["edge_walks"])


def with_encodings(benchmark: Benchmark, encodings: Requested = None, structure: Requested = None) -> Benchmark:
    """The benchmark with a task that reads these encodings and with splits that have them.

    ``structure``, the older option, names measures alone (its ``auto`` too); it counts where ``encodings`` is None. If both
    are None, nothing changes. ``auto`` keeps the encodings that the benchmark has, of a packed file for example. Measures are
    standardised over train.
    """
    if encodings is None and structure is None:
        return benchmark
    choice = _choose(benchmark, encodings, structure or ())
    if choice.structure and benchmark.train.sample_neighbors:
        raise InputError(
            f"{' and '.join(choice.structure)} cannot be measured where neighbours are sampled, because a batch holds "
            "parts of graphs: leave them out, or set sample_neighbors=none"
        )
    center, scale = compute_moments(benchmark.train, choice.structure)
    measured = {"structure": choice.structure, "structure_center": center, "structure_scale": scale}
    task = dataclasses.replace(benchmark.task, **{**dataclasses.asdict(choice), **measured})
    return dataclasses.replace(benchmark, task=task, **_prepare_splits(benchmark, task))


def _choose(benchmark: Benchmark, encodings: Requested, structure: str | Sequence[str]) -> EncodingChoice:
    task = benchmark.task
    own = EncodingChoice(task.structure, task.walks, task.edge_walks, task.laplacian)
    kept = own if list_encodings(task) and not benchmark.train.sample_neighbors else None
    if encodings is not None:
        return parse_encodings(encodings) or kept or choose_encodings(benchmark)
    names = parse_measures(structure)
    if AUTO in names:
        if kept is not None:
            return kept
        names = () if benchmark.train.sample_neighbors else find_varying(benchmark.train)
    return dataclasses.replace(own, structure=names)


def _prepare_splits(benchmark: Benchmark, task: Task) -> dict[str, Any]:
    done: dict[int, GraphSet] = {}  # splits may share their graphs: they are prepared once
    splits: dict[str, Any] = {}
    for name, graphs in benchmark.splits().items():
        key, bare = id(graphs.edge_index), dataclasses.replace(graphs, node_pe=None, edge_pe=None)
        if key not in done:
            done[key] = prepare_encodings(bare, task)
        splits[name] = dataclasses.replace(bare, node_pe=done[key].node_pe, edge_pe=done[key].edge_pe)
    return splits


def prepare_encodings(graphs: GraphSet, task: Task) -> GraphSet:
    """The graphs with the encodings of the task, from the cache if computing them takes long."""
    if not (task.walks or task.laplacian or task.edge_walks):
        return graphs
    nodes, edges = graphs.node_counts, graphs.edge_counts
    check_sizes(nodes, edges, task)
    if _count_work(nodes, edges, task) < CACHE_WORK:
        return fill_encodings(graphs, task)

    def make() -> dict[str, Any]:
        found = fill_encodings(graphs, task)
        pairs = (("node_pe", found.node_pe), ("edge_pe", found.edge_pe))
        return {name: value.numpy() for name, value in pairs if value is not None}

    arrays: dict[str, Any] = {
        n: torch.from_numpy(a) for n, a in cached_arrays("encodings", _key(graphs, task), make).items()
    }
    return dataclasses.replace(graphs, **arrays)


def _count_work(nodes: Tensor, edges: Tensor, task: Task) -> float:
    """Multiplications, about; an eigenvector problem counts as 30 matrix products."""
    sizes, steps = nodes.double(), max(task.walks, task.edge_walks)
    products = torch.where(nodes > DENSE_NODES, sizes * edges, sizes**3).sum()
    return float(products * steps + (sizes**3).sum() * (30 if task.laplacian else 0))


def _key(graphs: GraphSet, task: Task) -> str:
    about = (_VERSION, task.walks, task.laplacian, task.edge_walks, graphs.edge_index.dtype, len(graphs))
    digest = hashlib.sha256(repr(about).encode())
    for tensor in (graphs.node_ptr, graphs.edge_ptr, graphs.edge_index):
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]
