"""How long do the datasets take to prepare, and to load once they are prepared?

    python benchmarks/data.py [--data-root FOLDER] [--images] [--device cpu]
    python benchmarks/data.py --molecules hiv.csv.gz    # only this table of SMILES: with an empty cache, from it, and the checks
    python benchmarks/data.py --encodings zinc mnist    # only walks and eigenvectors of these datasets, on one core

PATTERN and CLUSTER are drawn; superpixel edges are built for MNIST and CIFAR10 if their prepared nodes are under the data
root; with --images the superpixels themselves are made from the raw images as well. Everything is built into a temporary
folder. One row per measurement is added to results/data.csv. ``cpu`` are the seconds of all processes together: on a
machine that does other work, half of them is what two idle cores need.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from rows import RESULTS, append, today

from gnas.data import Benchmark, load
from gnas.data.benchmarks import PUBLISHED, find_facts, sbm, superpixels
from gnas.data.benchmarks.compact import Splits
from gnas.data.benchmarks.images import find_images, segment_images
from gnas.data.benchmarks.sources import Request, find_data_root
from gnas.data.graph_encodings import with_encodings
from gnas.data.own import assemble
from gnas.data.own.problems import find_problems

KINDS = ("walks:20", "edge_walks:20", "walks:20,edge_walks:20", "laplacian:8")
COLUMNS = ("date", "machine", "what", "seconds", "graphs", "nodes", "edges", "cpu")


def timed(work: Callable[[], object]) -> tuple[float, float, object]:
    """Seconds on the wall, seconds of this process and those that it started and that ended, and the result."""
    start, busy = time.perf_counter(), _busy()
    result = work()
    return time.perf_counter() - start, _busy() - busy, result


def _busy() -> float:
    return sum(os.times()[:4])


def sizes(found: object) -> tuple[int, int, int]:
    """Graphs, nodes and edges of what was built."""
    if isinstance(found, Benchmark):
        sets = found.splits().values()
        return sum(map(len, sets)), sum(s.num_nodes for s in sets), sum(s.num_edges for s in sets)
    if isinstance(found, dict) and all(hasattr(part, "degree") for part in found.values()):
        splits: Splits = found
        parts = splits.values()
        return sum(map(len, parts)), sum(p.degree.size for p in parts), sum(p.source.size for p in parts)
    assert isinstance(found, dict)
    return sum(p.nodes.size for p in found.values()), int(sum(p.nodes.sum() for p in found.values())), 0


def measure_molecules(path: Path, measure: Callable[[str, Callable[[], object]], None]) -> None:
    """Atoms, bonds and encodings by rule of a table of SMILES, with an empty cache and then from the cache.

    Both include the checks of the data, whose time is measured apart too.
    """
    name, read = path.name.split(".")[0], partial(load, path, encodings="auto", skip_bad=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        measure(f"{name}: prepare", read)
        with mock.patch.object(assemble, "find_problems", wraps=find_problems) as checks:
            benchmark = read()
        measure(f"{name}: load from the cache", read)

    def check() -> Benchmark:
        find_problems(*checks.call_args.args)
        return benchmark

    measure(f"{name}: checks", check)


def measure_encodings(
    name: str, kinds: Iterable[str], root: Path, measure: Callable[[str, Callable[[], object]], None]
) -> None:
    """Encodings of all graphs of a dataset on one core, computed (the cache is empty) and read from the cache."""
    torch.set_num_threads(1)
    benchmark = load(name, data_root=root)
    for encodings in kinds:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            measure(f"{name}: {encodings}", partial(with_encodings, benchmark, encodings))
            measure(f"{name}: {encodings} from the cache", partial(with_encodings, benchmark, encodings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", action="store_true", help="also make superpixels from raw images")
    parser.add_argument("--molecules", type=Path, help="only this CSV of SMILES with one target")
    parser.add_argument("--encodings", nargs="+", choices=PUBLISHED, help="only encodings of these datasets")
    parser.add_argument("--kinds", nargs="+", default=KINDS, help="these encodings")
    options = parser.parse_args()
    root, made = find_data_root(options.data_root), today(options.device)

    def measure(what: str, work: Callable[[], object]) -> None:
        seconds, cpu, found = timed(work)
        graphs, nodes, edges = sizes(found)
        values = {"what": what, "seconds": round(seconds, 2), "graphs": graphs, "nodes": nodes, "edges": edges}
        append(RESULTS / "data.csv", COLUMNS, [{**made, **values, "cpu": round(cpu, 2)}])
        print(f"{what}: {seconds:.2f} s ({cpu:.2f} s of CPU), {graphs:,} graphs, {nodes:,} nodes, {edges:,} edges")

    if options.molecules is not None:
        measure_molecules(options.molecules, measure)
        return
    if options.encodings is not None:
        for name in options.encodings:
            measure_encodings(name, options.kinds, root, measure)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("pattern", "cluster"):
            measure(f"{kind}: draw", partial(sbm.generate_splits, sbm.MODELS[kind], find_facts(kind).graphs))
        for kind in ("mnist", "cifar10"):
            prepared = root / kind / f"{kind}_superpixels.npz"
            if options.images and find_images(kind, root):
                cores = os.cpu_count() or 1
                measure(f"{kind}: superpixels", partial(segment_images, kind, root, folder / "parts", cores))
            if prepared.is_file():
                nodes, request = (
                    superpixels.read_prepared(prepared),
                    Request(kind, find_facts(kind), root, device=options.device),
                )
                measure(f"{kind}: edges", partial(superpixels.add_edges, nodes, request))
                (folder / kind).mkdir()
                shutil.copy(prepared, folder / kind)
        if (root / "zinc/zinc12k.npz").is_file():
            shutil.copytree(root / "zinc", folder / "zinc")
        for kind in PUBLISHED:
            if kind in ("pattern", "cluster") or (folder / kind).is_dir():
                load(kind, data_root=folder, download=False)  # leaves the prepared file behind
                measure(f"{kind}: load prepared", partial(load, kind, data_root=folder, download=False))


if __name__ == "__main__":
    main()
