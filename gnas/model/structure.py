"""Measures that a node may read besides its own columns: the size of its graph and its degree.

Message passing sees the neighbourhood of a node, not the size of the graph. If the answer depends on the size (a part that is
dense for a graph of this size, say), a network without these measures can only guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gnas.errors import InputError, choose
from gnas.graph import GraphBatch, GraphSet

MEASURES = ("size", "degree")
AUTO, NONE = "auto", "none"  # the measures that differ from node to node; no measure


def parse_measures(requested: str | Sequence[str]) -> tuple[str, ...]:
    """Check the names of measures and return them in the order of ``MEASURES``; ``auto`` is returned as it is.

    >>> parse_measures("degree, size"), parse_measures("auto"), parse_measures("none")
    (('size', 'degree'), ('auto',), ())
    """
    words = requested.replace(",", " ").replace("+", " ").split() if isinstance(requested, str) else list(requested)
    for word in words:
        choose(word, (*MEASURES, AUTO, NONE), "structure")
        if word in (AUTO, NONE) and len(words) > 1:
            raise InputError(f"structure is {', '.join(words)}: {word} cannot be combined")
    return tuple(name for name in (*MEASURES, AUTO) if name in words)


def compute_measures(batch: GraphBatch, names: Sequence[str], dtype: torch.dtype) -> Tensor:
    """The measures of each node, ``[nodes, names]``. Each column is a logarithm, because ratios matter, not differences."""
    counts: dict[str, Callable[[], Tensor]] = {
        "degree": batch.neighbors.degree,
        "size": lambda: batch.members.degree().index_select(0, batch.batch),
    }
    return torch.stack([torch.log1p(counts[name]().to(dtype)) for name in names], dim=1)


def find_varying(graphs: GraphSet) -> tuple[str, ...]:
    """The measures that differ among the nodes of ``graphs``: the size of a single graph does not."""
    return tuple(name for name in MEASURES if _logarithms(graphs, name).unique().numel() > 1)


def compute_moments(graphs: GraphSet, names: Sequence[str]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and spread of each measure over all nodes of ``graphs``; a spread of 0 counts as 1."""
    values = [_logarithms(graphs, name) for name in names]
    spreads = (float(value.std(correction=0)) for value in values)
    return tuple(float(value.mean()) for value in values), tuple(spread or 1.0 for spread in spreads)


def _logarithms(graphs: GraphSet, name: str) -> Tensor:
    if name == "size":
        return torch.log1p(graphs.node_counts.repeat_interleave(graphs.node_counts).double())
    starts = graphs.node_ptr[:-1].repeat_interleave(graphs.edge_counts)
    degree = torch.bincount(graphs.edge_index[1].long() + starts, minlength=graphs.num_nodes)
    return torch.log1p(degree.double())
