"""The cost model: more work costs more, as the formula says."""

import math
import sys
import warnings
from dataclasses import replace

import psutil
import pytest
import torch
from small import benchmark

from gnas import cost
from gnas.cost import Machine, Workload, estimate_cost, free_mb, usual_epochs, warn_if_too_large
from gnas.data.benchmarks import find_facts
from gnas.errors import InputError
from gnas.run.settings import Settings

CPU = torch.device("cpu")
KIND = {"time": [1.0, 2.0, 3.0, 0.0, 5.0], "memory": [10.0, 100.0, 0.0, 0.0], "evaluation": 0.5, "time_off": 0.1}
VALUES = {"device": "cuda", "search": KIND, "training": KIND, "start_seconds": 4.0}
WORK = Workload(graphs=1000, val_graphs=100, nodes=20, edges=50)


def test_a_step_follows_the_formula() -> None:
    one = Machine("a GPU", "cuda", VALUES)
    # 1 + 3 cells (2 + 3 * 0.1 + 5 * 0.2): 1e4 nodes and 2e4 edges of 10 channels
    assert one.step_ms("search", 1e4, 2e4, 3, 10) == pytest.approx(1 + 3 * (2 + 3 * 0.1 + 5 * 0.2))
    four = one.step_ms("search", 1e4, 2e4, 3, 10, seeds=4)
    assert four == pytest.approx(1 + 3 * 2 + 4 * 3 * (3 * 0.1 + 5 * 0.2)), "waiting is shared on a GPU"
    cpu = Machine("a CPU", "cpu", {**VALUES, "all_threads": 0.5})
    assert cpu.step_ms("search", 1e4, 2e4, 3, 10, seeds=4) == pytest.approx(
        0.5 * 4 * one.step_ms("search", 1e4, 2e4, 3, 10)
    )
    assert one.step_mb("search", 1e4, 2e4, 3, 10) == pytest.approx(10 + 3 * 100 * 0.1)


def test_an_epoch_is_steps_and_evaluation() -> None:
    one = Machine("a GPU", "cuda", {**VALUES, "epoch_seconds": 0.25})
    step = one.step_ms("search", 64 * 20, 64 * 50, 4, 64)
    # A search uses half of the 1000 graphs: 8 batches of 64; 100 graphs to validate: 2.
    assert one.epoch_seconds("search", WORK, 64, 4, 64) == pytest.approx((8 + 0.5 * 2) * step / 1e3 + 0.25)
    step = one.step_ms("training", 128 * 20, 128 * 50, 4, 64)
    last = one.step_ms("training", 100 * 20, 100 * 50, 4, 64)
    assert one.epoch_seconds("training", WORK, 128, 4, 64) == pytest.approx((8 * step + 0.5 * last) / 1e3 + 0.25)


def test_the_rule_for_the_number_of_epochs() -> None:
    assert usual_epochs(Settings.resolve("paper"), "zinc") == 154
    assert usual_epochs(Settings.resolve("paper"), "pattern") == 84  # patience 5
    assert usual_epochs(Settings.resolve("paper", epochs=20), "zinc") == 20
    assert usual_epochs(Settings.resolve("strong"), "zinc") == 300  # cosine: all of them


def test_every_measured_machine_gives_sensible_estimates() -> None:
    settings = Settings.resolve("paper")
    assert cost.read_machines()
    for one in cost.read_machines():
        device = torch.device(one.device)
        small = estimate_cost(Workload.from_facts("zinc"), settings, device, "zinc")
        deep = estimate_cost(Workload.from_facts("zinc"), settings.changed({"cells": 12}), device, "zinc")
        large = estimate_cost(Workload.from_facts("mnist"), settings, device, "mnist")
        for name in ("search_seconds", "train_seconds", "search_mb", "train_mb"):
            assert 0 < getattr(small, name) < getattr(deep, name) < math.inf
            assert getattr(small, name) < getattr(large, name)
        assert small.seconds >= small.search_seconds + small.train_seconds
        assert small.peak_mb == max(small.search_mb, small.train_mb)


def test_workloads() -> None:
    data = benchmark()
    work = Workload.of(data)
    assert (work.graphs, work.val_graphs, work.all_graphs) == (len(data.train), len(data.val), 25)
    assert work.nodes * 25 == pytest.approx(sum(split.num_nodes for split in data.splits().values()))
    published = Workload.from_facts("zinc")
    assert (published.graphs, published.edges) == (10_000, find_facts("zinc").edges)
    assert replace(published, edges=2 * published.edges).store_mb() > published.store_mb() > 1


def test_of_a_sampled_graph_a_batch_counts() -> None:
    data = benchmark()
    graph = data.train
    sampled = [replace(split, sample_neighbors=(3, 2)) for split in (data.train, data.val, data.test)]
    work = Workload.of(replace(data, train=sampled[0], val=sampled[1], test=sampled[2]))
    assert (work.graphs, work.val_graphs) == (graph.num_targets, data.val.num_targets)
    assert (work.nodes, work.edges) == (1 + 3 + 6, 3 + 6)
    assert work.store_mb() == graph.nbytes() / 2**20
    whole = replace(graph, sample_neighbors=(-1, 2))
    assert Workload.of(replace(data, train=whole)).nodes == graph.num_nodes


def test_what_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.resolve("fast")
    needed = estimate_cost(Workload.of(benchmark()), settings, CPU).peak_mb
    for free, said in ((None, False), (needed + 1, False), (needed - 1, True)):
        monkeypatch.setattr(cost, "free_mb", lambda device, free=free: free)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_if_too_large(benchmark(), settings, CPU)
        assert bool(caught) == said
    assert f"lower the batch size (now {settings.training.batch_size}), channels or cells" in str(caught[0].message)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory() -> None:
    free, whole = free_mb(CPU), psutil.virtual_memory().total / 2**20
    assert free is not None
    assert 10 < free <= whole + 1


def test_a_kind_of_device_that_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "read_machines", lambda: [Machine("a GPU", "cuda", VALUES)])
    with pytest.raises(InputError, match="no machine with a cpu device was measured; known are a GPU"):
        estimate_cost(WORK, Settings.resolve("paper"), CPU)
