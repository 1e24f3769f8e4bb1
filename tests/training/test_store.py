"""Batches assembled from a resident split: every graph once, padding without effect, shapes that do not change."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from gnas.arch import gap
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.network import Network
from gnas.model.task import Task
from gnas.training.store import Capacity, GraphStore


def graphs(count: int, seed: int = 0, level: str = "graph", edges: bool = True) -> list[Data]:
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        nodes = int(torch.randint(1, 9, (1,), generator=generator))
        links = int(torch.randint(0, 20, (1,), generator=generator)) if edges else 0
        rows = {"graph": 1, "node": nodes, "edge": links}[level]
        made.append(
            Data(
                x=torch.randint(0, 5, (nodes, 1), generator=generator),
                edge_index=torch.randint(0, nodes, (2, links), generator=generator),
                y=torch.randn(rows, generator=generator),
                edge_attr=torch.randn(links, 2, generator=generator),
                pos=torch.randn(nodes, 2, generator=generator),
            )
        )
    return made


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_an_epoch_visits_everything_once(level, padded):
    split = GraphSet.from_data(graphs(23, level=level), level)
    store = GraphStore(split)
    seen = []
    for batch in store.epoch(5, torch.Generator().manual_seed(3), padded):
        assert batch.y.size(0) == batch.target_mask.size(0)
        seen.append(batch.y[batch.target_mask])
    assert len(seen) == 5
    assert torch.equal(torch.cat(seen).sort().values, split.y.sort().values)


@pytest.mark.parametrize("padded", [False, True])
def test_shuffling_follows_the_generator_alone(padded):
    store = GraphStore(GraphSet.from_data(graphs(23)))
    orders = [
        torch.cat([p.ids for p in store.plan(5, torch.Generator().manual_seed(seed), padded)]) for seed in (1, 1, 2)
    ]
    assert torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])
    assert torch.equal(torch.cat([p.ids for p in store.plan(5)])[:23], torch.arange(23))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("level", ["graph", "node"])
def test_a_batch_gives_the_output_of_pygs_batch(level, padded):
    made = graphs(23, level=level)
    store = GraphStore(GraphSet.from_data(made, level))
    network = Network(gap.approximate("gatedgcn"), Task(level, "regression", 1, categories=(5,)), 8).eval()
    for planned in store.plan(6, torch.Generator().manual_seed(0), padded):
        batch = store.batch(planned.ids, planned.capacity)
        ids = [i for i in planned.ids.tolist() if i < 23]
        expected = network(Batch.from_data_list([made[i] for i in ids]))
        torch.testing.assert_close(network(batch)[batch.target_mask], expected, atol=1e-6, rtol=1e-5)


def test_padding_changes_neither_gradients_nor_statistics():
    made = graphs(12)
    store = GraphStore(GraphSet.from_data(made))
    task = Task("graph", "regression", 1, categories=(5,))
    results = []
    for padded in (False, True):
        torch.manual_seed(0)
        network = Network(gap.approximate("gin"), task, 8).train()
        for batch in store.epoch(5, padded=padded):
            task.loss_value(network(batch), batch).backward()
        values = [p.grad for p in network.parameters() if p.grad is not None]
        results.append(values + [b for name, b in network.named_buffers() if "running" in name])
    for exact, padded in zip(*results, strict=True):
        torch.testing.assert_close(exact, padded, atol=1e-5, rtol=1e-4)


def test_padded_shapes_are_few_and_static():
    store = GraphStore(GraphSet.from_data(graphs(200)))
    for epoch in range(3):
        shapes = set()
        for planned in store.plan(16, torch.Generator().manual_seed(epoch), padded=True):
            batch = store.batch(planned.ids, planned.capacity)
            shapes.add((batch.x.shape, batch.neighbors.source.shape, batch.num_graphs))
            assert batch.num_graphs == 17
            assert batch.num_nodes > int(batch.node_mask.sum())
        assert len(shapes) <= 2


def test_edges_are_sorted_both_ways_and_padding_is_not_covered():
    store = GraphStore(GraphSet.from_data(graphs(10)))
    planned = store.plan(4, padded=True)[0]
    batch = store.batch(planned.ids, planned.capacity)
    near = batch.neighbors
    real = int(near.ptr[-1])
    assert (near.target.diff() >= 0).all()
    assert (near.source[near.back[:real].long()].diff() >= 0).all()
    assert sorted(near.back.tolist()) == list(range(planned.capacity.edges))
    assert (near.source[real:] == planned.capacity.nodes - 1).all()
    for node in range(planned.capacity.nodes):
        assert (near.target[near.ptr[node] : near.ptr[node + 1]] == node).all()
        sent = near.back[near.back_ptr[node] : near.back_ptr[node + 1]].long()
        assert (near.source[sent] == node).all()


def test_edge_features_and_positions_travel_along():
    made = graphs(6)
    store = GraphStore(GraphSet.from_data(made))
    batch = next(store.epoch(6))
    whole = GraphSet.from_data(made).batch()
    torch.testing.assert_close(batch.edge_attr, whole.edge_attr)
    torch.testing.assert_close(batch.pos, whole.pos)


def test_a_split_larger_than_the_device_streams_with_the_same_interface():
    split = GraphSet.from_data(graphs(9))
    here, streamed = GraphStore(split), GraphStore(split, resident=False)
    for a, b in zip(here.epoch(4), streamed.epoch(4), strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.neighbors.source, b.neighbors.source)
        assert torch.equal(a.y, b.y)


def test_graphs_without_edges_and_one_graph_alone():
    store = GraphStore(GraphSet.from_data(graphs(5, edges=False)))
    for padded in (False, True):
        for batch in store.epoch(2, padded=padded):
            assert int(batch.neighbors.ptr[-1]) == 0
    alone = GraphStore(GraphSet.from_data(graphs(1)))
    assert len(alone.plan(64)) == 1


def test_masks_of_transductive_splits_are_kept():
    made = graphs(1, level="node", seed=4)
    split = GraphSet.from_data(made, "node")
    mask = torch.arange(split.num_nodes) % 2 == 0
    store = GraphStore(GraphSet(**{**split.__dict__, "mask": mask}))
    batch = next(store.epoch(1, padded=True))
    assert int(batch.target_mask.sum()) == int(mask.sum())


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 30), size=st.integers(1, 40), seed=st.integers(0, 99), padded=st.booleans())
def test_any_plan_is_complete(count, size, seed, padded):
    store = GraphStore(GraphSet.from_data(graphs(count, seed)))
    plan = store.plan(size, torch.Generator().manual_seed(seed), padded)
    ids = torch.cat([p.ids for p in plan])
    assert sorted(ids[ids < count].tolist()) == list(range(count))
    assert all(isinstance(p.capacity, Capacity) for p in plan)


def test_a_split_without_graphs_is_refused():
    with pytest.raises(InputError, match="no graphs"):
        GraphStore(GraphSet.from_data(graphs(2)).select([]))


@pytest.mark.gpu
def test_batches_on_a_gpu_equal_those_on_the_cpu():
    split = GraphSet.from_data(graphs(40))
    for a, b in zip(
        GraphStore(split).epoch(8, padded=True), GraphStore(split, "cuda").epoch(8, padded=True), strict=True
    ):
        assert torch.equal(a.neighbors.source, b.neighbors.source.cpu())
        assert torch.equal(a.x, b.x.cpu())
