"""Graphs too large to be computed whole: whose neighbours are sampled, how many a hop, and the line that says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.graph import GraphSet

# What a supernet of 3 cells and 32 channels needs some 4 GB for, gradients included.
WHOLE_NODES, WHOLE_EDGES = 100_000, 2_000_000
USUAL = (10, 5)
ALL = -1  # every neighbour, as in PyG
SAID = "neighbours are sampled, hop by hop"

Asked = Sequence[int] | str | None


def check_sample_neighbors(asked: Asked) -> tuple[int, ...] | None:
    """Neighbours for each hop; empty: whole graphs (``none``); None: as the size of the graphs asks for.

    >>> check_sample_neighbors("10,5")
    (10, 5)
    """
    if asked is None:
        return None
    words = asked.replace(",", " ").split() if isinstance(asked, str) else list(asked)
    if words in (["none"], []):
        return ()
    try:
        numbers = tuple(int(word) for word in words)
    except (TypeError, ValueError):
        numbers = (0,)
    if not all(number == ALL or number > 0 for number in numbers):
        raise InputError(
            f"sample_neighbors is {asked!r}; give a number for each hop, such as 10,5 (-1: all neighbours), or none"
        )
    return numbers


def is_large(graphs: GraphSet) -> bool:
    """Whether a graph of node targets is past what is computed whole."""
    if graphs.level != "node" or not len(graphs):
        return False
    return int(graphs.node_counts.max()) > WHOLE_NODES or int(graphs.edge_counts.max()) > WHOLE_EDGES


def with_sampling(benchmark: Benchmark, asked: Asked) -> Benchmark:
    """The benchmark with batches of sampled neighbourhoods, where it is asked for or a graph is large; a note says so."""
    hops = check_sample_neighbors(asked)
    if hops is None:
        hops = USUAL if any(is_large(split) for split in benchmark.splits().values()) else ()
    if not hops:
        return benchmark
    if benchmark.task.level != "node":
        raise InputError(
            f"sample_neighbors needs a target of nodes; {benchmark.name} has one of {benchmark.task.level}s: its batches hold "
            "whole graphs"
        )
    why = "" if asked is not None else f" (a graph of more than {WHOLE_NODES:,} nodes or {WHOLE_EDGES:,} edges)"
    each = ", ".join("all" if number == ALL else str(number) for number in hops)
    note = f"{SAID}: {each}{why}; a batch counts its seed nodes alone"

    def drawn(split: GraphSet) -> GraphSet:
        return dataclasses.replace(split, sample_neighbors=hops)

    kept = (said for said in benchmark.notes if not said.startswith(SAID))
    train, val, test = drawn(benchmark.train), drawn(benchmark.val), drawn(benchmark.test)
    return dataclasses.replace(benchmark, train=train, val=val, test=test, notes=(*kept, note))
