"""Hypothesis strategies shared by the tests: any valid cell, genotype or GAP tree, small."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from gnas.arch.formula import Tree
from gnas.arch.genotype import OUTPUTS, VARIANTS, CellGenotype, Genotype, Link
from gnas.arch.operation import AGGREGATORS, is_aggregator
from gnas.errors import InputError

T = TypeVar("T")
FILTER_NAMES = ("identity", "sparse", "dense", "skip", "own_filter")
LEVEL_TWO_NAMES = (*AGGREGATORS, "identity", "skip", "own_median")
TREE_NAMES = ("identity", "sparse", "dense", "own_filter", *AGGREGATORS, "@own_median")


def read_or_refused(read: Callable[[str], T], text: str) -> T | None:
    """What is read, or None where it is refused in one line; any other error is a failure."""
    try:
        return read(text)
    except InputError as error:
        message = str(error)
    assert message
    assert len(message.splitlines()) == 1
    return None


@st.composite
def cells(draw: st.DrawFn) -> CellGenotype:
    """Any cell, nodes left out and skips included; the links 1 <- 0, N+1 <- 1, 2N+1 <- N+1 are always there."""
    n, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    links = []
    present = [0]
    for target in range(1, 2 * n + m + 1):
        second = n < target <= 2 * n
        low, high = (0, target - 1) if target <= n else (target - n,) * 2 if second else (n + 1, target - 1)
        sources = [node for node in present if low <= node <= high]
        if sources and (target in (1, n + 1, 2 * n + 1) or draw(st.booleans())):
            names = LEVEL_TWO_NAMES if second else FILTER_NAMES
            links.append(Link(draw(st.sampled_from(sources)), target, draw(st.sampled_from(names))))
            present.append(target)
    return CellGenotype(n, m, tuple(links), draw(st.sampled_from(OUTPUTS)))


def genotypes() -> st.SearchStrategy[Genotype]:
    """Any genotype of one to three cells."""
    return st.builds(Genotype, st.lists(cells(), min_size=1, max_size=3).map(tuple), variant=st.sampled_from(VARIANTS))


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 9) -> Tree:
    """Any GAP tree; all leaves are outputs, and inner nodes or the input at will."""
    parents, operations, aggregated = [-1], [""], [False]
    for node in range(1, draw(st.integers(1, max_nodes))):
        parent = draw(st.integers(0, node - 1))
        names = [name for name in TREE_NAMES if not (aggregated[parent] and is_aggregator(name))]
        parents.append(parent)
        operations.append(draw(st.sampled_from(names)))
        aggregated.append(aggregated[parent] or is_aggregator(operations[node]))
    leaves = set(range(len(parents))) - set(parents)
    inner = draw(st.sets(st.sampled_from(range(len(parents)))))
    return Tree(tuple(parents), tuple(operations), tuple(leaves | inner))
