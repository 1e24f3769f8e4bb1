"""How many weights the networks of a search space have: the lightest and the heaviest."""

from __future__ import annotations

from itertools import product

import torch

from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.arch.space import SearchSpace
from gnas.model.network import Network
from gnas.model.stage import OperationTypes
from gnas.model.task import Task
from gnas.strategies.base import SearchProblem


def least_weights(space: SearchSpace, task: Task, channels: int, cells: int, output: str = "") -> int:
    """Weights of the lightest network of the space: its live links are one path, with the lightest operations."""
    n, m = space.nodes, space.outputs

    def count(name: str, second: str) -> int:
        first = [Link(0, k, name) for k in range(1, n + 1)]
        middle = [Link(k, n + k, second) for k in range(1, n + 1)]
        last = [Link(n + 1, 2 * n + k, name) for k in range(1, m + 1)]
        cell = CellGenotype(n, m, (*first, *middle, *last), space.output)
        genotype = Genotype((cell,) * cells, space.variant).with_output(output or space.output)
        return _count_weights(genotype, task, channels)

    return min(count(name, second) for name, second in product(_filters(space), space.second_level))


def most_weights(problem: SearchProblem) -> int:
    """Weights of the heaviest network of the space: as many live links as can be, its heaviest operations on them."""
    space = problem.space
    n, m = space.nodes, space.outputs

    def count(name: str, second: str, cells: int) -> int:
        first = [Link(k - 1, k, name) for k in range(1, n + 1)]  # a chain: its end keeps all of it alive
        middle = [Link(k, n + k, second) for k in range(1, n + 1)]
        last = [Link(2 * n + 1 - min(k, n), 2 * n + k, name) for k in range(1, m + 1)]
        cell = CellGenotype(n, m, (*first, *middle, *last), space.output)
        genotype = Genotype((cell,) * cells, space.variant)
        return _count_weights(genotype, problem.task, problem.channels, problem.operations)

    names = _filters(space)
    name = max(names, key=lambda one: count(one, space.second_level[0], 1))  # the levels add their weights
    second = max(space.second_level, key=lambda one: count(names[0], one, 1))
    return count(name, second, problem.num_cells)


def _filters(space: SearchSpace) -> list[str]:
    return [name for name in space.filters if name != "zero"]


def _count_weights(genotype: Genotype, task: Task, channels: int, operations: OperationTypes | None = None) -> int:
    with torch.device("meta"):  # counted, not allocated
        return Network(genotype, task, channels, operations=operations).num_weights()
