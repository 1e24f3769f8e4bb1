"""Superpixel graphs: edges against a slow loop over single nodes, superpixels against the published ones."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from gnas.data.benchmarks import DATASETS, find_facts, images, superpixels
from gnas.data.benchmarks.compact import Compact
from gnas.data.benchmarks.images import SLIC, UNIT, find_images, read_images, segment_image, segment_images
from gnas.data.benchmarks.sources import Request
from gnas.data.benchmarks.superpixels import edge_strengths, nearest_edges
from gnas.data.encoding import Array
from gnas.data.storage import BrokenFile, read_npz
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


def write_mnist(folder: Path, counts: tuple[int, int], zipped: bool = True) -> None:
    """A few random blobs as IDX files."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, count in zip(("train", "t10k"), counts, strict=True):
        images = np.zeros((count, 28, 28), np.uint8)
        images[:, 6:22, 8:20] = rng.integers(100, 255, (count, 16, 12))
        files = {
            "images-idx3": bytes(16) + images.tobytes(),
            "labels-idx1": bytes(8) + bytes(i % 10 for i in range(count)),
        }
        for kind, content in files.items():
            path = folder / f"{prefix}-{kind}-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(content) if zipped else content)


def test_idx_files_are_read_packed_or_plain(tmp_path: Path) -> None:
    write_mnist(tmp_path / "a/mnist", (3, 2))
    write_mnist(tmp_path / "b/mnist/raw", (3, 2), zipped=False)
    packed, plain = (read_images("mnist", find_images("mnist", tmp_path / x) or tmp_path) for x in "ab")
    assert packed["train"][0].shape == (3, 28, 28)
    for split in ("train", "test"):
        assert np.array_equal(packed[split][0], plain[split][0])
        assert packed[split][1].tolist() == list(range(len(packed[split][0])))
    assert find_images("mnist", tmp_path) is None


def test_cifar10_is_the_same_from_batches_and_from_sheets(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "bin/cifar10").mkdir(parents=True)
    (tmp_path / "png/cifar10").mkdir(parents=True)
    rng = np.random.default_rng(0)
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for batch in ["test_batch", *(f"data_batch_{i}" for i in range(1, 6))]:
        pixels, label = rng.integers(0, 255, (4, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, 4, dtype=np.uint8)
        records = np.concatenate([label[:, None], pixels.transpose(0, 3, 1, 2).reshape(4, -1)], 1)
        (tmp_path / f"bin/cifar10/{batch}.bin").write_bytes(records.astype(np.uint8).tobytes())
        Image.fromarray(pixels.reshape(4, 1024, 3)).save(tmp_path / f"png/cifar10/{batch}.png")
        labels["test" if batch == "test_batch" else "train"] += label.tolist()
    for split, values in labels.items():
        (tmp_path / f"png/cifar10/{split}_lables.json").write_text(json.dumps(values))
    batches, sheets = (read_images("cifar10", find_images("cifar10", tmp_path / x) or tmp_path) for x in ("bin", "png"))
    for split in ("train", "test"):
        assert np.array_equal(batches[split][0], sheets[split][0])
        assert np.array_equal(batches[split][1], sheets[split][1])


def test_broken_images_are_said(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", (3, 2))
    (tmp_path / "mnist/train-images-idx3-ubyte.gz").write_bytes(b"not packed")
    with pytest.raises(BrokenFile, match="train images"):
        read_images("mnist", tmp_path / "mnist")


def test_an_interrupted_preparation_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage")
    write_mnist(tmp_path / "mnist", (7, 2))
    monkeypatch.setattr(images, "_PART", 3)
    seen: list[int] = []

    def interrupt(what: str, done: int, total: int) -> None:
        seen.append(done)
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        segment_images("mnist", tmp_path, tmp_path / "parts", on_progress=interrupt)
    assert seen == [3, 6]
    calls: list[int] = []

    def counted(image: Array, rule: object) -> tuple[Array, Array]:
        calls.append(1)
        return segment_image(image, SLIC["mnist"])

    monkeypatch.setattr(images, "segment_image", counted)
    resumed = segment_images("mnist", tmp_path, tmp_path / "parts")
    assert len(calls) == 3  # the seventh training image and both test images
    (tmp_path / "parts/mnist-train-000003.safetensors").write_bytes(b"cut off")
    mended = segment_images("mnist", tmp_path, tmp_path / "parts")
    assert len(calls) == 6
    for name in ("nodes", "color", "center"):
        assert np.array_equal(getattr(resumed["train"], name), getattr(mended["train"], name))


@pytest.mark.slow
def test_several_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage")
    write_mnist(tmp_path / "mnist", (6, 2))
    monkeypatch.setattr(images, "_PART", 2)
    one = segment_images("mnist", tmp_path, tmp_path / "one")
    two = segment_images("mnist", tmp_path, tmp_path / "two", workers=2)
    for split in ("train", "test"):
        for name in ("nodes", "color", "center", "label"):
            assert np.array_equal(getattr(one[split], name), getattr(two[split], name))


def need(root: Path, name: str) -> Path:
    if not (root / name).is_file():
        pytest.skip(f"{name} is not under GNAS_DATA")
    return root / name


@pytest.mark.data
def test_superpixels_of_raw_mnist_are_the_published_ones(data_root: Path) -> None:
    """150 images; all 70,000 were compared once: equal in every node, colour and centre."""
    pytest.importorskip("skimage")
    need(data_root, "mnist/train-images-idx3-ubyte.gz")
    arrays = read_npz(need(data_root, "mnist/mnist_superpixels.npz"))
    pictures, labels = read_images("mnist", data_root / "mnist")["train"]
    assert np.array_equal(labels, arrays["train_label"])
    ptr = arrays["train_node_ptr"]
    for i in range(150):
        color, center = segment_image(pictures[i], SLIC["mnist"])
        assert np.array_equal(center.T, arrays["train_center"][:, ptr[i] : ptr[i + 1]])
        assert np.array_equal(color.T, arrays["train_color"][:, ptr[i] : ptr[i + 1]])


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
