"""Networks with messages and edge states on sampled neighbourhoods and in traced steps."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import small
import torch
from samples import random_edges
from torch_geometric.data import Data

import gnas
from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.arch.stack import Stack
from gnas.data.benchmark import Benchmark
from gnas.training.prediction import infer

NODES, EDGES = 60, 400
TRACED = "[mean(gated) | max(attention) | sum(edge)]"
EVERY = "[identity | mean(gated) | max(attention) | std(pair) | sum(edge(dense))]"


def relational(num_cells: int) -> Genotype:
    return replace(gap.genotype(EVERY, num_cells, "bare"), stack=Stack(ffn=True, edges="updated"))


def one_graph(**options) -> Benchmark:
    """A graph whose nodes have to know the kinds of their edges: of the edges to a node, are most of the first kind?"""
    generator = torch.Generator().manual_seed(0)
    kind = torch.randint(2, (EDGES, 1), generator=generator)
    edges = random_edges(NODES, EDGES, 1, isolated=0)
    total = torch.zeros(NODES).index_add(0, edges[1], 2.0 * kind[:, 0] - 1)
    masks = {f"{name}_mask": torch.arange(NODES) % 3 == part for part, name in enumerate(("train", "val", "test"))}
    x = torch.randint(3, (NODES, 1), generator=generator)
    data = Data(x=x, edge_index=edges, edge_attr=kind, y=(total > 0).long(), **masks)
    return gnas.load(data, **options)


def test_with_all_neighbours_a_sample_gives_the_figures_of_the_whole_graph() -> None:
    bench = one_graph()
    assert bench.task.edge_categories
    model = gnas.Network(relational(2), bench.task, 8).eval()
    drawn = infer(model, replace(bench.test, sample_neighbors=(-1, -1)), batch_size=7)
    torch.testing.assert_close(drawn, infer(model, bench.test), atol=1e-5, rtol=0)


def test_kinds_of_edges_are_learned_from_samples() -> None:
    bench = one_graph(sample_neighbors=(-1,))
    config = gnas.TrainConfig(epochs=25, batch_size=10, lr=0.02)
    genotype = gap.genotype("[identity | sum(edge)]", 1, "bare")
    result = gnas.train(lambda: gnas.Network(genotype, bench.task, 8), bench, config, seed=1)
    blind = gnas.train(lambda: gnas.Network(gap.genotype("[identity | sum]"), bench.task, 8), bench, config, seed=1)
    assert result.test > 90 > blind.test


def test_a_search_over_messages_on_samples() -> None:
    bench = one_graph(sample_neighbors=(3, 2))
    space = gnas.SearchSpace(1, 1, variant="bare", aggregators=("sum", "mean"), messages=("edge", "gated"))
    found = gnas.search(bench, space, gnas.SingleLevel(epochs=1, batch_size=8), channels=4, num_cells=2).genotype
    assert found.messages() <= {"edge", "gated"}


def test_traced_steps_equal_eager_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the tracer of torch.compile with the traced operations themselves: generated code takes minutes."""
    import torch._dynamo

    traced = torch._dynamo.lookup_backend("aot_eager")
    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: traced)
    bench, results = small.with_edge_columns(), []
    for engine in ("eager", "compiled"):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*cannot be compiled")
            config = gnas.TrainConfig(epochs=1, batch_size=6, engine=engine)
            model = lambda: gnas.Network(gap.genotype(TRACED, 1, "bare"), bench.task, 4)  # noqa: E731
            results.append(gnas.train(model, bench, config, seed=1).history[-1]["train_loss"])
    assert results[1] == pytest.approx(results[0], rel=1e-5)
