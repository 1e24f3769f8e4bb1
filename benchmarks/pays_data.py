"""The datasets of pays.py: packed once, on a machine with RDKit and the data files, and read anywhere.

A dataset of one's own (molecules, TU sets) has a packed file for each of three splits: columns, descriptors and targets are
encoded and standardised by its training part. Of the benchmarks there is one packed pool of graphs, which has nothing that is
fitted, and three draws of train, validation and test from it. PATTERN, CLUSTER and the small block models are drawn from seeds.
"""

from __future__ import annotations

import csv
import gzip
import lzma
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gnas
from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import DATASETS
from gnas.data.benchmarks.sbm import MODELS, generate_splits, graph_set
from gnas.data.own.molecules import find_scaffolds
from gnas.data.smiles import import_rdkit
from gnas.data.splits import Fractions, group_split, random_split
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.graph import GraphSet

SPLITS = (0, 1, 2)
PARTS = ("train", "val", "test")
SUFFIX = ".safetensors.xz"
DRAWN_GRAPHS = (1000, 250, 250)  # of PATTERN and CLUSTER
POOL_GRAPHS = 1500  # of ZINC, MNIST and CIFAR10
POOL_FRACTIONS: Fractions = (2 / 3, 1 / 6, 1 / 6)


@dataclass(frozen=True)
class Molecules:
    """A CSV file of molecules.

    Args:
        file: Its name under the data folder.
        scaffold: Split by scaffold, as is usual for classes; else at random.
        rows: At most so many rows are drawn from it.
        positives: Share of the drawn rows whose only target is 1; None: as it comes.
        options: Options of ``gnas.load``.
    """

    file: str
    scaffold: bool = False
    rows: int | None = None
    positives: float | None = None
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Collection:
    """A folder in the TU format. A quarter of MUTAG would be a test split of 19 graphs: the shares can be set."""

    folder: str
    rows: int | None = None
    fractions: Fractions = (0.8, 0.1, 0.1)


@dataclass(frozen=True)
class Pool:
    """Graphs of a benchmark of the package, split anew three times."""

    name: str
    edges: bool = False


@dataclass(frozen=True)
class Drawn:
    """A benchmark that is drawn from a seed: nothing is packed."""

    name: str


ROC = (("metric", "roc_auc"),)
SOURCES: dict[str, Molecules | Collection | Pool | Drawn] = {
    "esol": Molecules("molecules/esol.csv"),
    "freesolv": Molecules("molecules/freesolv.csv"),
    "bace": Molecules("molecules/bace.csv", scaffold=True, options=ROC),
    "clintox": Molecules("molecules/clintox.csv", scaffold=True),
    "tox21": Molecules("molecules/tox21.csv", scaffold=True, rows=2000),
    "qm7": Molecules("molecules/qm7.csv", rows=2000),
    "hiv": Molecules("molecules/hiv.csv.gz", scaffold=True, rows=2000, positives=0.25, options=ROC),
    "mutag": Collection("tu/MUTAG", fractions=(0.6, 0.2, 0.2)),
    "proteins": Collection("tu/PROTEINS"),
    "nci109": Collection("tu/NCI109", rows=2000),
    "molecules-mini": Pool("molecules-mini", edges=True),
    "cluster-mini": Drawn("cluster-mini"),
    "pattern-mini": Drawn("pattern-mini"),
    "digits": Drawn("digits"),
    "zinc": Pool("zinc", edges=True),
    "mnist": Pool("mnist"),
    "cifar10": Pool("cifar10"),
    "pattern": Drawn("pattern"),
    "cluster": Drawn("cluster"),
}
ASIDE = ("qm7", "proteins")  # run once, at the very end
MOLECULES = tuple(name for name, source in SOURCES.items() if isinstance(source, Molecules))


# -- reading: needs torch alone --------------------------------------------------------------------------------------


def read_part(folder: Path, name: str, split: int) -> Benchmark:
    """A dataset with one of its three splits."""
    source = SOURCES[name]
    if isinstance(source, Drawn):
        return _draw(source.name, split)
    pooled = isinstance(source, Pool)
    benchmark = _read_packed(folder / (f"{name}{SUFFIX}" if pooled else f"{name}-{split}{SUFFIX}"))
    return split_pool(benchmark, split) if pooled else benchmark


def split_pool(pool: Benchmark, split: int) -> Benchmark:
    """Train, validation and test drawn from the graphs of a pool."""
    codes = random_split(len(pool.train), POOL_FRACTIONS, split)
    parts = {name: pool.train.select(np.flatnonzero(codes == code)) for code, name in enumerate(PARTS)}
    task = pool.task
    if task.kind == "regression" and task.scale != (1.0,):
        y = parts["train"].y
        task = replace(task, center=(float(y.mean()),), scale=(float(y.std()),))
    return replace(pool, **parts, task=task)


def _draw(name: str, seed: int) -> Benchmark:
    if name not in MODELS:
        return gnas.load(name, seed=seed)
    facts = DATASETS[name].facts
    train, val, test = (graph_set(one) for one in generate_splits(MODELS[name], DRAWN_GRAPHS, seed).values())
    return Benchmark(name, train, val, test, facts.task, f"drawn from seed {seed}", patience=facts.patience)


def _read_packed(path: Path) -> Benchmark:
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.name.removesuffix(".xz")
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        return load_benchmark(plain)


# -- packing: needs the data files and RDKit -----------------------------------------------------------------------------


def pack(name: str, data_root: Path, folder: Path, descriptors: bool = True) -> list[Path]:
    """Write the packed files of a dataset; those that are there already are left as they are."""
    source = SOURCES[name]
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(source, Drawn):
        return []
    if isinstance(source, Pool):
        files = {folder / f"{name}{SUFFIX}": lambda: _make_pool(source, data_root)}
    else:
        files = {
            folder / f"{name}-{split}{SUFFIX}": lambda split=split: _load_own(name, split, data_root, descriptors)
            for split in SPLITS
        }
    for path, make in files.items():
        if not path.exists():
            _write_packed(make(), path)
    return list(files)


def _write_packed(benchmark: Benchmark, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plain = save_benchmark(benchmark, Path(folder) / path.name.removesuffix(".xz"))
        path.write_bytes(lzma.compress(plain.read_bytes()))


def _make_pool(source: Pool, data_root: Path) -> Benchmark:
    """At most ``POOL_GRAPHS`` graphs of all splits, drawn once. They stand in each of the three splits of the file."""
    benchmark = gnas.load(source.name, data_root=data_root, edges="yes" if source.edges else None)
    share = POOL_GRAPHS / sum(map(len, benchmark.splits().values()))
    taken = [_take_some(graphs, min(share, 1.0)) for graphs in benchmark.splits().values()]
    pool = join_graphs(taken)
    return replace(benchmark, train=pool, val=pool, test=pool)


def _take_some(graphs: GraphSet, share: float) -> GraphSet:
    chosen = np.random.RandomState(0).permutation(len(graphs))[: round(share * len(graphs))]
    return graphs.select(np.sort(chosen))


def join_graphs(sets: list[GraphSet]) -> GraphSet:
    """Several sets of graphs as one."""
    values: dict[str, Any] = {}
    for name in ("x", "edge_index", "y", "edge_attr", "graph_attr"):
        tensors = [getattr(one, name) for one in sets]
        values[name] = None if tensors[0] is None else torch.cat(tensors, dim=1 if name == "edge_index" else 0)
    for name in ("node_ptr", "edge_ptr"):
        steps = torch.cat([getattr(one, name).diff() for one in sets])
        values[name] = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
    return GraphSet(**values, level=sets[0].level)


def _load_own(name: str, split: int, data_root: Path, descriptors: bool) -> Benchmark:
    source = SOURCES[name]
    if isinstance(source, Collection):
        return _load_collection(name, source, split, data_root)
    assert isinstance(source, Molecules)
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(name, split, data_root, Path(folder))
        options = {"descriptors": "rdkit"} if descriptors else {}
        return gnas.load(
            str(table), name=name, split="column:split", encodings="none", **options, **dict(source.options)
        )


def write_table(name: str, split: int, data_root: Path, folder: Path) -> Path:
    """The rows of a molecule set that RDKit reads, with a column ``split``."""
    source = SOURCES[name]
    assert isinstance(source, Molecules)
    table = list(_read_rows(source, data_root))
    smiles, fractions = [row["smiles"] for row in table], (0.8, 0.1, 0.1)
    codes = (
        group_split(find_scaffolds(smiles), fractions, split)
        if source.scaffold
        else random_split(len(table), fractions, split)
    )
    out = folder / f"{name}-{split}.csv"
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, [*table[0], "split"])
        writer.writeheader()
        writer.writerows({**row, "split": PARTS[code]} for row, code in zip(table, codes.tolist(), strict=True))
    return out


def _read_rows(source: Molecules, data_root: Path) -> Iterator[dict[str, str]]:
    """The readable rows, or a draw of them that does not depend on the split."""
    chem, path = import_rdkit(), data_root / source.file
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
        table = list(csv.DictReader(file))
    order = np.random.RandomState(0).permutation(len(table))
    if source.positives is not None:
        target = next(key for key in table[0] if key != "smiles")
        positive = np.array([float(table[row][target] or 0) > 0 for row in order])
        wanted = round(source.positives * (source.rows or len(table)))
        order = np.concatenate([order[positive][:wanted], order[~positive]])
    readable = (table[row] for row in order.tolist() if chem.MolFromSmiles(table[row]["smiles"]) is not None)
    for number, row in enumerate(readable):
        if source.rows is not None and number >= source.rows:
            return
        yield row


def _load_collection(name: str, source: Collection, split: int, data_root: Path) -> Benchmark:
    """A TU set with a stratified split; fewer graphs are drawn from each part of it."""
    benchmark = gnas.load(
        str(data_root / source.folder),
        name=name,
        split="stratified",
        fractions=source.fractions,
        seed=split,
        encodings="none",
    )
    if source.rows is None:
        return benchmark
    share = source.rows / sum(map(len, benchmark.splits().values()))
    return replace(benchmark, **{part: _take_some(graphs, share) for part, graphs in benchmark.splits().items()})
