"""The result of a search: links, cells and genotypes, as immutable values with one readable file format."""

from __future__ import annotations

import hashlib
import json
import operator
import re
import reprlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import total_ordering
from pathlib import Path
from typing import Any, ClassVar

from gnas.arch.formula import Tree
from gnas.arch.operation import AGGREGATORS, FILTERS, PLAIN, check_name, is_aggregator, split_operation
from gnas.arch.stack import DEFAULT, Stack
from gnas.errors import InputError, choose, name_place
from gnas.files import check_digits, check_document, check_mapping, check_sequence, parse_yaml, shorten, write_atomic

OUTPUTS = ("third", "all", "leaves")
VARIANTS = ("paper", "reference", "bare")
MAX_NODES = 99  # per level; the paper uses 3 or 4


@total_ordering
@dataclass(frozen=True)
class Link:
    """One connection inside a cell: node ``target`` is ``operation`` applied to node ``source``.

    Args:
        source: The node that is read.
        target: The node that is computed.
        operation: The name of the operation.

    >>> gnas.Link(0, 1, "dense").operation
    'dense'
    """

    source: int
    target: int
    operation: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", _integer(self.source, "source of a link"))
        object.__setattr__(self, "target", _integer(self.target, "target of a link"))
        with name_place(f"link {self.target} <- {self.source}"):
            object.__setattr__(self, "operation", check_name(self.operation))

    def __lt__(self, other: Link) -> bool:
        return (self.target, self.source, self.operation) < (other.target, other.source, other.operation)

    def __str__(self) -> str:
        return f"{self.target} <- {self.source}: {self.operation}"


@dataclass(frozen=True, order=True)
class CellGenotype:
    """One cell: N first-level nodes that filter, N that aggregate, M that filter again; node 0 is the input.

    Level 1 is nodes 1..N, level 2 is N+1..2N, level 3 is 2N+1..2N+M. A node without an incoming link is absent: it is
    neither computed nor part of the output.

    Args:
        nodes: N.
        outputs: M.
        links: The links.
        output: The nodes that form the output: ``third`` (all present third-level nodes), ``all`` (all present nodes but the
            input) or ``leaves`` (all present nodes that feed no other).

    >>> links = (gnas.Link(0, 1, "dense"), gnas.Link(1, 2, "sum"), gnas.Link(2, 3, "identity"))
    >>> gnas.Genotype((gnas.CellGenotype(1, 1, links),)).formulas()
    ('identity(sum(dense))',)
    """

    nodes: int
    outputs: int
    links: tuple[Link, ...]
    output: str = "third"

    def __post_init__(self) -> None:
        for name in ("nodes", "outputs"):
            value = _integer(getattr(self, name), name)
            if not 1 <= value <= MAX_NODES:
                raise InputError(f"{name} {value} is out of range; allowed: 1 to {MAX_NODES}")
            object.__setattr__(self, name, value)
        links = tuple(sorted(map(_as_link, self.links)))
        object.__setattr__(self, "links", links)
        choose(self.output, OUTPUTS, "cell output")
        self._check_links()
        if not self.output_nodes():
            raise InputError(
                f"no node is an output (output: {self.output}); add a link into level 3, such as {self._example()}"
            )

    def level(self, node: int) -> int:
        """0 for the input, else the level 1, 2 or 3 the node is on."""
        return 0 if node == 0 else min((node - 1) // self.nodes + 1, 3)

    def incoming(self, node: int) -> Link | None:
        return next((link for link in self.links if link.target == node), None)

    def present(self) -> tuple[int, ...]:
        """The nodes that are computed, the input first."""
        return (0, *(link.target for link in self.links))

    def output_nodes(self) -> tuple[int, ...]:
        computed = self.present()[1:]
        if self.output == "third":
            return tuple(node for node in computed if self.level(node) == 3)
        feeding = {link.source for link in self.links} if self.output == "leaves" else set()
        return tuple(node for node in computed if node not in feeding)

    def live(self) -> frozenset[int]:
        """The nodes that reach an output; the results of other nodes are not used."""
        reached = set(self.output_nodes())
        for link in reversed(self.links):
            if link.target in reached:
                reached.add(link.source)
        return frozenset(reached)

    def path(self, node: int) -> tuple[Link, ...]:
        """The links from the input to ``node``."""
        links: list[Link] = []
        while link := self.incoming(node):
            links.append(link)
            node = link.source
        return tuple(reversed(links))

    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The operations from the input to each output, in the order they are applied, bare skips left out."""
        routes = (self.path(node) for node in self.output_nodes())
        return tuple(tuple(link.operation for link in route if link.operation != "skip") for route in routes)

    def operations(self) -> Counter[str]:
        return Counter(link.operation for link in self.links)

    def aggregations(self) -> Counter[str]:
        """The aggregations that reach the output."""
        live = self.live()
        return Counter(link.operation for link in self.links if link.target in live and self._aggregates(link))

    def aggregates(self) -> bool:
        return bool(self.aggregations())

    def tree(self) -> Tree:
        """The GAP tree this cell computes, without skips and dead branches. Outputs that are one value behind skips are one."""
        links = ((link.source, link.target, self._token(link)) for link in self.links)
        return Tree.from_links(links, self.output_nodes())

    def _aggregates(self, link: Link) -> bool:
        return self.level(link.target) == 2 and link.operation not in FILTERS

    def _token(self, link: Link) -> str:
        own = self._aggregates(link) and not is_aggregator(link.operation)
        return f"@{link.operation}" if own else link.operation

    def _example(self) -> str:
        return f"{2 * self.nodes + 1} <- {self.nodes + 1}: identity"

    def _check_links(self) -> None:
        present = {0}
        for link in self.links:
            with name_place(f"link {link}"):
                self._check_ends(link)
                self._check_operation(link)
                if link.target in present:
                    raise InputError(f"node {link.target} has another incoming link; one is allowed")
                if link.source not in present:
                    raise InputError(
                        f"node {link.source} has no incoming link of its own; add one or choose another source"
                    )
            present.add(link.target)

    def _check_ends(self, link: Link) -> None:
        n, last = self.nodes, 2 * self.nodes + self.outputs
        if not 1 <= link.target <= last:
            raise InputError(f"target {link.target} does not exist; allowed: 1 to {last}")
        level = self.level(link.target)
        allowed = {1: (0, link.target - 1), 2: (link.target - n, link.target - n), 3: (n + 1, link.target - 1)}
        low, high = allowed[level]
        if not low <= link.source <= high:
            raise InputError(
                f"a level-{level} link into {link.target} starts at " + (f"{low} to {high}" if low < high else f"{low}")
            )

    def _check_operation(self, link: Link) -> None:
        level = self.level(link.target)
        refused = link.operation in ("sparse", "dense") if level == 2 else is_aggregator(link.operation)
        if refused:
            allowed = (*AGGREGATORS, "identity", "skip") if level == 2 else FILTERS
            raise InputError(f"level {level} takes {', '.join(allowed)} or an operation of your own")


@dataclass(frozen=True, order=True)
class Genotype:
    """The cells of a network in order, and what is chosen around them.

    Args:
        cells: The cells.
        variant: The variant of the modules it was made for: ``paper``, ``reference`` or ``bare``.
        stack: What is around the cells.

    >>> genotype = gnas.gap.genotype("[identity | dense(sum(dense))]", num_cells=4)
    >>> genotype.depth(), genotype.formulas()[0]
    (4, '[identity | dense(sum(dense))]')
    >>> gnas.load_genotype(genotype.save("genotype.yaml")) == genotype
    True
    """

    kind: ClassVar[str] = "found"
    name: ClassVar[str] = "gnas"
    channels: ClassVar[int | None] = None  # any width can be built

    cells: tuple[CellGenotype, ...]
    variant: str = "paper"
    stack: Stack = DEFAULT

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(self.cells))
        choose(self.variant, VARIANTS, "genotype variant")
        if not self.cells or not all(isinstance(cell, CellGenotype) for cell in self.cells):
            raise InputError("a genotype is made of at least one CellGenotype")
        if not isinstance(self.stack, Stack):
            raise InputError(f"stack is {reprlib.repr(self.stack)}; it must be a Stack")

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[CellGenotype]:
        return iter(self.cells)

    def __getitem__(self, index: int) -> CellGenotype:
        return self.cells[index]

    @property
    def id(self) -> str:
        """Ten hex digits of the content; the same on every machine, and independent of the file layout."""
        cells = (f"{c.nodes} {c.outputs} {c.output} {', '.join(map(str, c.links))}" for c in self.cells)
        around = (json.dumps(self.stack.to_dict(), sort_keys=True),) if self.stack != DEFAULT else ()
        return hashlib.sha256("\n".join((self.variant, *cells, *around)).encode()).hexdigest()[:10]

    @property
    def title(self) -> str:
        return f"genotype {self.id}"

    def with_output(self, output: str) -> Genotype:
        """The same links, with another choice of the nodes that make a cell's output: third, all or leaves."""
        return replace(self, cells=tuple(replace(cell, output=output) for cell in self.cells))

    def depth(self) -> int:
        """Message-passing depth: the number of cells in which some aggregation reaches the output."""
        return sum(cell.aggregates() for cell in self.cells)

    def operations(self) -> Counter[str]:
        return sum((cell.operations() for cell in self.cells), Counter())

    def aggregations(self) -> Counter[str]:
        return sum((cell.aggregations() for cell in self.cells), Counter())

    def messages(self) -> frozenset[str]:
        """The messages that reach the output of a cell."""
        found = (name for cell in self.cells for name in cell.aggregations())
        return frozenset(split_operation(name)[1] for name in found if is_aggregator(name))

    def formulas(self) -> tuple[str, ...]:
        """One formula per cell, such as ``[identity | dense(sum(dense))]``."""
        return tuple(str(cell.tree()) for cell in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """What the description of a trained network holds of it."""
        return {"genotype": self.to_yaml()}

    def to_yaml(self) -> str:
        messages = any(split_operation(name)[1] != PLAIN for name in self.operations())
        version = 2 if self.stack != DEFAULT or messages else 1  # earlier versions of gnas read 1
        lines = ["format: gnas-genotype", f"version: {version}", f"variant: {self.variant}"]
        if self.stack != DEFAULT:
            lines += ["stack:", *(f"  {name}: {_write_value(value)}" for name, value in self.stack.to_dict().items())]
        lines.append("cells:")
        for cell in self.cells:
            lines += [f"- nodes: {cell.nodes}", f"  outputs: {cell.outputs}", f"  output: {cell.output}", "  links:"]
            lines += [f"  - {link}" for link in cell.links]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_yaml(cls, text: str, source: str = "<string>") -> Genotype:
        """Read ``to_yaml``'s text; ``source`` names it in errors. ``load_genotype`` opens files."""
        found = parse_yaml(text, source)
        with name_place(source):
            values = {"stack": {}, **found} if isinstance(found, dict) else found
            document = check_document(values, "gnas-genotype", ("variant", "cells", "stack"), versions=("1", "2"))
            cells = []
            for number, entry in enumerate(check_sequence(document["cells"], "cells"), start=1):
                with name_place(f"cell {number}"):
                    cells.append(_cell_from(entry))
            stack = document["stack"]
            if not isinstance(stack, dict):
                raise InputError(f"stack is {reprlib.repr(stack)}; it must be names with values, such as ffn: true")
            return cls(tuple(cells), shorten(document["variant"]), Stack.from_dict(stack))

    def save(self, path: str | Path) -> Path:
        """Write the YAML file; a crash leaves the old file or the new one."""
        return write_atomic(path, self.to_yaml())


def _write_value(value: Any) -> str:
    """A choice of a stack as YAML."""
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell_from(entry: object) -> CellGenotype:
    entry = check_mapping(entry, ("nodes", "outputs", "output", "links"))
    nodes, outputs = check_digits(entry["nodes"], "nodes"), check_digits(entry["outputs"], "outputs")
    links = [_link_from(item) for item in check_sequence(entry["links"], "links")]
    return CellGenotype(nodes, outputs, tuple(links), shorten(entry["output"]))


def _link_from(item: object) -> Link:
    pair: tuple[Any, Any] = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else ("", "")
    ends = re.fullmatch(r"([0-9]{1,6})\s*<-\s*([0-9]{1,6})", str(pair[0]))
    if ends is None:
        raise InputError(f"link {reprlib.repr(item)} is not written as 'target <- source: operation'")
    return Link(int(ends[2]), int(ends[1]), pair[1])


def _as_link(item: Any) -> Link:
    if isinstance(item, Link):
        return item
    if not isinstance(item, (tuple, list)) or len(item) != 3:
        raise InputError(f"link {reprlib.repr(item)} is not a Link or (source, target, operation)")
    return Link(*item)


def _integer(value: Any, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{what} is {reprlib.repr(value)}; it must be a whole number") from None
