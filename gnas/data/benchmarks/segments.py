"""Superpixels of all raw images: on several processes, and kept part by part so that an interruption costs little."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from gnas.data.benchmarks.images import find_images, read_images
from gnas.data.benchmarks.slic import SLIC, Slic, superpixels
from gnas.data.cache import Array, BrokenFile, read_arrays, write_arrays
from gnas.data.compact import starts
from gnas.data.sources import Options

_PART = 500  # images to a part: what an interrupted preparation loses at most, for each worker


@dataclass(frozen=True)
class Nodes:
    """Superpixels of many images."""

    nodes: Array  # [G] superpixels of each image
    color: Array  # [N, C] float16
    center: Array  # [N, 2] uint16, pixels x 1024
    label: Array  # [G]

    def cut(self, first: int, last: int) -> Nodes:
        """Images ``first`` to ``last`` (not included)."""
        a, b = starts(self.nodes)[[first, last]]
        return Nodes(self.nodes[first:last], self.color[a:b], self.center[a:b], self.label[first:last])


def read_raw(name: str, root: Path, folder: Path, options: Options) -> dict[str, Nodes]:
    """Superpixels of the raw images. Parts are kept in ``folder`` as they finish; what is there is not done again."""
    images = read_images(name, find_images(name, root) or root)
    total, done = sum(len(i) for i, _ in images.values()), 0
    result = {}
    with ExitStack() as held:
        pool = None
        if options.workers > 1:  # not forked: a fork of a process that has used torch's threads can hang
            pool = held.enter_context(ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")))
        for split, (pictures, labels) in images.items():
            found = []
            for part in _parts(pictures, folder, f"{name}-{split}", SLIC[name], pool, 2 * options.workers):
                found.append(part)
                done += part["nodes"].size
                options.on_progress("superpixels", done, total)
            nodes, color, center = (np.concatenate([p[key] for p in found]) for key in ("nodes", "color", "center"))
            result[split] = Nodes(nodes, color, center, labels)
    return result


def _parts(
    images: Array, folder: Path, name: str, how: Slic, pool: ProcessPoolExecutor | None, ahead: int
) -> Iterable[dict[str, Array]]:
    """Parts in order; with a pool of processes, so many are under way."""
    jobs = [(folder / f"{name}-{i:06d}.npz", images[i : i + _PART]) for i in range(0, len(images), _PART)]
    make = partial(_part, how=how)
    if pool is None:
        yield from map(make, jobs)
        return
    queue = iter(jobs)
    waiting = [pool.submit(make, job) for job in islice(queue, ahead)]
    while waiting:
        part = waiting.pop(0).result()
        waiting += [pool.submit(make, job) for job in islice(queue, 1)]
        yield part


def _part(job: tuple[Path, Array], how: Slic) -> dict[str, Array]:
    path, images = job
    mark = {"images": len(images), "crc": zlib.crc32(images.tobytes())}
    if path.is_file():
        try:
            arrays, about = read_arrays(path)
            if about == mark and arrays["nodes"].size == len(images):
                return arrays
        except (BrokenFile, KeyError):
            pass  # done again
    found = [superpixels(image, how) for image in images]
    color, center = (np.concatenate(column) for column in zip(*found, strict=True))
    arrays = {"nodes": np.array([len(c) for c, _ in found], np.int32), "color": color, "center": center}
    write_arrays(path, arrays, mark)
    return arrays
