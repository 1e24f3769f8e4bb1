"""GAP, the paper's paradigm: formula <-> tree <-> three-level cell, and the hand-made networks of its table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from gnas.arch.formula import Tree, check_token
from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.arch.operation import AGGREGATORS, MESSAGES, PLAIN, is_aggregator, join_operation
from gnas.errors import InputError, choose, name_place

ZOO = {
    "gcn": "mean",
    "gin": "[identity | sparse | sum]",
    "graphsage": "[identity | mean]",
    "gat": "sparse(sum(sparse))",
    "gatedgcn": "[identity | dense(sum(dense))]",
}
MAX_TEXT = 10_000

Step = tuple[str, str]  # one operation of a branch, and its label or ""


def approximate(name: str, num_cells: int = 4, variant: str = "paper") -> Genotype:
    """A hand-made network as the paper approximates it, with the same cell ``num_cells`` times.

    Args:
        name: Its name, such as ``gcn``, ``gin``, ``graphsage`` or ``gatedgcn``.
        num_cells: Number of cells.
        variant: The variant of the modules.

    >>> gnas.gap.approximate("gatedgcn", num_cells=1).formulas()
    ('[identity | dense(sum(dense))]',)
    """
    return genotype(ZOO[choose(name, ZOO, "hand-made network")], num_cells, variant)


def genotype(formulas: str | Sequence[str], num_cells: int | None = None, variant: str = "paper") -> Genotype:
    """Cells from formula text.

    Args:
        formulas: One formula for all cells, or one for each.
        num_cells: Number of cells; by default one, or as many as there are formulas.
        variant: The variant of the modules.

    >>> gnas.gap.genotype("mean(gated)", num_cells=2).formulas()
    ('mean(gated)', 'mean(gated)')
    """
    texts = [formulas] if isinstance(formulas, str) else list(formulas)
    wanted = len(texts) if num_cells is None else num_cells
    if wanted < 1 or len(texts) not in (1, wanted):
        raise InputError(f"{len(texts)} formulas for {wanted} cells; give one formula, or one for each cell")
    texts = texts if len(texts) == wanted else texts * wanted
    return Genotype(tuple(to_cell(parse(text)) for text in texts), variant)


def to_cell(tree: Tree) -> CellGenotype:
    """The three-level cell that computes ``tree``.

    >>> cell = gnas.gap.to_cell(gnas.gap.parse("[identity | dense(sum(dense))]"))
    >>> cell.nodes, cell.outputs
    (2, 2)
    """
    return rewrite(tree)[0]


def rewrite(tree: Tree) -> tuple[CellGenotype, tuple[int, ...]]:
    """The three-level cell that computes ``tree``, and for each tree node the cell node that holds its value.

    Follows the paper's constructive proof: nodes before an aggregation go to level 1, its result to level 2, what
    follows to level 3; a path without an aggregation crosses level 2 at its end. Bare skips lead every output to level
    3 and give each aggregation a first-level node of its own. The cell's outputs come in the order of the tree's.
    """
    levels = _Levels(tree)
    shift = {0: 0, 1: 0, 2: len(levels.first), 3: 2 * len(levels.first)}
    links = [Link(source, target, operation) for target, (source, operation) in enumerate(levels.first, start=1)]
    links += [Link(index, shift[2] + index, operation) for index, operation in levels.second.items()]
    for index, ((level, source), operation) in enumerate(levels.third, start=1):
        links.append(Link(shift[level] + source, shift[3] + index, operation))
    cell = CellGenotype(len(levels.first), len(levels.third), tuple(links), levels.output)
    return cell, tuple(shift[level] + index for level, index in levels.places)


class _Levels:
    """The three levels while they are filled; a place is (level, index in the level, from 1), the input is (0, 0)."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.first: list[tuple[int, str]] = []
        self.second: dict[int, str] = {}
        self.third: list[tuple[tuple[int, int], str]] = []
        self.places: list[tuple[int, int]] = []
        self.output = _output(tree)
        for node in range(len(tree)):
            self.places.append(self.place(node))
            if node in tree.outputs:
                self.lead_out(node)

    def place(self, node: int) -> tuple[int, int]:
        if node == 0:
            return 0, 0
        source, operation = self.places[self.tree.parents[node]], self.tree.operations[node]
        if is_aggregator(operation):
            return self.cross(source, operation.removeprefix("@"))
        if source[0] > 1:
            return self.follow(source, operation)
        self.first.append((source[1], operation))
        return 1, len(self.first)

    def cross(self, source: tuple[int, int], operation: str) -> tuple[int, int]:
        """A link to level 2. It starts at a first-level node without such a link, else at a new one after a bare skip."""
        index = source[1]
        if index == 0 or index in self.second:
            self.first.append((index, "skip"))
            index = len(self.first)
        self.second[index] = operation
        return 2, index

    def follow(self, source: tuple[int, int], operation: str) -> tuple[int, int]:
        self.third.append((source, operation))
        return 3, len(self.third)

    def lead_out(self, node: int) -> None:
        """Bare skips from an output of the tree to an output of the cell."""
        place = self.places[node]
        if place[0] < 2:
            place = self.cross(place, "skip")
        if place[0] == 2 or (self.output == "leaves" and self.tree.children(node)):
            self.follow(place, "skip")


def _output(tree: Tree) -> str:
    """``third``, unless some node after an aggregation is no output: then only the leaves of level 3 are."""
    after = [False]
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        after.append(after[parent] or is_aggregator(tree.operations[parent]))
    inner = [node for node in range(len(tree)) if after[node] and node not in tree.outputs]
    return "leaves" if inner else "third"


def parse(text: str) -> Tree:
    """Read a formula. Operations nest, the innermost is applied first; ``[a | b]`` lists the branches of the output.

    The same label, as in ``[sum(dense#1) | max(dense#1)]``, is the same latent node; without labels they are two.
    A user-defined aggregator is written ``@name``, a user-defined filter is just its name.

    >>> gnas.gap.parse("[identity | dense(sum(dense))]").operations[1:]
    ('identity', 'dense', 'sum', 'dense')
    """
    reader, tree = _Reader(text), _TreeBuilder()
    bracketed = reader.accept(r"\[")
    while True:
        position = reader.position
        steps = reader.branch()
        with name_place(f"formula position {position}"):
            tree.add(steps)
        if not (bracketed and reader.accept(r"\|")):
            break
    if bracketed and not reader.accept("]"):
        reader.fail("(, | or ]")
    if reader.tokens:
        reader.fail("the end; several branches need brackets, [a | b]")
    return Tree(tuple(tree.parents), tuple(tree.operations), tuple(tree.outputs))


class _Reader:
    """The tokens of a formula, read one by one. A branch is read in a loop, at any depth."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise InputError(f"the formula has {len(text):,} characters; at most {MAX_TEXT:,} are read")
        found = re.finditer(r"@?[a-z][a-z0-9_]*|#[0-9]+|\S", text)
        self.tokens = [(match[0], match.start() + 1) for match in found][::-1]
        self.end = len(text) + 1

    @property
    def position(self) -> int:
        return self.tokens[-1][1] if self.tokens else self.end

    def accept(self, pattern: str) -> str:
        """Take the next token if it matches, else take nothing and return an empty string."""
        matches = self.tokens and re.fullmatch(pattern, self.tokens[-1][0])
        return self.tokens.pop()[0] if matches else ""

    def fail(self, wanted: str) -> NoReturn:
        found = repr(self.tokens[-1][0]) if self.tokens else "the end"
        raise InputError(f"formula position {self.position}: found {found}, expected {wanted}")

    def branch(self) -> tuple[Step, ...]:
        """The operations of one branch, in the order they are applied."""
        steps = [self.step()]
        while self.accept(r"\("):
            steps.append(self.step())
        for _ in steps[1:]:
            if not self.accept(r"\)"):
                self.fail("( or )")
        return _join_messages(list(reversed(steps)))

    def step(self) -> Step:
        name = self.accept("@?[a-z].*") or self.fail("an operation, such as sum or dense")
        return name, self.accept("#[0-9]+")


def _join_messages(steps: list[Step]) -> tuple[Step, ...]:
    """A message and the aggregator that reads it are one operation: ``mean(gated(...))`` applies ``mean(gated)``."""
    joined: list[Step] = []
    message = ""
    for name, label in steps:
        if message and name not in AGGREGATORS:
            raise InputError(f"message {message} needs an aggregator around it, such as sum({message}); found {name}")
        if name in MESSAGES and not message:
            if label:
                raise InputError(f"message {name} cannot have the label {label}; label its aggregator")
            message = name
            continue
        joined.append((join_operation(name, message or PLAIN), label))
        message = ""
    if message:
        raise InputError(f"message {message} needs an aggregator around it, such as sum({message})")
    return tuple(joined)


class _TreeBuilder:
    """A tree under construction, branch by branch."""

    def __init__(self) -> None:
        self.parents, self.operations = [-1], [""]
        self.outputs: list[int] = []
        self.labelled: dict[str, tuple[int, tuple[Step, ...]]] = {}

    def add(self, steps: tuple[Step, ...]) -> None:
        node = self.grow(() if steps == (("skip", ""),) else steps)
        if node in self.outputs:
            raise InputError("this branch is an output already; list it once")
        self.outputs.append(node)

    def grow(self, steps: tuple[Step, ...]) -> int:
        known, node = self.known_part(steps)
        for end in range(known + 1, len(steps) + 1):
            operation, label = steps[end - 1]
            check_token(operation)
            self.parents.append(node)
            self.operations.append(operation)
            node = len(self.parents) - 1
            if label and self.labelled.setdefault(label, (node, steps[:end]))[0] != node:
                raise InputError(f"label {label} marks two different expressions; use another number for one")
        return node

    def known_part(self, steps: tuple[Step, ...]) -> tuple[int, int]:
        """How many steps lead to the last node that is labelled already, and that node."""
        for end in range(len(steps), 0, -1):
            node, meaning = self.labelled.get(steps[end - 1][1], (0, ()))
            if meaning == steps[:end]:
                return end, node
        return 0, 0
