"""What is published of a benchmark, and the check of a copy against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from gnas.data.benchmark import PATIENCE, SPLIT_NAMES, Benchmark
from gnas.graph import GraphSet
from gnas.model.task import Task

DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class Facts:
    """What is published of a dataset. ``tolerance`` is relative: 0 if every copy must be the same data."""

    what: str
    task: Task
    graphs: tuple[int, int, int]
    nodes: int  # in all splits
    smallest: int
    largest: int
    edges: float  # directed, mean per graph
    symmetric: bool
    tolerance: float = 0.0
    slack: int = 0  # allowed difference of the smallest and the largest graph
    patience: int = PATIENCE  # of the training protocol

    @property
    def drawn(self) -> bool:
        """Whether the data is a random draw, so that another seed gives another dataset of the same kind."""
        return self.tolerance > 0


def node_task(classes: int, signals: int) -> Task:
    """Classes of nodes that read one category."""
    return Task("node", "classification", classes, (signals,), loss="weighted_cross_entropy", metric="class_accuracy")


def image_task(channels: int, labels: tuple[str, ...]) -> Task:
    """Classes of images whose superpixels have ``channels`` features."""
    return Task("graph", "classification", len(labels), in_channels=channels, metric="accuracy", labels=labels)


class Check(NamedTuple):
    """One figure of a benchmark and its expected value."""

    what: str
    found: str
    expected: str
    ok: bool


def check_benchmark(benchmark: Benchmark, facts: Facts) -> list[Check]:
    """Compare a benchmark with its published figures, and check the order of edges that every reader relies on."""
    sets = list(benchmark.splits().values())
    nodes = torch.cat([s.node_counts for s in sets])
    edges = sum(s.num_edges for s in sets) / max(len(nodes), 1)
    low, high = int(nodes.min()), int(nodes.max())
    checks = [_equal(f"{split} graphs", len(s), n) for split, s, n in zip(SPLIT_NAMES, sets, facts.graphs, strict=True)]
    checks += [
        _near("nodes", int(nodes.sum()), facts.nodes, facts.tolerance),
        _within("nodes of the smallest graph", low, facts.smallest, facts.slack),
        _within("nodes of the largest graph", high, facts.largest, facts.slack),
        _near("edges of a graph, mean", edges, facts.edges, facts.tolerance or 1e-3),
    ]
    for split, graphs in zip(SPLIT_NAMES, sets, strict=True):
        fault = find_edge_fault(graphs, facts.symmetric)
        checks.append(Check(f"{split} edges", fault or "in order", "in order", not fault))
    return checks


def find_edge_fault(graphs: GraphSet, symmetric: bool) -> str:
    """The first fault of the edges: a number out of range, a self-loop, a wrong order, a missing opposite; or no text."""
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
        return "not sorted by graph, target, source, or repeated"
    if not symmetric:
        return ""
    there = torch.zeros((last - first) * width * width, dtype=torch.bool)
    there[key] = True
    opposite = (graph * width + source) * width + target
    return "" if bool(there[opposite].all()) else "edges without their opposite"


def _equal(what: str, found: int, expected: int) -> Check:
    return Check(what, f"{found:,}", f"{expected:,}", found == expected)


def _near(what: str, found: float, expected: float, tolerance: float) -> Check:
    def text(value: float) -> str:
        return f"{value:,.0f}" if isinstance(value, int) else f"{value:,.2f}"

    words = text(expected) + (f" +- {100 * tolerance:g} %" if tolerance else "")
    return Check(what, text(found), words, abs(found - expected) <= tolerance * expected)


def _within(what: str, found: int, expected: int, slack: int) -> Check:
    return Check(what, str(found), f"{expected}" + (f" +- {slack}" if slack else ""), abs(found - expected) <= slack)
