"""GraphSage against loops over neighbours and PyG's layer."""

import torch
import torch.nn.functional as F
from obvious import dense_adjacency, dense_aggregate
from samples import assert_near, gradients, shake
from torch_geometric.data import Batch
from torch_geometric.nn import SAGEConv

from gnas.graph import GraphBatch
from gnas.model.baselines import GraphSage
from gnas.model.task import Task

TASK = Task("node", "regression", 2, in_channels=4)


def test_dense(batch: Batch) -> None:
    network = shake(GraphSage(TASK, 16, num_layers=2).double())
    dense = dense_adjacency(batch.edge_index, len(batch.x))
    h = network.encoder(batch)
    for layer in network.layers:
        pooled = dense_aggregate(dense, (h @ layer.pool.weight.T + layer.pool.bias).relu(), "max")
        out = torch.cat([h, pooled], 1) @ layer.linear.weight.T + layer.linear.bias
        out = (out / out.square().sum(1, keepdim=True).sqrt()).relu()
        h = h + F.batch_norm(out, None, None, layer.norm.weight.flatten(), layer.norm.bias.flatten(), True)
    found, wanted = network(batch), network.head(h, None)
    assert_near(found, wanted, 1e-11)
    weights = list(network.parameters())
    assert_near(gradients(found, weights), gradients(wanted, weights), 1e-10)


def test_pyg(batch: Batch) -> None:
    layer = shake(GraphSage(TASK, 16, num_layers=1).double()).eval().layers[0]
    conv = SAGEConv(16, 16, aggr="max", project=True, normalize=True).double()
    with torch.no_grad():
        conv.lin.load_state_dict(layer.pool.state_dict())
        conv.lin_r.weight.copy_(layer.linear.weight[:, :16])
        conv.lin_l.weight.copy_(layer.linear.weight[:, 16:])
        conv.lin_l.bias.copy_(layer.linear.bias)
    h = torch.randn(len(batch.x), 16, dtype=torch.float64)
    wanted = h + layer.norm(conv(h, batch.edge_index).relu())
    assert_near(layer(h, GraphBatch.from_pyg(batch)), wanted, 1e-12)
