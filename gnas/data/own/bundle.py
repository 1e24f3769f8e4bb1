"""A benchmark in one ``.npz`` file that is safe to open: plain arrays, the rest as JSON text, no pickles."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks.named import find_patience
from gnas.data.checks import check_encoding, check_graph_set, check_splits, check_task
from gnas.data.encoding import Array, Encoding
from gnas.data.own.raw import SPLIT_NAMES
from gnas.errors import InputError
from gnas.files import write_atomic
from gnas.graph import GraphSet
from gnas.model.task import Task

FORMAT, VERSION = "gnas-bundle", 1
TENSORS = tuple(f.name for f in fields(GraphSet) if f.name not in ("level", "sample_neighbors"))
OPTIONAL = ("mask", "edge_attr", "pos")
DTYPES = tuple(np.dtype(d) for d in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"))
TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "float": (int, float), "int": (int,)}
MOST_BYTES = 16 * 2**30
# A compressed member can unfold a thousandfold: beyond this size such growth is an attack, not graphs.
FREE_BYTES, MOST_GROWTH = 64 * 2**20, 200


def pack(benchmark: Benchmark, path: str | Path, compress: bool = False) -> Path:
    """Write a benchmark; tensors that splits share are stored once. ``compress`` trades time for size."""
    arrays: dict[str, Array] = {}
    names: dict[int, str] = {}
    splits: dict[str, dict[str, str]] = {}
    for split, graphs in benchmark.splits().items():
        splits[split] = {}
        for field in TENSORS:
            tensor = getattr(graphs, field)
            if tensor is not None:
                name = names.setdefault(id(tensor), f"{split}.{field}")
                splits[split][field] = name
                if name not in arrays:
                    arrays[name] = _array(tensor, name)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "name": benchmark.name,
        "source": benchmark.source,
        "notes": benchmark.notes,
        "task": asdict(benchmark.task),
        "encoding": benchmark.encoding.to_dict() if benchmark.encoding else None,
        "patience": benchmark.patience,
        "splits": splits,
    }
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    file = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(file, **arrays)  # type: ignore[arg-type]
    return write_atomic(path, file.getvalue())


def unpack(path: str | Path, max_bytes: int = MOST_BYTES) -> Benchmark:
    """Read a bundle, unpacked at most ``max_bytes`` large; anything ``pack`` would not have written is an error."""
    where = Path(path).name
    arrays = read_arrays(Path(path), max_bytes)
    meta = _meta(arrays.pop("meta", None), where)
    task = _task(meta["task"], where)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    splits = {s: _graph_set(meta["splits"], s, tensors, task, where) for s in SPLIT_NAMES}
    for split, graphs in splits.items():
        check_graph_set(graphs, task, f"{where} {split}")
    check_splits(splits, task)
    encoding = None if meta["encoding"] is None else Encoding.from_dict(_mapping(meta["encoding"], where))
    if encoding is not None:
        check_encoding(encoding, task, where)
    name, source, notes = str(meta["name"]), str(meta["source"]), meta["notes"]
    notes = tuple(map(str, notes if isinstance(notes, list) else [notes]))
    patience = meta.get("patience", find_patience(name))  # files from before it was kept do not have it
    if type(patience) is not int or patience < 0:
        raise InputError(f"{where}: patience is {patience!r}; it must be a whole number of at least 0")
    return Benchmark(name, **splits, task=task, source=source, notes=notes, encoding=encoding, patience=patience)


def read_arrays(path: Path, max_bytes: int = MOST_BYTES) -> dict[str, Array]:
    """The arrays of an ``.npz`` file, with sizes checked before anything is unpacked and no pickles."""
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            total = sum(m.file_size for m in members)
            if total > max_bytes or total > max(FREE_BYTES, MOST_GROWTH * size):
                raise InputError(f"would unpack to {total:,} bytes from {size:,}; refused")
            return {m.filename.removesuffix(".npy"): _read_array(archive.read(m), repr(m.filename)) for m in members}
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or 'damaged'})") from None
    except Exception as error:
        # zipfile and zlib answer damage with many kinds of errors; all mean the same to the reader of this line.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path.name}: not a whole .npz file ({reason})") from None


def _read_array(data: bytes, name: str) -> Array:
    # numpy's own reader allocates what the header claims before it looks at the data.
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise InputError(f"{name} has the unknown array version {version}")
    length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    header = ast.literal_eval(file.read(min(length, 10_000)).decode("latin1").strip())
    dtype, shape = np.dtype(header["descr"]), tuple(header["shape"])
    if dtype not in DTYPES or header["fortran_order"] not in (False, True):
        raise InputError(f"{name} holds {dtype.name} values; only plain numbers are read")
    body = data[file.tell() :]
    if not all(isinstance(n, int) and n >= 0 for n in shape) or len(shape) > 2:
        raise InputError(f"{name} has the shape {shape}")
    if len(body) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise InputError(f"{name} is cut short or longer than its shape {shape}")
    array = np.frombuffer(body, dtype)
    return (array.reshape(shape[::-1]).T if header["fortran_order"] else array.reshape(shape)).copy()


def _array(tensor: Tensor, name: str) -> Array:
    try:
        array = tensor.detach().cpu().contiguous().numpy()
    except TypeError:
        raise InputError(f"{name} holds {tensor.dtype}, which an .npz file cannot") from None
    if array.dtype not in DTYPES or array.ndim > 2:
        raise InputError(f"{name} holds {array.dtype.name} in {array.ndim} dimensions, which a bundle does not take")
    return array


def _meta(array: Array | None, where: str) -> Mapping[str, Any]:
    if array is None:
        raise InputError(f"{where}: no 'meta' array; not a bundle written by gnas (make one with gnas data pack)")
    try:
        meta = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        raise InputError(f"{where}: 'meta' is not JSON text") from None
    meta = _mapping(meta, where)
    if meta.get("format") != FORMAT or meta.get("version") != VERSION:
        found = f"{meta.get('format')!r} version {meta.get('version')!r}"
        raise InputError(f"{where}: format {found}; {FORMAT} version {VERSION} is needed")
    missing = [k for k in ("name", "source", "notes", "task", "encoding", "splits") if k not in meta]
    if missing:
        raise InputError(f"{where}: 'meta' has no {missing[0]!r}")
    return meta


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: 'meta' holds a {type(value).__name__} where names and values were expected")
    return value


def _task(values: Any, where: str) -> Task:
    given = dict(_mapping(values, where))
    known: dict[str, Any] = {}
    for field in fields(Task):
        if field.name.startswith("structure") and field.name not in given:
            continue  # of a file from before there was any
        value = given.pop(field.name, None)
        several = str(field.type).startswith("tuple")
        kinds = next(types for word, types in TYPES.items() if word in str(field.type))
        entries = value if several and isinstance(value, list) else [value]
        if isinstance(value, list) != several or not all(type(v) in kinds for v in entries):
            raise InputError(f"{where}: task {field.name} is {value!r}")
        known[field.name] = tuple(entries) if several else value
    if given:
        raise InputError(f"{where}: the task has the unknown part {next(iter(given))!r}")
    task = Task(**known)
    check_task(task, where)
    return task


def _graph_set(splits: Any, split: str, tensors: Mapping[str, Tensor], task: Task, where: str) -> GraphSet:
    names = _mapping(_mapping(splits, where).get(split), where)
    found: dict[str, Tensor | None] = {}
    for field in TENSORS:
        name = names.get(field)
        if name is None and field in OPTIONAL:
            found[field] = None
        elif not isinstance(name, str) or name not in tensors:
            raise InputError(f"{where}: the {split} split has no {field}")
        else:
            found[field] = tensors[name]
    return GraphSet(**found, level=task.level)  # type: ignore[arg-type]
