"""Every strategy over messages and stacks, on graphs with edge features and on graphs without."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import small
import torch

import gnas
from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.arch.stack import StackSpace
from gnas.data.benchmark import Benchmark
from gnas.graph import GraphSet
from gnas.strategies import Darts, Evolution, RandomSearch, SingleLevel

SPACE = SearchSpace(
    1,
    1,
    aggregators=("mean", "sum", "max", "std"),
    variant="bare",
    messages=("plain", "edge", "gated", "attention", "pair"),
    stack=StackSpace(ffn=(True, False), edges=("updated", "kept"), readout=(None, "mean_max")),
)


def with_bonds() -> Benchmark:
    """The small benchmark with one column of three kinds of edges."""
    base = small.benchmark()

    def add(graphs: GraphSet) -> GraphSet:
        return replace(graphs, edge_attr=(torch.arange(graphs.num_edges) % 3)[:, None])

    task = replace(base.task, edge_categories=(3,))
    return replace(base, train=add(base.train), val=add(base.val), test=add(base.test), task=task)


STRATEGIES = {
    "single_level": lambda: SingleLevel(epochs=1, batch_size=6),
    "darts": lambda: Darts(epochs=1, batch_size=6),
    "random": lambda: RandomSearch(trials=2, epochs=1, batch_size=6),
    "evolution": lambda: Evolution(trials=3, population=2, sample=1, epochs=1, batch_size=6),
}


@pytest.mark.parametrize("bonds", [True, False])
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_search_over_messages(name: str, bonds: bool) -> None:
    bench = with_bonds() if bonds else small.benchmark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gnas.search(bench, SPACE, STRATEGIES[name](), channels=4, num_cells=2).genotype
    assert isinstance(found, Genotype)
    assert found in SPACE
