"""What the baselines share: batch norm over rows, edges as rows."""

import pytest
import torch
from samples import assert_near, gradients, pad
from torch_geometric.data import Batch

from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.kernels.aggregate import aggregate
from gnas.model.baselines.base import Baseline, make_layers
from gnas.model.edges import Edges
from gnas.model.stacked import BatchNorm
from gnas.model.task import Task


def test_edges_read_both_ends(batch: Batch) -> None:
    graph = GraphBatch.from_pyg(batch)
    source, target = graph.neighbors.source.long(), graph.neighbors.target.long()
    edges, h = Edges.of(graph), graph.x.requires_grad_()
    assert edges.mask is None
    for found, wanted in ((edges.at_sources(h), h[source]), (edges.at_targets(h), h[target])):
        assert torch.equal(found, wanted)
        assert_near(gradients(found, [h]), gradients(wanted, [h]), 1e-12)


def test_nodes_gather_from_their_edges(batch: Batch) -> None:
    graph = GraphBatch.from_pyg(batch)
    target = graph.neighbors.target.long()
    message = torch.randn(len(target), 5, dtype=torch.float64, requires_grad=True)
    found = aggregate(message, Edges.of(graph).incoming, "sum")
    wanted = torch.zeros(graph.num_nodes, 5, dtype=torch.float64).index_add(0, target, message)
    assert_near(found, wanted, 1e-12)
    assert_near(gradients(found, [message]), gradients(wanted, [message]), 1e-12)


def test_padding_edges_read_zeros_and_reach_nobody(batch: Batch) -> None:
    graph = GraphBatch.from_pyg(batch)
    padded, real = pad(graph), graph.neighbors.source.numel()
    edges, h = Edges.of(padded), padded.x.clone().requires_grad_()
    assert edges.mask.tolist() == [True] * real + [False] * (len(edges.mask) - real)
    for found in (edges.at_sources(h), edges.at_targets(h)):
        assert not found[real:].any()
        assert not gradients(found, [h])[0][graph.num_nodes :].any()
    message = torch.ones(len(edges.mask), 1, dtype=torch.float64, requires_grad=True)
    gathered = aggregate(message, edges.incoming, "sum")
    assert not gathered[graph.num_nodes :].any()
    assert not gradients(gathered, [message])[0][real:].any()


def test_batch_norm_is_torchs() -> None:
    ours, theirs = BatchNorm(5).double(), torch.nn.BatchNorm1d(5).double()
    h = torch.randn(7, 5, dtype=torch.float64)
    mask = torch.tensor([True] * 6 + [False])
    assert_near(ours(h, mask)[:6], theirs(h[:6]), 1e-12)
    assert_near(ours.running_var.flatten(), theirs.running_var, 1e-12)
    assert_near(ours.eval()(h), theirs.eval()(h), 1e-12)
    assert ours.train()(h[:0]).shape == (0, 5)
    assert bool(torch.isfinite(ours.running_mean).all())


def test_a_frame_needs_layers() -> None:
    with pytest.raises(InputError, match="at least one layer, not 0"):
        make_layers(0, lambda _: torch.nn.Identity())
    frame = Baseline(
        Task("node", "regression", 1, in_channels=4), 8, make_layers(1, lambda _: torch.nn.Bilinear(8, 8, 8))
    )
    assert frame.num_weights() == 4 * 8 + 8 + 8**3 + 8 + 8 * 4 + 4 + 4 * 2 + 2 + 2 + 1
