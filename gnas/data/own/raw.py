"""Graphs as a source holds them: flat numpy columns and where each row came from, before anything is encoded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gnas.data.encoding import Array, Place, format_list, format_value
from gnas.data.own.options import ReadOptions
from gnas.errors import InputError, choose
from gnas.printed import format_count

SPLIT_CODES = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2}


@dataclass(frozen=True)
class RawGraphs:
    """Many graphs, their rows one after another. Columns are float, int64 or UTF-8 bytes (dtype ``S``) arrays.

    Splits are codes: 0 train, 1 val, 2 test, -1 none; one for each graph, or one for each target row.
    """

    source: str
    name: str
    node_counts: Array  # [G]
    edge_counts: Array  # [G]
    edge_index: Array  # [2, E] node numbers local to each graph
    nodes: Mapping[str, Array]
    edges: Mapping[str, Array]
    targets: Mapping[str, Array]
    level: str
    labelled: Array | None = None  # target rows that have a value; None: all
    pos: Array | None = None  # [N, D]
    graph_split: Array | None = None
    row_split: Array | None = None
    graph_groups: Array | None = None  # a group for each graph, or for each target row: no group is in two splits
    row_groups: Array | None = None
    graphs: Mapping[str, Array] = field(default_factory=dict)  # [G] numbers of whole graphs; NaN: missing
    smiles: tuple[str, ...] = ()
    smiles_column: str = ""  # the column of SMILES that the caller named
    rows: Array | None = None  # [G] rows of the source that the graphs were read from; None: all of them
    requested: tuple[str, ...] = ()  # targets that the caller named
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # what was read, with its size: "nodes.csv (120 rows)"
    left_out: tuple[str, ...] = ()  # what was found and is not used, with the reason
    places: Mapping[str, Place] = field(default_factory=dict)  # where each graph, node, edge or link came from
    pairs: Array | None = None  # [2, R] pairs of nodes at level link, grouped by graph, numbers local to each graph
    pair_counts: Array | None = None  # [G]
    draw_negatives: bool = False  # training draws new negative pairs in every pass

    def __len__(self) -> int:
        return len(self.node_counts)

    @property
    def has_tokens(self) -> bool:
        """Whether these are molecules as gnas 0.1 read them."""
        return self.source == "smiles" and list(self.nodes) == ["atom"]

    @property
    def tables(self) -> dict[str, Mapping[str, Array]]:
        """The columns of nodes and of edges."""
        return {"node": self.nodes, "edge": self.edges}

    def counts(self, level: str) -> Array:
        """How many rows of a level each graph has."""
        if level == "graph":
            return np.ones(len(self), np.int64)
        pairs = np.zeros(len(self), np.int64) if self.pair_counts is None else self.pair_counts
        return {"node": self.node_counts, "edge": self.edge_counts, "link": pairs}[level]

    @property
    def num_rows(self) -> int:
        """Rows of the targets."""
        return int(self.counts(self.level).sum())

    def place(self, level: str) -> Place:
        """Where a row of a level came from, for an error line: of a file if it is known, else ``graph 3, node 1``."""
        graph = self.places.get("graph", name_graph)
        within = graph if level == "graph" else place_within(self.counts(level), level, graph)
        return self.places.get(level, within)

    @property
    def target_place(self) -> Place:
        """Where a target came from."""
        return self.place(self.level)

    def flat_edges(self) -> Array:
        """Edges with nodes numbered through all graphs."""
        return self.edge_index + np.repeat(starts_of(self.node_counts), self.edge_counts)

    def flat_pairs(self) -> Array:
        """Pairs with nodes numbered through all graphs."""
        assert self.pairs is not None
        return self.pairs + np.repeat(starts_of(self.node_counts), self.counts("link"))

    def spread(self, codes: Array) -> Array:
        """The code of each target row, from one for each graph."""
        return np.repeat(codes, self.counts(self.level))


def starts_of(counts: Array) -> Array:
    """The first row of each graph."""
    return counts.cumsum() - counts


def name_graph(number: int) -> str:
    """``graph 3``."""
    return f"graph {number}"


def place_within(counts: Array, level: str, graph_place: Place) -> Place:
    """A row as a part of its graph: ``graph 3, node 1``."""
    noun = "pair" if level == "link" else level

    def place(row: int) -> str:
        ends = counts.cumsum()
        graph = int(np.searchsorted(ends, row, side="right"))
        return f"{graph_place(graph)}, {noun} {row - int(ends[graph] - counts[graph])}"

    return place


# -- checks ----------------------------------------------------------------------------------------------------------


def check_raw_graphs(raw: RawGraphs) -> tuple[str, ...]:
    """Check that graphs have nodes and that edges and pairs join existing nodes; return notes on odd edges."""
    if not len(raw):
        raise InputError(f"{raw.name}: no graphs")
    empty = np.flatnonzero(raw.node_counts == 0)
    if len(empty):
        raise InputError(f"{raw.place('graph')(int(empty[0]))}: no nodes ({len(empty)} such graphs)")
    for level, ends in (("edge", raw.edge_index), ("link", raw.pairs)):
        if ends is None:
            continue
        limit = np.repeat(raw.node_counts, raw.counts(level))
        wrong = (ends < 0) | (ends >= limit)
        if wrong.any():
            row = int(wrong.any(axis=0).argmax())
            end = 0 if wrong[0, row] else 1
            raise InputError(
                f"{raw.place(level)(row)}: {('source', 'target')[end]} {ends[end, row]} is not a node; "
                f"the graph has {limit[row]} nodes, numbered from 0"
            )
    return note_odd_edges(raw)


def note_odd_edges(raw: RawGraphs) -> tuple[str, ...]:
    """Notes that count self-loops, repeated edges and edges without their reverse."""
    source, target = raw.flat_edges()
    if not len(source):
        return ("no graph has an edge",)
    total = int(raw.node_counts.sum())
    keys = np.sort(source * total + target)
    distinct = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    loops, repeats = int((source == target).sum()), len(keys) - len(distinct)
    source, target = distinct // total, distinct % total
    reverse = (target * total + source)[source != target]
    at = np.minimum(np.searchsorted(distinct, reverse), len(distinct) - 1)  # np.isin takes twice as long
    alone = int((distinct[at] != reverse).sum())
    notes = [format_count(loops, "self-loop")] if loops else []
    if repeats:
        notes.append(f"{format_count(repeats, 'repeated edge')}: each one counts")
    if alone:
        share = "no edge has" if alone == len(reverse) else f"{alone} of {len(reverse)} edges do not have"
        notes.append(f"directed: {share} the reverse edge; if both directions are meant, add it")
    return tuple(notes)


# -- columns that every reader knows ---------------------------------------------------------------------------------


def name_columns(name: str, values: Array) -> dict[str, Array]:
    """The columns of a matrix by name: ``x`` if there is one, else ``x0``, ``x1``, ..."""
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}{i}": values[:, i] for i in range(values.shape[1])}


def name_matrix(column: str) -> str:
    """The name of the matrix that a column such as ``x12`` belongs to."""
    return column.rstrip("0123456789")


def read_split_codes(texts: Array, place: Place) -> Array:
    """Codes of the words train, val and test."""
    words = [t.decode(errors="replace").strip().lower() for t in texts.tolist()]
    codes = np.array([SPLIT_CODES.get(w, -1 if w == "" else -2) for w in words], np.int8)
    if (codes == -2).any():
        row = int((codes == -2).argmax())
        raise InputError(f"{place(row)}: split is {words[row]!r}; write train, val or test")
    return codes


def read_link_labels(values: Array, place: Place) -> Array:
    """Labels of pairs: 1 for a link, 0 for none."""
    known = (b"0", b"1") if values.dtype.kind == "S" else (0, 1)
    right = np.isin(values, known)
    if not right.all():
        raise InputError(f"{place(int((~right).argmax()))}: the label of a pair is neither 1 (a link) nor 0 (none)")
    return values.astype(np.int64)


def read_groups(texts: Array, name: str, place: Place) -> Array:
    """A column of groups; an error if one is missing."""
    empty = texts == b"" if texts.dtype.kind == "S" else texts != texts
    if empty.any():
        raise InputError(f"{place(int(empty.argmax()))}: the group {name!r} is empty; fill it in")
    return texts


def describe_unused(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """The line on columns or attributes of whole graphs that are neither target nor feature."""
    return (f"{what} {format_list(names)}: not named as target or feature",) if names else ()


# -- values of Python objects as rows and columns ------------------------------------------------------------------


def to_array(value: Any, name: str, where: str) -> Array:
    """A tensor, array, number or nested list on the host: int64, float32, float64 or UTF-8 bytes."""
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            value = value.to_dense() if value.layout != torch.strided else value
            value = value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
            array = value.resolve_conj().numpy()
        else:
            array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{where}: {name} cannot be read as numbers ({str(error).splitlines()[0]})") from None
    if array.dtype.kind in "bui":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return np.char.encode(array, "utf-8", "replace")
    if array.dtype.kind != "f":
        raise InputError(f"{where}: {name} holds {array.dtype.name} values; numbers or texts are needed")
    return array if array.dtype == np.float32 else array.astype(np.float64)


def as_matrix(array: Array) -> Array:
    """One row for each entry along the first axis."""
    return array.reshape(len(array), math.prod(array.shape[1:])) if array.ndim else array.reshape(1, 1)


@dataclass(frozen=True)
class GraphObjects:
    """PyG objects, and their attributes as arrays."""

    items: Sequence[Any]
    place: Place

    def gather(self, name: str, rows: Array | None = None, any_shape: bool = False) -> list[Array] | None:
        """One attribute of every graph, or None if no graph has it. Graphs with no ``rows`` may leave it out."""
        values = [graph.get(name) for graph in self.items]
        first = next((i for i, value in enumerate(values) if value is not None), None)
        if first is None:
            return None
        example = to_array(values[first], name, self.place(first))
        arrays = []
        for i, value in enumerate(values):
            if value is None and (rows is None or rows[i]):
                raise InputError(f"{self.place(i)}: no {name}, which {self.place(first)} has")
            array = example[:0] if value is None else to_array(value, name, self.place(i))
            if array.ndim > 2 and not any_shape:
                raise InputError(f"{self.place(i)}: {name} has {array.ndim} dimensions; [rows, columns] is needed")
            arrays.append(array)
        return arrays

    def check_lengths(self, name: str, arrays: Sequence[Array] | None, counts: Mapping[str, Array], level: str) -> None:
        """An error unless every graph has one row for each of its nodes, edges or pairs."""
        for i, array in enumerate(arrays or ()):
            rows = len(array) if array.ndim else 1
            if rows != counts[level][i]:
                what = f"{name} has {rows} rows, but the graph has {counts[level][i]} {level}s"
                raise InputError(f"{self.place(i)}: {what}")

    def stack(self, name: str, arrays: Sequence[Array]) -> Array:
        """The rows of all graphs one after another; every graph must have as many columns as the first."""
        first, *_ = matrices = [as_matrix(a) for a in arrays]
        for i, matrix in enumerate(matrices):
            if matrix.shape[1] != first.shape[1]:
                what = f"{name} has {matrix.shape[1]} columns, but {self.place(0)} has {first.shape[1]}"
                raise InputError(f"{self.place(i)}: {what}")
            if (matrix.dtype.kind == "S") != (first.dtype.kind == "S"):
                raise InputError(f"{self.place(i)}: {name} holds {matrix.dtype.name}, unlike {self.place(0)}")
        return np.concatenate(matrices)

    def columns(self, attributes: Mapping[str, Sequence[Array] | None]) -> dict[str, Array]:
        """The rows of all graphs, by column name; None and arrays without columns are left out."""
        found: dict[str, Array] = {}
        for name, arrays in attributes.items():
            matrix = self.stack(name, arrays) if arrays is not None else None
            found |= name_columns(name, matrix) if matrix is not None and matrix.shape[1] else {}
        return found

    def graph_attribute(self, name: str) -> Array:
        """One row for each graph."""
        arrays = self.gather(name, any_shape=True) or []
        return self.stack(name, [array.reshape(1, -1) for array in arrays])


def read_graph_attributes(
    attributes: Sequence[str], read: Callable[[str], Array], place: Place, options: ReadOptions
) -> dict[str, Array]:
    """The attributes of graph objects that ``options`` name, each a number or a vector; or single columns of a vector.

    ``read`` gives the values of one attribute: a row for each graph.
    """
    found: dict[str, Array] = {}
    for name in options.graph_features:
        attribute = name if name in attributes else name_matrix(name)
        columns: dict[str, Array] = {}
        if attribute in attributes:
            matrix = read(attribute)
            if matrix.dtype.kind == "S":
                first = format_value(matrix.reshape(-1)[0]) if matrix.size else "text"
                raise InputError(f"{place(0)}: attribute {attribute!r} holds {first}; numbers are needed")
            columns = name_columns(attribute, matrix.astype(np.float64)) if matrix.shape[1] else {}
        chosen = columns if name == attribute else {n: v for n, v in columns.items() if n == name}
        if not chosen and options.vocabulary:
            raise InputError(f"{place(0)}: no attribute {name!r}, which this network reads; set it")
        if not chosen:
            choose(name, attributes, "feature of graphs")
            raise InputError(f"{place(0)}: attribute {name!r} is empty; leave it out of graph_features")
        found |= chosen
    return found
