"""A copy of a benchmark against its published figures, and the order of edges that readers rely on."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from gnas.data import load
from gnas.data.benchmarks import find_facts
from gnas.data.benchmarks.facts import check_benchmark, find_edge_fault
from gnas.graph import GraphSet


def small_set(edges: list[tuple[int, int]]) -> GraphSet:
    index = torch.tensor(edges, dtype=torch.int16).T
    return GraphSet(torch.zeros(3, 1), index, torch.tensor([0, 3]), torch.tensor([0, len(edges)]), torch.zeros(1))


@pytest.mark.parametrize(
    ("edges", "fault"),
    [
        ([(1, 0), (0, 1)], ""),
        ([(1, 0), (3, 1)], "out of range"),
        ([(1, 0), (1, 1)], "self-loops"),
        ([(0, 1), (1, 0)], "not sorted"),
        ([(1, 0), (1, 0)], "repeated"),
        ([(1, 0), (0, 1), (2, 1)], "opposite"),
    ],
)
def test_faulty_edges_are_found(edges: list[tuple[int, int]], fault: str) -> None:
    found = find_edge_fault(small_set(edges), symmetric=True)
    assert fault in found
    assert bool(found) == bool(fault)


def test_a_check_notices_missing_nodes() -> None:
    benchmark = load("molecules-mini")
    facts = dataclasses.replace(find_facts("molecules-mini"), nodes=5_000)
    assert [c.what for c in check_benchmark(benchmark, facts) if not c.ok] == ["nodes"]
