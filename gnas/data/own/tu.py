"""Graphs from a folder of TU text files (https://chrsmrrs.github.io/datasets): ``NAME_A.txt`` and its companions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnas.data.encoding import Array, format_list
from gnas.data.own.csv import Table, read_numbers
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import RawGraphs, name_matrix
from gnas.data.own.tables import GroupedRows
from gnas.errors import InputError, choose
from gnas.printed import format_count

EDGES, GRAPHS = "A", "graph_indicator"
WHOLE = re.compile(rb"[+-]?[0-9]{1,18}")
COLUMNS = {  # the end of a file's name: whose rows it has, and the name of its columns
    "graph_attributes": ("graph", "graph_attribute"),
    "graph_labels": ("graph", "graph_label"),
    "node_labels": ("node", "node_label"),
    "node_attributes": ("node", "node_attribute"),
    "edge_labels": ("edge", "edge_label"),
    "edge_attributes": ("edge", "edge_attribute"),
}


@dataclass(frozen=True)
class TuFiles:
    """The files of one TU dataset by the end of their names; ``others`` are not part of the format."""

    name: str
    files: Mapping[str, Path]
    others: tuple[str, ...] = ()


def find_tu_files(folder: Path) -> TuFiles | None:
    """The TU files in ``folder`` or in its subfolder ``raw``, where PyG stores them; None if there are none."""
    for place in (folder, folder / "raw"):
        names = sorted(p.name.removesuffix(f"_{EDGES}.txt") for p in place.glob(f"*_{EDGES}.txt"))
        if not names:
            continue
        own = folder.resolve().name
        if len(names) > 1 and own not in names:
            raise InputError(
                f"{folder}: holds several TU datasets ({format_list(names)}); give each a folder of its own"
            )
        name = own if own in names else names[0]
        texts = {p.name.removeprefix(f"{name}_").removesuffix(".txt"): p for p in sorted(place.glob(f"{name}_*.txt"))}
        known = {end: p for end, p in texts.items() if end in (EDGES, GRAPHS, *COLUMNS)}
        others = tuple(p.name for end, p in texts.items() if end not in known)
        if GRAPHS not in known:
            raise InputError(f"{place}: no {name}_{GRAPHS}.txt, which says to which graph each node belongs")
        return TuFiles(name, known, others)
    return None


def read_tu(found: TuFiles, options: ReadOptions) -> RawGraphs:
    """Read TU files; the target is the column that ``options`` name, else the graph attributes, else the graph labels."""
    edges, indicator = read_numbers(found.files[EDGES], "node"), read_numbers(found.files[GRAPHS], "graph")
    if len(edges.columns) != 2:
        raise InputError(f"{edges.place(0)}: {len(edges.columns)} numbers; an edge has two: source, target")
    if len(indicator.columns) != 1:
        raise InputError(f"{indicator.place(0)}: {len(indicator.columns)} numbers; a node has one: its graph")
    tables = {end: read_numbers(found.files[end], name) for end, (_, name) in COLUMNS.items() if end in found.files}
    node_graph = _read_whole(indicator, "graph") - 1
    total = _count_graphs(tables, indicator, node_graph)
    counts = {"graph": total, "node": len(indicator), "edge": len(edges)}
    for end, table in tables.items():
        _check_rows(table, COLUMNS[end][0], counts, found)
    ends = np.stack([_read_whole(edges, name) for name in ("node0", "node1")]) - 1
    of_nodes = GroupedRows.of(node_graph, total)
    of_edges = GroupedRows.of(_find_edge_graphs(edges, ends, node_graph), total)
    order = {"graph": np.arange(total), "node": of_nodes.order, "edge": of_edges.order}
    features = _read_graph_features(tables, options)
    level, names, reason = _choose_targets(tables, options, list(features))
    columns: dict[str, dict[str, Array]] = {"graph": {}, "node": {}, "edge": {}}
    for end, table in tables.items():
        here = COLUMNS[end][0]
        for name in table.columns:
            if name not in features:
                text = options.text_labels or name in options.text_columns
                columns[here][name] = table.features(name, text)[order[here]]
    targets = {name: columns[level].pop(name) for name in names}
    return RawGraphs(
        source="tu",
        name=found.name,
        node_counts=of_nodes.counts,
        edge_counts=of_edges.counts,
        edge_index=of_nodes.number_locally()[ends[:, of_edges.order]],
        nodes=columns["node"],
        edges=columns["edge"],
        targets=targets,
        graphs=features,
        level=level,
        requested=options.target,
        reasons=(reason,) if reason else (),
        files=tuple(table.size() for table in (edges, indicator, *tables.values())),
        left_out=_describe_left_out(found, list(columns["graph"])),
        places={
            "graph": lambda graph: f"graph {graph + 1}",
            "node": lambda row: indicator.place(int(of_nodes.order[row])),
            "edge": lambda row: edges.place(int(of_edges.order[row])),
        },
    )


def _read_whole(table: Table, name: str) -> Array:
    """A column of whole numbers."""
    values = table.ids(name)
    if values.dtype.kind == "i":
        return values
    row = next(i for i, cell in enumerate(values.tolist()) if not WHOLE.fullmatch(cell))
    raise InputError(f"{table.place(row)}: {values[row].decode(errors='replace')[:40]!r} is not a whole number")


def _count_graphs(tables: Mapping[str, Table], indicator: Table, node_graph: Array) -> int:
    """Graphs by the rows of their targets, else by the largest number of the indicator."""
    listed = next((t for end, t in tables.items() if COLUMNS[end][0] == "graph"), None)
    total = int(node_graph.max()) + 1 if listed is None else len(listed)
    wrong = (node_graph < 0) | (node_graph >= total)
    if wrong.any() or total > len(node_graph):
        row = int(wrong.argmax())
        if wrong.any() and (listed is not None or node_graph[row] < 0):
            limit = f"{listed.file} has {format_count(total, 'row')}" if listed else "graphs are numbered from 1"
            raise InputError(f"{indicator.place(row)}: graph {node_graph[row] + 1} does not exist; {limit}")
        raise InputError(f"{indicator.file}: {len(node_graph)} nodes cannot fill {total} graphs; a graph has a node")
    return total


def _check_rows(table: Table, what: str, counts: Mapping[str, int], found: TuFiles) -> None:
    files = {"graph": None, "node": found.files[GRAPHS].name, "edge": found.files[EDGES].name}
    if len(table) != counts[what]:
        against = f"{files[what]} has {counts[what]}" if files[what] else f"there are {counts[what]} graphs"
        raise InputError(
            f"{table.file}: {format_count(len(table), 'row')}, but {against}; one row per {what} is needed"
        )


def _find_edge_graphs(edges: Table, ends: Array, node_graph: Array) -> Array:
    """The graph of each edge; both ends must be nodes of it."""
    wrong = (ends < 0) | (ends >= len(node_graph))
    if wrong.any():
        row = int(wrong.any(axis=0).argmax())
        node = ends[0 if wrong[0, row] else 1, row] + 1
        raise InputError(f"{edges.place(row)}: {node} is not a node; nodes are numbered 1..{len(node_graph)}")
    source, target = node_graph[ends]
    if (source != target).any():
        row = int((source != target).argmax())
        raise InputError(
            f"{edges.place(row)}: the edge joins graph {source[row] + 1} and graph {target[row] + 1}; an edge lies in one graph"
        )
    return source


def expand_names(requested: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Names of columns; the name of a matrix, such as ``graph_attr``, stands for its columns ``graph_attr0``, ..."""
    names: dict[str, None] = {}
    for name in requested:
        numbered = [c for c in columns if c != name and name_matrix(c) == name]
        names |= dict.fromkeys(numbered if name not in columns and numbered else [name])
    return list(names)


def _read_graph_features(tables: Mapping[str, Table], options: ReadOptions) -> dict[str, Array]:
    """The columns of graphs that the caller named; ``graph_attribute`` stands for all of that file."""
    here = {name: table for end, table in tables.items() if COLUMNS[end][0] == "graph" for name in table.columns}
    names = expand_names(options.graph_features, list(here))
    missing = [name for name in names if name not in here]
    if missing and options.vocabulary:
        raise InputError(f"the TU folder has no column {missing[0]!r} of graphs, which this network reads")
    return {choose(name, list(here), "feature of graphs"): here[name].numbers(name) for name in names}


def _choose_targets(
    tables: Mapping[str, Table], options: ReadOptions, features: Sequence[str]
) -> tuple[str, list[str], str]:
    """Level, names of the target columns and the reason; ``features`` are columns of graphs that are input."""
    free = {end: [name for name in table.columns if name not in features] for end, table in tables.items()}
    levels = [level for level in ("graph", "node", "edge") if options.level in (None, level)]
    by_level = {level: [n for end in free for n in free[end] if COLUMNS[end][0] == level] for level in levels}
    if not options.target and "graph" in levels:
        end = next((end for end in COLUMNS if COLUMNS[end][0] == "graph" and free.get(end)), None)
        if end is not None:
            return "graph", free[end], f"graph level: {tables[end].file} has one row per graph"
    for level, names in by_level.items() if options.target else ():
        if set(options.target) <= set(names):
            return level, list(options.target), f"{level} level: {options.target[0]} has one row per {level}"
    if options.unlabelled:
        return options.level or "graph", [], ""
    if options.target:
        columns = [name for names in by_level.values() for name in names]
        choose(next((t for t in options.target if t not in columns), options.target[0]), columns, "target column")
        raise InputError(f"targets {format_list(options.target)} are of different levels; a task has one level")
    if "graph" in levels:
        raise InputError(
            "a TU folder needs NAME_graph_labels.txt or NAME_graph_attributes.txt, or the data option target"
        )
    raise InputError(f"name the {options.level} column to predict with the data option target")


def _describe_left_out(found: TuFiles, columns: list[str]) -> tuple[str, ...]:
    lines = [f"{name}: not part of the TU format" for name in found.others]
    if columns:
        lines.append(
            f"{format_list(columns)}: not the target; to predict it, set the data option target={columns[0]}; "
            f"as input of networks, graph_features={columns[0]}"
        )
    return tuple(lines)
