"""Several aggregations of messages that exist as rows, one for each edge, in one pass over the edges."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnas.kernels.aggregate import reduce, symmetric_scales
from gnas.model.edges import Edges
from gnas.model.operations.aggregators import AGGREGATOR_TYPES

Wanted = tuple[int, str]  # a link and the aggregator of its messages
Column = tuple[str, int]  # "value", "square" or "scaled", and a link
REDUCTIONS = {name: kind.reduction for name, kind in AGGREGATOR_TYPES.items() if kind.reduction is not None}


def reduce_messages(messages: Tensor, wanted: Sequence[Wanted], edges: Edges) -> dict[Wanted, Tensor]:
    """Aggregate ``[edges, links, channels]``: for each of ``wanted`` a tensor ``[nodes, channels]``."""
    channels = messages.size(2)
    sums = list(dict.fromkeys((form, row) for row, name in wanted for form in REDUCTIONS[name].sums))
    maxima = list(dict.fromkeys(("value", row) for row, name in wanted if not REDUCTIONS[name].sums))
    both = [one for one in sums if one in maxima]
    sums = [*(one for one in sums if one not in maxima), *both]
    order = [*sums, *(one for one in maxima if one not in both)]
    maxima = order[len(sums) - len(both) :] if maxima else []
    total, largest = reduce(
        _arrange(messages, order, edges),
        edges.incoming,
        len(sums) * channels,
        (len(sums) - len(both)) * channels if maxima else len(order) * channels,
    )
    # Not by indices: the gradient of one is a tensor of zeros and a copy.
    summed, highest = _columns(total, len(sums)), _columns(largest, len(maxima))
    found = {}
    for row, name in wanted:
        one = REDUCTIONS[name]
        if one.sums:
            parts = [summed[sums.index((form, row))] for form in one.sums]
            found[row, name] = parts[0] if one.finish is None else one.finish(parts, edges.neighbors)
        else:
            found[row, name] = highest[maxima.index(("value", row))]
    return found


def _columns(values: Tensor, count: int) -> Sequence[Tensor]:
    """``count`` columns of equal width."""
    return values.chunk(count, dim=1) if count > 1 else (values,) * count


def _arrange(messages: Tensor, order: Sequence[Column], edges: Edges) -> Tensor:
    """The columns in this order, side by side; without a copy if they are the messages of all links."""
    if list(order) == [("value", row) for row in range(messages.size(1))]:
        return messages.flatten(1)
    sent = None
    if any(form == "scaled" for form, _ in order):
        sent = edges.at_sources(symmetric_scales(edges.neighbors, messages.dtype)[0])
    parts = []
    for form, row in order:
        value = messages[:, row]
        parts.append(
            value.square() if form == "square" else value * sent if form == "scaled" and sent is not None else value
        )
    return torch.cat(parts, dim=1)
