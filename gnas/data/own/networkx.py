"""Graphs from NetworkX: attributes of nodes and edges become columns; an undirected edge is sent both ways."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gnas.data.encoding import Array, Place, format_list
from gnas.data.own.graph_features import describe_unused, read_attribute_features
from gnas.data.own.infer import MOST_CATEGORIES
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import RawGraphs, name_columns, place_within, read_groups, read_split_codes, to_array
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
    whole = [graph.graph for graph in graphs]
    node_counts = np.array([graph.number_of_nodes() for graph in graphs], np.int64)
    places: dict[str, Place] = {
        "graph": place,
        "node": lambda row: place_within(row, node_counts, "node", place),
        "edge": lambda row: place_within(row, edge_counts, "edge", place),
    }
    holders = {"graph": whole, "node": nodes, "edge": edges}
    names = options.target or ("y",)
    found = _level(holders, names, options.level)
    targets: dict[str, Array] = {}
    labelled = None
    if found is None:
        if not options.unlabelled:
            raise InputError(
                f"no graph, node or edge has the attribute {names[0]!r}; name the target with the data option target"
            )
        found = options.level or "graph"
    else:
        targets, labelled = _targets(holders[found], names, places[found])
    taken = {*names, *RESERVED, *options.reserved}
    pos = _columns(nodes, ("pos",), places["node"]) if _have(nodes, "pos") else {}
    of_rows = "edge" if found == "link" else found
    splits = {key: _split(holders[key], options, places[key]) for key in ("graph", of_rows)}
    groups = {key: _groups(holders[key], options.group_column, places[key]) for key in ("graph", of_rows)}
    node_columns, no_nodes = _features(nodes, "x", taken, options, "node", places["node"])
    edge_columns, no_edges = _features(edges, "edge_attr", taken, options, "edge", places["edge"])
    others = [str(n) for n in dict.fromkeys(n for h in whole for n in h) if n not in taken]
    features = _graph_features(whole, options, place)
    unused = [name for name in others if name not in {*features, *(n.rstrip("0123456789") for n in features)}]
    return RawGraphs(
        source="networkx",
        name="graphs",
        node_counts=node_counts,
        edge_counts=edge_counts,
        edge_index=ends,
        nodes=node_columns,
        edges=edge_columns,
        targets=targets,
        level=found,
        labelled=labelled,
        pos=np.stack(list(pos.values()), axis=1) if pos else None,
        graph_split=splits["graph"],
        row_split=None if found == "graph" else splits[of_rows],
        graph_groups=groups["graph"],
        row_groups=None if found == "graph" else groups[of_rows],
        graphs=features,
        requested=options.target,
        reasons=(f"{found} level: {found}s have the attribute {names[0]!r}",) if targets else (),
        left_out=(*no_nodes, *no_edges, *describe_unused("graph attributes", unused)),
        graph_place=place,
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

    return read_attribute_features([name for name in whole[0] if isinstance(name, str)], read, place, options)


def _split(holders: Sequence[Attributes], options: ReadOptions, place: Place) -> Array | None:
    name = options.split_column
    if not options.own_split or not _have(holders, name):
        return None
    words = [str(h.get(name, "")).encode(errors="replace") for h in holders]
    return read_split_codes(np.array(words), place)


def _groups(holders: Sequence[Attributes], name: str, place: Place) -> Array | None:
    if not name or not _have(holders, name):
        return None
    return read_groups(np.array([str(h.get(name, "")).encode(errors="replace") for h in holders]), name, place)
