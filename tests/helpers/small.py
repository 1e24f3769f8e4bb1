"""A benchmark with all three splits, as small as ``tiny``: for training, comparing and the main job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from tiny import ring, tiny

from gnas.arch import gap
from gnas.data.benchmark import Benchmark
from gnas.graph import GraphSet
from gnas.model.network import Network

GENOTYPE = gap.genotype(["[identity | dense(sum(dense))]", "[max(sparse) | sparse(mean)]"])


def benchmark(kind: str = "regression") -> Benchmark:
    """12 graphs to train on, 6 to choose by, 7 to report on."""
    base = tiny(kind)
    graphs = [ring(5 + k % 4, 300 + k) for k in range(7)]
    if kind == "classification":
        for graph in graphs:
            graph.y = graph.x.flatten()
    test = GraphSet.from_data(graphs, level=base.task.level)
    return Benchmark(f"small-{kind}", base.train, base.val, test, base.task, "tests")


def multilabel() -> Benchmark:
    """The same graphs with two labels: the target is above its median, and the number of nodes is even or blank."""
    base = benchmark()
    middle = base.train.y.median()

    def with_labels(graphs: GraphSet) -> GraphSet:
        even = (graphs.node_counts % 2 == 0).float()
        even[::5] = torch.nan
        return replace(graphs, y=torch.stack([(graphs.y.flatten() > middle).float(), even], dim=1))

    train, val, test = map(with_labels, base.splits().values())
    task = replace(base.task, kind="multilabel", num_outputs=2, loss="bce", metric="roc_auc", labels=("high", "even"))
    task = replace(task, center=(0.0,), scale=(1.0,))
    return Benchmark("small-multilabel", train, val, test, task, "tests")


def with_edge_columns() -> Benchmark:
    """The same graphs with two columns of edges, of which the target depends on the first."""
    base = benchmark()

    def add_columns(graphs: GraphSet) -> GraphSet:
        values = torch.rand(graphs.num_edges, 2, generator=torch.Generator().manual_seed(graphs.num_edges))
        owner = torch.repeat_interleave(torch.arange(len(graphs)), graphs.edge_counts)
        shift = torch.zeros(len(graphs)).index_add(0, owner, values[:, 0])
        return replace(graphs, edge_attr=values, y=graphs.y + shift.reshape(graphs.y.shape).to(graphs.y))

    train, val, test = map(add_columns, base.splits().values())
    return Benchmark("small-edges", train, val, test, replace(base.task, edge_channels=2), "tests")


def transductive() -> Benchmark:
    """One graph whose nodes belong to train, val or test by a mask."""
    base = benchmark("classification")
    one = GraphSet.from_data([ring_of_classes()], level="node")
    turn = one.node_ptr.new_tensor(range(one.num_nodes)) % 3
    train, val, test = (replace(one, mask=turn == part) for part in range(3))
    return replace(base, name="one-graph", train=train, val=val, test=test)


def ring_of_classes():
    graph = ring(30, 7)
    graph.y = graph.x.flatten()
    return graph


def builder(bench: Benchmark, channels: int = 16, **options) -> Callable[[], Network]:
    """How to make a small network for it."""
    return lambda: Network(GENOTYPE, bench.task, channels, **options)


def stop_after(count: int) -> Callable[[], bool]:
    """Says stop when it is asked for the ``count``-th time."""
    left = iter(range(count - 1))
    return lambda: next(left, None) is None
