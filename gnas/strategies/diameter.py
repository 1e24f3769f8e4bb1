"""How wide graphs are: the diameters of many graphs at once, sixty-four breadth-first searches to a machine word."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gnas.data.benchmarks.sources import Progress, ignore_progress
from gnas.errors import InputError
from gnas.graph import GraphSet

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
EDGES = 5_000_000  # read unless a sample is requested: seconds at most
FEWEST = 30  # graphs are drawn, however large they are
LARGE = 5_000  # nodes: the exact diameter costs nodes x edges; beyond this it is bounded instead
MEMORY = 4_000_000  # words gathered at once


@dataclass(frozen=True)
class Diameter:
    """The average diameter of a set of graphs.

    ``exact`` says whether every graph was used and measured completely. ``error`` is the standard error of the mean where
    ``graphs_used`` graphs were drawn from more; None where all were used. ``bounded`` counts the graphs so large that only
    a lower bound of their diameter is known: the value is then a lower bound too.
    """

    value: float
    exact: bool
    error: float | None
    graphs_used: int
    bounded: int = 0

    def __str__(self) -> str:
        drawn = "" if self.error is None else f" +- {self.error:.2f} ({self.graphs_used:,} graphs drawn)"
        return f"{'at least ' if self.bounded else ''}{self.value:.2f}{drawn}"


def average_diameter(
    graphs: GraphSet, sample: int | None = None, seed: int = 0, on_progress: Progress = ignore_progress
) -> Diameter:
    """The mean over graphs of the longest shortest path between two nodes.

    Edges count in both directions. Of a graph in several components the largest counts (of equally large ones the
    widest). ``sample`` graphs are drawn at random; by default all, or as many as hold five million edges. Of a graph with
    more than 5,000 nodes the diameter is bounded from below by two sweeps: breadth-first searches from 64 random nodes,
    then from the nodes farthest from those that lie in the largest component.
    """
    total = len(graphs)
    if not total or (sample is not None and sample < 1):
        raise InputError(f"an average diameter needs graphs: there are {total}, and the sample is {sample}")
    if sample is None:
        sample = max(FEWEST, math.floor(EDGES * total / max(graphs.num_edges, 1)))
    rng = np.random.default_rng(seed)
    if sample < total:
        graphs = graphs.select(torch.from_numpy(np.sort(rng.choice(total, sample, replace=False))))
    values, bounded = measure_diameters(graphs, rng, on_progress)
    count = len(values)
    error = None
    if count < total:  # drawn without replacement: the more of all graphs are in, the smaller the error
        error = float(values.std(ddof=1) / math.sqrt(count) * math.sqrt(1 - count / total)) if count > 1 else math.inf
    return Diameter(float(values.mean()), error is None and not bounded, error, count, bounded)


def measure_diameters(
    graphs: GraphSet, rng: np.random.Generator, on_progress: Progress = ignore_progress
) -> tuple[Ints, int]:
    """The diameter of each graph, and how many of them are lower bounds."""
    found = np.zeros(len(graphs), dtype=np.int64)
    done = 0
    sizes = graphs.node_counts.numpy()
    large = np.flatnonzero(sizes > LARGE)
    for graph in large:
        found[graph] = _bounded(graphs.select([int(graph)]), rng)
        done += 1
        on_progress("diameters", done, len(graphs))
    for ids in _chunks(graphs, np.flatnonzero(sizes <= LARGE)):
        found[ids] = _exact(graphs.select(torch.from_numpy(ids)))
        done += len(ids)
        on_progress("diameters", done, len(graphs))
    return found, len(large)


def _chunks(graphs: GraphSet, ids: Ints) -> Iterator[Ints]:
    """Graphs of similar size, as many together as fit ``MEMORY``."""
    words = -(-graphs.node_counts.numpy()[ids] // 64)
    order = np.argsort(words, kind="stable")
    ids, words = ids[order], words[order]
    load = (words * (2 * graphs.edge_counts.numpy()[ids] + 1)).cumsum()
    begin = 0
    while begin < len(ids):
        before = load[begin - 1] if begin else 0
        same = np.searchsorted(words, words[begin], side="right")
        end = max(begin + 1, min(same, np.searchsorted(load, before + MEMORY, side="right")))
        yield ids[begin:end]
        begin = end


def _exact(graphs: GraphSet) -> Ints:
    """Every node begins with itself and takes over what its neighbours have reached, until nothing changes."""
    sizes, first = graphs.node_counts.numpy(), graphs.node_ptr[:-1].numpy()
    owner = np.repeat(np.arange(len(graphs)), sizes)
    node = np.arange(len(owner)) - first[owner]
    reached = np.zeros((len(owner), -(-int(sizes.max()) // 64)), dtype=np.uint64)
    reached[np.arange(len(owner)), node // 64] = np.uint64(1) << (node % 64).astype(np.uint64)
    eccentricity = np.zeros(len(owner), dtype=np.int64)
    for step, (receivers, new) in enumerate(_spread(reached, *_undirected(graphs)), start=1):
        eccentricity[receivers[new.any(axis=1)]] = step
    component = np.unpackbits(reached.view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
    largest, widest = np.zeros((2, len(graphs)), dtype=np.int64)
    np.maximum.at(largest, owner, component)
    np.maximum.at(widest, owner, np.where(component == largest[owner], eccentricity, 0))
    return widest


def _bounded(graph: GraphSet, rng: np.random.Generator) -> int:
    """Two sweeps: the nodes farthest from random ones are good places to begin."""
    edges = _undirected(graph)
    begin = rng.choice(graph.num_nodes, 64, replace=False)
    farthest, _, reached = _sweep(graph.num_nodes, begin, edges)
    _, eccentricity, _ = _sweep(graph.num_nodes, farthest[reached == reached.max()], edges)
    return int(eccentricity.max())


def _sweep(num_nodes: int, begin: Ints, edges: tuple[Ints, Ints]) -> tuple[Ints, Ints, Ints]:
    """Searches from up to 64 nodes: for each the farthest node, its distance, and how many nodes were reached."""
    bits = np.uint64(1) << np.arange(len(begin), dtype=np.uint64)
    reached = np.zeros((num_nodes, 1), dtype=np.uint64)
    np.bitwise_or.at(reached[:, 0], begin, bits)
    farthest, distance = begin.copy(), np.zeros(len(begin), dtype=np.int64)
    for step, (receivers, new) in enumerate(_spread(reached, *edges), start=1):
        for search in np.flatnonzero(np.bitwise_or.reduce(new[:, 0]) & bits):
            distance[search] = step
            farthest[search] = receivers[np.argmax((new[:, 0] & bits[search]) != 0)]
    counts = [np.count_nonzero(reached[:, 0] & bit) for bit in bits]
    return farthest, distance, np.array(counts)


def _spread(reached: Words, source: Ints, target: Ints) -> Iterator[tuple[Ints, Words]]:
    """Pass sets along all edges, in place, step by step; yields who may have received something, and what was new."""
    starts = np.flatnonzero(np.diff(target, prepend=-1))
    receivers = target[starts]
    while len(starts):
        new = np.bitwise_or.reduceat(reached[source], starts, axis=0) & ~reached[receivers]
        if not new.any():
            return
        reached[receivers] |= new
        yield receivers, new


def _undirected(graphs: GraphSet) -> tuple[Ints, Ints]:
    """Source and target of every edge in both directions, numbered over all graphs, sorted by target."""
    shift = torch.repeat_interleave(graphs.node_ptr[:-1], graphs.edge_counts)
    source, target = (graphs.edge_index.long() + shift).numpy()
    count = max(graphs.num_nodes, 1)
    there, back = np.sort(target * count + source), np.sort(source * count + target)
    both = there if np.array_equal(there, back) else np.unique(np.concatenate([there, back]))
    return both % count, both // count
