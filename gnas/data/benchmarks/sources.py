"""What a benchmark of the package is, and where it can come from: prepared file, raw files, download, generator."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gnas.data.benchmark import PATIENCE, SPLIT_NAMES
from gnas.data.benchmarks.compact import Compact, Splits
from gnas.data.cache import user_cache
from gnas.data.storage import BrokenFile, read_arrays, read_npz, write_arrays
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS = "parts"  # folder of the finished parts of a preparation that takes long
Progress = Callable[[str, int, int], None]  # what is done, how many are done, of how many


def ignore_progress(what: str, done: int, total: int) -> None:
    """Report no progress."""


DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class Facts:
    """What is published of a dataset. ``tolerance`` is relative: 0 if every copy must be the same data."""

    what: str
    task: Task
    graphs: tuple[int, int, int]
    nodes: int  # in all splits
    smallest: int
    largest: int
    edges: float  # directed, mean per graph
    symmetric: bool
    tolerance: float = 0.0
    slack: int = 0  # allowed difference of the smallest and the largest graph
    patience: int = PATIENCE  # of the training protocol

    @property
    def drawn(self) -> bool:
        """Whether the data is a random draw, so that another seed gives another dataset of the same kind."""
        return self.tolerance > 0


def node_task(classes: int, signals: int) -> Task:
    """Classes of nodes that read one category."""
    return Task("node", "classification", classes, (signals,), loss="weighted_cross_entropy", metric="class_accuracy")


def image_task(channels: int, labels: tuple[str, ...]) -> Task:
    """Classes of images whose superpixels have ``channels`` features."""
    return Task("graph", "classification", len(labels), in_channels=channels, metric="accuracy", labels=labels)


@dataclass(frozen=True)
class Request:
    """One benchmark to read or build: its name and facts, the folder of data files, and the caller's options."""

    name: str
    facts: Facts
    root: Path
    seed: int = 0
    device: str = "cpu"
    workers: int = 1
    download: bool = field(default_factory=lambda: not os.environ.get("GNAS_OFFLINE"))
    on_progress: Progress = ignore_progress
    must_store: bool = False  # whether it is an error if the prepared file cannot be written

    def find(self, relative: str) -> Path | None:
        """A file under the data root, else in the per-user folder, else None."""
        files = (folder / relative for folder in (self.root, user_cache()))
        return next((file for file in files if file.is_file()), None)


@dataclass(frozen=True)
class Source:
    """One place to get a benchmark from. ``quick`` sources are read each time; others leave a prepared file behind."""

    kind: str  # prepared, raw, download or generator
    what: str
    ready: Callable[[Request], bool]
    read: Callable[[Request], Splits]
    quick: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"

    @staticmethod
    def of_file(
        kind: str, relative: str, read: Callable[[Request, Path], Splits], note: str = "", quick: bool = False
    ) -> Source:
        """A file under the data root or in the per-user folder."""

        def read_file(request: Request) -> Splits:
            return read(request, request.find(relative) or request.root / relative)

        return Source(kind, relative + note, lambda request: request.find(relative) is not None, read_file, quick)

    @staticmethod
    def of_download(what: str, read: Callable[[Request], Splits], only_seed: int | None = None) -> Source:
        """A download, which the caller may forbid. One random draw serves for ``only_seed`` alone."""
        return Source("download", what, lambda r: r.download and only_seed in (None, r.seed), read)


@dataclass(frozen=True)
class Dataset:
    """A benchmark of the package: its facts, how a split becomes tensors, and its sources in order or its builder."""

    facts: Facts
    graph_set: Callable[[Compact, bool], GraphSet]  # with or without edge_attr
    sources: tuple[Source, ...] = ()
    build: Callable[[tuple[int, int, int], int], Splits] | None = None  # from graphs per split and a seed, if built in
    standardise: bool = False  # regression targets, by the mean and spread of train
    edge_categories: tuple[int, ...] = ()  # of edge_attr, if it holds categories
    edge_channels: int = 0  # columns of edge_attr, if it holds numbers


class PreparedSplits(NamedTuple):
    """The splits of a benchmark, their source, the prepared file (if there is one) and notes."""

    splits: Splits
    source: str
    path: Path | None
    notes: tuple[str, ...]


# -- prepared files ------------------------------------------------------------------------------------------------


def prepared_name(name: str, facts: Facts, seed: int = 0, suffix: str = ".safetensors") -> str:
    """Path of the prepared file under the data root."""
    return f"{name}/{name}-seed{seed}{suffix}" if facts.drawn and seed else f"{name}/{name}{suffix}"


def open_splits(request: Request, sources: tuple[Source, ...]) -> PreparedSplits:
    """Read the first source that works; what was built is stored for the next time."""
    relative, notes, failed = prepared_name(request.name, request.facts, request.seed), list[str](), list[str]()
    path = request.find(relative)
    if path:
        try:
            return _read_prepared(request, path, relative)
        except BrokenFile as error:
            notes.append(f"{error}; built again")
            warnings.warn(notes[-1], stacklevel=3)
    for source in (_earlier_file(request), *sources):
        if not source.ready(request):
            continue
        try:
            splits = _check_complete(request, source.read(request))
        except (BrokenFile, InputError) as error:
            failed.append(f"{source.kind} failed ({error})")
            notes += [f"{failed[-1]}; used the next source"] if source.kind != "download" else []
            continue
        stored = None if source.quick else _store(request, relative, splits, str(source), notes)
        return PreparedSplits(splits, str(source), stored, tuple(notes))
    raise InputError(_describe_missing(request, sources, failed))


def _read_prepared(request: Request, path: Path, relative: str) -> PreparedSplits:
    arrays, about = read_arrays(path)
    splits = _check_complete(request, {split: Compact.from_arrays(split, arrays) for split in SPLIT_NAMES})
    return PreparedSplits(splits, f"prepared: {relative} (from {about.get('source', 'unknown')})", path, ())


def _earlier_file(request: Request) -> Source:
    """The prepared file of an earlier version: it is read once and stored in today's form."""

    def read(request: Request, path: Path) -> Splits:
        arrays = read_npz(path)
        return {split: Compact.from_arrays(split, arrays) for split in SPLIT_NAMES}

    return Source.of_file("prepared", prepared_name(request.name, request.facts, request.seed, ".npz"), read)


def _check_complete(request: Request, splits: Splits) -> Splits:
    for split, expected in zip(SPLIT_NAMES, request.facts.graphs, strict=True):
        if len(splits[split]) != expected:
            raise BrokenFile(f"{split} has {len(splits[split]):,} graphs, {request.name} has {expected:,}")
    return splits


def _store(request: Request, relative: str, splits: Splits, source: str, notes: list[str]) -> Path | None:
    arrays = {key: value for split in SPLIT_NAMES for key, value in splits[split].arrays(split).items()}
    try:
        path = cache_folder(request.root, request.name) / Path(relative).name
        write_arrays(path, arrays, {"name": request.name, "source": source})
    except OSError as error:  # a full or read-only disk: the data is usable all the same
        if request.must_store:
            raise
        notes.append(f"not stored for the next time: {error}")
        return None
    shutil.rmtree(path.with_name(PARTS), ignore_errors=True)  # only now: a kill before the write would lose them
    return path


def _describe_missing(request: Request, sources: tuple[Source, ...], failed: list[str]) -> str:
    places = "; or ".join(s.what for s in sources if s.kind in ("prepared", "raw"))
    reasons = f" ({'; '.join(failed)})" if failed else ""
    return (
        f"no data for {request.name!r}: put one of these into {request.root} (or name another folder with data_root): "
        f"{places}{reasons}"
    )


# -- folders -------------------------------------------------------------------------------------------------------


def find_data_root(root: str | Path | None = None) -> Path:
    """The folder of data files: the argument, else ``GNAS_DATA``, else the per-user cache folder."""
    named = root or os.environ.get("GNAS_DATA")
    return Path(named).expanduser() if named else user_cache()


def is_writable(folder: Path) -> bool:
    """Whether files may be created in ``folder``, or it may be created.

    A folder without write permission counts as read-only for a superuser too.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and bool(folder.stat().st_mode & 0o222) and os.access(folder, os.W_OK)


def cache_folder(root: Path, name: str) -> Path:
    """Where a prepared benchmark is written: under the data root, or in the per-user folder if that is read-only."""
    folder = root / name
    return folder if is_writable(folder) else user_cache() / name


# -- downloads: the published graphs through PyG's own dataset classes ----------------------------------------------


def download_splits(name: str, level: str = "graph") -> dict[str, GraphSet]:
    """The three splits; one error line whatever went wrong."""
    try:
        with tempfile.TemporaryDirectory(prefix="gnas-") as folder:
            found = {split: list(fetch_with_pyg(name, split, Path(folder))) for split in SPLIT_NAMES}
    except Exception as error:  # PyG, its file layer and the network raise dozens of kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"cannot download {name}: {reason[:160]}") from None
    return {split: GraphSet.from_data(graphs, level) for split, graphs in found.items()}


def fetch_with_pyg(name: str, split: str, folder: Path) -> Iterable[Data]:
    """One split through ``ZINC`` or ``GNNBenchmarkDataset``."""
    from torch_geometric.datasets import ZINC, GNNBenchmarkDataset

    if name == "zinc":
        _check_reachable(ZINC.url)
        return ZINC(str(folder), subset=True, split=split)
    _check_reachable(GNNBenchmarkDataset.urls[name.upper()])
    return GNNBenchmarkDataset(str(folder), name.upper(), split=split)


def _check_reachable(url: str) -> None:
    """Fail soon without a network: PyG's own download waits for minutes."""
    request = urllib.request.Request(url, method="HEAD")
    with contextlib.suppress(urllib.error.HTTPError):  # an error of the server is an answer: the host can be reached
        urllib.request.urlopen(request, timeout=5.0).close()
