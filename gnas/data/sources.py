"""Where a benchmark can come from, tried in order: prepared file, raw files, download, generator."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gnas.data.benchmarks.catalogue import BENCHMARKS, SPLITS
from gnas.data.cache import BrokenFile, read_arrays, write_arrays
from gnas.data.compact import Compact, Splits
from gnas.data.root import cache_folder, find
from gnas.errors import InputError

PARTS = "parts"  # folder of what a source that takes long has done so far
Progress = Callable[[str, int, int], None]  # what is being done, how many are done, of how many


def no_progress(what: str, done: int, total: int) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Options:
    """How to read or build a benchmark."""

    seed: int = 0
    device: str = "cpu"
    workers: int = 1
    download: bool = field(default_factory=lambda: not os.environ.get("GNAS_OFFLINE"))
    on_progress: Progress = no_progress


@dataclass(frozen=True)
class Source:
    """One place to get a benchmark from. ``quick`` sources are read each time; others leave a prepared file behind."""

    kind: str  # prepared, raw, download or generator
    what: str
    ready: Callable[[Path, Options], bool]
    read: Callable[[Path, Options], Splits]
    quick: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Opened(NamedTuple):
    """A benchmark's splits, the source they came from, the prepared file (if there is one) and what there is to say."""

    splits: Splits
    source: str
    path: Path | None
    notes: tuple[str, ...]


def prepared_name(name: str, seed: int = 0) -> str:
    """Path of the prepared file under the data root."""
    return f"{name}/{name}-seed{seed}.npz" if BENCHMARKS[name].drawn and seed else f"{name}/{name}.npz"


def open_splits(name: str, sources: tuple[Source, ...], root: Path, options: Options) -> Opened:
    """Read the first source that works; keep what was built for the next time."""
    relative, notes, tried = prepared_name(name, options.seed), list[str](), list[str]()
    path = find(root, relative)
    if path:
        try:
            return _read_prepared(name, path, relative)
        except BrokenFile as error:
            notes.append(f"{error}; built again")
            warnings.warn(notes[-1], stacklevel=3)
    for source in sources:
        if not source.ready(root, options):
            continue
        try:
            splits = _complete(name, source.read(root, options))
        except (BrokenFile, InputError) as error:
            tried.append(f"{source.kind} failed ({error})")
            continue
        notes += [f"{text}; used the next source" for text in tried if not text.startswith("download")]
        kept = None if source.quick else _keep(name, root, relative, splits, str(source), notes)
        return Opened(splits, str(source), kept, tuple(notes))
    raise InputError(_nothing(name, sources, root, tried))


def _read_prepared(name: str, path: Path, relative: str) -> Opened:
    arrays, about = read_arrays(path)
    splits = _complete(name, {split: Compact.from_arrays(split, arrays) for split in SPLITS})
    return Opened(splits, f"prepared: {relative} (from {about.get('source', 'unknown')})", path, ())


def _complete(name: str, splits: Splits) -> Splits:
    for split, wanted in zip(SPLITS, BENCHMARKS[name].graphs, strict=True):
        if len(splits[split]) != wanted:
            raise BrokenFile(f"{split} has {len(splits[split]):,} graphs, {name} has {wanted:,}")
    return splits


def _keep(name: str, root: Path, relative: str, splits: Splits, source: str, notes: list[str]) -> Path | None:
    arrays = {key: value for split in SPLITS for key, value in splits[split].arrays(split).items()}
    try:
        path = cache_folder(root, name) / Path(relative).name
        write_arrays(path, arrays, {"name": name, "source": source})
        shutil.rmtree(path.with_name(PARTS), ignore_errors=True)  # only now: a kill before the write would lose them
        return path
    except OSError as error:  # a full or read-only disk: the data is usable all the same
        notes.append(f"not kept for the next time: {error}")
        return None


def _nothing(name: str, sources: tuple[Source, ...], root: Path, tried: list[str]) -> str:
    places = "; or ".join(s.what for s in sources if s.kind in ("prepared", "raw"))
    failed = f" ({'; '.join(tried)})" if tried else ""
    return f"no data for {name!r}: put one of these into {root} (or name another folder with --data-root): {places}{failed}"
