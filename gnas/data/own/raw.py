"""Graphs as they were found: flat numpy columns and where each row came from, before anything is encoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gnas.data.encoding import Array, Column, Place
from gnas.errors import InputError

SPLIT_NAMES = ("train", "val", "test")
SPLIT_CODES = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2}


@dataclass(frozen=True)
class Reading:
    """How a source is read: what the caller said of it."""

    target: tuple[str, ...] = ()
    level: str | None = None
    text: tuple[str, ...] = ()  # columns in which texts may stand by numbers
    text_labels: bool = False  # the same for targets
    given: bool = True  # use the splits that come with the data
    unlabelled: bool = False  # targets may be missing
    skip_bad: bool = False  # leave out SMILES that do not parse, or hold what ``known`` does not know
    known: tuple[Column, ...] = ()  # of the network that is to read the graphs


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
    smiles: tuple[str, ...] = ()
    kept: Array | None = None  # [G] rows of the source that the graphs were read from; None: all of them
    asked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    graph_place: Place = field(default=lambda g: f"graph {g}")
    node_lines: Place | None = None
    edge_lines: Place | None = None

    def __len__(self) -> int:
        return len(self.node_counts)

    @property
    def num_rows(self) -> int:
        """Rows of the targets."""
        counts = {"graph": len(self), "node": self.node_counts.sum(), "edge": self.edge_counts.sum()}
        return int(counts[self.level])

    def node_place(self, row: int) -> str:
        """Where a node came from, for an error line."""
        return self.node_lines(row) if self.node_lines else self._within(row, self.node_counts, "node")

    def edge_place(self, row: int) -> str:
        return self.edge_lines(row) if self.edge_lines else self._within(row, self.edge_counts, "edge")

    def target_place(self, row: int) -> str:
        places = {"graph": self.graph_place, "node": self.node_place, "edge": self.edge_place}
        return places[self.level](row)

    def _within(self, row: int, counts: Array, what: str) -> str:
        ends = counts.cumsum()
        graph = int(np.searchsorted(ends, row, side="right"))
        return f"{self.graph_place(graph)}, {what} {row - int(ends[graph] - counts[graph])}"


def flat_edges(node_counts: Array, edge_counts: Array, edge_index: Array) -> Array:
    """Edges with node numbers counted through all graphs."""
    starts = node_counts.cumsum() - node_counts
    return edge_index + np.repeat(starts, edge_counts)


def matrix_columns(name: str, values: Array) -> dict[str, Array]:
    """The columns of a matrix by name: ``x`` alone, or ``x0``, ``x1``, ..."""
    if values.shape[1] == 1:
        return {name: values[:, 0]}
    return {f"{name}{i}": values[:, i] for i in range(values.shape[1])}


def split_codes(texts: Array, place: Place) -> Array:
    """Codes of the words train, val and test."""
    words = [t.decode(errors="replace").strip().lower() for t in texts.tolist()]
    codes = np.array([SPLIT_CODES.get(w, -1 if w == "" else -2) for w in words], np.int8)
    if (codes == -2).any():
        row = int((codes == -2).argmax())
        raise InputError(f"{place(row)}: split is {words[row]!r}; write train, val or test")
    return codes
