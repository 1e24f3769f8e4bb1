"""What a node may read besides its own columns: the size of its graph and its degree.

Message passing sees a node's surroundings, not how large the graph is. Where the answer depends on that (a part that is denser
than one expects of a graph of this size), a network can only guess it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnas.errors import choose
from gnas.graph import GraphBatch, GraphSet

MEASURES = ("size", "degree")


def measure_names(asked: str | Sequence[str]) -> tuple[str, ...]:
    """Names of measures, checked, in the order of ``MEASURES``.

    >>> measure_names("degree, size")
    ('size', 'degree')
    """
    words = asked.replace(",", " ").replace("+", " ").split() if isinstance(asked, str) else list(asked)
    for word in words:
        choose(word, MEASURES, "structure")
    return tuple(name for name in MEASURES if name in words)


def measures(batch: GraphBatch, names: Sequence[str], dtype: torch.dtype) -> Tensor:
    """``[nodes, names]``, each column a logarithm: a ratio counts, not a difference."""
    counts = {"degree": batch.neighbors.degree, "size": lambda: batch.members.degree().index_select(0, batch.batch)}
    return torch.stack([torch.log1p(counts[name]().to(dtype)) for name in names], dim=1)


def moments(graphs: GraphSet, names: Sequence[str]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and spread of each measure over all nodes of ``graphs``; a spread of 0 counts as 1."""
    starts = graphs.node_ptr[:-1].repeat_interleave(graphs.edge_counts)
    counts = {
        "size": lambda: graphs.node_counts.repeat_interleave(graphs.node_counts),
        "degree": lambda: torch.bincount(graphs.edge_index[1].long() + starts, minlength=graphs.num_nodes),
    }
    values = [torch.log1p(counts[name]().double()) for name in names]
    spreads = (float(value.std(correction=0)) for value in values)
    return tuple(float(value.mean()) for value in values), tuple(spread or 1.0 for spread in spreads)
