"""Raw images of MNIST and CIFAR10 in the forms they are handed around in: IDX files, binary batches, PNG sheets."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gnas.data.cache import Array, BrokenFile

Images = dict[str, tuple[Array, Array]]  # train, test: images [G, H, W] or [G, H, W, 3] uint8, labels [G]

_FOLDERS = ("", "raw", "data", "package", "package/data", "cifar-10-batches-bin")
_BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
_BROKEN = (OSError, EOFError, ValueError, KeyError, SyntaxError, TypeError, OverflowError, RecursionError, zlib.error)
_MOST = 2**26  # bytes of a file of images once it is unpacked: the largest has 47 million
_IDX = {"train": "train", "test": "t10k"}
WANTED = {
    "mnist": "mnist/train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], t10k-images-... and t10k-labels-...",
    "cifar10": "cifar10/data_batch_1.bin ... data_batch_5.bin and test_batch.bin, or the same six as PNG sheets "
    "with train_lables.json and test_lables.json",
}


def find_images(name: str, root: Path) -> Path | None:
    """The folder under ``root`` that holds all raw images of a dataset."""
    wanted = {"mnist": [_idx_names()], "cifar10": [_batch_names("bin"), [*_batch_names("png"), *_label_names()]]}[name]
    for folder in (root / name / sub for sub in _FOLDERS):
        if any(all(_file(folder, file) for file in files) for files in wanted):
            return folder
    return None


def read_images(name: str, folder: Path) -> Images:
    """All images and labels, in their published order."""
    read = {"mnist": _read_idx, "cifar10": _read_cifar10}[name]
    return {split: _checked(read, split, folder) for split in ("train", "test")}


def _checked(read: Callable[[str, Path], tuple[Array, Array]], split: str, folder: Path) -> tuple[Array, Array]:
    try:
        images, labels = read(split, folder)
    except _BROKEN as error:
        why = " ".join(str(error).split())[:200]
        raise BrokenFile(f"the {split} images in {folder} cannot be read: {why}") from None
    if len(images) != len(labels) or not len(images) or labels.max() > 9:
        raise BrokenFile(f"the {split} images in {folder}: {len(images)} images do not fit {len(labels)} labels")
    return images, labels


def _file(folder: Path, name: str) -> Path | None:
    return next((folder / n for n in (name, f"{name}.gz") if (folder / n).is_file()), None)


def _idx_names() -> list[str]:
    return [f"{p}-{kind}-ubyte" for p in _IDX.values() for kind in ("images-idx3", "labels-idx1")]


def _batch_names(ending: str) -> list[str]:
    return [f"{batch}.{ending}" for batches in _BATCHES.values() for batch in batches]


def _label_names() -> list[str]:
    return ["train_lables.json", "test_lables.json"]  # so spelled where the sheets come from


def _read_idx(split: str, folder: Path) -> tuple[Array, Array]:
    images = _idx(folder, f"{_IDX[split]}-images-idx3-ubyte", 16)
    return images.reshape(-1, 28, 28), _idx(folder, f"{_IDX[split]}-labels-idx1-ubyte", 8)


def _idx(folder: Path, name: str, header: int) -> Array:
    path = _file(folder, name)
    if path is None:
        raise OSError(f"{name} is missing")
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        raise OSError(f"{path.name} holds more than {_MOST:,} bytes")
    return np.frombuffer(data, np.uint8, offset=header)


def _read_cifar10(split: str, folder: Path) -> tuple[Array, Array]:
    if _file(folder, f"{_BATCHES[split][0]}.png"):
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
            if sheet.width != 32 * 32 or sheet.height > 2**14:  # looked at before it is unpacked
                raise ValueError(f"{batch}.png has {sheet.width} x {sheet.height} pixels; its rows are images of 1024")
            sheets.append(np.asarray(sheet.convert("RGB")).reshape(-1, 32, 32, 3))
    labels = json.loads((folder / f"{split}_lables.json").read_text())
    return np.concatenate(sheets), np.array(labels, np.uint8)
