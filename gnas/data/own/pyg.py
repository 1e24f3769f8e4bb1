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
from gnas.data.own.graph_features import read_attribute_features
from gnas.data.own.links import read_pairs
from gnas.data.own.networkx import is_networkx
from gnas.data.own.options import ReadOptions
from gnas.data.own.raw import (
    SPLIT_CODES,
    RawGraphs,
    as_matrix,
    check_lengths,
    gather_attribute,
    place_within,
    read_groups,
    read_split_codes,
    stack_columns,
    stack_rows,
    to_array,
)
from gnas.errors import InputError


@dataclass(frozen=True)
class Parts:
    """Graph objects in one list, with the splits of the collection."""

    graphs: list[Any]
    place: Place = lambda i: f"graph {i}"
    name: str = ""
    split: Array | None = None
    indices: Mapping[str, Any] | None = None  # rows or graphs of each split, as OGB datasets have them


def collect_graphs(data: Any) -> Parts | None:
    """The graphs in ``data``; None if it holds none."""
    if isinstance(data, Batch):
        return Parts(_unbatched(data))
    if _is_graph(data):
        return Parts([data])
    if not _is_collection(data):
        return None
    if len(data) == 3 and all(_is_collection(part) for part in data):
        return _three(data)
    if isinstance(data, list | tuple) and len(data) == 3 and all(_has_pairs(part) for part in data):
        return _three([[part] for part in data])  # PyG's RandomLinkSplit makes them
    name = getattr(data, "name", "")
    indices = getattr(data, "get_idx_split", None)
    return Parts(
        [data[i] for i in range(len(data))],
        name=name if isinstance(name, str) else "",
        indices=indices() if callable(indices) else None,
    )


def _unbatched(batch: Batch) -> list[Any]:
    try:
        return list(batch.to_data_list())
    except RuntimeError:
        raise InputError(
            "this Batch cannot be split into graphs; make it with Batch.from_data_list, or pass a list"
        ) from None


def _is_graph(value: Any) -> bool:
    return isinstance(value, BaseData) or is_networkx(value)


def _has_pairs(graph: Any) -> bool:
    names = ("edge_label_index", "pos_edge_label_index")  # read_pairs refuses the second one by name
    return isinstance(graph, Data) and any(graph.get(name) is not None for name in names)


def _is_collection(value: Any) -> bool:
    sized = callable(getattr(value, "__len__", None)) and callable(getattr(value, "__getitem__", None))
    return sized and not _is_graph(value) and not isinstance(value, str | bytes | dict | np.ndarray | Tensor)


def _three(data: Any) -> Parts:
    sizes = [len(part) for part in data]
    starts = np.cumsum([0, *sizes])

    def place(i: int) -> str:
        part = int(np.searchsorted(starts, i, side="right")) - 1
        return f"{SPLIT_NAMES[part]} graph {i - int(starts[part])}"

    graphs = [part[i] for part in data for i in range(len(part))]
    name = getattr(data[0], "name", "")
    return Parts(graphs, place, name if isinstance(name, str) else "", np.repeat(np.arange(3, dtype=np.int8), sizes))


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


MASKS = tuple(f"{name}_mask" for name in SPLIT_NAMES)


def read_pyg(graphs: Sequence[Data], place: Place, options: ReadOptions) -> RawGraphs:
    """Read ``Data`` objects; the target is the attribute ``y`` unless ``options`` name it."""
    if not len(graphs):
        raise InputError("no graphs: the list is empty")
    _all_data(graphs, place)
    edges = [_edges(g, place(i)) for i, g in enumerate(graphs)]
    edge_counts = np.array([e.shape[1] for e in edges])
    x = gather_attribute(graphs, "x", place)
    pos = gather_attribute(graphs, "pos", place)
    node_counts = np.array([_num_nodes(g, e, place(i)) for i, (g, e) in enumerate(zip(graphs, edges, strict=True))])
    edge_attr = gather_attribute(graphs, "edge_attr", place, edge_counts)
    named = {*options.target, *options.reserved, *options.graph_features}
    counts = {"node": node_counts, "edge": edge_counts}
    more_nodes, more_edges = (
        {
            name: gather_attribute(graphs, name, place, rows)
            for name in names
            if options.wants(name) and name not in named
        }
        for names, rows in ((MORE_NODES, None), (MORE_EDGES, edge_counts))
    )
    links = options.level == "link" or (options.level is None and _has_pairs(graphs[0]))
    masks, notes = _masks(graphs, place) if options.own_split and not links else (None, ())
    attribute = _attribute(graphs, options.target)
    values = None if links else gather_attribute(graphs, attribute, place, any_shape=True)
    if values is None and not options.unlabelled and not links:
        raise InputError(
            f"{place(0)}: no targets; set data.{attribute}, or name the attribute with the data option target"
        )
    found, reason = ("link", "") if links else _level(values, masks, counts, options.level, attribute, place)
    features = _graph_features(graphs, options, place)
    of_nodes, of_edges = {"x": x, **more_nodes}, {"edge_attr": edge_attr, **more_edges}
    for expected, table in (("node", {**of_nodes, "pos": pos}), ("edge", of_edges)):
        for name, rows in table.items():
            check_lengths(rows, counts[expected], name, expected, place)
    return RawGraphs(
        source="pyg",
        name="graphs",
        node_counts=node_counts,
        edge_counts=edge_counts,
        edge_index=np.concatenate(edges, axis=1),
        nodes={
            key: column for name, rows in of_nodes.items() for key, column in stack_columns(name, rows, place).items()
        },
        edges={
            key: column for name, rows in of_edges.items() for key, column in stack_columns(name, rows, place).items()
        },
        level=found,
        pos=None if pos is None else stack_rows("pos", pos, place),
        **(
            read_pairs(graphs, place)
            if links
            else {
                **_labelled(_targets(attribute, values, found, counts, options, place), more_nodes),
                **_splits(graphs, _codes(masks, counts, found, place), found, counts, options, place),
            }
        ),
        graphs=features,
        requested=options.target,
        notes=notes,
        reasons=(reason,) if reason else (),
        left_out=_name_unread(graphs, {attribute, *named, *(n.rstrip("0123456789") for n in features)}),
        graph_place=place,
    )


MORE_NODES, MORE_EDGES = ("z", "node_type"), ("edge_weight", "edge_type")  # columns beside x and edge_attr
PAIRS = ("edge_label_index", "edge_label")
READ = ("x", *MORE_NODES, "pos", "edge_index", "edge_attr", *MORE_EDGES, "y", *MASKS, *PAIRS)
BOOKKEEPING = ("num_nodes", "batch", "ptr", "adj_t")


def _name_unread(graphs: Sequence[Data], named: set[str]) -> tuple[str, ...]:
    """A line that names the attributes that are not read."""
    found = {key for graph in graphs for key in graph.keys()}  # noqa: SIM118 (a Data is no mapping)
    names = sorted(found - {*READ, *BOOKKEEPING, *named})
    advice = "numbers of nodes are read from x, of edges from edge_attr, of graphs with the data option graph_features"
    return (f"attributes {format_list(names)}: not read; {advice}",) if names else ()


def _all_data(graphs: Sequence[Any], place: Place) -> None:
    for i, graph in enumerate(graphs):
        hint = next((f"; {words}" for kind, words in HINTS.items() if isinstance(graph, kind)), "")
        if hint or not isinstance(graph, Data):
            raise InputError(f"{place(i)}: a {type(graph).__name__} where a PyG Data was expected{hint}")


HINTS = {  # kinds of graphs that are not read
    HeteroData: "merge its types of nodes and edges with to_homogeneous() first, whose node_type and edge_type are read",
    TemporalData: "events in time are not supported; make one Data per period, with its edges in edge_index",
    HyperGraphData: "edges of more than two nodes are not supported; replace each by edges between pairs of its nodes",
}


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


def _attribute(graphs: Sequence[Data], target: Sequence[str]) -> str:
    """The attribute that holds the targets: the one the caller named, else ``y``."""
    return target[0] if len(target) == 1 and graphs[0].get(target[0]) is not None else "y"


def _masks(graphs: Sequence[Data], place: Place) -> tuple[list[list[Array]] | None, tuple[str, ...]]:
    """Train, val and test masks of every graph, or None if there are none."""
    have = {name: gather_attribute(graphs, name, place) for name in MASKS}
    missing = [name for name, values in have.items() if values is None]
    if len(missing) == 3:
        return None, ()
    if missing:
        raise InputError(
            f"{place(0)}: {format_list(missing)} missing; give all three masks, or set the data option split=random"
        )
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
    name: str, values: list[Array] | None, level: str, counts: dict[str, Array], options: ReadOptions, place: Place
) -> dict[str, Array]:
    if values is None:
        return {}
    requested = options.target
    if level == "graph":
        rows = [v.reshape(1, -1) for v in values]
    else:
        rows = [as_matrix(v) for v in values]
        check_lengths(rows, counts[level], name, level, place)
    found = stack_columns(name, rows, place)
    if not found:
        raise InputError(f"{place(0)}: {name} is empty")
    if not requested or list(requested) == [name]:
        return found
    missing = [r for r in requested if r not in found]
    if missing and options.unlabelled:
        return {}
    if missing:
        raise InputError(
            f"no target {missing[0]!r}: neither an attribute of {place(0)} nor one of {format_list(list(found))}"
        )
    return {r: found[r] for r in requested}


def _labelled(targets: dict[str, Array], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Targets and the rows that have one. ``to_homogeneous`` gives nodes of a type without targets the class -1."""
    values = next(iter(targets.values())) if len(targets) == 1 else None
    if values is None or columns.get("node_type") is None or values.dtype.kind != "i" or not (values == -1).any():
        return {"targets": targets}
    return {"targets": targets, "labelled": values != -1}


def _graph_features(graphs: Sequence[Data], options: ReadOptions, place: Place) -> dict[str, Array]:
    def read(name: str) -> Array:
        arrays = gather_attribute(graphs, name, place, any_shape=True) or []
        return stack_rows(name, [array.reshape(1, -1) for array in arrays], place)

    return read_attribute_features(graphs[0].keys(), read, place, options)


def _splits(
    graphs: Sequence[Data],
    by_masks: Array | None,
    level: str,
    counts: dict[str, Array],
    options: ReadOptions,
    place: Place,
) -> dict[str, Any]:
    """Splits from masks or from a named attribute, and groups: one per graph, or one per node or edge."""
    found: dict[str, Any] = {"row_split": by_masks}
    named = options.split_column if options.own_split and options.split_column != "split" else ""
    for name, key in ((named, "split"), (options.group_column, "groups")):
        values = gather_attribute(graphs, name, place, any_shape=True) if name else None
        if values is None:
            continue
        by_graphs = all(value.size == 1 for value in values)
        if not by_graphs and level == "graph":
            raise InputError(f"{place(0)}: {name} has several values; one for each graph is needed")
        if not by_graphs:
            check_lengths(values, counts[level], name, level, place)
        flat = np.concatenate([value.reshape(-1) for value in values])
        places = place if by_graphs else (lambda row: place_within(row, counts[level], level, place))
        read = read_groups(flat, name, places) if key == "groups" else read_split_codes(_as_texts(flat), places)
        found[f"{'graph' if by_graphs else 'row'}_{key}"] = read
    return found


def _as_texts(values: Array) -> Array:
    return values if values.dtype.kind == "S" else values.astype(np.bytes_)


def _codes(masks: list[list[Array]] | None, counts: dict[str, Array], level: str, place: Place) -> Array | None:
    """Masks as one code per row; a row may belong to one split only."""
    if masks is None or level == "graph":
        return None
    for name, parts in zip(MASKS, masks, strict=True):
        check_lengths(parts, counts[level], name, level, place)
    flat = np.stack([np.concatenate(parts) for parts in masks])
    twice = np.flatnonzero(flat.sum(axis=0) > 1)
    if len(twice):
        pair = " and ".join(np.array(SPLIT_NAMES)[flat[:, twice[0]]])
        raise InputError(f"{level} {twice[0]} is in both {pair}; {len(twice)} rows are in more than one mask")
    return np.where(flat.any(axis=0), flat.argmax(axis=0), -1).astype(np.int8)
