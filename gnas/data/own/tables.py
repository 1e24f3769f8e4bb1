"""Graphs from a folder of tables: ``graphs.csv``, ``nodes.csv`` and ``edges.csv``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnas.data.encoding import Array, shown
from gnas.data.own.csvfile import Table, read_csv
from gnas.data.own.identifiers import by_graph, endpoints, graph_ids, graph_numbers
from gnas.data.own.raw import RawGraphs, Reading, split_codes
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

    @property
    def tables(self) -> dict[str, Table]:
        found = {"graph": self.graphs, "node": self.nodes, "edge": self.edges}
        return {level: table for level, table in found.items() if table is not None}


def read_folder(path: Path, how: Reading) -> RawGraphs:
    """Read a folder; targets are the columns ``how`` names, or those called y, or all others of ``graphs.csv``."""
    folder = _open(path)
    level, names, reason = _targets(folder, how)
    ids = graph_ids(folder.graphs, folder.nodes)
    node_graph = graph_numbers(folder.nodes, ids, folder.graphs)
    edge_graph = graph_numbers(folder.edges, ids, folder.graphs)
    node_order, edge_order = by_graph(node_graph), by_graph(edge_graph)
    node_counts = np.bincount(node_graph, minlength=len(ids))
    edge_counts = np.bincount(edge_graph, minlength=len(ids))
    local = np.empty(len(node_order), np.int64)
    starts = node_counts.cumsum() - node_counts
    local[node_order] = np.arange(len(node_order)) - np.repeat(starts, node_counts)
    ends = endpoints(folder.nodes, folder.edges, node_graph, edge_graph, local, ids)
    order = {"graph": np.arange(len(ids)), "node": node_order, "edge": edge_order}
    targets, labelled = _read_targets(folder, level, names, how.text_labels, order[level])
    pos = [c for c in folder.nodes.columns if COORDINATE.fullmatch(c)]
    graph_split, row_split = _splits(folder, level, order[level]) if how.given else (None, None)
    return RawGraphs(
        source="tables",
        name=path.name or path.resolve().name,
        node_counts=node_counts,
        edge_counts=edge_counts,
        edge_index=ends[:, edge_order],
        nodes=_features(folder.nodes, "node", {*names, *pos}, how.text, node_order),
        edges=_features(folder.edges, "edge", set(names), how.text, edge_order),
        targets=targets,
        level=level,
        labelled=labelled,
        pos=_coordinates(folder.nodes, pos, node_order),
        graph_split=graph_split,
        row_split=row_split,
        asked=how.target,
        reasons=(reason,),
        graph_place=lambda g: f"graph {shown(ids[g])}",
        node_lines=lambda row: folder.nodes.place(int(node_order[row])),
        edge_lines=lambda row: folder.edges.place(int(edge_order[row])),
    )


def _open(path: Path) -> _Folder:
    for name in ("nodes.csv", "edges.csv"):
        if not (path / name).is_file():
            raise InputError(f"{path}: no {name} here; a folder of tables holds graphs.csv, nodes.csv and edges.csv")
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
    return _Folder(graphs, nodes, edges)


def _targets(folder: _Folder, how: Reading) -> tuple[str, list[str], str]:
    """Level, column names and the reason, from what the caller named or the columns called y."""
    asked, level = how.target, how.level
    for here, table in folder.tables.items():
        if level not in (None, here):
            continue
        free = [c for c in table.columns if c not in KEYS[here]]
        names = [c for c in asked if c in free] if asked else [c for c in free if TARGET.fullmatch(c)]
        if here == "graph" and not names and not asked:
            names = free
        if names and (not asked or len(names) == len(asked)):
            return here, names, f"{here} level: {table.file} has the target {', '.join(names)}"
    if how.unlabelled and level is not None:
        return level, [], ""
    columns = sorted({c for here, t in folder.tables.items() for c in t.columns if c not in KEYS[here]})
    if asked:
        choose(next((a for a in asked if a not in columns), asked[0]), columns, "target column")
    where = f"{level}s.csv" if level else "graphs.csv, nodes.csv or edges.csv"
    raise InputError(f"{where}: no target column; call it y, or name it with target=")


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


def _read_targets(
    folder: _Folder, level: str, names: Sequence[str], text_too: bool, order: Array
) -> tuple[dict[str, Array], Array | None]:
    if not names:
        return {}, None
    table = folder.tables[level]
    read = {n: table.values(n, text_too) for n in names}
    labelled = np.logical_and.reduce([filled for _, filled in read.values()])[order]
    return {n: values[order] for n, (values, _) in read.items()}, None if labelled.all() else labelled


def _splits(folder: _Folder, level: str, order: Array) -> tuple[Array | None, Array | None]:
    """Given splits: one word for each graph, or one for each node or edge where that is the level."""
    row_split = None
    table = folder.tables.get(level)
    if level != "graph" and table is not None and "split" in table.columns:
        row_split = split_codes(table.columns["split"], table.place)[order]
    if folder.graphs is not None and "split" in folder.graphs.columns:
        return split_codes(folder.graphs.columns["split"], folder.graphs.place), row_split
    return None, row_split
