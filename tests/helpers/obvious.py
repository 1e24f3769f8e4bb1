"""The slow, obvious evaluation: one operation at a time, a dense adjacency matrix, plain autograd, any dtype.

Nothing here is shared with the package but names and the parameters themselves, so gradients can be compared tensor by tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnas.arch.operation import AGGREGATORS, FILTERS
from gnas.graph import GraphBatch

Weights = Mapping[str, Tensor]
Link = tuple[int, int, str, Tensor | float]  # source, target, operation, its share of the mix

BARE = {
    "paper": {"skip"},
    "reference": {"skip", "identity"},
    "bare": {*FILTERS, *AGGREGATORS},
}
SEARCH_SLOPE = {"paper": 0.0, "reference": 0.1, "bare": 0.0}
TRAIN_SLOPE = {"paper": 0.0, "reference": 0.01, "bare": 0.0}
OWN = {  # user-defined operations; the test modules hold the same as classes
    "own_filter": lambda h, x, adjacency: torch.tanh(h) * x,
    "own_median": lambda h, x, adjacency: dense_aggregate(adjacency, h, "max") - dense_aggregate(adjacency, h, "mean"),
}


# -- graphs ---------------------------------------------------------------------------------------------------------


def dense_adjacency(edge_index: Tensor, receivers: int, senders: int | None = None) -> Tensor:
    """``A[i, j]``: how many edges lead from j to i."""
    matrix = torch.zeros(receivers, senders or receivers, dtype=torch.long)
    for source, target in edge_index.T.tolist():
        matrix[target, source] += 1
    return matrix


def dense_aggregate(adjacency: Tensor, h: Tensor, how: str) -> Tensor:
    """Zeros without senders; the gradient of a maximum goes to the first sender that reaches it."""
    weight = adjacency.to(h.dtype)
    if how == "sum":
        return weight @ h
    if how == "mean":
        return (weight @ h) / weight.sum(1, keepdim=True).clamp_min(1)
    if how == "std":
        mean, count = dense_aggregate(adjacency, h, "mean"), weight.sum(1, keepdim=True).clamp_min(1)
        squares = (weight[:, :, None] * (h[None] - mean[:, None]).square()).sum(1) / count
        return torch.where(squares > 1e-5, squares.clamp_min(1e-5).sqrt(), torch.zeros_like(squares))
    assert how == "max"
    rows = []
    for row in adjacency > 0:
        senders = torch.nonzero(row).flatten()
        rows.append(_first_max(h[senders]) if len(senders) else h.new_zeros(h.size(1)))
    return torch.stack(rows) if rows else h.new_zeros(0, h.size(1))


def _first_max(values: Tensor) -> Tensor:
    reached = values.detach() == values.detach().amax(0)
    first = reached.int().argmax(0)  # of equal values argmax gives the first
    return values.gather(0, first[None])[0]


# -- operations -----------------------------------------------------------------------------------------------------


def operation(name: str, h: Tensor, x: Tensor, adjacency: Tensor, weights: Weights, variant: str = "paper") -> Tensor:
    """One operation on ``h``; ``x`` is the cell's input."""
    if name in ("identity", "skip"):
        return h
    if name in ("sparse", "dense"):
        gate = torch.cat([h, x], 1) @ weights["gate.weight"] + weights["gate.bias"]
        if name == "sparse" and variant == "reference":
            gate = gate.relu() @ weights["last.weight"]
        assert gate.shape == (len(h), 1 if name == "sparse" else h.size(1))
        return h / (1 + torch.exp(-gate))
    if name in OWN:
        return OWN[name](h, x, adjacency)
    if name == "symmetric":
        received, sent = (adjacency.sum(axis).clamp_min(1) for axis in (1, 0))
        return (adjacency / (received[:, None] * sent[None, :]).to(h.dtype).sqrt()) @ h
    if name in ("mean", "max") and variant == "reference":
        h = (h @ weights["message.weight"] + weights["message.bias"]).relu()
    return dense_aggregate(adjacency, h, name)


def normalised(
    h: Tensor, weights: Weights, training: bool, prefix: str = "norm.", mask: Tensor | None = None
) -> Tensor:
    """Batch normalisation with the statistics of the batch (training) or the running ones."""
    real = h if mask is None else h[mask]
    mean = real.mean(0) if training else weights[prefix + "running_mean"]
    var = (real - mean).square().mean(0) if training else weights[prefix + "running_var"]
    return (h - mean) / torch.sqrt(var + 1e-5) * weights[prefix + "weight"] + weights[prefix + "bias"]


def transformed(h: Tensor, weights: Weights, training: bool) -> Tensor:
    """Linear without a bias and batch norm, or linear with a bias where the norm was turned off; ReLU."""
    h = h @ weights["linear.weight"]
    return (normalised(h, weights, training) if "norm.weight" in weights else h + weights["linear.bias"]).relu()


# -- cells and networks ---------------------------------------------------------------------------------------------


def tensors(module: nn.Module, row: int) -> dict[str, Tensor]:
    """Parameters and buffers of one row of a stack, still attached to the stack's gradient."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: value[row] for name, value in named}


def places(cell: nn.Module) -> dict[tuple[int, int, str], list[dict[str, Tensor]]]:
    """Tensors of every operation of a cell, by (source, target, operation): its own, then those of what follows it."""
    return {
        key: [tensors(module, row) for module, row in pairs]
        for stage in cell.stages
        for key, pairs in stage.places().items()
    }


def latent_nodes(
    cell: nn.Module, links: Iterable[Link], x: Tensor, adjacency: Tensor, variant: str
) -> dict[int, Tensor]:
    """Every latent node of a cell; a link counts with its share."""
    found, nodes = places(cell), {0: x}
    for source, target, name, share in sorted(links, key=lambda link: link[1]):
        nodes.setdefault(target, torch.zeros_like(x))
        if name == "zero":
            continue
        own, *rest = found[source, target, name]
        value = operation(name, nodes[source], x, adjacency, own, variant)
        assert bool(rest) == (name not in BARE[variant])
        value = transformed(value, rest[0], cell.training) if rest else value
        nodes[target] = nodes[target] + share * value
    return nodes


def fused(cell: nn.Module, branches: list[Tensor], fusion: str = "concat", slope: float = 0.0) -> Tensor:
    """What becomes of a cell's outputs, without the residual."""
    if fusion == "concat":
        h = torch.cat(branches, 1)
    elif fusion == "max":
        h = branches[0]
        for branch in branches[1:]:
            h = torch.maximum(h, branch)
    else:
        h = sum(branches) / (len(branches) if fusion == "mean" else 1)
    h = h @ cell.fuse.weight[0]
    if cell.norm is None:
        h = h + cell.fuse.bias[0]
    else:
        h = normalised(h, tensors(cell.norm, 0), cell.training, prefix="")
    return torch.where(h > 0, h, slope * h)


def network(model: nn.Module, x: Tensor, edge_index: Tensor, batch: Tensor, fusion: str = "concat") -> Tensor:
    """A network's output, cell by cell and link by link."""
    variant = model.genotype.variant
    cells = [
        [(k.source, k.target, k.operation, 1.0) for k in cell.links if k.target in cell.live()]
        for cell in model.genotype
    ]
    outputs = [cell.output_nodes() for cell in model.genotype]
    return _walk(model, cells, outputs, x, edge_index, batch, variant, fusion, TRAIN_SLOPE[variant])


def supernet(model: nn.Module, x: Tensor, edge_index: Tensor, batch: Tensor, fusion: str = "concat") -> Tensor:
    """A supernet's output: every candidate of every link, one after another, times softmax(alpha)."""
    space, cells = model.space, []
    for number in range(model.num_cells):
        links: list[Link] = []
        for link, alpha in zip(space.links(), model.link_alphas(number), strict=True):
            shares = torch.exp(alpha) / torch.exp(alpha).sum()
            links += [
                (link.source, link.target, name, share) for name, share in zip(link.candidates, shares, strict=True)
            ]
        cells.append(links)
    slope = SEARCH_SLOPE[space.variant]
    outputs = [space.output_nodes()] * model.num_cells
    return _walk(model, cells, outputs, x, edge_index, batch, space.variant, fusion, slope)


def _walk(model, cells, outputs, x, edge_index, batch, variant, fusion, slope) -> Tensor:
    adjacency = dense_adjacency(edge_index, len(x))
    h = encoded(model, x)
    for cell, links, ends in zip(model.cells, cells, outputs, strict=True):
        nodes = latent_nodes(cell, links, h, adjacency, variant)
        h = h + fused(cell, [nodes[j] for j in ends], fusion, slope)
    return decoded(model, h, edge_index, batch)


def encoded(model: nn.Module, x: Tensor) -> Tensor:
    """Categories: the sum of one embedding a column. Features: a linear map."""
    categories = model.task.categories
    if not categories:
        return F.linear(x, model.encoder.linear.weight, model.encoder.linear.bias)
    tables = model.encoder.weight.split(list(categories))
    return sum(table[column] for table, column in zip(tables, x.T, strict=True))


def decoded(model: nn.Module, h: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    """The readout, or the two ends of every edge in the caller's order, and the MLP."""
    task = model.task
    if task.level == "graph":
        graphs = range(int(batch.max()) + 1)
        reduce = {"sum": lambda v: v.sum(0), "mean": lambda v: v.mean(0), "max": lambda v: v.amax(0)}[task.readout]
        h = torch.stack([reduce(h[batch == g]) for g in graphs])
    elif task.level == "edge":
        h = torch.stack([torch.cat([h[s], h[t]]) for s, t in edge_index.T.tolist()])
    for layer in model.head.layers[:-1]:
        h = (h @ layer.weight.T + layer.bias).relu()
    last = model.head.layers[-1]
    return h @ last.weight.T + last.bias


class Slow(nn.Module):
    """The obvious evaluation of a supernet, as a module whose parameters can be exchanged."""

    def __init__(self, supernet: nn.Module) -> None:
        super().__init__()
        self.supernet = supernet

    def forward(self, batch: GraphBatch) -> Tensor:
        edges = torch.stack([batch.neighbors.source, batch.neighbors.target]).long()
        return supernet(self.supernet, batch.x, edges, batch.batch.long())


# -- GAP trees ------------------------------------------------------------------------------------------------------


def tree_nodes(
    tree, x: Tensor, adjacency: Tensor, weights: Mapping[int, list[Weights]], training: bool
) -> list[Tensor]:
    """The value of every node of a GAP tree: its operation and what follows it, applied to its parent."""
    values = [x]
    for node in range(1, len(tree)):
        own, *rest = weights[node]
        value = operation(tree.operations[node].removeprefix("@"), values[tree.parents[node]], x, adjacency, own)
        values.append(transformed(value, rest[0], training) if rest else value)
    return values
