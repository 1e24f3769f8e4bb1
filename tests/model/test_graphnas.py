"""GraphNAS's layers against loops over nodes, heads and neighbours."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from samples import assert_near, gradients, pad, shake
from torch import Tensor
from torch_geometric.data import Batch

from gnas.arch.graphnas import ACTIVATIONS as NAMES
from gnas.arch.graphnas import AGGREGATORS, ATTENTIONS, GraphNASArchitecture, LayerChoice
from gnas.graph import GraphBatch
from gnas.model.build import build_network
from gnas.model.edges import Edges
from gnas.model.graphnas import ACTIVATIONS, GraphNASLayer, GraphNASNetwork, count_weights
from gnas.model.task import Task

TASK = Task("node", "regression", 2, in_channels=4)


def coefficients(
    layer: GraphNASLayer, z: Tensor, node: int, senders: list[int], degree: list[int], head: int
) -> Tensor:
    """How much of each sender the node takes; the last sender is the node itself."""
    kind, i = layer.choice.attention, z[node, head]
    if kind == "const":
        return torch.ones(len(senders), dtype=z.dtype)
    if kind == "gcn":
        return torch.tensor([(degree[node] * degree[j]) ** -0.5 for j in senders], dtype=z.dtype)
    left, right = (v[head] for v in (layer.vectors[0], layer.vectors[min(1, len(layer.vectors) - 1)]))
    scores = []
    for j in (z[sender, head] for sender in senders):
        scores.append(
            {
                "gat": lambda j: F.leaky_relu(left @ i + right @ j, 0.2),
                "sym-gat": lambda j: F.leaky_relu(left @ i + right @ j, 0.2) + F.leaky_relu(left @ j + right @ i, 0.2),
                "cos": lambda j: (left * i) @ (right * j),
                "linear": lambda j: torch.tanh(left @ j),
                "gene_linear": lambda j: layer.vectors[2][0] @ torch.tanh(left * i + right * j),
            }[kind](j)
        )
    return torch.stack(scores).softmax(0)


def slow(layer: GraphNASLayer, h: Tensor, edge_index: Tensor) -> Tensor:
    """One node and one head at a time."""
    h = F.batch_norm(h, None, None, layer.norm.weight.flatten(), layer.norm.bias.flatten(), True)
    z = (h @ layer.linear.weight.T).view(len(h), layer.choice.heads, -1)
    senders = [[*edge_index[0, edge_index[1] == node].tolist(), node] for node in range(len(h))]
    degree = [len(s) for s in senders]
    rows = []
    for node, head in itertools.product(range(len(h)), range(layer.choice.heads)):
        share = coefficients(layer, z, node, senders[node], degree, head)
        message = z[senders[node], head]
        if layer.choice.aggregator != "sum":
            first, _, second = layer.pool
            message = (message @ first.weight.T + first.bias).relu() @ second.weight.T + second.bias
        message = share[:, None] * message
        how = {"mean-pooling": lambda m: m.mean(0), "max-pooling": lambda m: m.amax(0)}
        rows.append(how.get(layer.choice.aggregator, lambda m: m.sum(0))(message))
    out = torch.stack(rows).view(len(h), layer.choice.heads, -1)
    out = out.flatten(1) if layer.concat else out.mean(1)
    return ACTIVATIONS[layer.choice.activation](out + h @ layer.residual.weight.T + layer.residual.bias)


def symmetric(batch: Batch) -> Tensor:
    """Every edge in both directions, no loops: then a node's degree is one number."""
    both = torch.cat([batch.edge_index, batch.edge_index.flip(0)], dim=1)
    return both[:, both[0] != both[1]].unique(dim=1)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_dense(batch: Batch, attention: str, aggregator: str) -> None:
    edge_index = symmetric(batch)
    concat = aggregator != "mlp"
    layer = shake(GraphNASLayer(4, LayerChoice(attention, aggregator, "tanh", 2, 3), concat).double())
    graph = GraphBatch.from_edges(batch.x, edge_index, batch.batch)
    h = batch.x.clone().requires_grad_()
    found, wanted = layer(h, graph, Edges.of(graph)), slow(layer, h, edge_index)
    assert_near(found, wanted, 1e-11)
    used = [h, *layer.parameters()]
    assert_near(gradients(found, used), gradients(wanted, used), 1e-9)


def architecture(activation: str = "relu") -> GraphNASArchitecture:
    layers = [
        LayerChoice(a, g, activation, 2, 4) for a, g in zip(ATTENTIONS, itertools.cycle(AGGREGATORS), strict=False)
    ]
    return GraphNASArchitecture(tuple(layers), 8)


def test_padding_changes_nothing(batch: Batch) -> None:
    network = shake(build_network(architecture(), TASK).double())
    graph = GraphBatch.from_pyg(batch)
    assert_near(network(pad(graph))[: graph.num_nodes], network(graph), 1e-10)


def test_large_scores_do_not_overflow(batch: Batch) -> None:
    network = build_network(architecture("elu"), TASK).double()
    with torch.no_grad():
        for layer in network.layers:
            for vector in layer.vectors:
                vector.mul_(1e4)
    out = network(batch)
    assert all(bool(torch.isfinite(g).all()) for g in [out, *gradients(out, list(network.parameters()))])


def test_activations() -> None:
    assert set(ACTIVATIONS) == set(NAMES)
    h = torch.linspace(-8, 8, 33)
    for name in set(NAMES) - {"linear", "sigmoid", "tanh"}:
        assert torch.equal(ACTIVATIONS[name](h), getattr(F, name)(h))
    assert ACTIVATIONS["linear"](h) is h


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_weights_are_counted(level: str) -> None:
    task = Task(level, "classification", 3, categories=(5, 3))
    for found in (architecture(), GraphNASArchitecture((LayerChoice("linear", "mlp", "elu", 6, 16),))):
        network = build_network(found, task)
        assert isinstance(network, GraphNASNetwork)
        assert network.num_weights() == count_weights(found.layers, found.channels, task)
