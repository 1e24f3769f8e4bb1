"""Raw images of MNIST and CIFAR10 (IDX files, binary batches, PNG sheets) and their superpixels.

The published graphs have the superpixels of SLIC in scikit-image up to 0.15. Newer versions stretch an image to [0, 1] by
its own range, and size the clean-up of stray pieces by the number of grid centroids instead of the number of requested
segments. The first is undone by dividing the compactness by the range, the second by setting the old sizes.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from gnas.data.benchmarks.compact import to_offsets
from gnas.data.benchmarks.sources import Progress, ignore_progress
from gnas.data.encoding import Array
from gnas.data.storage import BrokenFile, read_arrays, write_arrays
from gnas.distributed import at_root
from gnas.errors import InputError

UNIT = 1024  # centres are stored as pixels x 1024

Images = dict[str, tuple[Array, Array]]  # train, test: images [G, H, W] or [G, H, W, 3] uint8, labels [G]

_FOLDERS = ("", "raw", "data", "package", "package/data", "cifar-10-batches-bin")
_BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
_BROKEN = (OSError, EOFError, ValueError, KeyError, SyntaxError, TypeError, OverflowError, RecursionError, zlib.error)
_MOST = 2**26  # bytes of a file of images once it is unpacked: the largest has 47 million
_IDX = {"train": "train", "test": "t10k"}
LABELS = "{}_lables.json"  # the spelling of the package that the sheets come from
IMAGE_FILES = {
    "mnist": "mnist/train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], t10k-images-... and t10k-labels-...",
    "cifar10": "cifar10/data_batch_1.bin ... data_batch_5.bin and test_batch.bin, or the same six as PNG sheets "
    "with train_lables.json and test_lables.json",
}


def find_images(name: str, root: Path) -> Path | None:
    """The folder under ``root`` that holds all raw images of a dataset."""
    batches = [batch for names in _BATCHES.values() for batch in names]
    sheets = [*(f"{batch}.png" for batch in batches), *(LABELS.format(split) for split in _BATCHES)]
    idx = [f"{part}-{kind}-ubyte" for part in _IDX.values() for kind in ("images-idx3", "labels-idx1")]
    needed = {"mnist": [idx], "cifar10": [[f"{batch}.bin" for batch in batches], sheets]}[name]
    for folder in (root / name / sub for sub in _FOLDERS):
        if any(all(_find_file(folder, file) for file in files) for files in needed):
            return folder
    return None


def read_images(name: str, folder: Path) -> Images:
    """All images and labels, in their published order."""
    read = {"mnist": _read_idx, "cifar10": _read_cifar10}[name]
    return {split: _read_checked(read, split, folder) for split in ("train", "test")}


def _read_checked(read: Callable[[str, Path], tuple[Array, Array]], split: str, folder: Path) -> tuple[Array, Array]:
    try:
        images, labels = read(split, folder)
    except _BROKEN as error:
        why = " ".join(str(error).split())[:200]
        raise BrokenFile(f"the {split} images in {folder} cannot be read: {why}") from None
    if len(images) != len(labels) or not len(images) or labels.max() > 9:
        raise BrokenFile(f"the {split} images in {folder}: {len(images)} images, but {len(labels)} labels")
    return images, labels


def _find_file(folder: Path, name: str) -> Path | None:
    return next((folder / n for n in (name, f"{name}.gz") if (folder / n).is_file()), None)


def _read_idx(split: str, folder: Path) -> tuple[Array, Array]:
    images = _idx(folder, f"{_IDX[split]}-images-idx3-ubyte", 16)
    return images.reshape(-1, 28, 28), _idx(folder, f"{_IDX[split]}-labels-idx1-ubyte", 8)


def _idx(folder: Path, name: str, header: int) -> Array:
    path = _find_file(folder, name)
    if path is None:
        raise OSError(f"{name} is missing")
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        raise OSError(f"{path.name} holds more than {_MOST:,} bytes")
    return np.frombuffer(data, np.uint8, offset=header)


def _read_cifar10(split: str, folder: Path) -> tuple[Array, Array]:
    if _find_file(folder, f"{_BATCHES[split][0]}.png"):
        return _read_sheets(split, folder)
    # A record is a label and three colour planes of 32 x 32.
    records = np.concatenate([np.fromfile(folder / f"{b}.bin", np.uint8).reshape(-1, 3073) for b in _BATCHES[split]])
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def _read_sheets(split: str, folder: Path) -> tuple[Array, Array]:
    from PIL import Image

    sheets = []
    for batch in _BATCHES[split]:  # one row of a sheet is an image
        try:
            sheet = Image.open(folder / f"{batch}.png", formats=("PNG",))
        except Image.DecompressionBombError as error:
            raise ValueError(error) from None
        with sheet:
            if sheet.width != 32 * 32 or sheet.height > 2**14:  # checked before it is unpacked
                raise ValueError(f"{batch}.png has {sheet.width} x {sheet.height} pixels; its rows are images of 1024")
            sheets.append(np.asarray(sheet.convert("RGB")).reshape(-1, 32, 32, 3))
    labels = json.loads((folder / LABELS.format(split)).read_text())
    return np.concatenate(sheets), np.array(labels, np.uint8)


@dataclass(frozen=True)
class Slic:
    """Request ``requested`` segments, then one fewer, until the result has at most ``limit``."""

    size: int
    requested: int
    limit: int
    compactness: float


SLIC = {"mnist": Slic(28, 95, 75, 0.25), "cifar10": Slic(32, 200, 150, 10.0)}


def segment_image(image: Array, rule: Slic) -> tuple[Array, Array]:
    """Mean colours [n, C] as float16 and centres [n, 2] (row, column) in pixels x 1024 of one uint8 image."""
    pixels = (image / 255.0).astype(np.float32).astype(np.float64)  # the rounding to float32 is part of the original
    labels = _segments(pixels, rule).ravel()
    _, labels = np.unique(labels, return_inverse=True)
    count = np.bincount(labels)
    row, column = np.divmod(np.arange(labels.size), image.shape[1])
    channels = pixels.reshape(labels.size, -1).T

    def mean(values: Array) -> Array:
        return np.bincount(labels, values) / count

    color = np.stack([mean(channel) for channel in channels], 1).astype(np.float16)
    return color, np.rint(np.stack([mean(row), mean(column)], 1) * UNIT).astype(np.uint16)


def _segments(pixels: Array, rule: Slic) -> Array:
    segmentation, colour, _ = _skimage()
    grey = pixels.ndim == 2
    # The stretch acts before the conversion to Lab, where it could not be undone: convert first.
    space = pixels if grey else colour.rgb2lab(pixels)
    extent = float(space.max() - space.min()) or 1.0
    before = None
    for requested in range(rule.requested, 0, -1):
        sizes = centroids, smallest, largest = _sizes(pixels.shape[0], pixels.shape[1], requested)
        if sizes == before:  # the same grid and the same clean-up: the same segments, too many of them
            continue
        before, area = sizes, pixels.shape[0] * pixels.shape[1] / centroids
        labels = segmentation.slic(
            space,
            n_segments=requested,
            compactness=rule.compactness / extent,
            min_size_factor=(smallest + 0.5) / area,
            max_size_factor=(largest + 0.5) / area,
            convert2lab=False,
            start_label=0,
            channel_axis=None if grey else -1,
        )
        if np.unique(labels).size <= rule.limit:
            return labels
    raise InputError(f"SLIC finds no segmentation with at most {rule.limit} segments")


@lru_cache(maxsize=1024)
def _sizes(height: int, width: int, requested: int) -> tuple[int, int, int]:
    """Grid centroids, and the old limits on the size of a segment: smaller ones are merged, larger ones are cut."""
    _, _, util = _skimage()
    grid = util.regular_grid((1, height, width), requested)
    segment = height * width / requested
    return np.empty((1, height, width), bool)[grid].size, int(0.5 * segment), int(3 * segment)


def _skimage() -> tuple[Any, Any, Any]:
    try:
        from skimage import color, segmentation, util
    except ImportError:
        raise InputError("superpixels from raw images need scikit-image: pip install gnas[images]") from None
    return segmentation, color, util


_PART = 500  # images per part: the most that each worker of an interrupted preparation loses


@dataclass(frozen=True)
class Nodes:
    """Superpixels of many images."""

    nodes: Array  # [G] superpixels of each image
    color: Array  # [N, C] float16
    center: Array  # [N, 2] uint16, pixels x 1024
    label: Array  # [G]

    def cut(self, first: int, last: int) -> Nodes:
        """Images ``first`` to ``last`` (not included)."""
        a, b = to_offsets(self.nodes)[[first, last]]
        return Nodes(self.nodes[first:last], self.color[a:b], self.center[a:b], self.label[first:last])


def segment_images(
    name: str, root: Path, folder: Path, workers: int = 1, on_progress: Progress = ignore_progress
) -> dict[str, Nodes]:
    """Superpixels of the raw images. Finished parts are stored in ``folder`` and are not done again."""
    images = read_images(name, find_images(name, root) or root)
    total, done = sum(len(i) for i, _ in images.values()), 0
    result = {}
    with ExitStack() as held:
        pool = None
        if workers > 1:  # not forked: a fork of a process that has used torch's threads can hang
            context, here = get_context("spawn"), partial(os.chdir, os.getcwd())
            with at_root():  # a new process must not import from the current folder
                pool = held.enter_context(ProcessPoolExecutor(workers, mp_context=context, initializer=here))
        for split, (pictures, labels) in images.items():
            found = []
            for part in _parts(pictures, folder, f"{name}-{split}", SLIC[name], pool, 2 * workers):
                found.append(part)
                done += part["nodes"].size
                on_progress("superpixels", done, total)
            nodes, color, center = (np.concatenate([p[key] for p in found]) for key in ("nodes", "color", "center"))
            result[split] = Nodes(nodes, color, center, labels)
    return result


def _parts(
    images: Array, folder: Path, name: str, rule: Slic, pool: ProcessPoolExecutor | None, ahead: int
) -> Iterable[dict[str, Array]]:
    """Parts in order; with a pool of processes, ``ahead`` of them are in progress."""
    jobs = [(folder / f"{name}-{i:06d}.safetensors", images[i : i + _PART]) for i in range(0, len(images), _PART)]
    make = partial(_part, rule=rule)
    if pool is None:
        yield from map(make, jobs)
        return
    queue = iter(jobs)
    running: list[Future[dict[str, Array]]] = []
    while True:
        with at_root():
            running += [pool.submit(make, job) for job in islice(queue, ahead - len(running))]
        if not running:
            return
        yield running.pop(0).result()


def _part(job: tuple[Path, Array], rule: Slic) -> dict[str, Array]:
    path, images = job
    about_images = {"images": len(images), "crc": zlib.crc32(images.tobytes())}
    if path.is_file():
        try:
            arrays, about = read_arrays(path)
            if about == about_images and arrays["nodes"].size == len(images):
                return arrays
        except (BrokenFile, KeyError):
            pass  # done again
    found = [segment_image(image, rule) for image in images]
    color, center = (np.concatenate(column) for column in zip(*found, strict=True))
    arrays = {"nodes": np.array([len(c) for c, _ in found], np.int32), "color": color, "center": center}
    write_arrays(path, arrays, about_images)
    return arrays
