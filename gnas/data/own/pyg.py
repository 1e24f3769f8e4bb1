"""Graph objects: one graph, a list, a dataset, or train, val and test; and the reader of PyG ``Data`` objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData, TemporalData
from torch_geometric.data.data import BaseData
from torch_geometric.data.hypergraph_data import HyperGraphData

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.encoding import Array, Place, format_list
from gnas.data.own.links import TARGET
from gnas.data.own.networkx import is_networkx
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import (
    SPLIT_CODES,
    GraphObjects,
    RawGraphs,
    as_matrix,
    name_graph,
    name_matrix,
    place_within,
    read_graph_attributes,
    read_groups,
    read_link_labels,
    read_split_codes,
    to_array,
)
from gnas.errors import InputError

MASKS = tuple(f"{name}_mask" for name in SPLIT_NAMES)
MORE_NODES, MORE_EDGES = ("z", "node_type"), ("edge_weight", "edge_type")  # columns beside x and edge_attr
PAIRS = ("edge_label_index", "edge_label")
READ = ("x", *MORE_NODES, "pos", "edge_index", "edge_attr", *MORE_EDGES, "y", *MASKS, *PAIRS)
BOOKKEEPING = ("num_nodes", "batch", "ptr", "adj_t")
HINTS = {  # kinds of graphs that are not read
    HeteroData: "merge its types of nodes and edges with to_homogeneous() first, whose node_type and edge_type are read",
    TemporalData: "events in time are not supported; make one Data per period, with its edges in edge_index",
    HyperGraphData: "edges of more than two nodes are not supported; replace each by edges between pairs of its nodes",
}

# -- collections of graphs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Graph objects in one list, with the splits of the collection."""

    graphs: list[Any]
    place: Place = name_graph
    name: str = ""
    split: Array | None = None
    indices: Mapping[str, Any] | None = None  # rows or graphs of each split, as OGB datasets have them


def collect_graphs(data: Any) -> Parts | None:
    """The graphs in ``data``; None if it holds none."""
    if isinstance(data, Batch):
        try:
            return Parts(list(data.to_data_list()))
        except RuntimeError:
            raise InputError(
                "this Batch cannot be split into graphs; make it with Batch.from_data_list, or pass a list"
            ) from None
    if _is_graph(data):
        return Parts([data])
    if not _is_collection(data):
        return None
    if len(data) == 3 and all(_is_collection(part) for part in data):
        return _three(data)
    if isinstance(data, list | tuple) and len(data) == 3 and all(_has_pairs(part) for part in data):
        return _three([[part] for part in data])  # PyG's RandomLinkSplit makes them
    indices = getattr(data, "get_idx_split", None)
    graphs = [data[i] for i in range(len(data))]
    return Parts(graphs, name=_name(data), indices=indices() if callable(indices) else None)


def _is_graph(value: Any) -> bool:
    return isinstance(value, BaseData) or is_networkx(value)


def _has_pairs(graph: Any) -> bool:
    names = ("edge_label_index", "pos_edge_label_index")  # _read_pairs refuses the second one by name
    return isinstance(graph, Data) and any(graph.get(name) is not None for name in names)


def _is_collection(value: Any) -> bool:
    sized = callable(getattr(value, "__len__", None)) and callable(getattr(value, "__getitem__", None))
    return sized and not _is_graph(value) and not isinstance(value, str | bytes | dict | np.ndarray | Tensor)


def _name(data: Any) -> str:
    name = getattr(data, "name", "")
    return name if isinstance(name, str) else ""


def _three(data: Any) -> Parts:
    sizes = [len(part) for part in data]
    starts = np.cumsum([0, *sizes])

    def place(i: int) -> str:
        part = int(np.searchsorted(starts, i, side="right")) - 1
        return f"{SPLIT_NAMES[part]} graph {i - int(starts[part])}"

    graphs = [part[i] for part in data for i in range(len(part))]
    return Parts(graphs, place, _name(data[0]), np.repeat(np.arange(3, dtype=np.int8), sizes))


def read_indices(raw: RawGraphs, indices: Mapping[str, Any]) -> RawGraphs:
    """Splits from index lists under the names train, valid and test: graphs, or the rows of a single graph."""
    by_rows = len(raw) == 1 and raw.level != "graph"
    codes = np.full(raw.num_rows if by_rows else len(raw), -1, np.int8)
    for name, rows in indices.items():
        if name not in SPLIT_CODES:
            raise InputError(f"get_idx_split() has a split {name!r}; the splits are train, valid and test")
        at = to_array(rows, f"get_idx_split()[{name!r}]", raw.name).reshape(-1)
        if at.dtype.kind != "i" or (len(at) and not 0 <= at.min() <= at.max() < len(codes)):
            raise InputError(f"get_idx_split()[{name!r}] holds numbers outside 0..{len(codes) - 1}")
        codes[at] = SPLIT_CODES[name]
    return dataclasses.replace(raw, row_split=codes) if by_rows else dataclasses.replace(raw, graph_split=codes)


# -- PyG objects -------------------------------------------------------------------------------------------------------


Masks = list[list[Array]] | None  # train, val and test masks of every graph


def read_pyg(items: Sequence[Data], place: Place, options: ReadOptions) -> RawGraphs:
    """Read ``Data`` objects; the target is the attribute ``y`` unless ``options`` name it."""
    _check_kinds(items, place)
    graphs = GraphObjects(items, place)
    edges = [_edges(one, place(i)) for i, one in enumerate(items)]
    of_edges = np.array([ends.shape[1] for ends in edges])
    named = {*options.target, *options.reserved, *options.graph_features}
    nodes = {name: graphs.gather(name) for name in ("x", *MORE_NODES) if _is_read(name, named, options)}
    pos = graphs.gather("pos")
    of_nodes = np.array([_num_nodes(g, e, place(i)) for i, (g, e) in enumerate(zip(items, edges, strict=True))])
    counts = {"node": of_nodes, "edge": of_edges}
    more = {
        name: graphs.gather(name, of_edges) for name in ("edge_attr", *MORE_EDGES) if _is_read(name, named, options)
    }
    links = options.level == "link" or (options.level is None and _has_pairs(items[0]))
    masks, notes = _masks(graphs) if options.own_split and not links else (None, ())
    attribute = "y"  # unless the caller named another one, and not only columns of y
    if len(options.target) == 1 and items[0].get(options.target[0]) is not None:
        attribute = options.target[0]
    values = None if links else graphs.gather(attribute, any_shape=True)
    if values is None and not options.unlabelled and not links:
        raise InputError(
            f"{place(0)}: no targets; set data.{attribute}, or name the attribute with the data option target"
        )
    level, reason = _level(values, masks, counts, options.level, attribute, place) if not links else ("link", "")
    features = read_graph_attributes(items[0].keys(), graphs.graph_attribute, place, options)
    for what, table in (("node", {**nodes, "pos": pos}), ("edge", more)):
        for name, rows in table.items():
            graphs.check_lengths(name, rows, counts, what)
    if links:
        rest = _read_pairs(graphs)
    else:
        targets = _targets(graphs, attribute, values, level, counts, options)
        rest = {"targets": targets, "labelled": _labelled(targets, nodes.get("node_type"))}
        rest |= _splits(graphs, _codes(graphs, masks, counts, level), level, counts, options)
    return RawGraphs(
        source="pyg",
        name="graphs",
        node_counts=of_nodes,
        edge_counts=of_edges,
        edge_index=np.concatenate(edges, axis=1),
        nodes=graphs.columns(nodes),
        edges=graphs.columns(more),
        level=level,
        pos=None if pos is None else graphs.stack("pos", pos),
        **rest,
        graphs=features,
        requested=options.target,
        notes=notes,
        reasons=(reason,) if reason else (),
        left_out=_name_unread(items, {attribute, *named, *map(name_matrix, features)}),
        places={"graph": place},
    )


def _is_read(name: str, named: set[str], options: ReadOptions) -> bool:
    """Whether an attribute is a column of nodes or edges: ``x`` and ``edge_attr``, and others that nothing else takes."""
    return name in ("x", "edge_attr") or (options.wants(name) and name not in named)


def _name_unread(graphs: Sequence[Data], named: set[str]) -> tuple[str, ...]:
    """A line that names the attributes that are not read."""
    found = {key for graph in graphs for key in graph.keys()}  # noqa: SIM118 (a Data is no mapping)
    names = sorted(found - {*READ, *BOOKKEEPING, *named})
    advice = "numbers of nodes are read from x, of edges from edge_attr, of graphs with the data option graph_features"
    return (f"attributes {format_list(names)}: not read; {advice}",) if names else ()


def _check_kinds(graphs: Sequence[Any], place: Place) -> None:
    for i, graph in enumerate(graphs):
        hint = next((f"; {words}" for kind, words in HINTS.items() if isinstance(graph, kind)), "")
        if hint or not isinstance(graph, Data):
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
    for name in ("x", *MORE_NODES, "pos"):
        if graph.get(name) is not None:
            shape = np.shape(graph[name])
            return int(shape[0]) if shape else 1
    count = graph.get("num_nodes")
    if count is None:
        return int(edges.max()) + 1 if edges.size else 0
    if not isinstance(count, int) or count < 0:
        raise InputError(f"{where}: num_nodes is {count!r}")
    return count


def _masks(graphs: GraphObjects) -> tuple[Masks, tuple[str, ...]]:
    """The masks, or None if there are none, and a note if they have several columns."""
    have = {name: graphs.gather(name) for name in MASKS}
    missing = [name for name, values in have.items() if values is None]
    where = graphs.place(0)
    if len(missing) == 3:
        return None, ()
    if missing:
        raise InputError(
            f"{where}: {format_list(missing)} missing; give all three masks, or set the data option split=random"
        )
    matrices = [[as_matrix(v) for v in values or ()] for values in have.values()]
    widths = {matrix.shape[1] for parts in matrices for matrix in parts}
    if min(widths) == 0:
        raise InputError(f"{where}: a mask has no columns")
    note = f"masks have {max(widths)} columns (several splits): the first is used"
    first = [[matrix[:, 0].astype(bool) for matrix in parts] for parts in matrices]
    return first, (note,) if max(widths) > 1 else ()


def _level(
    values: list[Array] | None,
    masks: Masks,
    counts: Mapping[str, Array],
    requested: str | None,
    name: str,
    place: Place,
) -> tuple[str, str]:
    """The level at which rows of the target fit every graph, and why."""
    if requested is not None or values is None:
        return requested or "graph", ""
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
        f"({counts['node'][wrong]}) nor its edges ({counts['edge'][wrong]}); set the data option level to graph, node or edge"
    )


def _targets(
    graphs: GraphObjects,
    name: str,
    values: list[Array] | None,
    level: str,
    counts: Mapping[str, Array],
    options: ReadOptions,
) -> dict[str, Array]:
    if values is None:
        return {}
    rows = [v.reshape(1, -1) if level == "graph" else as_matrix(v) for v in values]
    if level != "graph":
        graphs.check_lengths(name, rows, counts, level)
    found = graphs.columns({name: rows})
    if not found:
        raise InputError(f"{graphs.place(0)}: {name} is empty")
    if not options.target or options.target == (name,):
        return found
    missing = [one for one in options.target if one not in found]
    if missing and options.unlabelled:
        return {}
    if missing:
        what = f"neither an attribute of {graphs.place(0)} nor one of {format_list(list(found))}"
        raise InputError(f"no target {missing[0]!r}: {what}")
    return {one: found[one] for one in options.target}


def _labelled(targets: Mapping[str, Array], types: Any) -> Array | None:
    """Rows that have a target. ``to_homogeneous`` gives nodes of a type without targets the class -1."""
    values = next(iter(targets.values())) if len(targets) == 1 else None
    if values is None or not types or values.dtype.kind != "i" or not (values == -1).any():
        return None
    return np.asarray(values != -1)


def _splits(
    graphs: GraphObjects, by_masks: Array | None, level: str, counts: Mapping[str, Array], options: ReadOptions
) -> dict[str, Any]:
    """Splits from masks or from a named attribute, and groups: one per graph, or one per node or edge."""
    found: dict[str, Any] = {"row_split": by_masks}
    named = options.split_column if options.own_split and options.split_column != "split" else ""
    for name, key in ((named, "split"), (options.group_column, "groups")):
        values = graphs.gather(name, any_shape=True) if name else None
        if values is None:
            continue
        by_graphs = all(value.size == 1 for value in values)
        if not by_graphs and level == "graph":
            raise InputError(f"{graphs.place(0)}: {name} has several values; one for each graph is needed")
        if not by_graphs:
            graphs.check_lengths(name, values, counts, level)
        flat = np.concatenate([value.reshape(-1) for value in values])
        place = graphs.place if by_graphs else place_within(counts[level], level, graphs.place)
        read = read_groups(flat, name, place) if key == "groups" else read_split_codes(flat.astype(np.bytes_), place)
        found[f"{'graph' if by_graphs else 'row'}_{key}"] = read
    return found


def _codes(graphs: GraphObjects, masks: Masks, counts: Mapping[str, Array], level: str) -> Array | None:
    """Masks as one code per row; a row may belong to one split only."""
    if masks is None or level == "graph":
        return None
    for name, parts in zip(MASKS, masks, strict=True):
        graphs.check_lengths(name, parts, counts, level)
    flat = np.stack([np.concatenate(parts) for parts in masks])
    twice = np.flatnonzero(flat.sum(axis=0) > 1)
    if len(twice):
        pair = " and ".join(np.array(SPLIT_NAMES)[flat[:, twice[0]]])
        raise InputError(f"{level} {twice[0]} is in both {pair}; {len(twice)} rows are in more than one mask")
    return np.where(flat.any(axis=0), flat.argmax(axis=0), -1).astype(np.int8)


def _read_pairs(graphs: GraphObjects) -> dict[str, Any]:
    """Pairs of nodes and, where they are known, their labels: 1 for a link, 0 for none."""
    place = graphs.place
    if any(graph.get("pos_edge_label_index") is not None for graph in graphs.items):
        raise InputError(f"{place(0)}: pos_edge_label_index is not read; make the split without split_labels=True")
    index = graphs.gather("edge_label_index")
    if index is None:
        return {"targets": {}}
    for i, one in enumerate(index):
        if one.ndim != 2 or one.shape[0] != 2 or one.dtype.kind != "i":
            raise InputError(
                f"{place(i)}: edge_label_index has the shape {list(one.shape)}; whole numbers [2, pairs] are needed"
            )
    counts = np.array([one.shape[1] for one in index])
    found: dict[str, Any] = {"pairs": np.concatenate(index, axis=1), "pair_counts": counts, "targets": {}}
    labels = graphs.gather("edge_label", counts)
    if labels is not None:
        graphs.check_lengths("edge_label", labels, {"pair": counts}, "pair")
        for i, label in enumerate(labels):
            if label.size != counts[i]:
                raise InputError(f"{place(i)}: edge_label has the shape {list(label.shape)}; a pair has one label")
        graph = np.repeat(np.arange(len(counts)), counts)
        flat = np.concatenate([label.reshape(-1) for label in labels])
        found["targets"] = {TARGET: read_link_labels(flat, lambda row: place(int(graph[row])))}
    return found
