"""Graphs from PyG ``Data`` objects: columns, targets with their level, and given masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Data

from gnas.data.encoding import Array, Place, some
from gnas.data.own.raw import SPLIT_NAMES, RawGraphs, Reading
from gnas.data.own.rows import as_matrix, columns, gather, same_length, stack, to_array
from gnas.errors import InputError

MASKS = tuple(f"{name}_mask" for name in SPLIT_NAMES)


def read_pyg(graphs: Sequence[Data], place: Place, how: Reading) -> RawGraphs:
    """Read ``Data`` objects; the target is the attribute ``y`` unless ``how`` names it."""
    if not len(graphs):
        raise InputError("no graphs: the list is empty")
    _all_data(graphs, place)
    edges = [_edges(g, place(i)) for i, g in enumerate(graphs)]
    edge_counts = np.array([e.shape[1] for e in edges])
    x = gather(graphs, "x", place)
    pos = gather(graphs, "pos", place)
    node_counts = np.array([_num_nodes(g, e, place(i)) for i, (g, e) in enumerate(zip(graphs, edges, strict=True))])
    edge_attr = gather(graphs, "edge_attr", place, edge_counts)
    counts = {"node": node_counts, "edge": edge_counts}
    masks, notes = _masks(graphs, place) if how.given else (None, ())
    attribute = _attribute(graphs, how.target)
    values = gather(graphs, attribute, place, any_shape=True)
    if values is None and not how.unlabelled:
        raise InputError(f"{place(0)}: no targets; set data.{attribute}, or name the attribute with target=")
    found, reason = _level(values, masks, counts, how.level, attribute, place)
    for name, rows, expected in (("x", x, "node"), ("pos", pos, "node"), ("edge_attr", edge_attr, "edge")):
        same_length(rows, counts[expected], name, expected, place)
    return RawGraphs(
        source="pyg",
        name="graphs",
        node_counts=node_counts,
        edge_counts=edge_counts,
        edge_index=np.concatenate(edges, axis=1),
        nodes=columns("x", x, place),
        edges=columns("edge_attr", edge_attr, place),
        targets=_targets(attribute, values, found, counts, how, place),
        level=found,
        pos=None if pos is None else stack("pos", pos, place),
        row_split=_codes(masks, counts, found, place),
        asked=how.target,
        notes=notes,
        reasons=(reason,) if reason else (),
        graph_place=place,
    )


def _all_data(graphs: Sequence[Any], place: Place) -> None:
    for i, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            hint = "; merge its types with to_homogeneous() first" if type(graph).__name__ == "HeteroData" else ""
            raise InputError(f"{place(i)}: a {type(graph).__name__} where a PyG Data was expected{hint}")


def _edges(graph: Data, where: str) -> Array:
    value = graph.get("edge_index")
    if value is None:
        raise InputError(f"{where}: no edge_index; a [2, edges] tensor is needed (also beside an adj_t)")
    array = to_array(value, "edge_index", where)
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(f"{where}: edge_index has the shape {list(array.shape)}; [2, edges] is needed")
    if array.dtype.kind != "i" and array.size:
        raise InputError(f"{where}: edge_index holds {array.dtype.name}; whole numbers are needed")
    return array.astype(np.int64)


def _num_nodes(graph: Data, edges: Array, where: str) -> int:
    for name in ("x", "pos"):
        if graph.get(name) is not None:
            shape = np.shape(graph[name])
            return int(shape[0]) if shape else 1
    count = graph.get("num_nodes")
    if count is None:
        return int(edges.max()) + 1 if edges.size else 0
    if not isinstance(count, int) or count < 0:
        raise InputError(f"{where}: num_nodes is {count!r}")
    return count


def _attribute(graphs: Sequence[Data], target: Sequence[str]) -> str:
    """The attribute that holds the targets: the one the caller named, else ``y``."""
    return target[0] if len(target) == 1 and graphs[0].get(target[0]) is not None else "y"


def _masks(graphs: Sequence[Data], place: Place) -> tuple[list[list[Array]] | None, tuple[str, ...]]:
    """Train, val and test masks of every graph, or None where there are none."""
    have = {name: gather(graphs, name, place) for name in MASKS}
    missing = [name for name, values in have.items() if values is None]
    if len(missing) == 3:
        return None, ()
    if missing:
        raise InputError(f"{place(0)}: {some(missing)} missing; give all three masks, or choose split='random'")
    widths = {as_matrix(v).shape[1] for values in have.values() for v in values or ()}
    if min(widths) == 0:
        raise InputError(f"{place(0)}: a mask has no columns")
    first = [[as_matrix(v)[:, 0].astype(bool) for v in have[name] or ()] for name in MASKS]
    note = f"masks have {max(widths)} columns (several splits): the first is used"
    return first, (note,) if max(widths) > 1 else ()


def _level(
    values: list[Array] | None,
    masks: list[list[Array]] | None,
    counts: dict[str, Array],
    asked: str | None,
    name: str,
    place: Place,
) -> tuple[str, str]:
    """The level at which rows of the target fit every graph, and why."""
    if asked is not None or values is None:
        return asked or "graph", ""
    rows = np.array([1 if v.ndim == 0 else v.shape[0] for v in values])
    if masks is None and (rows == 1).all():
        return "graph", f"graph level: one row of {name} for each graph"
    for level in ("node", "edge"):
        if (rows == counts[level]).all() and (masks is None or len(masks[0][0]) == counts[level][0]):
            return level, f"{level} level: one row of {name} for each {level}"
    if masks is None and all(v.shape == values[0].shape and v.ndim == 1 for v in values):
        return "graph", f"graph level: {rows[0]} values of {name} for each graph"
    wrong = int((rows != counts["node"]).argmax())
    raise InputError(
        f"{place(wrong)}: {name} has {rows[wrong]} rows, which fit neither the graph (1), its nodes "
        f"({counts['node'][wrong]}) nor its edges ({counts['edge'][wrong]}); say level='graph', 'node' or 'edge'"
    )


def _targets(
    name: str, values: list[Array] | None, level: str, counts: dict[str, Array], how: Reading, place: Place
) -> dict[str, Array]:
    if values is None:
        return {}
    asked = how.target
    if level == "graph":
        rows = [v.reshape(1, -1) for v in values]
    else:
        rows = [as_matrix(v) for v in values]
        same_length(rows, counts[level], name, level, place)
    found = columns(name, rows, place)
    if not found:
        raise InputError(f"{place(0)}: {name} is empty")
    if not asked or list(asked) == [name]:
        return found
    missing = [a for a in asked if a not in found]
    if missing and how.unlabelled:
        return {}
    if missing:
        raise InputError(f"no target {missing[0]!r}: neither an attribute of {place(0)} nor one of {some(list(found))}")
    return {a: found[a] for a in asked}


def _codes(masks: list[list[Array]] | None, counts: dict[str, Array], level: str, place: Place) -> Array | None:
    """Masks as one code a row; a row may belong to one split only."""
    if masks is None or level == "graph":
        return None
    for name, parts in zip(MASKS, masks, strict=True):
        same_length(parts, counts[level], name, level, place)
    flat = np.stack([np.concatenate(parts) for parts in masks])
    twice = np.flatnonzero(flat.sum(axis=0) > 1)
    if len(twice):
        pair = " and ".join(np.array(SPLIT_NAMES)[flat[:, twice[0]]])
        raise InputError(f"{level} {twice[0]} is in both {pair}; {len(twice)} rows are in more than one mask")
    return np.where(flat.any(axis=0), flat.argmax(axis=0), -1).astype(np.int8)
