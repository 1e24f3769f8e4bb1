"""Graphs as a source holds them: flat numpy columns and where each row came from, before anything is encoded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gnas.data.encoding import Array, Place
from gnas.errors import InputError

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
    graph_place: Place = field(default=lambda g: f"graph {g}")
    node_lines: Place | None = None
    edge_lines: Place | None = None
    pairs: Array | None = None  # [2, R] pairs of nodes at level link, grouped by graph, numbers local to each graph
    pair_counts: Array | None = None  # [G]
    pair_lines: Place | None = None
    draw_negatives: bool = False  # training draws new negative pairs in every pass

    def __len__(self) -> int:
        return len(self.node_counts)

    @property
    def has_tokens(self) -> bool:
        """Whether these are molecules as gnas 0.1 read them."""
        return self.source == "smiles" and list(self.nodes) == ["atom"]

    @property
    def num_rows(self) -> int:
        """Rows of the targets."""
        pairs = 0 if self.pairs is None else self.pairs.shape[1]
        counts = {"graph": len(self), "node": self.node_counts.sum(), "edge": self.edge_counts.sum(), "link": pairs}
        return int(counts[self.level])

    def node_place(self, row: int) -> str:
        """Where a node came from, for an error line."""
        return (
            self.node_lines(row) if self.node_lines else place_within(row, self.node_counts, "node", self.graph_place)
        )

    def edge_place(self, row: int) -> str:
        """Where an edge came from, for an error line."""
        return (
            self.edge_lines(row) if self.edge_lines else place_within(row, self.edge_counts, "edge", self.graph_place)
        )

    def target_place(self, row: int) -> str:
        """Where a target came from, for an error line."""
        places = {"graph": self.graph_place, "node": self.node_place, "edge": self.edge_place, "link": self.pair_place}
        return places[self.level](row)

    def pair_place(self, row: int) -> str:
        """Where a pair came from, for an error line."""
        if self.pair_lines or self.pair_counts is None:
            return self.pair_lines(row) if self.pair_lines else f"pair {row}"
        return place_within(row, self.pair_counts, "pair", self.graph_place)

    def flat_pairs(self) -> Array:
        """Pairs with nodes numbered through all graphs."""
        assert self.pairs is not None
        assert self.pair_counts is not None
        starts = self.node_counts.cumsum() - self.node_counts
        return self.pairs + np.repeat(starts, self.pair_counts)

    def flat_edges(self) -> Array:
        """Edges with nodes numbered through all graphs."""
        starts = self.node_counts.cumsum() - self.node_counts
        return self.edge_index + np.repeat(starts, self.edge_counts)


def place_within(row: int, counts: Array, what: str, graph_place: Place) -> str:
    """``graph 3, node 1``: a row as a part of its graph."""
    ends = counts.cumsum()
    graph = int(np.searchsorted(ends, row, side="right"))
    return f"{graph_place(graph)}, {what} {row - int(ends[graph] - counts[graph])}"


def name_columns(name: str, values: Array) -> dict[str, Array]:
    """The columns of a matrix by name: ``x`` if there is one, else ``x0``, ``x1``, ..."""
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}{i}": values[:, i] for i in range(values.shape[1])}


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
    empty = texts == b"" if texts.dtype.kind == "S" else np.isnan(texts) if texts.dtype.kind == "f" else texts != texts
    if empty.any():
        raise InputError(f"{place(int(empty.argmax()))}: the group {name!r} is empty; fill it in")
    return texts


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


def gather_attribute(
    graphs: Sequence[Any], name: str, place: Place, rows: Array | None = None, any_shape: bool = False
) -> list[Array] | None:
    """One attribute of every graph, or None if no graph has it. Graphs with no ``rows`` may leave it out."""
    values = [g.get(name) for g in graphs]
    have = [v is not None for v in values]
    if not any(have):
        return None
    first = have.index(True)
    example = to_array(values[first], name, place(first))
    arrays = []
    for i, value in enumerate(values):
        if value is None and (rows is None or rows[i]):
            raise InputError(f"{place(i)}: no {name}, which {place(first)} has")
        array = example[:0] if value is None else to_array(value, name, place(i))
        if array.ndim > 2 and not any_shape:
            raise InputError(f"{place(i)}: {name} has {array.ndim} dimensions; [rows, columns] is needed")
        arrays.append(array)
    return arrays


def stack_rows(name: str, arrays: Sequence[Array], place: Place) -> Array:
    """The rows of all graphs one after another; every graph must have as many columns as the first."""
    matrices = [as_matrix(a) for a in arrays]
    width = matrices[0].shape[1]
    for i, matrix in enumerate(matrices):
        if matrix.shape[1] != width:
            raise InputError(f"{place(i)}: {name} has {matrix.shape[1]} columns, but {place(0)} has {width}")
        if (matrix.dtype.kind == "S") != (matrices[0].dtype.kind == "S"):
            raise InputError(f"{place(i)}: {name} holds {matrix.dtype.name}, unlike {place(0)}")
    return np.concatenate(matrices)


def stack_columns(name: str, arrays: Sequence[Array] | None, place: Place) -> dict[str, Array]:
    """The rows of all graphs, by column name."""
    if arrays is None:
        return {}
    matrix = stack_rows(name, arrays, place)
    return name_columns(name, matrix) if matrix.shape[1] else {}


def check_lengths(arrays: Sequence[Array] | None, counts: Array, name: str, what: str, place: Place) -> None:
    """An error unless every graph has one row for each of its nodes or edges."""
    for i, array in enumerate(arrays or ()):
        rows = len(array) if array.ndim else 1
        if rows != counts[i]:
            raise InputError(f"{place(i)}: {name} has {rows} rows, but the graph has {counts[i]} {what}s")


def codes_of_rows(raw: RawGraphs, codes: Array) -> Array:
    """The code of each target row, from one for each graph."""
    counts = {"graph": np.ones(len(raw), np.int64), "node": raw.node_counts, "edge": raw.edge_counts}
    return np.repeat(codes, counts[raw.level])
