"""MLP against plain products."""

import torch
from samples import assert_near, shake
from torch_geometric.data import Batch

from gnas.model.baselines import MLP
from gnas.model.task import Task


def test_continuous_input_is_the_first_layer(batch: Batch) -> None:
    network = shake(MLP(Task("node", "regression", 2, in_channels=4), 16, num_layers=3).double())
    assert len(network.layers) == 2
    h = network.encoder.linear(batch.x).relu()
    for layer in network.layers:
        h = (h @ layer.linear.weight.T + layer.linear.bias).relu()
    assert_near(network(batch), network.head(h, None), 1e-12)


def test_an_embedding_comes_before_the_first_layer(batch: Batch) -> None:
    network = shake(MLP(Task("graph", "regression", 2, categories=(5, 3)), 16, num_layers=3).double())
    assert len(network.layers) == 3
    h = network.encoder.weight[batch.categories[:, 0]] + network.encoder.weight[5 + batch.categories[:, 1]]
    for layer in network.layers:
        h = (h @ layer.linear.weight.T + layer.linear.bias).relu()
    h = torch.stack([h[batch.batch == graph].mean(0) for graph in range(3)])
    for layer in network.head.layers[:-1]:
        h = layer(h).relu()
    found = network(batch.categories, batch.edge_index, batch.batch)
    assert_near(found, network.head.layers[-1](h), 1e-12)
