"""Graphs from a folder of tables: ``graphs.csv``, ``nodes.csv`` and ``edges.csv``; ids in any order, numbers or texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnas.data.encoding import Array, Place, find_positions, find_repeat, format_value
from gnas.data.own.csv import Table, read_csv
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import (
    RawGraphs,
    describe_unused,
    read_groups,
    read_link_labels,
    read_split_codes,
    starts_of,
)
from gnas.errors import InputError, choose

KEYS = {
    "graph": ("graph_id", "split"),
    "node": ("graph_id", "node_id", "split"),
    "edge": ("graph_id", "source", "target", "split"),
}
TARGET = re.compile(r"y(_?\d+)?")
COORDINATE = re.compile(r"pos_?([xyz]|\d+)")


@dataclass(frozen=True)
class _Folder:
    """The three tables; without ``graphs.csv`` the graphs are those that ``nodes.csv`` names."""

    graphs: Table | None
    nodes: Table
    edges: Table
    pairs: Table | None = None  # of link prediction

    @property
    def tables(self) -> dict[str, Table]:
        found = {"graph": self.graphs, "node": self.nodes, "edge": self.edges}
        return {level: table for level, table in found.items() if table is not None}


def read_folder(path: Path, options: ReadOptions) -> RawGraphs:
    """Read a folder; targets are the columns that ``options`` name, or those called y, or all others of ``graphs.csv``."""
    folder = _open(path)
    nodes, edges = folder.nodes, folder.edges
    level, names, reason = _targets(folder, options)
    ids = _read_graph_ids(folder.graphs, nodes)
    of_nodes = GroupedRows.of(_number_graphs(nodes, ids, folder.graphs), len(ids))
    of_edges = GroupedRows.of(_number_graphs(edges, ids, folder.graphs), len(ids))
    ends = _resolve_endpoints(nodes, edges, of_nodes, of_edges.graph, ids)
    rows = "edge" if level == "link" else level
    order = {"graph": np.arange(len(ids)), "node": of_nodes.order, "edge": of_edges.order}
    read, labelled = folder.tables[rows].targets(names, options.text_labels) if names else ({}, None)
    targets = {name: values[order[rows]] for name, values in read.items()}
    rest: dict[str, Any] = {"targets": targets, **_splits(folder, rows, order[rows], options)}
    places = {
        "graph": lambda graph: f"graph {format_value(ids[graph])}",
        "node": lambda row: nodes.place(int(of_nodes.order[row])),
        "edge": lambda row: edges.place(int(of_edges.order[row])),
    }
    if level == "link" and folder.pairs is not None:
        rest |= _read_pairs(folder, folder.pairs, of_nodes, ids, options, places)
    features = _read_graph_features(folder, options)
    other = [c for c in (*nodes.columns, *edges.columns) if TARGET.fullmatch(c)] if level == "link" else []
    taken = {*names, *other, *options.reserved}
    known = {*KEYS["graph"], *taken, *features}
    unused = [] if folder.graphs is None else [c for c in folder.graphs.columns if c not in known]
    left_out = describe_unused("graphs.csv columns", unused)
    if other:
        left_out += (f"columns {', '.join(other)}: targets of nodes or edges, not used for links",)
    pos = [c for c in nodes.columns if COORDINATE.fullmatch(c)]
    return RawGraphs(
        source="tables",
        name=path.name or path.resolve().name,
        node_counts=of_nodes.counts,
        edge_counts=of_edges.counts,
        edge_index=ends[:, of_edges.order],
        nodes=_features(nodes, "node", {*taken, *pos}, options.text_columns, of_nodes.order),
        edges=_features(edges, "edge", taken, options.text_columns, of_edges.order),
        level=level,
        labelled=None if labelled is None else labelled[order[rows]],
        pos=_coordinates(nodes, pos, of_nodes.order),
        graphs=features,
        requested=options.target,
        reasons=(reason,) if reason else (),
        files=tuple(table.size() for table in folder.tables.values()),
        left_out=left_out,
        **{"places": places, **rest},
    )


@dataclass(frozen=True)
class GroupedRows:
    """Rows of a table by their graphs: the graph of each row, the rows of each graph one after another, and how many."""

    graph: Array
    order: Array
    counts: Array

    @staticmethod
    def of(graph: Array, graphs: int) -> GroupedRows:
        in_order = bool((graph[1:] >= graph[:-1]).all())
        order = np.arange(len(graph)) if in_order else np.argsort(graph, kind="stable")
        return GroupedRows(graph, order, np.bincount(graph, minlength=graphs))

    def number_locally(self) -> Array:
        """The number of each row within its graph."""
        local = np.empty(len(self.order), np.int64)
        local[self.order] = np.arange(len(self.order)) - np.repeat(starts_of(self.counts), self.counts)
        return local


def _open(path: Path) -> _Folder:
    for name in ("nodes.csv", "edges.csv"):
        if not (path / name).is_file():
            raise InputError(
                f"{path}: no {name} here; a folder of tables holds graphs.csv, nodes.csv and edges.csv, "
                "a TU folder NAME_A.txt, NAME_graph_indicator.txt and NAME_graph_labels.txt"
            )
    graphs = read_csv(path / "graphs.csv") if (path / "graphs.csv").is_file() else None
    nodes, edges = read_csv(path / "nodes.csv"), read_csv(path / "edges.csv")
    if graphs is not None:
        for table in (graphs, nodes, edges):
            table.require("graph_id")
    elif ("graph_id" in nodes.columns) != ("graph_id" in edges.columns):
        raise InputError(f"{path}: graph_id must be a column of both nodes.csv and edges.csv, or of neither")
    edges.require("source", "target")
    if not len(nodes):
        raise InputError(f"{nodes.file}: no rows; there are no graphs to learn from")
    pairs = read_csv(path / "pairs.csv") if (path / "pairs.csv").is_file() else None
    if pairs is not None:
        pairs.require("source", "target", *({"graph_id"} & set(nodes.columns)))
    return _Folder(graphs, nodes, edges, pairs)


def _targets(folder: _Folder, options: ReadOptions) -> tuple[str, list[str], str]:
    """Level, column names and the reason: the targets that the caller named, or the columns called y."""
    requested, level = options.target, options.level
    for here, table in folder.tables.items():
        if level not in (None, here):
            continue
        leave = {*KEYS[here], *options.reserved, *(options.graph_features if here == "graph" else ())}
        free = [c for c in table.columns if c not in leave]
        names = [c for c in requested if c in free] if requested else [c for c in free if TARGET.fullmatch(c)]
        if here == "graph" and not names and not requested:
            names = free
        if names and (not requested or len(names) == len(requested)):
            return here, names, table.name_targets(here, names)
    if options.unlabelled and level is not None:
        return level, [], ""
    columns = sorted({c for here, t in folder.tables.items() for c in t.columns if c not in KEYS[here]})
    if requested:
        choose(next((r for r in requested if r not in columns), requested[0]), columns, "target column")
    where = f"{level}s.csv" if level else "graphs.csv, nodes.csv or edges.csv"
    links = "" if level else "; level=link predicts which nodes are joined"
    raise InputError(f"{where}: no target column; call it y, or name it with the data option target{links}")


def _read_pairs(
    folder: _Folder, pairs: Table, of_nodes: GroupedRows, ids: Array, options: ReadOptions, places: Mapping[str, Place]
) -> dict[str, Any]:
    """The pairs of ``pairs.csv``, with their labels ``y`` and their split if it has these columns."""
    rows = GroupedRows.of(_number_graphs(pairs, ids, folder.graphs), len(ids))
    order, targets, split = rows.order, {}, None
    ends = _resolve_endpoints(folder.nodes, pairs, of_nodes, rows.graph, ids)
    if "y" in pairs.columns:
        targets = {"link": read_link_labels(pairs.features("y"), pairs.place)[order]}
    if options.own_split and "split" in pairs.columns:
        split = read_split_codes(pairs.columns["split"], pairs.place)[order]
    return {
        "pairs": ends[:, order],
        "pair_counts": rows.counts,
        "targets": targets,
        "row_split": split,
        "places": {**places, "link": lambda row: pairs.place(int(order[row]))},
    }


def _read_graph_features(folder: _Folder, options: ReadOptions) -> dict[str, Array]:
    if not options.graph_features:
        return {}
    if folder.graphs is None:
        raise InputError("graph_features names columns of graphs.csv, which is missing; add the file or leave it out")
    return folder.graphs.graph_features(KEYS["graph"], options)


def _coordinates(nodes: Table, names: Sequence[str], order: Array) -> Array | None:
    if not names:
        return None
    columns = [nodes.features(n) for n in names]
    texts = [n for n, c in zip(names, columns, strict=True) if c.dtype.kind == "S"]
    if texts:
        raise InputError(f"{nodes.file}: the coordinate column {texts[0]!r} holds text, not numbers")
    return np.stack(columns, axis=1)[order]


def _features(table: Table, level: str, leave: set[str], text: Sequence[str], order: Array) -> dict[str, Array]:
    names = [c for c in table.columns if c not in KEYS[level] and c not in leave]
    return {n: table.features(n, n in text)[order] for n in names}


def _splits(folder: _Folder, level: str, order: Array, options: ReadOptions) -> dict[str, Any]:
    """Splits and groups of the files: one per graph, or one per node or edge if that is the level."""
    found: dict[str, Any] = {}
    here, above = (None if level == "graph" else folder.tables.get(level)), folder.graphs
    for prefix, table, rows in (("row", here, order), ("graph", above, None)):
        split, groups = (None, None) if table is None else read_split_columns(table, options, optional=True)
        for name, values in ((f"{prefix}_split", split), (f"{prefix}_groups", groups)):
            found[name] = values if values is None or rows is None else values[rows]
    named = [name for name in options.reserved if name != "split"]
    tables = [table for table in (above, here) if table is not None]
    if named and not any(named[0] in table.columns for table in tables):
        columns = [column for table in tables for column in table.columns]
        choose(named[0], columns, f"column of {' or '.join(table.file for table in tables)}")
    return found


def read_split_columns(table: Table, options: ReadOptions, optional: bool = False) -> tuple[Array | None, Array | None]:
    """The codes of the split column and the groups of the group column; None where there is none or it is not used.

    A column that the caller named must be there, unless ``optional``.
    """
    named = [name for name in options.reserved if name != "split"]
    if named and not optional:
        choose(named[0], table.columns, f"column of {table.file}")
    split = groups = None
    if options.own_split and options.split_column in table.columns:
        split = read_split_codes(table.columns[options.split_column], table.place)
    if options.group_column in table.columns:
        groups = read_groups(table.columns[options.group_column], options.group_column, table.place)
    return split, groups


# -- identifiers of graphs and nodes, matched between tables -------------------------------------------------------


def _read_graph_ids(graphs: Table | None, nodes: Table) -> Array:
    """Graph identifiers in the order of ``graphs.csv``, or of first appearance in ``nodes.csv``."""
    if graphs is not None:
        if not len(graphs):
            raise InputError(f"{graphs.file}: no rows; there are no graphs to learn from")
        ids = graphs.ids("graph_id")
        row = find_repeat(ids)
        if row is not None:
            raise InputError(f"{graphs.place(row)}: graph_id {format_value(ids[row])} is listed twice")
        return ids
    if "graph_id" not in nodes.columns:
        return np.zeros(1, np.int64)
    ids, first = np.unique(nodes.ids("graph_id"), return_index=True)
    return ids[np.argsort(first)]


def _number_graphs(table: Table, ids: Array, graphs: Table | None) -> Array:
    """The graph number of every row."""
    if "graph_id" not in table.columns:
        return np.zeros(len(table), np.int64)
    values = table.ids("graph_id")
    if ids.dtype.kind != values.dtype.kind:  # numbers in one file, texts in the other: compare as written
        ids = graphs.columns["graph_id"] if graphs is not None else ids.astype(np.bytes_)
        values = table.columns["graph_id"]
    numbers = find_positions(ids, values)
    if len(numbers) and numbers.min() < 0:
        row = int((numbers < 0).argmax())
        listed = graphs.file if graphs is not None else "nodes.csv"
        raise InputError(f"{table.place(row)}: graph_id {format_value(values[row])} is not in {listed}")
    return numbers


def _resolve_endpoints(nodes: Table, edges: Table, of_nodes: GroupedRows, edge_graph: Array, names: Array) -> Array:
    """Sources and targets as numbers local to their graph."""
    local, node_graph = of_nodes.number_locally(), of_nodes.graph
    ends = [edges.ids("source"), edges.ids("target")]
    ids = nodes.ids("node_id") if "node_id" in nodes.columns else local
    if any(e.dtype.kind != ids.dtype.kind for e in ends):
        ids = nodes.columns["node_id"] if "node_id" in nodes.columns else local.astype(np.bytes_)
        ends = [edges.columns["source"], edges.columns["target"]]
    codes, end_codes, size = _codes(ids, ends)
    keys = node_graph * size + codes
    row = find_repeat(keys)
    if row is not None:
        graph = format_value(names[node_graph[row]])
        raise InputError(f"{nodes.place(row)}: node_id {format_value(ids[row])} of graph {graph} is listed twice")
    found = []
    for name, values, code in zip(("source", "target"), ends, end_codes, strict=True):
        at = np.where(code < 0, -1, find_positions(keys, edge_graph * size + code))
        if len(at) and at.min() < 0:
            row = int((at < 0).argmax())
            graph = format_value(names[edge_graph[row]])
            raise InputError(f"{edges.place(row)}: {name} {format_value(values[row])} is not a node of graph {graph}")
        found.append(local[at])
    return np.stack(found)


def _codes(ids: Array, ends: Sequence[Array]) -> tuple[Array, list[Array], int]:
    """Small numbers for node identifiers; -1 for an end that is not a node of any graph."""
    low, high = (int(ids.min()), int(ids.max())) if ids.dtype.kind == "i" else (0, 2**31)
    if high - low < 2**31:
        inside = [(e >= low) & (e <= high) for e in ends]
        return ids - low, [np.where(i, e - low, -1) for i, e in zip(inside, ends, strict=True)], high - low + 1
    return find_positions(ids, ids), [find_positions(ids, e) for e in ends], len(ids)
