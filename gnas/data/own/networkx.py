"""Graphs from NetworkX: attributes of nodes and edges become columns; an undirected edge is sent both ways."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gnas.data.encoding import Array, Place, format_list
from gnas.data.own.columns import MOST_CATEGORIES
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import (
    RawGraphs,
    describe_unused,
    name_columns,
    name_matrix,
    place_within,
    read_graph_attributes,
    read_groups,
    read_split_codes,
    to_array,
)
from gnas.errors import InputError

Attributes = Mapping[Any, Any]
RESERVED = ("pos", "split")


def is_networkx(value: Any) -> bool:
    """Whether ``value`` is a NetworkX graph. NetworkX is not imported for this test."""
    module = sys.modules.get("networkx")
    return module is not None and isinstance(value, module.Graph)


def read_networkx(graphs: Sequence[Any], place: Place, options: ReadOptions) -> RawGraphs:
    """Read NetworkX graphs; the target is the attribute ``y`` of graphs, nodes or edges unless ``options`` name it."""
    for i, graph in enumerate(graphs):
        if not is_networkx(graph):
            raise InputError(f"{place(i)}: a {type(graph).__name__} where a NetworkX graph was expected")
    nodes = [attributes for graph in graphs for _, attributes in graph.nodes(data=True)]
    ends, edges, edge_counts = _edges(graphs)
    node_counts = np.array([graph.number_of_nodes() for graph in graphs], np.int64)
    holders = {"graph": [graph.graph for graph in graphs], "node": nodes, "edge": edges}
    places = {
        "graph": place,
        "node": place_within(node_counts, "node", place),
        "edge": place_within(edge_counts, "edge", place),
    }
    names = options.target or ("y",)
    level = _level(holders, names, options.level)
    targets: dict[str, Array] = {}
    labelled = None
    if level is not None:
        targets, labelled = _targets(holders[level], names, places[level])
    elif not options.unlabelled:
        raise InputError(
            f"no graph, node or edge has the attribute {names[0]!r}; name the target with the data option target"
        )
    level = level or options.level or "graph"
    taken = {*names, *RESERVED, *options.reserved}
    pos = _columns(nodes, ("pos",), places["node"]) if _have(nodes, "pos") else {}
    split = _read_split("graph", holders["graph"], options, place)
    if level != "graph":
        rows = "edge" if level == "link" else level
        split |= _read_split("row", holders[rows], options, places[rows])
    node_columns, no_nodes = _features(nodes, "x", taken, options, "node", places["node"])
    edge_columns, no_edges = _features(edges, "edge_attr", taken, options, "edge", places["edge"])
    features = _graph_features(holders["graph"], options, place)
    others = dict.fromkeys(str(name) for one in holders["graph"] for name in one if name not in taken)
    unused = [name for name in others if name not in {*features, *map(name_matrix, features)}]
    return RawGraphs(
        source="networkx",
        name="graphs",
        node_counts=node_counts,
        edge_counts=edge_counts,
        edge_index=ends,
        nodes=node_columns,
        edges=edge_columns,
        targets=targets,
        level=level,
        labelled=labelled,
        pos=np.stack(list(pos.values()), axis=1) if pos else None,
        **split,  # type: ignore[arg-type]
        graphs=features,
        requested=options.target,
        reasons=(f"{level} level: {level}s have the attribute {names[0]!r}",) if targets else (),
        left_out=(*no_nodes, *no_edges, *describe_unused("graph attributes", unused)),
        places={"graph": place},
    )


def _edges(graphs: Sequence[Any]) -> tuple[Array, list[Attributes], Array]:
    """Ends, attributes and counts; an undirected edge that is no loop appears in both directions."""
    ends: list[tuple[int, int]] = []
    attributes: list[Attributes] = []
    counts = []
    for graph in graphs:
        number = {node: i for i, node in enumerate(graph.nodes)}
        before = len(ends)
        for a, b, data in graph.edges(data=True):
            ends.append((number[a], number[b]))
            attributes.append(data)
            if a != b and not graph.is_directed():
                ends.append((number[b], number[a]))
                attributes.append(data)
        counts.append(len(ends) - before)
    return np.array(ends, np.int64).reshape(-1, 2).T, attributes, np.array(counts, np.int64)


def _have(holders: Sequence[Attributes], name: str) -> bool:
    return any(name in h for h in holders)


def _level(holders: Mapping[str, Sequence[Attributes]], names: Sequence[str], requested: str | None) -> str | None:
    levels = [one for one in holders if requested in (None, one)]
    return next((key for key in levels if all(_have(holders[key], n) for n in names)), None)


def _features(
    holders: Sequence[Attributes], preferred: str, taken: set[str], options: ReadOptions, what: str, place: Place
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The columns of ``preferred`` if present, then those of all other attributes that are not in ``taken``.

    Beside ``preferred`` an attribute that cannot be read is left out; a line says why. Without it, that is an error.
    """
    if not holders:
        return {}, ()
    names = dict.fromkeys(str(n) for h in holders for n in h if n not in taken and n != preferred)
    if not _have(holders, preferred):
        return _columns(holders, names, place), ()
    columns, left_out = _columns(holders, (preferred,), place), []
    for name in filter(options.wants, names):
        try:
            found = _columns(holders, (name,), place)
        except InputError as error:
            left_out.append(f"{what} attribute {name!r} ({error})")
            continue
        if any(v.dtype.kind == "S" and len(set(v.tolist())) > MOST_CATEGORIES for v in found.values()):
            left_out.append(f"{what} attribute {name!r}: more than {MOST_CATEGORIES} different texts")
        elif not columns.keys() & found.keys():
            columns |= found
    return columns, tuple(left_out)


def _columns(holders: Sequence[Attributes], names: Iterable[str], place: Place) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    for name in names:
        values = [h.get(name) for h in holders]
        if any(v is None for v in values):
            row = next(i for i, v in enumerate(values) if v is None)
            raise InputError(f"{place(row)}: no attribute {name!r}, which others have")
        columns |= name_columns(name, _matrix(values, name, place))
    return columns


def _matrix(values: Sequence[Any], name: str, place: Place) -> Array:
    """One row per value; values are numbers, texts or vectors of one length."""
    first = _shape(values[0])
    for row, value in enumerate(values):
        shape = _shape(value)
        if shape != first or len(shape) > 1 or isinstance(value, str) != isinstance(values[0], str):
            raise InputError(f"{place(row)}: attribute {name!r} must have one kind and one length everywhere")
    array = to_array(np.array(values), f"attribute {name!r}", place(0))
    return array.reshape(len(values), -1)


def _shape(value: Any) -> tuple[int, ...]:
    try:
        return np.shape(value)
    except ValueError:  # a ragged list
        return (-1, -1)


def _targets(
    holders: Sequence[Attributes], names: Sequence[str], place: Place
) -> tuple[dict[str, Array], Array | None]:
    """Target columns. Rows without a target are unlabelled; they hold a copy of another row's value."""
    labelled = np.array([all(h.get(n) is not None for n in names) for h in holders])
    if not labelled.any():
        raise InputError(f"nothing has all of the targets {format_list(names)}")
    example = holders[int(labelled.argmax())]
    filled = [h if ok else example for h, ok in zip(holders, labelled, strict=True)]
    return _columns(filled, names, place), None if labelled.all() else labelled


def _graph_features(whole: Sequence[Attributes], options: ReadOptions, place: Place) -> dict[str, Array]:
    def read(name: str) -> Array:
        columns = list(_columns(whole, (name,), place).values())
        return np.stack(columns, axis=1) if columns else np.empty((len(whole), 0))

    return read_graph_attributes([name for name in whole[0] if isinstance(name, str)], read, place, options)


def _read_split(key: str, holders: Sequence[Attributes], options: ReadOptions, place: Place) -> dict[str, Array | None]:
    """Splits and groups under the names ``KEY_split`` and ``KEY_groups``; None where no holder has them."""

    def texts(name: str) -> Array:
        return np.array([str(one.get(name, "")).encode(errors="replace") for one in holders])

    split = groups = None
    if options.own_split and _have(holders, options.split_column):
        split = read_split_codes(texts(options.split_column), place)
    if options.group_column and _have(holders, options.group_column):
        groups = read_groups(texts(options.group_column), options.group_column, place)
    return {f"{key}_split": split, f"{key}_groups": groups}
