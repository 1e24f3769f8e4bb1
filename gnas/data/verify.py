"""Is this the benchmark? Counts, ranges and edges against what is published, and the order every reader relies on."""

from __future__ import annotations

from typing import NamedTuple

import torch

from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks.catalogue import SPLITS, Facts
from gnas.graph import GraphSet


class Check(NamedTuple):
    """One thing that was checked; ``expected`` says what was wanted."""

    what: str
    found: str
    expected: str
    ok: bool


def check(benchmark: Benchmark, facts: Facts) -> list[Check]:
    """Compare a benchmark with its published numbers."""
    sets = list(benchmark.splits().values())
    nodes = torch.cat([s.node_counts for s in sets])
    edges = sum(s.num_edges for s in sets) / max(len(nodes), 1)
    low, high = int(nodes.min()), int(nodes.max())
    checks = [_equal(f"{split} graphs", len(s), n) for split, s, n in zip(SPLITS, sets, facts.graphs, strict=True)]
    checks += [
        _near("nodes", int(nodes.sum()), facts.nodes, facts.tolerance),
        _within("nodes of the smallest graph", low, facts.smallest, facts.slack),
        _within("nodes of the largest graph", high, facts.largest, facts.slack),
        _near("edges of a graph, mean", edges, facts.edges, facts.tolerance or 1e-3),
    ]
    for split, graphs in zip(SPLITS, sets, strict=True):
        fault = edge_fault(graphs, facts.symmetric)
        checks.append(Check(f"{split} edges", fault or "in order", "in order", not fault))
    return checks


def edge_fault(graphs: GraphSet, symmetric: bool) -> str:
    """What is wrong with the edges: a number out of range, a self-loop, a wrong order, a missing opposite; or nothing."""
    step = 500
    for first in range(0, len(graphs), step):
        fault = _edge_fault(graphs, first, min(first + step, len(graphs)), symmetric)
        if fault:
            return fault
    return ""


def _edge_fault(graphs: GraphSet, first: int, last: int, symmetric: bool) -> str:
    nodes, edges = graphs.node_counts[first:last], graphs.edge_counts[first:last]
    source, target = graphs.edge_index[:, graphs.edge_ptr[first] : graphs.edge_ptr[last]].long()
    graph = torch.repeat_interleave(torch.arange(last - first), edges)
    if source.numel() and (
        min(source.min(), target.min()) < 0 or bool((torch.maximum(source, target) >= nodes[graph]).any())
    ):
        return "node numbers out of range"
    if bool((source == target).any()):
        return "self-loops"
    width = int(nodes.max()) if nodes.numel() else 1
    key = (graph * width + target) * width + source
    if not bool((key.diff() > 0).all()):
        return "not sorted by graph, target, source, or edges twice"
    if not symmetric:
        return ""
    there = torch.zeros((last - first) * width * width, dtype=torch.bool)
    there[key] = True
    opposite = (graph * width + source) * width + target
    return "" if bool(there[opposite].all()) else "edges without their opposite"


def megabytes(benchmark: Benchmark) -> float:
    """Memory the splits take, in MB."""
    return sum(s.nbytes() for s in benchmark.splits().values()) / 1e6


def _equal(what: str, found: int, wanted: int) -> Check:
    return Check(what, f"{found:,}", f"{wanted:,}", found == wanted)


def _near(what: str, found: float, wanted: float, tolerance: float) -> Check:
    def text(value: float) -> str:
        return f"{value:,.0f}" if isinstance(value, int) else f"{value:,.2f}"

    words = text(wanted) + (f" +- {100 * tolerance:g} %" if tolerance else "")
    return Check(what, text(found), words, abs(found - wanted) <= tolerance * wanted)


def _within(what: str, found: int, wanted: int, slack: int) -> Check:
    return Check(what, str(found), f"{wanted}" + (f" +- {slack}" if slack else ""), abs(found - wanted) <= slack)
