"""MNIST and CIFAR10 as superpixel graphs: nodes prepared or made from raw images, edges built here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gnas.data import download
from gnas.data.benchmarks.catalogue import BENCHMARKS, SPLITS
from gnas.data.benchmarks.images import WANTED, find_images
from gnas.data.benchmarks.knn import UNIT, edge_strengths, nearest_edges
from gnas.data.benchmarks.segments import Nodes, read_raw
from gnas.data.benchmarks.slic import SLIC
from gnas.data.cache import BrokenFile, read_npz
from gnas.data.compact import Compact, Splits
from gnas.data.root import cache_folder, find
from gnas.data.sources import PARTS, Options, Source
from gnas.graph import GraphSet


def sources(name: str) -> tuple[Source, ...]:
    """Where superpixel graphs come from, in order. PyG's copy gives the nodes only: its MNIST edges are reported to
    differ from the original's, so edges are always built here."""
    prepared = f"{name}/{name}_superpixels.npz"

    def from_prepared(root: Path, options: Options) -> Splits:
        return join(name, read_prepared(name, find(root, prepared) or root / prepared), options)

    def from_images(root: Path, options: Options) -> Splits:
        return join(name, read_raw(name, root, cache_folder(root, name) / PARTS, options), options)

    return (
        Source("prepared", prepared, lambda root, _: find(root, prepared) is not None, from_prepared),
        Source(
            "raw",
            f"{WANTED[name]} (needs the images extra)",
            lambda root, _: find_images(name, root) is not None,
            from_images,
        ),
        Source(
            "download",
            f"GNNBenchmarkDataset of PyG, {name.upper()}, edges built here",
            download.allowed,
            lambda root, options: join(name, read_pyg(name), options),
        ),
    )


def graph_set(name: str, split: Compact, edge_attr: bool = False) -> GraphSet:
    """Colours and centres (in units of the image) as features; with ``edge_attr`` also edge strengths and positions."""
    size = SLIC[name].size
    center = torch.from_numpy(split.columns["center"].astype(np.float32)) / (UNIT * size)
    x = torch.cat([torch.from_numpy(split.columns["color"].astype(np.float32)), center], 1)
    y = torch.from_numpy(split.columns["label"]).long()
    if not edge_attr:
        return split.graph_set(x, y, "graph")
    return split.graph_set(x, y, "graph", edge_attr=edge_strengths(split, size), pos=center)


def join(name: str, parts: dict[str, Nodes], options: Options) -> Splits:
    """Add the edges; the first 5,000 training images are the validation split."""
    if "val" not in parts:
        held = BENCHMARKS[name].graphs[1]
        train, count = parts["train"], parts["train"].nodes.size
        parts = {
            "train": train.cut(min(held, count), count),
            "val": train.cut(0, min(held, count)),
            "test": parts["test"],
        }
    whole, done = sum(p.nodes.size for p in parts.values()), 0
    splits: Splits = {}
    for split in SPLITS:
        part = parts[split]

        def report(what: str, count: int, total: int, before: int = done) -> None:
            options.on_progress(what, before + count, whole)

        source, degree, sigma = nearest_edges(part.center, part.nodes, SLIC[name].size, options.device, report)
        columns = {"color": part.color, "center": part.center, "label": part.label, "sigma": sigma}
        splits[split] = Compact(part.nodes, degree, source, columns)
        done += part.nodes.size
    return splits


def read_prepared(name: str, path: Path) -> dict[str, Nodes]:
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
    """Nodes of the graphs PyG downloads: ``x`` is the colour, ``pos`` the centre in units of the image."""
    parts, size = {}, SLIC[name].size
    for split, graphs in download.download(name).items():
        one = GraphSet.from_data(graphs)
        if one.pos is None:
            raise BrokenFile(f"the download of {name} has no positions")
        pixels = one.pos.double() * (size if float(one.pos.max()) <= 1 else 1)
        center = (pixels * UNIT).round().numpy().astype(np.uint16)
        nodes, label = one.node_counts.numpy().astype(np.int32), one.y.numpy().astype(np.uint8)
        parts[split] = Nodes(nodes, one.x.numpy().astype(np.float16), center, label)
    return parts
