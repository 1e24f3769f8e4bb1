"""What a node may read besides its own columns: the size of its graph and its degree.

Message passing sees a node's surroundings, not how large the graph is. Where the answer depends on that (a part that is denser
than one expects of a graph of this size), a network can only guess it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gnas.errors import InputError, choose
from gnas.graph import GraphBatch, GraphSet

MEASURES = ("size", "degree")
AUTO, NONE = "auto", "none"  # all that differ from node to node, where they can be measured; and no measure


def measure_names(asked: str | Sequence[str]) -> tuple[str, ...]:
    """Names of measures, checked, in the order of ``MEASURES``; ``auto`` stays one word.

    >>> measure_names("degree, size"), measure_names("auto"), measure_names("none")
    (('size', 'degree'), ('auto',), ())
    """
    words = asked.replace(",", " ").replace("+", " ").split() if isinstance(asked, str) else list(asked)
    for word in words:
        choose(word, (*MEASURES, AUTO, NONE), "structure")
        if word in (AUTO, NONE) and len(words) > 1:
            raise InputError(f"structure is {', '.join(words)}: {word} stands by itself")
    return tuple(name for name in (*MEASURES, AUTO) if name in words)


def measures(batch: GraphBatch, names: Sequence[str], dtype: torch.dtype) -> Tensor:
    """``[nodes, names]``, each column a logarithm: a ratio counts, not a difference."""
    counts: dict[str, Callable[[], Tensor]] = {
        "degree": batch.neighbors.degree,
        "size": lambda: batch.members.degree().index_select(0, batch.batch),
    }
    return torch.stack([torch.log1p(counts[name]().to(dtype)) for name in names], dim=1)


def varying(graphs: GraphSet) -> tuple[str, ...]:
    """The measures that differ among the nodes of ``graphs``: of a single graph the size does not."""
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
