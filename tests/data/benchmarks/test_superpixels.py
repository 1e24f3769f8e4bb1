"""Superpixel graphs: edges against a slow loop over single nodes, superpixels against the published ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from gnas.data.benchmarks import DATASETS, find_facts, superpixels
from gnas.data.benchmarks.compact import Compact
from gnas.data.benchmarks.images import SLIC, UNIT
from gnas.data.benchmarks.sources import Request
from gnas.data.benchmarks.superpixels import edge_strengths, nearest_edges
from gnas.data.encoding import Array
from gnas.errors import InputError


def slow_edges(center: Array, size: int) -> tuple[list[tuple[int, int]], dict[tuple[int, int], float]]:
    """One graph, one pair at a time: edges (source, target) sorted by target, and the strength of every pair."""
    n = len(center)
    points = [(int(r) / UNIT / size, int(c) / UNIT / size) for r, c in center]
    distance = [[math.dist(a, b) for b in points] for a in points]
    sigma = [sum(sorted(row)[:9]) / 8 + 1e-8 for row in distance]
    strength = {}
    for i in range(n):
        for j in range(n):
            one, other = math.exp(-((distance[i][j] / sigma[i]) ** 2)), math.exp(-((distance[i][j] / sigma[j]) ** 2))
            strength[i, j] = (one + other) / 2
    edges = []
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j, i=i: (-round(strength[i, j], 11), j))
        edges += [(i, j) for j in others[:8]]
    return sorted(edges, key=lambda e: (e[1], e[0])), strength


def random_centers(counts: list[int], size: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, size * UNIT, (sum(counts), 2)).astype(np.uint16), np.array(counts)


def as_compact(center: Array, nodes: Array, size: int) -> Compact:
    source, degree, sigma = nearest_edges(center, nodes, size)
    return Compact(nodes, degree, source, {"center": center, "sigma": sigma})


def assert_like_slow(split: Compact, size: int) -> None:
    node_ptr, edge_ptr = split.pointers()
    target, strengths = split.targets(), edge_strengths(split, size)
    for graph in range(len(split)):
        wanted, strength = slow_edges(split.columns["center"][node_ptr[graph] : node_ptr[graph + 1]], size)
        rows = slice(edge_ptr[graph], edge_ptr[graph + 1])
        found = list(zip(split.source[rows].tolist(), target[rows].tolist(), strict=True))
        assert found == wanted
        assert np.allclose(strengths[rows].numpy(), [strength[e] for e in wanted], atol=1e-6)


def test_edges_are_those_of_a_slow_loop() -> None:
    center, nodes = random_centers([30, 12, 9, 8, 2, 1, 75], 28, seed=0)
    split = as_compact(center, nodes, 28)
    assert_like_slow(split, 28)
    assert np.diff(split.pointers()[1]).tolist() == [240, 96, 72, 56, 2, 0, 600]


def test_ties_fall_to_the_lower_number() -> None:
    """On a regular grid most distances are equal."""
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6), indexing="ij"), -1).reshape(-1, 2) * 4 * UNIT
    split = as_compact(grid.astype(np.uint16), np.array([36]), 28)
    assert_like_slow(split, 28)


def test_edges_do_not_depend_on_the_size_of_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    center, nodes = random_centers([20, 31, 11, 25, 9, 40], 32, seed=1)
    whole = nearest_edges(center, nodes, 32)
    monkeypatch.setattr(superpixels, "_PAIRS", 40 * 40)
    for a, b in zip(whole, nearest_edges(center, nodes, 32), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_builds_the_same_edges() -> None:
    center, nodes = random_centers([75, 40, 66, 9, 3] * 20, 28, seed=2)
    source, degree, sigma = nearest_edges(center, nodes, 28)
    other = nearest_edges(center, nodes, 28, device="cuda")
    assert np.array_equal(source, other[0])
    assert np.array_equal(degree, other[1])
    assert np.allclose(sigma, other[2])


def test_a_device_that_is_not_there_is_said() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(InputError, match="no CUDA device"):
        nearest_edges(*random_centers([12], 28, seed=0), 28, device="cuda")


def need(root: Path, name: str) -> Path:
    if not (root / name).is_file():
        pytest.skip(f"{name} is not under GNAS_DATA")
    return root / name


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_prepared_superpixels_have_the_published_statistics(name: str, data_root: Path) -> None:
    parts, facts = superpixels.read_prepared(need(data_root, f"{name}/{name}_superpixels.npz")), find_facts(name)
    nodes = np.concatenate([part.nodes for part in parts.values()])
    assert nodes.sum() == facts.nodes
    assert (nodes.min(), nodes.max()) == (facts.smallest, facts.largest)
    assert parts["train"].nodes.size == facts.graphs[0] + facts.graphs[1]
    assert parts["test"].nodes.size == facts.graphs[2]
    assert np.bincount(parts["train"].label).size == 10


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_edges_of_published_superpixels_are_those_of_a_slow_loop(
    name: str, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = superpixels.read_prepared(need(data_root, f"{name}/{name}_superpixels.npz"))["test"]
    parts = {"train": test.cut(0, 40), "val": test.cut(40, 41), "test": test.cut(41, 42)}
    splits = superpixels.add_edges(parts, Request(name, find_facts(name), data_root))
    split = splits["train"]
    assert_like_slow(Compact(split.nodes[:10], *head(split, 10)), SLIC[name].size)
    assert split.source.size == 8 * split.nodes.sum()
    plain, full = (DATASETS[name].graph_set(split, edge_attr) for edge_attr in (False, True))
    assert plain.edge_attr is None
    assert full.edge_attr is not None
    assert full.pos is not None
    assert full.x.size(1) == find_facts(name).task.in_channels
    assert torch.equal(full.x[:, -2:], full.pos)
    assert 0 <= float(full.x.min()) <= float(full.x.max()) <= 1


def head(split: Compact, graphs: int) -> tuple[Array, Array, dict[str, Array]]:
    nodes, edges = (pointers[graphs] for pointers in split.pointers())
    columns = {key: split.columns[key][:nodes] for key in ("center", "sigma")}
    return split.degree[:nodes], split.source[:edges], columns
