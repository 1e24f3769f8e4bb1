"""Readers of data as functions of bytes: what benchmarks/guided.py mutates, and tests/faults/test_corpus.py reads again."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from builders import citation_graph, path_graphs, write_folder, write_smiles, write_tu
from bundles import write_bundle

import gnas.arch
import gnas.data
import gnas.data.own
from gnas.arch.architecture import load_genotype
from gnas.arch.gap import parse
from gnas.data.checks import check_graph_set, check_splits, check_task
from gnas.data.own.load import load_own
from gnas.data.storage import BrokenFile, save_benchmark
from gnas.errors import InputError
from gnas.jobs import Job, Runner
from gnas.jobs.messages import Order
from gnas.run import checkpoint
from gnas.run.settings import Settings

BETWEEN = b"\n----\n"  # two files in one input
TABLES = ("graphs.csv", "nodes.csv", "edges.csv")
TU = tuple(
    f"TOY_{name}.txt"
    for name in ("A", "graph_indicator", "graph_labels", "node_labels", "node_attributes", "edge_labels")
)


def read_csv(data: bytes, place: Path) -> Any:
    return _load(_write(data, TABLES, place))


def read_tu(data: bytes, place: Path) -> Any:
    return _load(_write(data, TU, place / "TOY"))


def read_smiles(data: bytes, place: Path) -> Any:
    (place / "any.csv").write_bytes(data)
    return _load(place / "any.csv", skip_bad=True)


def read_npz(data: bytes, place: Path) -> Any:
    """Members of an archive: whole bytes as a file would fail at their checksums."""
    with zipfile.ZipFile(place / "any.npz", "w") as archive:
        for part in data.split(BETWEEN):
            name, _, content = part.partition(b"\n")
            archive.writestr(name.decode("latin-1").replace("\0", "")[:40] or "x", content)
    return _load(place / "any.npz")


def read_yaml(data: bytes, place: Path) -> Any:
    (place / "any.yaml").write_bytes(data)
    return load_genotype(place / "any.yaml")


def read_text_file(data: bytes, place: Path) -> Any:
    """The lists of operations that the authors of the method publish, and other texts in place of a genotype."""
    (place / "any.txt").write_bytes(data)
    return load_genotype(place / "any.txt")


def read_formula(data: bytes, place: Path) -> Any:
    return parse(data.decode(errors="replace"))


def read_settings(data: bytes, place: Path) -> Any:
    (place / "any.yaml").write_bytes(data)
    return Settings.resolve(file=place / "any.yaml")


def read_state(data: bytes, place: Path) -> Any:
    (place / "any.safetensors").write_bytes(data)
    return checkpoint.load(place / "any.safetensors")


def read_packed(data: bytes, place: Path) -> Any:
    (place / "any.safetensors").write_bytes(data)
    return _load(place / "any.safetensors")


def read_order(data: bytes, place: Path) -> Any:
    """What a worker is told."""
    return Order.from_json(data)


FORMS: dict[str, Callable[[bytes, Path], Any]] = {
    "csv": read_csv,
    "smiles": read_smiles,
    "tu": read_tu,
    "npz": read_npz,
    "yaml": read_yaml,
    "text": read_text_file,
    "formula": read_formula,
    "settings": read_settings,
    "checkpoint": read_state,
    "packed": read_packed,
    "order": read_order,
}


def refusal(form: Callable[[bytes, Path], Any], data: bytes, place: Path) -> str:
    """Empty if the reader gives a value or one line of error; else what it does."""
    for file in place.iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    try:
        form(data, place)
    except (InputError, BrokenFile) as error:
        text = str(error)
        return "" if text.strip() and "\n" not in text else f"not one line: {text!r}"
    except Exception:
        return traceback.format_exc()
    return ""


def import_all() -> None:
    """Every module that a reader might import when it needs it."""
    for package in (gnas.arch, gnas.data, gnas.data.own):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


def seeds(reader: str) -> Iterator[bytes]:
    """Sound inputs."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        if reader == "csv":
            folder = write_folder(place / "tables", 12)
            yield BETWEEN.join((folder / file).read_bytes() for file in TABLES)
        elif reader == "tu":
            folder = write_tu(place / "TOY", 12)
            yield BETWEEN.join((folder / file).read_bytes() if (folder / file).exists() else b"" for file in TU)
        elif reader == "smiles":
            yield write_smiles(place / "any.csv").read_bytes()
        elif reader == "npz":
            for data in (path_graphs(6), citation_graph()):
                yield _members(write_bundle(load_own(data), place / "any.npz"))
        elif reader == "text":
            yield b"cell 1: I 1 0, s 2 0, sum 3 1, mean 4 2, d 5 3\n"
            yield b"[('I', 1, 0), ('s', 2, 0), ('sum', 3, 1), ('mean', 4, 2), ('d', 5, 3)]"
        elif reader == "formula":
            yield b"[identity | dense(sum(dense)) | sparse(mean(sparse))]"
        elif reader == "settings":
            yield b"preset: fast\ncells: 2\nseeds: [1, 2]\ntrain_settings: {clip: 1.0}\n"
        elif reader == "checkpoint":
            checkpoint.save(place / "any.safetensors", {"a": [1, 2.5, None], "b": (3.5, {"c": "d"})})
            yield (place / "any.safetensors").read_bytes()
        elif reader == "packed":
            save_benchmark(load_own(write_folder(place / "tables", 12)), place / "any.safetensors")
            yield (place / "any.safetensors").read_bytes()
        elif reader == "order":
            job = Job("gnas.strategies.trials.trial_job", "jobs/trial", {"config": {"seed": 1}})
            yield Runner(place).write_order(job).to_json().encode()
        else:
            yield from (file.read_bytes() for file in (Path(gnas.arch.__file__).parent / "shipped").glob("*-4.yaml"))


def _members(file: Path) -> bytes:
    with zipfile.ZipFile(file) as archive:
        return BETWEEN.join(name.encode() + b"\n" + archive.read(name) for name in archive.namelist())


def _write(data: bytes, names: tuple[str, ...], folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in zip(names, data.split(BETWEEN), strict=False):
        (folder / name).write_bytes(content)
    return folder


def _load(path: Path, **options: Any) -> Any:
    """A benchmark that stands every check."""
    found = load_own(path, **options)
    check_task(found.task, "fuzz")
    check_splits(found.splits(), found.task)
    for name, graphs in found.splits().items():
        check_graph_set(graphs, found.task, name)
    return found
