"""Propagation of the outputs of nodes, against PyG, in networks and in exported modules."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from samples import assert_near, shake
from torch_geometric.data import Batch
from torch_geometric.nn import APPNP
from torch_geometric.utils import remove_self_loops, to_undirected

from gnas.arch.gap import genotype
from gnas.arch.stack import Stack
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.export_code import write_module
from gnas.model.network import TELEPORT, Network, propagate
from gnas.model.task import Task
from gnas.use.export import collect_weights

TASK = Task("node", "regression", 3, in_channels=4, head="linear", scale=(2.0, 1.0, 1.0), center=(1.0, 0.0, 0.0))
SHALLOW = replace(genotype("[identity | symmetric]", 1, "bare"), stack=Stack(propagation=4))


def undirected(batch: Batch) -> torch.Tensor:
    return to_undirected(remove_self_loops(batch.edge_index)[0])


def test_it_is_that_of_pyg(batch: Batch) -> None:
    out = torch.randn(len(batch.x), 3, dtype=torch.double)
    edge_index = undirected(batch)
    near = GraphBatch.from_edges(batch.x, edge_index).neighbors
    assert torch.equal(propagate(out, near, 0), out)
    assert_near(propagate(out, near, 4), APPNP(4, TELEPORT)(out, edge_index), 1e-12)


def test_a_network_propagates_its_outputs(batch: Batch) -> None:
    network = shake(Network(SHALLOW, TASK, 8).double()).eval()
    plain = shake(Network(replace(SHALLOW, stack=Stack()), TASK, 8).double()).eval()
    plain.load_state_dict(network.state_dict())
    edge_index = undirected(batch)
    found = network(batch.x, edge_index, batch.batch)
    assert_near(found, APPNP(4, TELEPORT)(plain(batch.x, edge_index, batch.batch), edge_index), 1e-12)


@pytest.mark.parametrize(
    "formula", ["[identity | symmetric]", "[identity | sum(gated)]", "[identity | mean(attention)]"]
)
def test_the_exported_module_propagates(batch: Batch, formula: str) -> None:
    made = replace(genotype(formula, 1, "bare"), stack=Stack(propagation=4))
    network = shake(Network(made, TASK, 8)).eval()
    module: dict[str, object] = {"__file__": "model.py"}
    exec(write_module(network, "a network"), module)
    rebuilt = module["Model"]()  # type: ignore[operator]
    rebuilt.load_state_dict(collect_weights(network))
    out = rebuilt.eval()(batch.x.float(), batch.edge_index)
    scale, center = torch.tensor(TASK.scale), torch.tensor(TASK.center)
    assert_near(out, network(batch.x, batch.edge_index, batch.batch) * scale + center, 1e-4)


def test_graphs_have_no_outputs_to_propagate() -> None:
    with pytest.raises(InputError, match="propagation is for targets of nodes; this task has targets of level graph"):
        Network(SHALLOW, replace(TASK, level="graph"), 8)
