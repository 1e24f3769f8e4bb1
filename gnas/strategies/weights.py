"""How many weights the networks of a search space have."""

from __future__ import annotations

import torch

from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.model.network import Network
from gnas.strategies.base import SearchProblem


def most_weights(problem: SearchProblem) -> int:
    """Weights of the heaviest network of the space: as many live links as can be, its heaviest operations on them."""

    def count(name: str, second: str, cells: int) -> int:
        first = [Link(k - 1, k, name) for k in range(1, n + 1)]  # a chain: its end keeps all of it alive
        middle = [Link(k, n + k, second) for k in range(1, n + 1)]
        last = [Link(2 * n + 1 - min(k, n), 2 * n + k, name) for k in range(1, m + 1)]
        cell = CellGenotype(n, m, (*first, *middle, *last), space.output)
        genotype = Genotype((cell,) * cells, space.variant)
        with torch.device("meta"):  # counted, not allocated
            return Network(genotype, problem.task, problem.channels, operations=problem.operations).num_weights()

    space = problem.space
    n, m = space.nodes, space.outputs
    names = [name for name in space.filters if name != "zero"]
    name = max(names, key=lambda one: count(one, space.second_level[0], 1))  # the levels add their weights
    second = max(space.second_level, key=lambda one: count(names[0], one, 1))
    return count(name, second, problem.num_cells)
