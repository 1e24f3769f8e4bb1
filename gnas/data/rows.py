"""Where each target came from: the number of its graph in the source, and its node or edge; and ``split.csv``, which says
the split of every row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from gnas.data.benchmark import Benchmark
from gnas.files import format_csv
from gnas.graph import GraphSet

MOST_SPLIT_ROWS = 2_000_000  # of split.csv; about 30 MB
MOST_PREDICTED_ROWS = 250_000  # of the predictions of one training; about 10 MB


def index_rows(graphs: GraphSet, in_split: bool = False) -> dict[str, Tensor]:
    """Columns that identify the targets: ``graph`` and, within it, ``node``, or ``edge`` with ``source`` and ``target``.

    Pairs of nodes have ``source`` and ``target``.

    All count from 0. ``graph`` is the number of the graph in the source. ``in_split`` leaves out the rows of other splits.
    """
    if graphs.level == "graph":
        index = {"graph": torch.arange(len(graphs))}
    elif graphs.level == "link":
        assert graphs.pairs is not None
        index = {"graph": torch.repeat_interleave(torch.arange(len(graphs)), graphs.pair_counts)}
        index["source"], index["target"] = graphs.pairs.long()
    else:
        nodes = graphs.level == "node"
        counts, ptr = (graphs.node_counts, graphs.node_ptr) if nodes else (graphs.edge_counts, graphs.edge_ptr)
        graph = torch.repeat_interleave(torch.arange(len(graphs)), counts)
        index = {"graph": graph, graphs.level: torch.arange(len(graph)) - ptr[graph]}
        if not nodes:
            index["source"], index["target"] = graphs.edge_index.long()
    if graphs.rows is not None:
        index["graph"] = graphs.rows[index["graph"]]
    if in_split and graphs.mask is not None:
        index = {name: column[graphs.mask] for name, column in index.items()}
    return index


def split_csv(benchmark: Benchmark) -> str | None:
    """The content of ``split.csv``: a line per row of train, val and test; None if there are too many of them."""
    splits = benchmark.splits()
    if sum(graphs.num_targets for graphs in splits.values()) > MOST_SPLIT_ROWS:
        return None
    parts = {name: index_rows(graphs, in_split=True) for name, graphs in splits.items()}
    names = [name for name in parts["train"] if name != "edge"]  # edges are sorted: their ends identify them
    columns: dict[str, list[object]] = {name: [] for name in (*names, "split")}
    for split, index in parts.items():
        for name in names:
            columns[name] += index[name].tolist()
        columns["split"] += [split] * (len(columns[names[0]]) - len(columns["split"]))
    return to_csv(columns)


def note_missing_tables(benchmark: Benchmark) -> tuple[str, ...]:
    """Notes on the tables that a run does not write because they would be too large."""
    rows = {name: graphs.num_targets for name, graphs in benchmark.splits().items()}
    notes = []
    if sum(rows.values()) > MOST_SPLIT_ROWS:
        notes.append(f"split.csv is not written: more than {MOST_SPLIT_ROWS:,} rows")
    if rows["val"] + rows["test"] > MOST_PREDICTED_ROWS:
        notes.append(
            f"predictions.csv is not written: more than {MOST_PREDICTED_ROWS:,} rows of validation and test; "
            "gnas predict writes them"
        )
    return tuple(notes)


def to_csv(columns: Mapping[str, Iterable[object]]) -> str:
    """Columns as CSV: floats with seven digits, all of them just below 1 (probabilities keep their order); no text for NaN."""
    return format_csv(columns, zip(*(map(_cell, column) for column in columns.values()), strict=True))


def _cell(value: object) -> object:
    if not isinstance(value, float):
        return value
    return f"{value:.{16 if 0.999 < value < 1 else 7}g}" if value == value else ""
