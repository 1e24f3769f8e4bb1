"""Numbers of whole graphs that the data option ``graph_features`` names, and options that fit molecules alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from gnas.data.encoding import Array, Place, format_list, format_value
from gnas.data.own.csv import Table
from gnas.data.own.options import LoadOptions, ReadOptions
from gnas.data.own.raw import RawGraphs, name_columns
from gnas.errors import InputError, choose

OF_MOLECULES = ("smiles", "atoms", "descriptors")


def check_options(raw: RawGraphs, options: LoadOptions) -> None:
    """An error for an option that means nothing to these graphs, and for a column that is both target and feature."""
    for name in OF_MOLECULES:
        if getattr(options, name) is not None and raw.source != "smiles":
            raise InputError(f"the data option {name} is for molecules, and {raw.name!r} holds none; leave it out")
    both = [name for name in raw.graphs if name in raw.targets]
    if both:
        raise InputError(f"{both[0]!r} is both the target and a feature of graphs; name another with target")


def read_table_features(table: Table, taken: Sequence[str], options: ReadOptions) -> dict[str, Array]:
    """The columns of a table with one row per graph that ``options`` name; ``taken`` are columns of another meaning."""
    for name in options.graph_features:
        if options.vocabulary and name not in table.columns:
            where = table.file or "a list of SMILES"
            raise InputError(f"{where}: no column {name!r}, which this network reads; give a table that has it")
        choose(name, [c for c in table.columns if c not in (*taken, *options.reserved)], "feature of graphs")
    return {name: table.numbers(name) for name in options.graph_features}


def expand_names(requested: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Names of columns; the name of a matrix, such as ``graph_attr``, stands for its columns ``graph_attr0``, ..."""
    names: dict[str, None] = {}
    for name in requested:
        numbered = [c for c in columns if c != name and c.rstrip("0123456789") == name]
        names |= dict.fromkeys(numbered if name not in columns and numbered else [name])
    return list(names)


def read_attribute_features(
    attributes: Sequence[str], read: Callable[[str], Array], place: Place, options: ReadOptions
) -> dict[str, Array]:
    """The attributes of graph objects that ``options`` name, each a number or a vector; or single columns of a vector.

    ``read`` gives the values of one attribute: a row for each graph.
    """
    found: dict[str, Array] = {}
    for name in options.graph_features:
        attribute = name if name in attributes else name.rstrip("0123456789")
        columns = _read_numbers(attribute, read, place) if attribute in attributes else {}
        chosen = columns if name == attribute else {n: v for n, v in columns.items() if n == name}
        if not chosen and options.vocabulary:
            raise InputError(f"{place(0)}: no attribute {name!r}, which this network reads; set it")
        if not chosen:
            choose(name, attributes, "feature of graphs")
            raise InputError(f"{place(0)}: attribute {name!r} is empty; leave it out of graph_features")
        found |= chosen
    return found


def _read_numbers(name: str, read: Callable[[str], Array], place: Place) -> Mapping[str, Array]:
    matrix = read(name)
    if matrix.dtype.kind == "S":
        first = format_value(matrix.reshape(-1)[0]) if matrix.size else "text"
        raise InputError(f"{place(0)}: attribute {name!r} holds {first}; numbers are needed")
    return name_columns(name, matrix.astype(np.float64)) if matrix.shape[1] else {}


def describe_unused(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """The line on columns or attributes of whole graphs that are neither target nor feature."""
    return (f"{what} {format_list(names)}: not named as target or feature",) if names else ()
