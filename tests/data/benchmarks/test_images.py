"""Raw images and their superpixels, against the published ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from gnas.data.benchmarks import images
from gnas.data.benchmarks.images import SLIC, find_images, read_images, segment_image, segment_images
from gnas.data.encoding import Array
from gnas.data.storage import BrokenFile, read_npz


def need(root: Path, name: str) -> Path:
    if not (root / name).is_file():
        pytest.skip(f"{name} is not under GNAS_DATA")
    return root / name


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
