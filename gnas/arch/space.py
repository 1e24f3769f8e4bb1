"""The three-level search space: which links a cell may have, and which operations each may carry."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from gnas.arch.genotype import MAX_NODES, VARIANTS, CellGenotype, Genotype, Link
from gnas.arch.operation import AGGREGATORS, MESSAGES, PLAIN, check_name, join_operation
from gnas.arch.stack import ONE_STACK, StackSpace
from gnas.errors import InputError, choose


@dataclass(frozen=True)
class SpaceLink:
    """A connection of the search space with the operations it may carry."""

    source: int
    target: int
    candidates: tuple[str, ...]


@dataclass(frozen=True)
class SearchSpace:
    """The architectures that a search can find: three levels of nodes in each cell, and candidate operations.

    Level 3 reads level 2 and its own earlier nodes. In the variant ``reference`` it reads level 2 only, and the output of a cell
    is made of all nodes instead of the third level.

    Args:
        nodes: N, the nodes on each of the levels 1 and 2.
        outputs: M, the nodes on level 3.
        filters: Candidates on levels 1 and 3. ``zero`` is a candidate that is never chosen: a genotype holds one link into every
            node.
        aggregators: Candidates on level 2.
        variant: The modules: ``paper``, ``reference`` or ``bare``.
        messages: What every aggregator can read along an edge.
        stack: The choices for the whole network.

    >>> space = gnas.SearchSpace(2, 2, aggregators=("identity", "mean", "max"))
    >>> f"{space.size(num_cells=1):.0f} cells"
    '8748 cells'
    >>> import numpy as np
    >>> space.sample(np.random.default_rng(0), num_cells=4).depth() <= 4
    True
    """

    nodes: int = 3
    outputs: int = 3
    filters: tuple[str, ...] = ("zero", "identity", "sparse", "dense")
    aggregators: tuple[str, ...] = ("identity", "mean", "sum", "max")
    variant: str = "paper"
    messages: tuple[str, ...] = (PLAIN,)
    stack: StackSpace = ONE_STACK

    def __post_init__(self) -> None:
        for name in ("filters", "aggregators", "messages"):
            names = getattr(self, name)
            if isinstance(names, str):
                raise InputError(f"{name} is {names!r}; give a tuple of names, such as ({names!r},)")
            object.__setattr__(self, name, tuple(names))
        if not isinstance(self.stack, StackSpace):
            raise InputError(f"stack is {reprlib.repr(self.stack)}; it must be a StackSpace, which has choices")
        for name in ("nodes", "outputs"):
            if not isinstance(getattr(self, name), int) or not 1 <= getattr(self, name) <= MAX_NODES:
                raise InputError(f"{name} is {getattr(self, name)!r}; allowed: 1 to {MAX_NODES}")
        choose(self.variant, VARIANTS, "search space variant")
        _check_candidates("filters", self.filters, refused=(*AGGREGATORS, "skip"))
        _check_candidates("aggregators", self.aggregators, refused=("zero", "sparse", "dense", "skip"))
        if not self.messages or len(set(self.messages)) < len(self.messages):
            raise InputError(f"messages are {list(self.messages)}; name at least one, each once")
        for message in self.messages:
            choose(message, MESSAGES, "message")

    @property
    def second_level(self) -> tuple[str, ...]:
        """The candidates on level 2: every aggregator with every message. Operations of your own have no messages.

        >>> SearchSpace(aggregators=("identity", "sum"), messages=("plain", "gated")).second_level
        ('identity', 'sum', 'sum(gated)')
        """
        found = []
        for name in self.aggregators:
            messages = self.messages if name in AGGREGATORS else (PLAIN,)
            found += [join_operation(name, message) for message in messages]
        return tuple(found)

    @property
    def output(self) -> str:
        return "all" if self.variant == "reference" else "third"

    def level(self, node: int) -> int:
        """0 for the input, else the level 1, 2 or 3 the node is on."""
        return 0 if node == 0 else min((node - 1) // self.nodes + 1, 3)

    def output_nodes(self) -> tuple[int, ...]:
        """The nodes a cell's output is made of."""
        last = 2 * self.nodes + self.outputs
        return tuple(range(1 if self.output == "all" else 2 * self.nodes + 1, last + 1))

    def links(self) -> tuple[SpaceLink, ...]:
        """Every link, by target, then source."""
        second = self.second_level
        return tuple(
            SpaceLink(source, target, second if self.nodes < target <= 2 * self.nodes else self.filters)
            for target in range(1, 2 * self.nodes + self.outputs + 1)
            for source in self._sources(target)
        )

    def choices(self) -> tuple[tuple[Link, ...], ...]:
        """For each node 1, 2, ..., the links of which a genotype holds exactly one."""
        nodes: dict[int, list[Link]] = {}
        for link in self.links():
            chosen = [Link(link.source, link.target, name) for name in link.candidates if name != "zero"]
            nodes.setdefault(link.target, []).extend(chosen)
        return tuple(tuple(options) for options in nodes.values())

    def size(self, num_cells: int = 1) -> int:
        """The number of different genotypes with ``num_cells`` cells."""
        return int(prod(len(options) for options in self.choices()) ** num_cells) * self.stack.size()

    def sample(self, rng: np.random.Generator, num_cells: int = 4) -> Genotype:
        """A genotype drawn uniformly from the space."""
        choices = self.choices()
        drawn = ([options[rng.integers(len(options))] for options in choices] for _ in range(num_cells))
        cells = tuple(self._cell(links) for links in drawn)
        return Genotype(cells, self.variant, self.stack.sample(rng))

    def mutate(self, genotype: Genotype, rng: np.random.Generator) -> Genotype:
        """``genotype`` with one node or one part of its stack, drawn uniformly, re-drawn among its other choices."""
        if genotype not in self:
            raise InputError(f"genotype {genotype.id} is not in the search space; only its members can be mutated")
        open_nodes = [(place, options) for place, options in enumerate(self.choices()) if len(options) > 1]
        parts = self.stack.open()
        if not open_nodes and not parts:
            raise InputError("the search space holds a single genotype; add nodes or candidates to mutate it")
        if parts:
            place = int(rng.integers(len(open_nodes) * len(genotype) + len(parts)))
            if place < len(parts):
                return replace(genotype, stack=self.stack.mutate(genotype.stack, parts[place], rng))
        which = int(rng.integers(len(genotype)))
        place, options = open_nodes[rng.integers(len(open_nodes))]
        links = list(genotype[which].links)
        others = [link for link in options if link != links[place]]
        links[place] = others[rng.integers(len(others))]
        cells = list(genotype)
        cells[which] = self._cell(links)
        return replace(genotype, cells=tuple(cells))

    def __contains__(self, genotype: object) -> bool:
        if not isinstance(genotype, Genotype) or genotype.variant != self.variant:
            return False
        choices = self.choices()
        return genotype.stack in self.stack and all(self._holds(cell, choices) for cell in genotype)

    def _holds(self, cell: CellGenotype, choices: tuple[tuple[Link, ...], ...]) -> bool:
        shape = (cell.nodes, cell.outputs, cell.output) == (self.nodes, self.outputs, self.output)
        complete = len(cell.links) == len(choices)
        return shape and complete and all(link in options for link, options in zip(cell.links, choices, strict=True))

    def _cell(self, links: list[Link]) -> CellGenotype:
        return CellGenotype(self.nodes, self.outputs, tuple(links), self.output)

    def _sources(self, target: int) -> range:
        n = self.nodes
        if target <= n:
            return range(target)
        if target <= 2 * n:
            return range(target - n, target - n + 1)
        return range(n + 1, 2 * n + 1 if self.variant == "reference" else target)


def _check_candidates(what: str, names: tuple[str, ...], refused: tuple[str, ...]) -> None:
    if not set(names) - {"zero"}:
        raise InputError(f"{what} {list(names)} leave no operation to choose; give at least one besides zero")
    for name in names:
        if name in refused:
            raise InputError(f"{name} cannot be one of the {what}; not allowed there: {', '.join(refused)}")
        if name != "zero":
            check_name(name)
        if names.count(name) > 1:
            raise InputError(f"{name} is given twice in {what} {list(names)}")
