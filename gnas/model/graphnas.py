"""GraphNAS's layers on a GraphBatch: an attention, an aggregator, an activation, in several heads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.arch.graphnas import GraphNASArchitecture, LayerChoice
from gnas.graph import GraphBatch, Neighbors
from gnas.kernels.aggregate import aggregate, edge_scores, weighted_sum
from gnas.model.edges import Edges
from gnas.model.encoder import Encoder
from gnas.model.head import Head
from gnas.model.network import GraphModule
from gnas.model.stacked import BatchNorm, Linear
from gnas.model.task import Task

POOL = 128  # hidden width of the perceptron behind the pooling aggregators
SLOPE = 0.2
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "linear": lambda h: h,
    "softplus": F.softplus,
    "leaky_relu": F.leaky_relu,
    "relu6": F.relu6,
    "elu": F.elu,
}
# Vectors each attention learns for every head; gene_linear has one more, which its heads share.
VECTORS = {"gat": 2, "gcn": 0, "cos": 2, "const": 0, "sym-gat": 2, "linear": 1, "gene_linear": 2}


class GraphNASLayer(nn.Module):
    r"""One layer; i receives from its neighbours j and from itself.

    .. math::
        z = W\,\mathrm{BN}(h), \qquad m_j = z_j \text{ or } \mathrm{MLP}(z_j), \qquad
        h_i' = act(\|_{heads}\, agg_j\, e_{ij} m_j + b + W_r\,\mathrm{BN}(h_i))

    ``e_ij`` is 1 (const), :math:`(d_i d_j)^{-1/2}` (gcn), or a softmax over j of the scores of :func:`score`. The
    aggregators other than sum pass messages through a perceptron the heads share, then take their mean, maximum or (mlp)
    sum. One self loop is added to every node. Without ``concat``, in the last layer, heads are averaged.

    The released code applies its perceptron to :math:`e_{ij} z_j` edge by edge and without a nonlinearity; here it has
    one, and runs once per node.
    """

    def __init__(self, in_channels: int, choice: LayerChoice, concat: bool = True) -> None:
        super().__init__()
        self.choice, self.concat = choice, concat
        heads, width = choice.heads, choice.width
        out_channels = heads * width if concat else width
        self.norm = BatchNorm(in_channels)
        self.linear = Linear(in_channels, heads * width, bias=False)
        self.residual = Linear(in_channels, out_channels)
        rows = [heads] * VECTORS[choice.attention] + [1] * (choice.attention == "gene_linear")
        self.vectors = nn.ParameterList(torch.empty(count, width) for count in rows)
        pooling = choice.aggregator != "sum"
        self.pool = nn.Sequential(Linear(width, POOL), nn.ReLU(), Linear(POOL, width)) if pooling else None
        for weight in (self.linear.weight, *self.vectors):
            nn.init.xavier_uniform_(weight)

    def forward(self, h: Tensor, batch: GraphBatch, edges: Edges) -> Tensor:
        h = self.norm(h, batch.node_mask)
        out = self.gather(self.linear(h), batch, edges)
        if not self.concat:
            out = out.unflatten(1, (self.choice.heads, -1)).mean(1)
        return ACTIVATIONS[self.choice.activation](out + self.residual(h))

    def gather(self, z: Tensor, batch: GraphBatch, edges: Edges) -> Tensor:
        """Weighted messages of neighbours and of the node itself, aggregated: ``[nodes, heads * width]``."""
        heads = z.unflatten(1, (self.choice.heads, -1))
        message = z if self.pool is None else self.pool(heads).flatten(1)
        kind = self.choice.attention
        if kind == "const":
            return self.reduce(message, message, batch, None)
        if kind == "gcn":  # the factor of the receiver is positive, so it can be applied after the maximum
            sent, received = (_degree(ptr, z) for ptr in (batch.neighbors.back_ptr, batch.neighbors.ptr))
            return self.reduce(message * sent, message * sent, batch, None) * received
        at_edges, own, total = self.attend(heads, edges)
        mine = (message.unflatten(1, heads.shape[1:]) * own[:, :, None]).flatten(1)
        if self.choice.aggregator == "max-pooling":  # the only case that needs the weighted messages
            messages = edges.at_sources(message).unflatten(1, heads.shape[1:]) * at_edges[:, :, None]
            out = self.reduce(messages.flatten(1), mine, batch, edges)
        else:
            out = self.combine(weighted_sum(message, at_edges, edges.neighbors) + mine, batch.neighbors)
        return (out.unflatten(1, heads.shape[1:]) / total[:, :, None]).flatten(1)

    def attend(self, heads: Tensor, edges: Edges) -> tuple[Tensor, Tensor, Tensor]:
        """Unnormalised softmax weights of edges and of self loops, and their sum at each node, for every head."""
        receiver, sender = self.ends(heads)
        own = self.score(receiver, sender)
        if self.choice.attention in ("cos", "gene_linear"):
            neighbours = edge_scores(receiver, sender, edges.neighbors, *(v[0] for v in self.vectors[2:]))
        else:
            at_targets, at_sources = edges.at_targets(receiver.flatten(1)), edges.at_sources(sender.flatten(1))
            neighbours = self.score(at_targets.view(-1, *receiver.shape[1:]), at_sources.view(-1, *sender.shape[1:]))
        # A constant added at a node does not change the softmax, so the largest score needs no gradient.
        largest = torch.maximum(aggregate(neighbours.detach(), edges.incoming, "max"), own.detach())
        highest = torch.where(edges.incoming.degree()[:, None] > 0, largest, own.detach())
        at_edges, own = torch.exp(neighbours - edges.at_targets(highest)), torch.exp(own - highest)
        return at_edges, own, aggregate(at_edges, edges.incoming, "sum") + own

    def ends(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """What a score reads of its receiver and of its sender, computed once per node: ``[nodes, heads, numbers]``.

        One or two numbers for a score of dot products, not ``width``: on long edge lists that is most of the time.
        """
        kind = self.choice.attention
        if kind == "linear":
            dot = (self.vectors[0] * z).sum(-1, keepdim=True)
            return dot, dot
        left, right = self.vectors[0] * z, self.vectors[1] * z
        if kind in ("gat", "sym-gat"):
            left, right = left.sum(-1, keepdim=True), right.sum(-1, keepdim=True)
        return (torch.cat([left, right], -1), torch.cat([right, left], -1)) if kind == "sym-gat" else (left, right)

    def score(self, receiver: Tensor, sender: Tensor) -> Tensor:
        r"""Scores of receivers i and senders j, by what :meth:`ends` gave; l and r are learned, v shared by heads.

        gat: :math:`\mathrm{LeakyReLU}(l \cdot z_i + r \cdot z_j)`; sym-gat: that plus the same with i and j exchanged;
        cos: :math:`(l \odot z_i) \cdot (r \odot z_j)`; linear: :math:`\tanh(l \cdot z_j)`;
        gene_linear: :math:`v \cdot \tanh(l \odot z_i + r \odot z_j)`.
        """
        kind = self.choice.attention
        if kind == "linear":
            return torch.tanh(sender).sum(-1)
        if kind in ("gat", "sym-gat"):
            return F.leaky_relu(receiver + sender, SLOPE).sum(-1)
        if kind == "cos":
            return (receiver * sender).sum(-1)
        return (torch.tanh(receiver + sender) * self.vectors[2]).sum(-1)

    def reduce(self, messages: Tensor, own: Tensor, batch: GraphBatch, edges: Edges | None) -> Tensor:
        """Aggregate messages, which stand at edges or (``edges`` None) at their senders, and each node's own one."""
        near = batch.neighbors if edges is None else edges.incoming
        degree = near.degree()[:, None]
        if self.choice.aggregator == "max-pooling":
            largest = aggregate(messages, near, "max")
            return torch.where(degree > 0, torch.maximum(largest, own), own)
        return self.combine(aggregate(messages, near, "sum") + own, near)

    def combine(self, total: Tensor, near: Neighbors) -> Tensor:
        """A sum, or over the number of its terms."""
        return total / (near.degree()[:, None] + 1) if self.choice.aggregator == "mean-pooling" else total


def _degree(ptr: Tensor, like: Tensor) -> Tensor:
    """1 / sqrt(degree) as a column, the self loop counted."""
    return (ptr.diff() + 1).to(like.dtype).rsqrt()[:, None]


class GraphNASNetwork(GraphModule):
    """Encoder, the layers of an architecture, head."""

    def __init__(self, architecture: GraphNASArchitecture, task: Task) -> None:
        super().__init__()
        self.architecture, self.task = architecture, task
        self.options = {"dropout": 0.0}
        self.encoder = Encoder(task, architecture.channels)
        width, last = architecture.channels, len(architecture.layers) - 1
        self.layers = nn.ModuleList()
        for number, choice in enumerate(architecture.layers):
            self.layers.append(GraphNASLayer(width, choice, number < last))
            width = choice.heads * choice.width
        self.head = Head(task, architecture.layers[-1].width)

    def run(self, batch: GraphBatch) -> Tensor:
        h, edges = self.encoder(batch), Edges.of(batch)
        for layer in self.layers:
            h = layer(h, batch, edges)
        return self.head(h, batch)


def count_weights(layers: Sequence[LayerChoice], channels: int, task: Task) -> int:
    """Number of weights of the network of these layers, without building it."""
    total, width = frame_weights(task, channels, layers[-1].width), channels
    for number, choice in enumerate(layers):
        heads = choice.heads * choice.width
        out = choice.width if number == len(layers) - 1 else heads
        total += 2 * width + width * heads + width * out + out + VECTORS[choice.attention] * heads
        total += choice.width if choice.attention == "gene_linear" else 0
        total += 0 if choice.aggregator == "sum" else 2 * POOL * choice.width + POOL + choice.width
        width = heads
    return total


@functools.cache
def frame_weights(task: Task, channels: int, width: int) -> int:
    """Weights of the encoder and the head."""
    with torch.device("meta"):
        parts = [Encoder(task, channels), Head(task, width)]
    return sum(p.numel() for part in parts for p in part.parameters())
