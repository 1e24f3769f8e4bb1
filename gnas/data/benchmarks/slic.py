"""Superpixels of one image as the published graphs have them: SLIC the way scikit-image did it up to 0.15.

Newer versions stretch an image to [0, 1] by its own range, and size the clean-up of stray pieces by the number of grid
centroids instead of the number of segments asked for. The first is undone by dividing the compactness by the range, the
second by asking for the old sizes outright.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gnas.data.benchmarks.knn import UNIT
from gnas.data.cache import Array
from gnas.errors import InputError


@dataclass(frozen=True)
class Slic:
    """Ask for ``asked`` segments, then for one fewer, until at most ``limit`` come out."""

    size: int
    asked: int
    limit: int
    compactness: float


SLIC = {"mnist": Slic(28, 95, 75, 0.25), "cifar10": Slic(32, 200, 150, 10.0)}


def superpixels(image: Array, how: Slic) -> tuple[Array, Array]:
    """Mean colours [n, C] as float16 and centres [n, 2] (row, column) in pixels x 1024 of one uint8 image."""
    pixels = (image / 255.0).astype(np.float32).astype(np.float64)  # the rounding to float32 is part of the original
    labels = _segments(pixels, how).ravel()
    _, labels = np.unique(labels, return_inverse=True)
    count = np.bincount(labels)
    row, column = np.divmod(np.arange(labels.size), image.shape[1])
    channels = pixels.reshape(labels.size, -1).T

    def mean(values: Array) -> Array:
        return np.bincount(labels, values) / count

    color = np.stack([mean(channel) for channel in channels], 1).astype(np.float16)
    return color, np.rint(np.stack([mean(row), mean(column)], 1) * UNIT).astype(np.uint16)


def _segments(pixels: Array, how: Slic) -> Array:
    segmentation, colour, _ = _skimage()
    grey = pixels.ndim == 2
    # The stretch acts before the conversion to Lab, where it could not be undone: convert first.
    space = pixels if grey else colour.rgb2lab(pixels)
    extent = float(space.max() - space.min()) or 1.0
    before = None
    for asked in range(how.asked, 0, -1):
        sizes = centroids, smallest, largest = _sizes(pixels.shape[0], pixels.shape[1], asked)
        if sizes == before:  # the same grid and the same clean-up: the same segments, too many of them
            continue
        before, area = sizes, pixels.shape[0] * pixels.shape[1] / centroids
        labels = segmentation.slic(
            space,
            n_segments=asked,
            compactness=how.compactness / extent,
            min_size_factor=(smallest + 0.5) / area,
            max_size_factor=(largest + 0.5) / area,
            convert2lab=False,
            start_label=0,
            channel_axis=None if grey else -1,
        )
        if np.unique(labels).size <= how.limit:
            return labels
    raise InputError(f"SLIC finds no segmentation with at most {how.limit} segments")


@lru_cache(maxsize=1024)
def _sizes(height: int, width: int, asked: int) -> tuple[int, int, int]:
    """Grid centroids, and the old limits on the size of a segment: smaller ones are merged, larger ones are cut."""
    _, _, util = _skimage()
    grid = util.regular_grid((1, height, width), asked)
    segment = height * width / asked
    return np.empty((1, height, width), bool)[grid].size, int(0.5 * segment), int(3 * segment)


def _skimage() -> tuple[Any, Any, Any]:
    try:
        from skimage import color, segmentation, util
    except ImportError:
        raise InputError("superpixels from raw images need scikit-image: pip install gnas[images]") from None
    return segmentation, color, util
