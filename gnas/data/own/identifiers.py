"""Matching the identifiers of graphs and nodes between tables: ids in any order, numbers or texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnas.data.encoding import shown
from gnas.data.lookup import Array, first_repeat, positions
from gnas.data.own.csvfile import Table
from gnas.errors import InputError


def graph_ids(graphs: Table | None, nodes: Table) -> Array:
    """Graph identifiers in the order of ``graphs.csv``, or of first appearance in ``nodes.csv``."""
    if graphs is not None:
        if not len(graphs):
            raise InputError(f"{graphs.file}: no rows; there are no graphs to learn from")
        ids = graphs.ids("graph_id")
        row = first_repeat(ids)
        if row is not None:
            raise InputError(f"{graphs.place(row)}: graph_id {shown(ids[row])} is listed twice")
        return ids
    if "graph_id" not in nodes.columns:
        return np.zeros(1, np.int64)
    ids, first = np.unique(nodes.ids("graph_id"), return_index=True)
    return ids[np.argsort(first)]


def graph_numbers(table: Table, known: Array, graphs: Table | None) -> Array:
    """The graph number of every row."""
    if "graph_id" not in table.columns:
        return np.zeros(len(table), np.int64)
    wanted = table.ids("graph_id")
    if known.dtype.kind != wanted.dtype.kind:  # numbers in one file, texts in the other: compare as written
        known = graphs.columns["graph_id"] if graphs is not None else known.astype(np.bytes_)
        wanted = table.columns["graph_id"]
    numbers = positions(known, wanted)
    if len(numbers) and numbers.min() < 0:
        row = int((numbers < 0).argmax())
        listed = graphs.file if graphs is not None else "nodes.csv"
        raise InputError(f"{table.place(row)}: graph_id {shown(wanted[row])} is not in {listed}")
    return numbers


def by_graph(graph: Array) -> Array:
    """Row numbers in the order of their graphs."""
    if (graph[1:] >= graph[:-1]).all():
        return np.arange(len(graph))
    return np.argsort(graph, kind="stable")


def endpoints(nodes: Table, edges: Table, node_graph: Array, edge_graph: Array, local: Array, names: Array) -> Array:
    """Sources and targets as numbers local to their graph."""
    ends = [edges.ids("source"), edges.ids("target")]
    ids = nodes.ids("node_id") if "node_id" in nodes.columns else local
    if any(e.dtype.kind != ids.dtype.kind for e in ends):
        ids = nodes.columns["node_id"] if "node_id" in nodes.columns else local.astype(np.bytes_)
        ends = [edges.columns["source"], edges.columns["target"]]
    codes, end_codes, size = _codes(ids, ends)
    keys = node_graph * size + codes
    row = first_repeat(keys)
    if row is not None:
        graph = shown(names[node_graph[row]])
        raise InputError(f"{nodes.place(row)}: node_id {shown(ids[row])} of graph {graph} is listed twice")
    found = []
    for name, values, code in zip(("source", "target"), ends, end_codes, strict=True):
        at = np.where(code < 0, -1, positions(keys, edge_graph * size + code))
        if len(at) and at.min() < 0:
            row = int((at < 0).argmax())
            graph = shown(names[edge_graph[row]])
            raise InputError(f"{edges.place(row)}: {name} {shown(values[row])} is not a node of graph {graph}")
        found.append(local[at])
    return np.stack(found)


def _codes(ids: Array, ends: Sequence[Array]) -> tuple[Array, list[Array], int]:
    """Small numbers for node identifiers; -1 for an end that is no node anywhere."""
    low, high = (int(ids.min()), int(ids.max())) if ids.dtype.kind == "i" else (0, 2**31)
    if high - low < 2**31:
        known = [(e >= low) & (e <= high) for e in ends]
        return ids - low, [np.where(k, e - low, -1) for k, e in zip(known, ends, strict=True)], high - low + 1
    return positions(ids, ids), [positions(ids, e) for e in ends], len(ids)
