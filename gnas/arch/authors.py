"""The authors' two formats of genotype files. ``architecture.load_genotype`` reads them and our own.

``first`` (their first code) lists (operation, target, source), here one cell per line as ``cell 1: I 1 0, s 2 0, ...`` or
as Python lists of tuples. ``released`` (their released code) is YAML with the key ``Genotype``.
"""

from __future__ import annotations

import ast
import re
import reprlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gnas.arch.genotype import CellGenotype, Genotype, Link
from gnas.arch.operation import PAPER_AGGREGATORS
from gnas.errors import InputError, choose, name_place
from gnas.files import check_digits, check_mapping, check_sequence, parse_yaml, shorten, write_atomic

FIRST = {"I": "identity", "s": "sparse", "d": "dense", "sum": "sum", "mean": "mean", "max": "max"}
RELEASED = {
    "V_I": "identity",
    "V_Sparse": "sparse",
    "V_Dense": "dense",
    "V_Sum": "sum",
    "V_Mean": "mean",
    "V_Max": "max",
}
MAX_LITERAL = 100_000
MAX_LINKS = 99  # per cell of a first-code file: the cost of finding its levels grows with the square


def is_first(text: str) -> bool:
    """Whether a text is in the format of the authors' first code."""
    return re.match(r"(\s|#.*\n)*(cell\b|\[|\()", text) is not None


def is_released(text: str) -> bool:
    """Whether a text is in the format of the authors' released code."""
    return re.search(r"^[ \t{]*[\"']?Genotype[\"']?\s*:", text, re.MULTILINE) is not None


def write_for_authors(genotype: Genotype, path: str | Path, form: str) -> Path:
    """Write ``genotype`` as a file of the authors: ``form`` is ``first`` or ``released``."""
    choose(form, ("first", "released"), "format of the authors")
    return write_atomic(path, to_first(genotype) if form == "first" else to_released(genotype))


def read_first(text: str, source: str = "<string>", output: str = "third") -> Genotype:
    """Read the first code's lists. Their nodes have any numbers; here they get the numbers of a CellGenotype."""
    text = re.sub("#.*", "", text)
    with name_place(source):
        cells = []
        for place, items in (_literal_cells if text.lstrip().startswith(("[", "(")) else _line_cells)(text):
            with name_place(place):
                cells.append(_levelled([_first_link(item) for item in items], output))
        return Genotype(tuple(cells), "paper")


def to_first(genotype: Genotype) -> str:
    """The first code's text, one cell per line, numbered level after level as in the authors' published genotype."""
    lines = [f"cell {number}: {', '.join(_first_items(cell))}" for number, cell in enumerate(genotype, start=1)]
    text = "\n".join(lines) + "\n"
    _check_same(genotype, read_first(text, output=genotype[0].output), "first")
    return text


def read_released(text: str, source: str = "<string>") -> Genotype:
    """Read the released code's YAML. Its cells have the same number of nodes on each level; all of them are outputs."""
    document = parse_yaml(text, source)
    with name_place(source):
        entries = check_sequence(check_mapping(document, ("Genotype",), others=True)["Genotype"], "Genotype")
        topologies = [_topology(entry, number) for number, entry in enumerate(entries)]
        last = max((target for topology in topologies for _, target, _ in topology), default=0)
        nodes = -(-last // 3)
        cells = []
        for number, topology in enumerate(topologies):
            with name_place(f"cell id {number}"):
                links = tuple(Link(*ends) for ends in topology if ends[2] != "zero")
                cells.append(CellGenotype(nodes, nodes, links, "all"))
        return Genotype(tuple(cells), "reference")


def to_released(genotype: Genotype) -> str:
    """The released code's YAML, with the layout of the authors' files."""
    lines = ["Genotype:"]
    for number, cell in enumerate(genotype):
        lines += [f"- id: {number}", "  topology:"]
        for link in cell.links:
            lines += [f"  - dst: {link.target}", f"    ops: {_theirs(link, RELEASED)}", f"    src: {link.source}"]
    text = "\n".join(lines) + "\n"
    _check_same(genotype, read_released(text), "released")
    return text


def _check_same(genotype: Genotype, read_back: Genotype, form: str) -> None:
    if read_back != genotype:
        holds = {"first": "variant paper, one output for all cells", "released": "variant reference, output all, N = M"}
        raise InputError(
            f"genotype {genotype.id} does not fit the authors' {form} format ({holds[form]}, no node left out)"
        )


def _theirs(link: Link, names: dict[str, str]) -> str:
    for theirs, ours in names.items():
        if ours == link.operation:
            return theirs
    raise InputError(f"link {link}: the authors' format knows only {', '.join(names.values())}")


def _topology(entry: object, number: int) -> list[tuple[int, int, str]]:
    with name_place(f"cell id {number}"):
        entry = check_mapping(entry, ("id", "topology"), others=True)
        if entry["id"] != str(number):
            raise InputError(f"its id is {reprlib.repr(entry['id'])}; ids count up from 0")
        return [_released_link(item) for item in check_sequence(entry["topology"], "topology")]


def _released_link(item: object) -> tuple[int, int, str]:
    with name_place(f"link {reprlib.repr(item)}"):
        item = check_mapping(item, ("src", "dst", "ops"))
        operation = choose(shorten(item["ops"]), ("V_None", *RELEASED), "operation")
        return check_digits(item["src"], "src"), check_digits(item["dst"], "dst"), RELEASED.get(operation, "zero")


def _line_cells(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    expected = 1
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        start = re.match(r"\s*cell\s*([0-9]+)\s*:", line)
        if start is None or start[1] != str(expected):
            raise InputError(f"line {number}: {reprlib.repr(line)} does not start with 'cell {expected}:'")
        expected += 1
        yield f"line {number}", [item.split() for item in line[start.end() :].split(",")]


def _literal_cells(text: str) -> Iterator[tuple[str, list[Any]]]:
    # Only these tokens reach Python's own parser, which arbitrary text could exhaust.
    tokens = r"""(\s|[][(),]|'[A-Za-z_]+'|"[A-Za-z_]+"|[0-9]{1,6}(?![0-9]))*"""
    try:
        cells = ast.literal_eval(text.strip()) if len(text) <= MAX_LITERAL and re.fullmatch(tokens, text) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        cells = None
    if not isinstance(cells, (list, tuple)):
        raise InputError(f"not a list such as [('I', 1, 0), ('sum', 2, 1)] of at most {MAX_LITERAL:,} characters")
    if any(isinstance(entry, (list, tuple)) and isinstance((*entry, None)[0], str) for entry in cells):
        cells = [cells]
    for number, cell in enumerate(cells, start=1):
        yield f"cell {number}", check_sequence(list(cell) if isinstance(cell, tuple) else cell, f"cell {number}")


def _first_link(item: Any) -> Link:
    """The link of one (operation, target, source), in the file's own numbers."""
    parts = item if isinstance(item, (list, tuple)) else (item,)
    with name_place(f"link {reprlib.repr(' '.join(map(str, parts)))}"):
        if len(parts) != 3:
            raise InputError("a link is an operation, its target and its source, such as I 1 0")
        operation = FIRST[choose(shorten(parts[0]), FIRST, "operation")]
        target, source = (check_digits(str(number), "a node") for number in parts[1:])
        if source >= target:
            raise InputError("the source must be a smaller number than the target")
        return Link(source, target, operation)


def _first_items(cell: CellGenotype) -> list[str]:
    number = {node: node for node in range(cell.nodes + 1)}
    for node in cell.present():
        number.setdefault(node, len(number))
    return [f"{_theirs(link, FIRST)} {number[link.target]} {number[link.source]}" for link in cell.links]


def _levelled(links: Sequence[Link], output: str) -> CellGenotype:
    """The cell of links without levels.

    The number N of first-level nodes determines the levels: targets up to N are level 1, later ones that read level 1 are
    level 2, the rest is level 3. An identity may sit on any level, so several N can fit. The right one leaves the fewest
    first-level nodes without a second-level node; of several, it is the smallest.
    """
    links = sorted(links)
    _check_tree(links)
    nodes = _first_level(links)
    second = {link.target: nodes + link.source for link in links if link.source <= nodes < link.target}
    third = [link.target for link in links if link.source > nodes]
    number = {node: node for node in range(nodes + 1)} | second
    number |= {target: 2 * nodes + index for index, target in enumerate(third, start=1)}
    ours = tuple(Link(number[link.source], number[link.target], link.operation) for link in links)
    return CellGenotype(nodes, len(third), ours, output)


def _check_tree(links: Sequence[Link]) -> None:
    if not 1 <= len(links) <= MAX_LINKS:
        raise InputError(f"{len(links)} links; allowed: 1 to {MAX_LINKS}")
    present = {0}
    for link in links:
        if link.target in present:
            raise InputError(f"link {_first_text(link)}: node {link.target} has another incoming link; one is allowed")
        if link.source not in present:
            raise InputError(f"link {_first_text(link)}: node {link.source} has no incoming link of its own")
        present.add(link.target)


def _first_level(links: Sequence[Link]) -> int:
    """The number of first-level nodes; see ``_levelled``."""
    fitting = [link.target for link in links if not _fault(links, link.target)]
    if not fitting:
        aggregated = [link.target for link in links if link.operation in PAPER_AGGREGATORS]
        raise InputError(_fault(links, max(min(aggregated, default=2) - 1, 1)))

    def unfinished(nodes: int) -> int:
        return nodes - sum(link.source <= nodes < link.target for link in links)

    return min(fitting, key=lambda nodes: (unfinished(nodes), nodes))


def _fault(links: Sequence[Link], nodes: int) -> str:
    """The first link that does not fit ``nodes`` first-level nodes and what is allowed, or an empty string."""
    crossed = {0}
    for link in links:
        aggregates = link.operation in PAPER_AGGREGATORS
        place = f"link {_first_text(link)}: with nodes 1 to {nodes} on the first level,"
        if not link.source <= nodes < link.target:
            if aggregates:
                return f"{place} only links from there to later nodes aggregate"
        elif link.source in crossed:
            return f"{place} each of them has one link to later nodes, and the input has none"
        elif not aggregates and link.operation != "identity":
            return f"{place} links from there to later nodes are I, sum, mean or max"
        else:
            crossed.add(link.source)
    third = any(link.source > nodes for link in links)
    return "" if third else f"no link into a third level follows {_first_text(links[-1])}"


def _first_text(link: Link) -> str:
    return f"{_theirs(link, FIRST)} {link.target} {link.source}"
