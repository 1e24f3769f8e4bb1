"""Graphs on disk: a benchmark, one set of graphs, or named arrays in one safetensors file that cannot run code.

The forms of earlier versions stay readable: a packed benchmark as ``.npz``, and the published arrays as ``.npz``.
"""

from __future__ import annotations

import functools
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import ALL, PATIENCE, SPLIT_NAMES, Benchmark
from gnas.data.checks import check_encoding, check_graph_set, check_memory, check_splits, check_task
from gnas.data.encoding import Array, Encoding
from gnas.errors import InputError
from gnas.files import open_regular
from gnas.graph import GraphSet
from gnas.model.task import Task
from gnas.tensors import read_digest, read_tensors, write_tensors

BENCHMARK, GRAPHS, ARRAYS = "gnas-benchmark-2", "gnas-graphs-2", "gnas-arrays-2"  # forms of files
SUFFIXES = (".safetensors", ".npz")
TENSORS = tuple(f.name for f in fields(GraphSet) if f.name not in ("level", "sample_neighbors", "draw_negatives"))
OPTIONAL = tuple(f.name for f in fields(GraphSet) if f.default is None)
TEXTS = ("files", "left_out", "problems")  # later versions added them
FIRST = {f.name for f in fields(Task)[:11]}  # parts of a task that every file has; later versions added the others

# -- benchmarks ----------------------------------------------------------------------------------------------------


def save_benchmark(benchmark: Benchmark, path: str | Path) -> Path:
    """Write a benchmark into a file that ``gnas.load`` reads; tensors that splits share are stored once."""
    tensors: dict[str, Tensor] = {}
    names: dict[int, str] = {}
    splits: dict[str, dict[str, Any]] = {}
    for split, graphs in benchmark.splits().items():
        splits[split] = {"sample_neighbors": graphs.sample_neighbors}
        splits[split] |= {"draw_negatives": True} if graphs.draw_negatives else {}
        for field, tensor in _tensors_of(graphs).items():
            name = names.setdefault(id(tensor), f"{split}.{field}")
            tensors[name], splits[split][field] = tensor, name
    about = {
        "name": benchmark.name,
        "source": benchmark.source,
        "notes": benchmark.notes,
        "task": asdict(benchmark.task),
        "encoding": None if benchmark.encoding is None else benchmark.encoding.to_dict(),
        "patience": benchmark.patience,
        **{name: getattr(benchmark, name) for name in TEXTS},
        "splits": splits,
    }
    return write_tensors(check_file_name(path), BENCHMARK, json.dumps(about), tensors)


def check_file_name(path: str | Path) -> Path:
    """The path, if its ending is that of a packed benchmark."""
    if Path(path).suffix.lower() != SUFFIXES[0]:
        raise InputError(f"{path}: graphs are stored as safetensors; name the file {Path(path).stem}{SUFFIXES[0]}")
    return Path(path)


def load_benchmark(path: str | Path) -> Benchmark:
    """Read a packed benchmark; a file that ``save_benchmark`` would not have written is an error."""
    path = Path(path)
    where = path.name
    if path.suffix.lower() == ".npz":
        content, tensors = _read_bundle(path)
    else:
        text, tensors = read_tensors(path, BENCHMARK, "file of graphs (make one with gnas data pack)")
        content = _parse_json(text, where)
    about = _check_mapping(content, where)
    missing = [k for k in ("name", "source", "notes", "task", "encoding", "splits") if k not in about]
    if missing:
        raise InputError(f"{where}: its description has no {missing[0]!r}")
    task, notes, patience = _read_task(about["task"], where), about["notes"], about.get("patience", PATIENCE)
    stored = _check_mapping(about["splits"], where)
    train, val, test = (_read_split(stored.get(split), split, tensors, task, where) for split in SPLIT_NAMES)
    encoding = None if about["encoding"] is None else Encoding.from_dict(_check_mapping(about["encoding"], where))
    if type(patience) is not int or patience < 0:
        raise InputError(f"{where}: patience is {patience!r}; it must be a whole number of at least 0")
    name, source = str(about["name"]), str(about["source"])
    texts = {key: _read_texts(about.get(key, [])) for key in TEXTS}
    benchmark = Benchmark(name, train, val, test, task, source, _read_texts(notes), encoding, patience, **texts)
    for split, graphs in benchmark.splits().items():
        check_graph_set(graphs, task, f"{where} {split}")
    check_splits(benchmark.splits(), task)
    if encoding is not None:
        check_encoding(encoding, task, where)
    return benchmark


def _read_texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value if isinstance(value, list) else [value]))


def _tensors_of(graphs: GraphSet) -> dict[str, Tensor]:
    values = {field: getattr(graphs, field) for field in TENSORS}
    return {field: tensor for field, tensor in values.items() if tensor is not None}


def _parse_json(text: str | bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: its description is not valid JSON") from None


def _check_mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: its description has a {type(value).__name__} where names and values are needed")
    return value


def _read_task(values: Any, where: str) -> Task:
    values = dict(_check_mapping(values, where))
    content: dict[str, Any] = {}
    hints = get_type_hints(Task)
    for field in fields(Task):
        if field.name not in FIRST and field.name not in values:
            continue
        value = values.pop(field.name, None)
        several = get_origin(hints[field.name]) is tuple
        kind = get_args(hints[field.name])[0] if several else hints[field.name]
        entries = value if several and isinstance(value, list) else [value]
        kinds = (int, float) if kind is float else (kind,)
        if isinstance(value, list) != several or not all(type(v) in kinds for v in entries):
            raise InputError(f"{where}: task {field.name} is {value!r}")
        content[field.name] = tuple(entries) if several else value
    if values:
        raise InputError(f"{where}: the task has the unknown part {next(iter(values))!r}")
    task = Task(**content)
    check_task(task, where)
    return task


def _read_split(names: Any, split: str, tensors: Mapping[str, Tensor], task: Task, where: str) -> GraphSet:
    if names is None:
        raise InputError(f"{where}: there is no {split} split")
    names = _check_mapping(names, where)
    content: dict[str, Tensor] = {}
    for field in TENSORS:
        name = names.get(field)
        if name is None and field in OPTIONAL:
            continue
        if not isinstance(name, str) or name not in tensors:
            raise InputError(f"{where}: the {split} split has no {field}")
        content[field] = tensors[name]
    hops = names.get("sample_neighbors", [])
    if not isinstance(hops, list) or not all(type(n) is int and (n > 0 or n == ALL) for n in hops):
        raise InputError(f"{where}: the {split} split has sample_neighbors {hops!r}")
    draw = names.get("draw_negatives") is True
    return GraphSet(**content, level=task.level, sample_neighbors=tuple(hops), draw_negatives=draw)


# -- one set of graphs, which workers share ------------------------------------------------------------------------


def write_graphs(graphs: GraphSet, folder: Path) -> Path:
    """Write graphs into ``folder``, in a file named by its content."""
    about = {"level": graphs.level, "sample_neighbors": graphs.sample_neighbors, "draw": graphs.draw_negatives}
    part = write_tensors(folder / ".graphs.safetensors", GRAPHS, json.dumps(about), _tensors_of(graphs))
    return part.replace(folder / f"graphs-{read_digest(part)[:16]}.safetensors")


@functools.lru_cache(maxsize=6)  # a worker does many jobs on the same graphs
def read_graphs(file: Path) -> GraphSet:
    """The graphs of a file that ``write_graphs`` wrote. Its digest is checked, the graphs in it are not."""
    text, tensors = read_tensors(file, GRAPHS, "file of graphs")
    try:
        about = json.loads(text)
        hops, draw = tuple(about["sample_neighbors"]), bool(about["draw"])
        return GraphSet(**tensors, level=about["level"], sample_neighbors=hops, draw_negatives=draw)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{file}: not a file of graphs ({error})") from None


# -- named arrays: prepared files ----------------------------------------------------------------------------------


class BrokenFile(Exception):
    """A data file that cannot be used; the message says why."""


def write_arrays(path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Path:
    """Write arrays and a few facts about them; a crash leaves the old file or the new one."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return write_tensors(path, ARRAYS, json.dumps(dict(about)), tensors)


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the facts about them; ``BrokenFile`` if anything is missing, cut off or altered."""
    try:
        text, tensors = read_tensors(path, ARRAYS, "prepared file")
        about = dict(_check_mapping(_parse_json(text, path.name), path.name))
    except InputError as error:
        raise BrokenFile(str(error)) from None
    return {name: tensor.numpy() for name, tensor in tensors.items()}, about


# -- files of earlier versions, and published ones -----------------------------------------------------------------

BUNDLE = {"format": "gnas-bundle", "version": 1}
DTYPES = tuple(np.dtype(d) for d in ("?", "u1", "i1", "u2", "i2", "u4", "i4", "i8", "f2", "f4", "f8"))


def read_npz(path: Path, texts: bool = True) -> dict[str, Array]:
    """All arrays of an ``.npz`` file, without pickles. A compressed member can unfold a thousandfold: the sizes are checked
    before any is read."""
    try:
        with os.fdopen(open_regular(path), "rb") as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            check_memory(sum(m.file_size for m in members), path.stat().st_size, "its arrays")
            read = {m.filename: _read_member(archive.read(m), repr(m.filename), texts) for m in members}
    except Exception as error:  # zipfile, zlib and numpy answer damage with a dozen kinds of errors
        reason = " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
        raise BrokenFile(f"{path} cannot be read: {reason}") from None
    return {name.removesuffix(".npy"): array for name, array in read.items()}


def _read_bundle(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """The description and the tensors of a benchmark that an earlier version packed as ``.npz``."""
    where = path.name
    try:
        arrays = read_npz(path, texts=False)
    except BrokenFile as error:
        raise InputError(error) from None
    meta = arrays.pop("meta", None)
    if meta is None:
        raise InputError(f"{where}: no 'meta' array; not a benchmark packed by gnas (make one with gnas data pack)")
    about = dict(_check_mapping(_parse_json(meta.tobytes(), where), where))
    found = {key: about.pop(key, None) for key in BUNDLE}
    if found != BUNDLE:
        raise InputError(f"{where}: {found['format']!r} version {found['version']!r} is not a form that gnas reads")
    from gnas.data.benchmarks import find_patience  # late: it imports this module

    about.setdefault("patience", find_patience(str(about.get("name"))))  # first kept by the next version
    return about, {name: torch.from_numpy(array) for name, array in arrays.items()}


def _read_member(data: bytes, name: str, texts: bool) -> Array:
    """One array. The header is checked first, because numpy allocates what it claims before it looks at the data."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise InputError(f"{name} has the unknown array version {version}")
    shape, _, dtype = headers[version](file)
    if dtype not in DTYPES and not (texts and dtype.kind == "U"):
        raise InputError(f"{name} holds {dtype.name} values; only plain numbers are read")
    if len(shape) > 2 or min(shape, default=0) < 0:
        raise InputError(f"{name} has the shape {shape}")
    if len(data) - file.tell() != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise InputError(f"{name} is cut short or longer than its shape {shape}")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)
