"""MNIST and CIFAR10 as superpixel graphs: nodes prepared or made from raw images, edges built here.

Each node sends to its 8 strongest neighbours. With c = centre / size and d the distances between centres, sigma_i = (sum
of the 9 smallest d_i, itself included) / 8 + 1e-8 and A = exp(-(d / sigma_i)^2), made symmetric: A = (A + A^T) / 2. The
original drops one of the nine strongest by array order; we take the 8 strongest, the lower node number first where two
are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.benchmarks.compact import Compact, Splits, to_offsets
from gnas.data.benchmarks.images import IMAGE_FILES, SLIC, UNIT, Nodes, find_images, segment_images
from gnas.data.benchmarks.sources import (
    DIGITS,
    PARTS,
    Dataset,
    Facts,
    Progress,
    Request,
    Source,
    cache_folder,
    download_splits,
    ignore_progress,
    image_task,
)
from gnas.data.encoding import Array
from gnas.data.storage import BrokenFile, read_npz
from gnas.errors import InputError
from gnas.graph import GraphSet

NEIGHBORS = 8
_PAIRS = 2**18  # node pairs of one chunk: small enough for the caches of a CPU


def nearest_edges(
    center: Array, nodes: Array, size: int, device: str = "cpu", on_progress: Progress = ignore_progress
) -> tuple[Array, Array, Array]:
    """Senders of all edges by (graph, target, source), how many each node has, and the sigma of each node.

    ``center`` is [N, 2] in pixels x 1024, ``nodes`` the number of nodes of each graph, ``size`` the width of an image.
    """
    if not nodes.size:
        return np.zeros(0, np.uint8), np.zeros(0, np.uint8), np.zeros(0, np.float32)
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was requested, but there is no CUDA device; use device='cpu'")
    pairs = _PAIRS if device == "cpu" else 64 * _PAIRS
    ptr, step = to_offsets(nodes), max(1, pairs // int(nodes.max()) ** 2)

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
    """One chunk per core. If the cores shared every operation instead, they would wait for each other hundreds of times per
    second, which is 10 times slower on a machine with other work."""
    threads = torch.get_num_threads()
    workers = threads if device == "cpu" else 1
    torch.set_num_threads(1 if workers > 1 else threads)
    try:
        with ThreadPoolExecutor(workers) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


def _chunk(center: Tensor, nodes: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The edges of a few hundred graphs, padded to the largest."""
    widest = int(nodes.max())
    real = torch.arange(widest, device=center.device) < nodes[:, None]
    padded = center.new_zeros(nodes.numel(), widest, 2)
    padded[real] = center
    pair = real[:, :, None] & real[:, None, :]
    distance = center_distances(padded[:, :, None], padded[:, None, :], size).masked_fill_(~pair, torch.inf)
    sigma = _sigma(distance)
    strength = torch.exp(-((distance / sigma[:, :, None]) ** 2))
    strength = (strength + strength.mT) / 2
    pair.diagonal(dim1=1, dim2=2).fill_(False)
    sends = _strongest(strength, pair).mT  # [graph, target, source]
    source = sends.nonzero()[:, 2]
    degree = sends.sum(2)[real]
    return source.to(torch.uint8), degree.to(torch.uint8), sigma[real].float()


def center_distances(a: Tensor, b: Tensor, size: int) -> Tensor:
    """Distances between centres in units of the image. The squares are whole numbers, so equal distances stay equal."""
    return (a - b).square_().sum(-1).sqrt_().div_(UNIT * size)


def _sigma(distance: Tensor) -> Tensor:
    k = min(NEIGHBORS + 1, distance.size(2))
    near = distance.topk(k, dim=2, largest=False).values
    return near.masked_fill_(near.isinf(), 0).sum(2) / NEIGHBORS + 1e-8


def _strongest(strength: Tensor, allowed: Tensor) -> Tensor:
    """A mask of the 8 strongest allowed columns of each row. Strengths are rounded to 2^-40, far above the noise of exp, and
    ranked together with the column number, so that ties are broken in the same way on every device."""
    width = strength.size(2)
    column = torch.arange(width, device=strength.device)
    rank = (strength * 2**40).round_().long() * width + (width - 1 - column)
    rank.masked_fill_(~allowed, -1)
    top = rank.topk(min(NEIGHBORS, width), dim=2)
    return torch.zeros_like(allowed).scatter_(2, top.indices, top.values >= 0)


def edge_strengths(split: Compact, size: int) -> Tensor:
    """A of every edge, from the centres and sigmas of a prepared file."""
    node_ptr, edge_ptr = split.pointers()
    shift = np.repeat(node_ptr[:-1], np.diff(edge_ptr))
    source, target = shift + split.source, shift + split.targets()
    center = torch.from_numpy(split.columns["center"].astype(np.float64))
    sigma = torch.from_numpy(split.columns["sigma"]).double()
    out = torch.empty(source.size)
    for a in range(0, source.size, _PAIRS):
        s, t = source[a : a + _PAIRS], target[a : a + _PAIRS]
        d = center_distances(center[s], center[t], size)
        out[a : a + _PAIRS] = (torch.exp(-((d / sigma[s]) ** 2)) + torch.exp(-((d / sigma[t]) ** 2))) / 2
    return out


def add_edges(parts: dict[str, Nodes], request: Request) -> Splits:
    """Nodes of the images with their edges; the first 5,000 training images are the validation split."""
    if "val" not in parts:
        held = request.facts.graphs[1]
        train, count = parts["train"], parts["train"].nodes.size
        parts = {
            "train": train.cut(min(held, count), count),
            "val": train.cut(0, min(held, count)),
            "test": parts["test"],
        }
    whole, done = sum(p.nodes.size for p in parts.values()), 0
    splits: Splits = {}
    for split in SPLIT_NAMES:
        part = parts[split]

        def report(what: str, count: int, total: int, before: int = done) -> None:
            request.on_progress(what, before + count, whole)

        source, degree, sigma = nearest_edges(part.center, part.nodes, SLIC[request.name].size, request.device, report)
        columns = {"color": part.color, "center": part.center, "label": part.label, "sigma": sigma}
        splits[split] = Compact(part.nodes, degree, source, columns)
        done += part.nodes.size
    return splits


def read_prepared(path: Path) -> dict[str, Nodes]:
    """The arrays ``SPLIT_node_ptr``, ``SPLIT_color``, ``SPLIT_center`` and ``SPLIT_label`` of the prepared file."""
    arrays, parts = read_npz(path), {}
    try:
        for split in ("train", "test"):
            ptr, color, center = (arrays[f"{split}_{key}"] for key in ("node_ptr", "color", "center"))
            nodes = np.diff(ptr).astype(np.int32)
            if color.shape[1] != center.shape[1] or nodes.sum() != center.shape[1]:
                raise BrokenFile(f"{path}: the {split} arrays do not fit together")
            columns = np.ascontiguousarray(color.T), np.ascontiguousarray(center.T)
            parts[split] = Nodes(nodes, *columns, arrays[f"{split}_label"])
    except (KeyError, IndexError) as error:
        raise BrokenFile(f"{path}: {error!r}") from None
    return parts


def read_pyg(name: str) -> dict[str, Nodes]:
    """Nodes of the graphs that PyG downloads: ``x`` is the colour, ``pos`` the centre in units of the image."""
    parts, size = {}, SLIC[name].size
    for split, one in download_splits(name).items():
        if one.pos is None:
            raise BrokenFile(f"the download of {name} has no positions")
        pixels = one.pos.double() * (size if float(one.pos.max()) <= 1 else 1)
        center = (pixels * UNIT).round().numpy().astype(np.uint16)
        nodes, label = one.node_counts.numpy().astype(np.int32), one.y.numpy().astype(np.uint8)
        parts[split] = Nodes(nodes, one.x.numpy().astype(np.float16), center, label)
    return parts


def as_graph_set(split: Compact, x: Tensor, size: int, edge_attr: bool) -> GraphSet:
    """Features that end with the centres in units of the image; ``edge_attr`` adds edge strengths and positions."""
    y = torch.from_numpy(split.columns["label"]).long()
    if not edge_attr:
        return split.graph_set(x, y, "graph")
    return split.graph_set(x, y, "graph", edge_attr=edge_strengths(split, size), pos=x[:, -2:])


def _dataset(name: str, what: str, labels: tuple[str, ...], train: int, figures: tuple[int, int, int]) -> Dataset:
    """PyG's copy gives the nodes only: its MNIST edges are reported to differ from the original's, so edges are always
    built here."""
    size, counts, channels = SLIC[name].size, (train, 5_000, 10_000), 5 if name == "cifar10" else 3
    facts = Facts(what, image_task(channels, labels), counts, *figures, 8 * figures[0] / sum(counts), symmetric=False)

    def graph_set(split: Compact, edge_attr: bool) -> GraphSet:
        """Colours and centres as features."""
        center = torch.from_numpy(split.columns["center"].astype(np.float32)) / (UNIT * size)
        color = torch.from_numpy(split.columns["color"].astype(np.float32))
        return as_graph_set(split, torch.cat([color, center], 1), size, edge_attr)

    def from_images(request: Request) -> Splits:
        folder = cache_folder(request.root, name) / PARTS
        return add_edges(segment_images(name, request.root, folder, request.workers, request.on_progress), request)

    def has_images(request: Request) -> bool:
        return find_images(name, request.root) is not None

    sources = (
        Source.of_file(
            "prepared", f"{name}/{name}_superpixels.npz", lambda request, path: add_edges(read_prepared(path), request)
        ),
        Source("raw", f"{IMAGE_FILES[name]} (needs the images extra)", has_images, from_images),
        Source.of_download(
            f"GNNBenchmarkDataset of PyG, {name.upper()}, edges built here",
            lambda request: add_edges(read_pyg(name), request),
        ),
    )
    return Dataset(facts, graph_set, sources, edge_channels=1)


OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DATASETS = {
    "mnist": _dataset("mnist", "superpixels of handwritten digits", DIGITS, 55_000, (4_939_668, 40, 75)),
    "cifar10": _dataset("cifar10", "superpixels of small photographs", OBJECTS, 45_000, (7_058_005, 85, 150)),
}
