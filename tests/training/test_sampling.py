"""Sampled neighbourhoods against a plain walk over the edges, and networks on them against the whole graph."""

from collections import Counter
from dataclasses import replace

import pytest
import small
import torch
from samples import random_edges
from tiny import SPACE, untimed
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader

import gnas
from gnas.data import benchmark as data_benchmark
from gnas.errors import InputError, Interrupted
from gnas.graph import GraphSet
from gnas.run.folder import Run
from gnas.training.evaluation import evaluate
from gnas.training.prediction import infer
from gnas.training.sampling import NeighborSampler, SampledStore, open_store
from gnas.training.store import GraphStore

NODES = 60


def graph(seed: int = 0, edges: int = 500) -> GraphSet:
    generator = torch.Generator().manual_seed(seed)
    data = Data(
        x=torch.randint(3, (NODES, 1), generator=generator),
        edge_index=random_edges(NODES, edges, seed, isolated=3),
        edge_attr=torch.arange(edges),
        y=torch.randint(3, (NODES,), generator=generator),
        pos=torch.randn(NODES, 2, generator=generator),
    )
    mask = torch.rand(NODES, generator=generator) < 0.4
    return replace(GraphSet.from_data([data], level="node"), mask=mask)


def sampler(split: GraphSet, hops: tuple[int, ...]) -> NeighborSampler:
    return SampledStore(replace(split, sample_neighbors=hops)).sampler


@pytest.mark.parametrize("hops", [(4,), (4, 2), (100, 1), (-1, 3), (2, 2, 2)])
def test_a_sample_is_part_of_the_graph_with_so_many_senders_a_hop(hops: tuple[int, ...]) -> None:
    split = graph()
    seeds = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))[:7]
    part = sampler(split, hops).sample(seeds, torch.Generator().manual_seed(2))
    source, target = (end.long() for end in split.edge_index)
    assert torch.equal(part.node[:7], seeds)
    assert len(part.node.unique()) == len(part.node) == sum(part.nodes_of_hop)
    assert len(part.edge.unique()) == len(part.edge) == sum(part.edges_of_hop)
    assert torch.equal(part.node[part.source.long()], source[part.edge])
    assert torch.equal(part.node[part.target.long()], target[part.edge])
    assert bool((part.target.diff() >= 0).all())
    drawn, first = Counter(part.target.tolist()), 0
    degree = torch.bincount(target, minlength=NODES)
    for limit, count in zip(hops, part.nodes_of_hop, strict=False):
        for local in range(first, first + count):
            whole = int(degree[part.node[local]])
            assert drawn[local] == (whole if limit == -1 else min(whole, limit))
        first += count
    assert max(drawn) < first  # the nodes of the last hop receive nothing
    reached = {0: set(seeds.tolist())}
    for hop, count in enumerate(part.nodes_of_hop[1:], start=1):
        begin = sum(part.nodes_of_hop[:hop])
        reached[hop] = set(part.node[begin : begin + count].tolist())
        senders = set(source[torch.isin(target, torch.tensor(sorted(reached[hop - 1]), dtype=torch.long))].tolist())
        assert reached[hop] <= senders


def test_every_sender_is_drawn_equally_often() -> None:
    edges = torch.stack([torch.arange(1, 9), torch.zeros(8, dtype=torch.long)])
    drawing, generator = NeighborSampler.from_edges(edges, 9, (3,)), torch.Generator().manual_seed(0)
    counts: Counter[int] = Counter()
    for _ in range(2000):
        counts.update(drawing.sample(torch.tensor([0]), generator).node[1:].tolist())
    assert sum(counts.values()) == 6000
    assert all(abs(counts[node] - 750) < 5 * (2000 * 3 / 8 * 5 / 8) ** 0.5 for node in range(1, 9))


def test_it_serves_the_loaders_of_pyg() -> None:
    edges = random_edges(NODES, 400, 3)
    data = Data(x=torch.arange(NODES)[:, None], edge_index=edges, edge_attr=torch.arange(400))
    drawing = NeighborSampler.from_edges(edges, NODES, (3, 2))
    seen = []
    for batch in NodeLoader(data, drawing, input_nodes=torch.arange(NODES), batch_size=16):
        seen += batch.n_id[: batch.batch_size].tolist()
        assert torch.equal(batch.x[:, 0], batch.n_id)
        assert torch.equal(batch.n_id[batch.edge_index], edges[:, batch.edge_attr])
    assert seen == list(range(NODES))
    with pytest.raises(InputError, match="NodeLoader"):
        drawing.sample_from_edges(None)


def test_an_epoch_counts_every_node_of_the_split_once() -> None:
    split = replace(graph(), sample_neighbors=(3, 2))
    store = open_store(split)
    assert isinstance(store, SampledStore)
    assert len(store) == int(split.mask.sum())
    seen: list[int] = []
    for planned in store.plan(7, torch.Generator().manual_seed(0)):
        batch = store.batch(planned.ids, planned.capacity)
        rows = planned.ids
        assert torch.equal(batch.x[batch.target_mask], split.x[rows])
        assert torch.equal(batch.y[batch.target_mask], split.y[rows])
        assert torch.equal(batch.pos[batch.target_mask], split.pos[rows])
        seen += rows.tolist()
    assert sorted(seen) == split.mask.nonzero().flatten().tolist()
    shares = [store.plan(7, torch.Generator().manual_seed(0), share=(rank, 2)) for rank in (0, 1)]
    assert sorted(i for plan in shares for p in plan for i in p.ids.tolist()) == sorted(seen)


def test_the_same_seeds_draw_the_same_neighbours_and_another_order_draws_others() -> None:
    store = SampledStore(replace(graph(), sample_neighbors=(2, 2)))
    ids = store.seeds[:9]
    one, same, other = (store.batch(i, store.plan(9)[0].capacity) for i in (ids, ids, ids.flip(0)))
    assert torch.equal(one.neighbors.source, same.neighbors.source)
    assert torch.equal(one.x, same.x)
    assert not torch.equal(one.edge_attr.sort().values, other.edge_attr.sort().values)


def test_an_empty_share_is_one_node_that_nobody_counts() -> None:
    store = SampledStore(replace(graph(), sample_neighbors=(2,)))
    batch = store.batch(store.seeds[:0], store.plan(4)[0].capacity)
    assert not batch.node_mask.any()
    assert not batch.target_mask.any()


@pytest.mark.parametrize("name", ["gnas", "gin", "gatedgcn"])
def test_with_all_neighbours_of_enough_hops_the_figures_are_those_of_the_whole_graph(name: str) -> None:
    split, bench = graph(), small.transductive()
    torch.manual_seed(0)
    model = (
        small.builder(bench)()
        if name == "gnas"
        else gnas.model.baselines.build_baseline(name, bench.task, num_layers=2)
    )
    model.eval()
    whole, drawn = evaluate(model, split), evaluate(model, replace(split, sample_neighbors=(-1, -1)), batch_size=7)
    assert drawn["loss"] == pytest.approx(whole["loss"], abs=1e-5)
    assert drawn["metric"] == pytest.approx(whole["metric"], abs=1e-4)
    outputs = infer(model, replace(split, sample_neighbors=(-1, -1)), batch_size=11)
    torch.testing.assert_close(outputs, infer(model, split), atol=1e-5, rtol=0)


def test_a_sampled_search_stops_and_goes_on_bit_for_bit(tmp_path) -> None:
    bench = data_benchmark.with_sampling(small.transductive(), "3,2")
    settings = {"strategy": gnas.SingleLevel(epochs=3, batch_size=2), "channels": 8, "num_cells": 1}
    whole = gnas.search(bench, SPACE, **settings)
    with Run(tmp_path / "run", {}) as run, pytest.raises(Interrupted):
        gnas.search(bench, SPACE, **settings, run=run, should_stop=small.stop_after(4))
    with Run(tmp_path / "run", {}, resume=True) as run:
        again = gnas.search(bench, SPACE, **settings, run=run)
    assert again.genotype == whole.genotype
    assert untimed(again.history) == untimed(whole.history)


def test_labels_that_only_neighbours_know_are_learned() -> None:
    edges = random_edges(300, 1500, 5, isolated=0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(2, (300,), generator=generator)
    total = torch.zeros(300).index_add(0, edges[1], 2.0 * x[edges[0]] - 1)
    masks = {f"{name}_mask": torch.arange(300) % 3 == part for part, name in enumerate(("train", "val", "test"))}
    data = Data(x=x[:, None], edge_index=edges, y=(total > 0).long(), **masks)
    bench = gnas.load(data, sample_neighbors=(10, 5))
    config = gnas.TrainConfig(epochs=12, batch_size=25, lr=0.01)
    result = gnas.train(lambda: gnas.Network(gnas.arch.gap.genotype(["sum"]), bench.task, 16), bench, config)
    blind = gnas.train(lambda: gnas.model.baselines.build_baseline("mlp", bench.task, num_layers=2), bench, config)
    assert result.test > 80 > 75 > blind.test


def test_a_large_graph_is_sampled_by_itself_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_benchmark, "WHOLE_NODES", 20)
    data = small.ring_of_classes()
    for part, name in enumerate(("train", "val", "test")):
        data[f"{name}_mask"] = torch.arange(30) % 3 == part
    bench = gnas.load(data)
    assert bench.val.sample_neighbors == data_benchmark.DEFAULT_HOPS
    assert any("neighbours are sampled, hop by hop: 10, 5" in note for note in bench.notes)
    assert gnas.load(data, sample_neighbors="none").train.sample_neighbors == ()
    assert gnas.load(data, sample_neighbors="4").train.sample_neighbors == (4,)
    assert isinstance(open_store(gnas.load(data, sample_neighbors=()).train), GraphStore)


@pytest.mark.parametrize("asked", ["10,x", "0", (3, -2), "5,0", [None]])
def test_bad_numbers_of_neighbours(asked: object) -> None:
    with pytest.raises(InputError, match="give a number per hop"):
        gnas.load(small.ring_of_classes(), sample_neighbors=asked)


def test_only_targets_of_nodes_can_be_sampled() -> None:
    with pytest.raises(InputError, match="needs targets of nodes"):
        data_benchmark.with_sampling(small.benchmark("regression"), (5,))
    with pytest.raises(InputError, match="not for those of graphs"):
        SampledStore(small.benchmark("regression").train)
