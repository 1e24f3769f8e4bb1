"""Edges between superpixels: each node sends to its 8 strongest neighbours, for a whole dataset at once.

With c = centre / size and d the distances between centres, sigma_i = (sum of the 9 smallest d_i, itself included) / 8 +
1e-8 and A = exp(-(d / sigma_i)^2), made symmetric: A = (A + A^T) / 2. The original drops one of the nine strongest by
array order; we keep the 8 strongest, the lower node number first where two are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from gnas.data.cache import Array
from gnas.data.compact import Compact, starts
from gnas.data.sources import Progress, no_progress
from gnas.errors import InputError

NEIGHBORS = 8
UNIT = 1024  # centres are stored as pixels x 1024
_PAIRS = 2**18  # node pairs of one chunk: small enough for the caches of a CPU


def nearest_edges(
    center: Array, nodes: Array, size: int, device: str = "cpu", on_progress: Progress = no_progress
) -> tuple[Array, Array, Array]:
    """Senders of all edges by (graph, target, source), how many each node has, and the sigma of each node.

    ``center`` is [N, 2] in pixels x 1024, ``nodes`` the number of nodes of each graph, ``size`` the width of an image.
    """
    if not nodes.size:
        return np.zeros(0, np.uint8), np.zeros(0, np.uint8), np.zeros(0, np.float32)
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, but there is no CUDA device; use device='cpu'")
    pairs = _PAIRS if device == "cpu" else 64 * _PAIRS
    ptr, step = starts(nodes), max(1, pairs // int(nodes.max()) ** 2)

    def chunk(first: int) -> tuple[Tensor, Tensor, Tensor]:
        last = min(first + step, nodes.size)
        rows = torch.from_numpy(center[ptr[first] : ptr[last]].astype(np.float64))
        counts = torch.from_numpy(nodes[first:last].astype(np.int64))
        return _chunk(rows.to(device), counts.to(device), size)

    parts = []
    with _pool(device) as pool:
        for part in pool.map(chunk, range(0, nodes.size, step)):
            parts.append([tensor.cpu() for tensor in part])
            on_progress("edges", min(len(parts) * step, nodes.size), nodes.size)
    source, degree, sigma = (torch.cat(column).numpy() for column in zip(*parts, strict=True))
    return source, degree, sigma


@contextmanager
def _pool(device: str) -> Iterator[ThreadPoolExecutor]:
    """One chunk a core. Sharing every operation between the cores instead has them wait for each other hundreds of times
    a second, which is 10 times slower when the machine has other work."""
    threads = torch.get_num_threads()
    workers = threads if device == "cpu" else 1
    torch.set_num_threads(1 if workers > 1 else threads)
    try:
        with ThreadPoolExecutor(workers) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


def _chunk(center: Tensor, nodes: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same for a few hundred graphs, padded to the largest."""
    widest = int(nodes.max())
    real = torch.arange(widest, device=center.device) < nodes[:, None]
    padded = center.new_zeros(nodes.numel(), widest, 2)
    padded[real] = center
    pair = real[:, :, None] & real[:, None, :]
    distance = distances(padded[:, :, None], padded[:, None, :], size).masked_fill_(~pair, torch.inf)
    sigma = _sigma(distance)
    strength = torch.exp(-((distance / sigma[:, :, None]) ** 2))
    strength = (strength + strength.mT) / 2
    pair.diagonal(dim1=1, dim2=2).fill_(False)
    sends = _strongest(strength, pair).mT  # [graph, target, source]
    source = sends.nonzero()[:, 2]
    degree = sends.sum(2)[real]
    return source.to(torch.uint8), degree.to(torch.uint8), sigma[real].float()


def distances(a: Tensor, b: Tensor, size: int) -> Tensor:
    """Distances between centres in units of the image. The squares are whole numbers, so equal distances stay equal."""
    return (a - b).square_().sum(-1).sqrt_().div_(UNIT * size)


def _sigma(distance: Tensor) -> Tensor:
    k = min(NEIGHBORS + 1, distance.size(2))
    near = distance.topk(k, dim=2, largest=False).values
    return near.masked_fill_(near.isinf(), 0).sum(2) / NEIGHBORS + 1e-8


def _strongest(strength: Tensor, allowed: Tensor) -> Tensor:
    """Marks the 8 strongest allowed columns of each row. Strengths are rounded to 2^-40, far above the noise of exp, and
    ranked together with the column number, so that ties fall the same way on every device."""
    width = strength.size(2)
    column = torch.arange(width, device=strength.device)
    rank = (strength * 2**40).round_().long() * width + (width - 1 - column)
    rank.masked_fill_(~allowed, -1)
    top = rank.topk(min(NEIGHBORS, width), dim=2)
    return torch.zeros_like(allowed).scatter_(2, top.indices, top.values >= 0)


def edge_strengths(split: Compact, size: int) -> Tensor:
    """A of every edge, from the centres and sigmas that a prepared file holds."""
    node_ptr, edge_ptr = split.pointers()
    shift = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
    source, target = shift + split.source, shift + split.targets()
    center = torch.from_numpy(split.columns["center"].astype(np.float64))
    sigma = torch.from_numpy(split.columns["sigma"]).double()
    out = torch.empty(source.size)
    for a in range(0, source.size, _PAIRS):
        s, t = source[a : a + _PAIRS], target[a : a + _PAIRS]
        d = distances(center[s], center[t], size)
        out[a : a + _PAIRS] = (torch.exp(-((d / sigma[s]) ** 2)) + torch.exp(-((d / sigma[t]) ** 2))) / 2
    return out
