"""Measures that nodes can read besides their own columns: the size of their graph and their degree.

Message passing reads the neighbourhood of a node, not the size of the graph. If the answer depends on the size (a part that is
denser than expected for a graph of this size), a network without it can only guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gnas.errors import InputError, choose
from gnas.graph import GraphBatch, GraphSet

MEASURES = ("size", "degree")
AUTO, NONE = "auto", "none"  # auto: all measures that differ between nodes; none: no measure


def measure_names(asked: str | Sequence[str]) -> tuple[str, ...]:
    """Names of measures, checked, in the order of ``MEASURES``; ``auto`` is returned unchanged.

    >>> measure_names("degree, size"), measure_names("auto"), measure_names("none")
    (('size', 'degree'), ('auto',), ())
    """
    words = asked.replace(",", " ").replace("+", " ").split() if isinstance(asked, str) else list(asked)
    for word in words:
        choose(word, (*MEASURES, AUTO, NONE), "structure")
        if word in (AUTO, NONE) and len(words) > 1:
            raise InputError(f"structure is {', '.join(words)}: {word} cannot be combined with others")
    return tuple(name for name in (*MEASURES, AUTO) if name in words)


def measures(batch: GraphBatch, names: Sequence[str], dtype: torch.dtype) -> Tensor:
    """``[nodes, names]``, each column a logarithm, so that ratios count, not differences."""
    counts: dict[str, Callable[[], Tensor]] = {
        "degree": batch.neighbors.degree,
        "size": lambda: batch.members.degree().index_select(0, batch.batch),
    }
    return torch.stack([torch.log1p(counts[name]().to(dtype)) for name in names], dim=1)


def varying(graphs: GraphSet) -> tuple[str, ...]:
    """The measures that differ between the nodes of ``graphs``; for a single graph the size does not."""
    return tuple(name for name in MEASURES if _logarithms(graphs, name).unique().numel() > 1)


def moments(graphs: GraphSet, names: Sequence[str]) -> tuple[tuple[float, ...], tuple[float, ...]]:
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
