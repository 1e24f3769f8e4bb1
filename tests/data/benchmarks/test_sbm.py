"""PATTERN and CLUSTER: what every graph must satisfy, computed in slow loops, and the statistics of many."""

from __future__ import annotations

import hashlib
import math
from collections import Counter

import numpy as np
import pytest
from torch_geometric.data import Data

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.benchmarks import find_facts
from gnas.data.benchmarks.compact import Compact
from gnas.data.benchmarks.sbm import (
    MODELS,
    ClusterModel,
    Draws,
    PatternModel,
    coin_threshold,
    draw_pattern,
    generate_splits,
    graph_set,
)

PATTERN, CLUSTER = MODELS["pattern"], MODELS["cluster"]


def digest(splits: dict[str, Compact]) -> str:
    """One hash of every byte."""
    whole = hashlib.sha256()
    for split in SPLIT_NAMES:
        for name, array in sorted(splits[split].arrays(split).items()):
            whole.update(name.encode() + array.tobytes())
    return whole.hexdigest()[:16]


def graph(split: Compact, index: int) -> Data:
    return graph_set(split)[index]


def neighbor_sets(data: Data) -> list[set[int]]:
    """Receivers of each node, one edge at a time."""
    sets: list[set[int]] = [set() for _ in range(data.num_nodes)]
    for source, target in data.edge_index.T.tolist():
        assert target not in sets[source]
        sets[source].add(target)
    return sets


@pytest.mark.parametrize(("name", "wanted"), [("pattern", "2fd2262b1634a20f"), ("cluster", "20236bcca6b0c298")])
def test_a_seed_gives_the_same_bytes_on_every_machine(name: str, wanted: str) -> None:
    assert digest(generate_splits(MODELS[name], (6, 2, 2), seed=5)) == wanted
    assert digest(generate_splits(MODELS[name], (6, 2, 2), seed=6)) != wanted


def test_a_graph_does_not_depend_on_those_drawn_before_it() -> None:
    few, many = (generate_splits(CLUSTER, (count, 1, 1), seed=3)["train"] for count in (20, 40))
    for index in (0, 7, 19):
        a, b = graph(few, index), graph(many, index)
        assert a.edge_index.equal(b.edge_index)
        assert a.x.equal(b.x)


@pytest.mark.parametrize("name", ["pattern", "cluster"])
def test_edges_go_both_ways_and_never_home(name: str) -> None:
    split = generate_splits(MODELS[name], (8, 1, 1), seed=1)["train"]
    for index in range(8):
        data = graph(split, index)
        receivers = neighbor_sets(data)
        for node, others in enumerate(receivers):
            assert node not in others
            assert all(node in receivers[other] for other in others)
        assert data.edge_index[1].tolist() == sorted(data.edge_index[1].tolist())


def test_the_marked_nodes_of_pattern_carry_one_of_the_hundred_patterns() -> None:
    assert isinstance(PATTERN, PatternModel)
    patterns = PATTERN.draw_patterns(seed=2)
    assert len(patterns) == 100
    known = {(p.adjacency.tobytes(), p.signal.tobytes()) for p in patterns}
    split = generate_splits(PATTERN, (25, 1, 1), seed=2)["train"]
    for index in range(25):
        data = graph(split, index)
        planted, receivers = data.y.nonzero()[:, 0].tolist(), neighbor_sets(data)
        inner = np.array([[b in receivers[a] for b in planted] for a in planted])
        assert (inner.tobytes(), data.x[planted, 0].numpy().tobytes()) in known


@pytest.mark.parametrize("seed", range(4))
def test_pattern_sizes_have_the_published_mean(seed: int) -> None:
    assert isinstance(PATTERN, PatternModel)
    sizes = [p.signal.size for p in PATTERN.draw_patterns(seed)]
    assert abs(np.mean(sizes) - 21.4) <= 0.1
    assert 5 <= min(sizes) < 10
    assert 30 < max(sizes) <= 34


def test_every_pattern_is_used_equally_often() -> None:
    order = Draws(0, 4 << 32).order(10_000) % 100
    assert set(Counter(order.tolist()).values()) == {100}


def test_cluster_marks_one_node_of_each_community() -> None:
    split = generate_splits(CLUSTER, (20, 1, 1), seed=4)["train"]
    for index in range(20):
        data = graph(split, index)
        for community in range(6):
            members = (data.y == community).nonzero()[:, 0]
            assert 5 <= len(members) <= 34
            assert sorted(data.x[members, 0].tolist())[-1] == community + 1
            assert (data.x[members, 0] > 0).sum() == 1


@pytest.mark.parametrize("name", ["pattern", "cluster"])
def test_edge_frequencies_are_those_of_the_model(name: str) -> None:
    """Counts of possible and present edges by kind, over 300 graphs; 4 standard deviations of a coin."""
    model = MODELS[name]
    assert isinstance(model, (PatternModel, ClusterModel))
    wanted = {"inside": model.blocks.inside, "across": model.blocks.across, "joined": 0.5}
    possible, present = Counter[str](), Counter[str]()
    for index in range(300):
        draws = Draws(9, index)
        if isinstance(model, PatternModel):
            pattern = draw_pattern(Draws(8, index), 20)
            group = model.blocks.draw(Draws(9, index), extra=20)
            adjacency, _, label = model.draw(draws, pattern)
            assert np.array_equal(label, group == 5)
        else:
            adjacency, _, group = model.draw(draws)
        same = group[:, None] == group
        planted = (group == model.blocks.communities)[:, None]
        kinds = {
            "inside": same & ~planted & ~planted.T,
            "across": ~same & ~planted & ~planted.T,
            "joined": planted ^ planted.T,
        }
        for kind, pairs in kinds.items():
            upper = np.triu(pairs, 1)
            possible[kind] += int(upper.sum())
            present[kind] += int((adjacency & upper).sum())
    for kind, count in possible.items():
        if count:
            p = wanted[kind]
            assert abs(present[kind] / count - p) < 4 * math.sqrt(p * (1 - p) / count), kind


@pytest.mark.parametrize("name", ["pattern", "cluster"])
def test_the_full_draw_has_the_published_size(name: str) -> None:
    """Node counts of all graphs of seed 0, and the edges their groups lead to expect; the edges themselves are left out."""
    model, facts = MODELS[name], find_facts(name)
    table = model.blocks.thresholds(0.5) / 2**16
    patterns = model.draw_patterns(0) if isinstance(model, PatternModel) else []
    nodes, edges = [], 0.0
    for part, count in enumerate(facts.graphs):
        chosen = Draws(0, 4 << 32 | part).order(count) % 100
        for index in range(count):
            low, high = model.blocks.sizes
            sizes = low + Draws(0, part << 32 | index).below(high - low + 1, model.blocks.communities)
            groups = np.append(sizes, patterns[chosen[index]].signal.size if patterns else 0)
            nodes.append(groups.sum())
            edges += groups @ table @ groups - groups @ np.diag(table)
    assert abs(sum(nodes) / facts.nodes - 1) < 0.01
    assert abs(edges / len(nodes) / facts.edges - 1) < 0.01
    assert abs(min(nodes) - facts.smallest) <= facts.slack
    assert abs(max(nodes) - facts.largest) <= facts.slack


def test_draws_are_even() -> None:
    draws = Draws(1, 2)
    counts = np.bincount(draws.below(6, 60_000))
    assert counts.size == 6
    assert abs(counts - 10_000).max() < 5 * math.sqrt(10_000)
    assert sorted(draws.order(50).tolist()) == list(range(50))
    assert abs((draws.levels(100_001) < coin_threshold(0.35)).mean() - 0.35) < 0.01
