"""Cells of parallel branches, the form of most hand-made networks: the node itself beside one or more aggregations.

``[identity | sum(edge) | max(gated(dense))]`` has two branches. The space of such cells is small, it contains the recipes of
``gnas.arch.recipes``, and a change of one branch leads from one good network to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gnas.arch.formula import Tree
from gnas.arch.gap import to_cell
from gnas.arch.genotype import CellGenotype, Genotype
from gnas.arch.operation import is_aggregator, join_operation, split_operation
from gnas.arch.space import SearchSpace
from gnas.arch.stack import Stack

MOST_BRANCHES = 4
ATTEMPTS = 20  # draws until one differs; a space may have a single branch
Branch = tuple[str, ...]  # an aggregation, with or without a filter before it


@dataclass(frozen=True)
class BranchSpace:
    """Networks whose cells are all the same and made of branches, with the operations and stacks of ``space``.

    Example:
        >>> BranchSpace(SearchSpace()).sample(np.random.default_rng(0), 2).formulas()[0]
        '[identity | sum]'
    """

    space: SearchSpace

    @property
    def aggregators(self) -> tuple[str, ...]:
        return tuple(name for name in self.space.aggregators if is_aggregator(name))

    @property
    def filters(self) -> tuple[str, ...]:
        return tuple(name for name in self.space.filters if name in ("sparse", "dense"))

    def sample(self, rng: np.random.Generator, num_cells: int) -> Genotype:
        """One to three branches, fewer more often. A filter comes before every fourth aggregation."""
        wanted = 1 + int(rng.integers(3)) * int(rng.integers(2))
        branches: set[Branch] = set()
        for _ in range(wanted):
            branches.add(self._draw(rng))
        return self._genotype(branches, num_cells, self.space.stack.sample(rng))

    def mutate(self, genotype: Genotype, rng: np.random.Generator) -> Genotype:
        """``genotype`` with one branch changed, added or removed, or one part of its stack re-drawn."""
        branches = read_branches(genotype[0])
        assert branches is not None
        parts = self.space.stack.open()
        if parts and rng.random() < 0.4:
            part = parts[int(rng.integers(len(parts)))]
            return replace(genotype, stack=self.space.stack.mutate(genotype.stack, part, rng))
        changed = branches
        for _ in range(ATTEMPTS):
            if changed == branches:
                changed = self._change(sorted(branches), rng)
        return self._genotype(changed, len(genotype), genotype.stack)

    def __contains__(self, genotype: object) -> bool:
        if not isinstance(genotype, Genotype) or len(set(genotype.cells)) > 1:
            return False
        branches = read_branches(genotype[0])
        right = genotype.variant == self.space.variant and genotype.stack in self.space.stack
        return right and branches is not None and all(self._holds(one) for one in branches)

    def _holds(self, branch: Branch) -> bool:
        aggregator, message = split_operation(branch[-1])
        first = len(branch) == 1 or branch[0] in self.filters
        return first and aggregator in self.aggregators and message in self.space.messages

    def _change(self, branches: list[Branch], rng: np.random.Generator) -> set[Branch]:
        place, kind = int(rng.integers(len(branches))), rng.random()
        if kind < 0.35 and len(branches) < MOST_BRANCHES:
            return {*branches, self._draw(rng)}
        if kind < 0.5 and len(branches) > 1:
            return {*branches[:place], *branches[place + 1 :]}
        return {*branches[:place], self._redraw(branches[place], rng), *branches[place + 1 :]}

    def _redraw(self, branch: Branch, rng: np.random.Generator) -> Branch:
        """The branch with its aggregator, its message or its filter drawn again."""
        aggregator, message = split_operation(branch[-1])
        kind = int(rng.integers(4))
        if kind == 0 and self.filters:
            filters: list[Branch] = [(), *((name,) for name in self.filters)]
            return (*filters[int(rng.integers(len(filters)))], branch[-1])
        if kind == 1:
            message = _pick(self.space.messages, rng)
        else:
            aggregator = _pick(self.aggregators, rng)
        return (*branch[:-1], join_operation(aggregator, message))

    def _draw(self, rng: np.random.Generator) -> Branch:
        operation = join_operation(_pick(self.aggregators, rng), _pick(self.space.messages, rng))
        if self.filters and rng.random() < 0.25:
            return (_pick(self.filters, rng), operation)
        return (operation,)

    def _genotype(self, branches: set[Branch], num_cells: int, stack: Stack) -> Genotype:
        return Genotype((branch_cell(branches),) * num_cells, self.space.variant, stack)


def branch_cell(branches: set[Branch]) -> CellGenotype:
    """The cell ``[identity | ...]`` with these branches.

    >>> str(branch_cell({("sum(edge)",), ("dense", "max")}).tree())
    '[identity | sum(edge) | max(dense)]'
    """
    parents, operations, outputs = [-1, 0], ["", "identity"], [1]
    for branch in sorted(branches):
        for place, operation in enumerate(branch):
            parents.append(len(parents) - 1 if place else 0)
            operations.append(operation)
        outputs.append(len(parents) - 1)
    return to_cell(Tree(tuple(parents), tuple(operations), tuple(outputs)))


def read_branches(cell: CellGenotype) -> set[Branch] | None:
    """The branches of a cell beside ``identity``; None if it is not made of branches of this kind."""
    paths = set(cell.paths())
    branches = paths - {("identity",)}
    plain = all(len(one) <= 2 and one and is_aggregator(one[-1]) for one in branches)
    filtered = all(len(one) == 1 or one[0] in ("sparse", "dense") for one in branches)
    return branches if branches and plain and filtered and len(branches) < len(paths) else None


def _pick(values: tuple[str, ...], rng: np.random.Generator) -> str:
    return values[int(rng.integers(len(values)))]
