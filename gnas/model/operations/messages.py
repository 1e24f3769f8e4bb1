"""Messages: what a node receives along one edge, from the sender, both ends and the edge's state.

The latent node of a link is :math:`h`; :math:`i` receives and :math:`j` sends. Messages other than ``plain`` may read the
state :math:`e_{ij}` of the edge and the relation :math:`r_{ij} = A x_i + B x_j + C e_{ij}` of the cell (``Relation``).
One module holds the messages of one kind of all links of a cell. Links with several aggregators share their messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.arch.operation import Code
from gnas.kernels import fused
from gnas.kernels.aggregate import aggregate, symmetric_scales, weighted_sum
from gnas.model.edges import EdgeInputs
from gnas.model.operations.reduction import REDUCTIONS, Wanted, reduce_messages
from gnas.model.stacked import StackedLinear

WEIGHTED = ("sum", "mean", "symmetric")  # aggregators that are sums with a weight for each edge
SLOPE = 0.2  # of attention's activation below zero, as in GATv2
MOST_HEADS = 4


class Message(nn.Module):
    """Messages of one kind for ``count`` links. ``forward`` aggregates them: one result for each of ``wanted``."""

    reads_relation: ClassVar[bool] = True

    def __init__(self, channels: int, count: int) -> None:
        super().__init__()

    def forward(self, h: Tensor, related: EdgeInputs, wanted: Sequence[Wanted]) -> Tensor:
        """``h`` is ``[links, nodes, channels]``; returns ``[wanted, nodes, channels]``."""
        found = self.reduce(h, related, wanted)
        return torch.stack([found[one] for one in wanted]) if len(wanted) > 1 else found[wanted[0]][None]

    def reduce(self, h: Tensor, related: EdgeInputs, wanted: Sequence[Wanted]) -> Mapping[Wanted, Tensor]:
        """The aggregations of ``wanted``, each ``[nodes, channels]``."""
        raise TypeError(f"{type(self).__name__} must define reduce()")

    @classmethod
    def export_code(cls, aggregator: str, channels: int) -> Code:
        """One message under one aggregator as plain PyTorch, with the names of this module's layers."""
        raise TypeError(f"{cls.__name__} must define export_code()")


class EdgeMessage(Message):
    r"""The sender and the edge: :math:`\mathrm{ReLU}(h_j + W e_{ij})`, as in GINE."""

    reads_relation = False

    def __init__(self, channels: int, count: int) -> None:
        super().__init__(channels, count)
        self.edge = StackedLinear(count, channels, channels)

    def reduce(self, h: Tensor, related: EdgeInputs, wanted: Sequence[Wanted]) -> Mapping[Wanted, Tensor]:
        e, edges = related.e, related.edges
        assert e is not None
        if edges.have(e) and fused.joins(h, e):
            (weight, bias), sent = self.edge.wide_weights(), _side_by_side(h)
            around = fused.Around(ends=sent, neighbors=edges.neighbors, relu=True)
            assert bias is not None
            messages = fused.linear([e[None]], weight[None], bias.view(1, 1, -1), around).squeeze(0)
        else:
            messages = F.relu(edges.at_sources(_side_by_side(h)) + self.edge.wide(e))
        return reduce_messages(messages.unflatten(1, (h.size(0), -1)), wanted, edges)

    @classmethod
    def export_code(cls, aggregator: str, channels: int) -> Code:
        return Code(
            f"The {REDUCTIONS[aggregator].words} messages of the sender and the edge.",
            ("self.edge = nn.Linear(channels, channels)",),
            "edge_index, e",
            ("message = F.relu(h[edge_index[0]] + self.edge(e))",),
            _received("message", aggregator),
        )


class PairMessage(Message):
    r"""Both ends and the edge: :math:`r_{ij}` itself, as in PNA. It does not read the latent node of the link."""

    def reduce(self, h: Tensor, related: EdgeInputs, wanted: Sequence[Wanted]) -> Mapping[Wanted, Tensor]:
        rows = {(0, name): None for _, name in wanted}
        found = reduce_messages(related.relation()[:, None], list(rows), related.edges)
        return {(row, name): found[0, name] for row, name in wanted}

    @classmethod
    def export_code(cls, aggregator: str, channels: int) -> Code:
        doc = f"The {REDUCTIONS[aggregator].words} relations of a node to its senders."
        return Code(doc, reads="edge_index, r", value=_received("r", aggregator))


class GatedMessage(Message):
    r"""The sender through a gate: :math:`\sigma(r_{ij}) \odot V h_j`, as in GatedGCN.

    The mean is weighted by the gates: :math:`\sum_j \sigma(r_{ij}) \odot V h_j / (\sum_j \sigma(r_{ij}) + 10^{-6})`.
    """

    def __init__(self, channels: int, count: int) -> None:
        super().__init__(channels, count)
        self.value = StackedLinear(count, channels, channels)

    def reduce(self, h: Tensor, related: EdgeInputs, wanted: Sequence[Wanted]) -> Mapping[Wanted, Tensor]:
        edges, values, relation = related.edges, self.value(h), related.relation()
        alone = wanted[0] if len(set(wanted)) == len(values) == 1 else None
        if alone in ((0, "sum"), (0, "mean")) and fused.has_kernels(relation, values):
            return {alone: fused.gated_sum(relation, values.squeeze(0), edges.neighbors, alone[1] == "mean")}
        gate = torch.sigmoid(relation)
        found: dict[Wanted, Tensor] = {}
        if sums := [one for one in wanted if one[1] in WEIGHTED]:
            columns, stack = _scaled_values(values, sums, related)
            # A gate serves its channel of all links: they are next to each other.
            rows = stack.permute(1, 2, 0).flatten(1)
            total = weighted_sum(rows, gate, edges.neighbors).unflatten(1, (-1, len(columns)))
            gates = aggregate(gate, edges.incoming, "sum") + 1e-6 if any(name == "mean" for _, name in sums) else None
            for row, name in sums:
                value = total[:, :, columns.index((row, name == "symmetric"))]
                found[row, name] = _finish(value if name != "mean" or gates is None else value / gates, name, related)
        if rest := [one for one in wanted if one[1] not in WEIGHTED]:
            sent = edges.at_sources(_side_by_side(values)).unflatten(1, (len(values), -1))
            found |= reduce_messages(gate[:, None] * sent, rest, edges)
        return found

    @classmethod
    def export_code(cls, aggregator: str, channels: int) -> Code:
        steps: tuple[str, ...] = ("gate = torch.sigmoid(r)", "message = gate * self.value(h)[edge_index[0]]")
        value = _received("message", aggregator)
        if aggregator == "mean":
            steps = (*steps, f"total = {_received('message', 'sum')}", f"gates = {_received('gate', 'sum')}")
            value = "total / (gates + 1e-6)"
        return Code(
            f"The {REDUCTIONS[aggregator].words} senders' values, each through the gate of its edge.",
            ("self.value = nn.Linear(channels, channels)",),
            "edge_index, r",
            steps,
            value,
        )


class AttentionMessage(Message):
    r"""The sender by attention: :math:`\mathrm{softmax}_j(a \cdot \mathrm{LeakyReLU}(r_{ij}))\, V h_j`, as in GATv2.

    There are as many heads as divide the channels, four at most. The weights of a node's senders add up to 1, so the mean is
    the sum.
    """

    def __init__(self, channels: int, count: int) -> None:
        super().__init__(channels, count)
        self.heads = _count_heads(channels)
        self.value = StackedLinear(count, channels, channels)
        self.score = nn.Parameter(torch.empty(count, self.heads, channels // self.heads))
        nn.init.xavier_uniform_(self.score)

    def reduce(self, h: Tensor, related: EdgeInputs, wanted: Sequence[Wanted]) -> Mapping[Wanted, Tensor]:
        edges, values = related.edges, self.value(h)
        weight, total = self.weights(related)
        found: dict[Wanted, Tensor] = {}
        if sums := [one for one in wanted if one[1] in WEIGHTED]:
            columns, stack = _scaled_values(values, sums, related)
            links = [row for row, _ in columns]
            weights, totals = _columns(weight, links), _columns(total, links)
            mixed = weighted_sum(_side_by_side(stack), weights.flatten(1), edges.neighbors)
            mixed = (mixed.unflatten(1, (len(links), self.heads, -1)) / totals[..., None]).flatten(2)
            for row, name in sums:
                found[row, name] = _finish(mixed[:, columns.index((row, name == "symmetric"))], name, related)
        if rest := [one for one in wanted if one[1] not in WEIGHTED]:
            share = weight / edges.at_targets(total.flatten(1)).view_as(weight).clamp_min(1)
            sent = edges.at_sources(_side_by_side(values)).unflatten(1, (*share.shape[1:], -1))
            found |= reduce_messages((share[..., None] * sent).flatten(2), rest, edges)
        return found

    @classmethod
    def export_code(cls, aggregator: str, channels: int) -> Code:
        heads = _count_heads(channels)
        return Code(
            f"The {REDUCTIONS[aggregator].words} senders' values by attention of {heads} head{'s' if heads > 1 else ''}.",
            (
                "self.value = nn.Linear(channels, channels)",
                f"self.score = nn.Parameter(torch.zeros({heads}, channels // {heads}))",
            ),
            "edge_index, r",
            (
                f"bent = F.leaky_relu(r, {SLOPE}).unflatten(1, self.score.shape)",
                "score = (bent * self.score).sum(dim=2, keepdim=True)",
                "share = softmax(score, edge_index[1], num_nodes=h.size(0))",
                "value = self.value(h)[edge_index[0]].unflatten(1, self.score.shape)",
                "message = (share * value).flatten(1)",
            ),
            _received("message", "sum" if aggregator == "mean" else aggregator),
        )

    def weights(self, related: EdgeInputs) -> tuple[Tensor, Tensor]:
        """``exp(score)`` of each edge, ``[edges, links, heads]``, and its sum for each receiver."""
        edges = related.edges
        bent = F.leaky_relu(related.relation(), SLOPE).unflatten(1, (self.heads, -1))
        score = torch.einsum("ehd,lhd->elh", bent, self.score)
        shape = score.shape
        score = score.flatten(1)
        if edges.mask is not None:  # padding edges could overflow
            score = score.masked_fill(~edges.mask[:, None], 0.0)
        # Softmax does not see a constant added at a node, so the largest score may go without a gradient.
        highest = aggregate(score.detach(), edges.incoming, "max")
        weight = torch.exp(score - edges.at_targets(highest))
        # The largest weight is 1: a sum below 1 is the 0 of a node without senders.
        total = aggregate(weight, edges.incoming, "sum").clamp_min(1)
        return weight.view(shape), total.view(-1, *shape[1:])


def _count_heads(channels: int) -> int:
    """As many heads as divide the channels, four at most."""
    return next(heads for heads in range(MOST_HEADS, 0, -1) if channels % heads == 0)


def _received(messages: str, aggregator: str) -> str:
    """What a node receives of its messages, as an expression of exported code."""
    return REDUCTIONS[aggregator].code.format(messages)


def _side_by_side(h: Tensor) -> Tensor:
    """``[links, nodes, channels]`` as one row for each node."""
    return h.squeeze(0) if h.size(0) == 1 else h.transpose(0, 1).flatten(1)


def _columns(values: Tensor, links: list[int]) -> Tensor:
    """``values[:, links]``; without a copy if these are all of them in order."""
    if links == list(range(values.size(1))):
        return values
    return torch.stack([values[:, link] for link in links], dim=1)


def _scaled_values(
    values: Tensor, wanted: Sequence[Wanted], related: EdgeInputs
) -> tuple[list[tuple[int, bool]], Tensor]:
    """What is summed: the values of each link, and if ``symmetric`` is wanted those scaled by the sender's degree."""
    columns = list(dict.fromkeys((row, name == "symmetric") for row, name in wanted))
    if columns == [(row, False) for row in range(len(values))]:
        return columns, values
    sent, _ = symmetric_scales(related.edges.neighbors, values.dtype)
    return columns, torch.stack([values[row] * sent if scaled else values[row] for row, scaled in columns])


def _finish(value: Tensor, name: str, related: EdgeInputs) -> Tensor:
    return value * symmetric_scales(related.edges.neighbors, value.dtype)[1] if name == "symmetric" else value


MESSAGE_TYPES: Mapping[str, type[Message]] = {
    "edge": EdgeMessage,
    "gated": GatedMessage,
    "attention": AttentionMessage,
    "pair": PairMessage,
}
