"""Anyone's own graphs: the kind of data decides how it is read; the task is inferred, or set by the caller."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gnas.data.benchmark import Benchmark, with_sampling
from gnas.data.encoding import Array, Encoding, UnknownValue
from gnas.data.graph_encodings import with_encodings
from gnas.data.own.assemble import assemble_benchmark, default_encoding, encode_raw, number_other
from gnas.data.own.columns import note_blanks, note_unseen
from gnas.data.own.csv import Table, to_cells
from gnas.data.own.links import hide_positive_pairs
from gnas.data.own.molecules import is_molecule_file, read_molecule_file, read_molecules
from gnas.data.own.networkx import is_networkx, read_networkx
from gnas.data.own.options import LoadOptions, ReadOptions, use_edges
from gnas.data.own.raw import RawGraphs
from gnas.data.own.tables import read_folder
from gnas.data.own.tu import find_tu_files, read_tu
from gnas.data.storage import SUFFIXES, load_benchmark
from gnas.errors import InputError, choose
from gnas.graph import GraphSet
from gnas.model.task import Task

FORMS = (
    "PyG data (a dataset, a list of Data, one Data with masks, a (train, val, test) tuple), NetworkX graphs, "
    "a folder with graphs.csv, nodes.csv and edges.csv, a folder of TU text files (NAME_A.txt, ...), "
    "a .csv of SMILES or a .sdf (also .gz), a DataFrame or a list of SMILES with y, or a file of gnas data pack"
)
PICKLES = (".pt", ".pth", ".pkl", ".pickle")
OF_TASK = ("loss", "metric", "readout", "head")
ADJUSTABLE = (
    "name",
    *OF_TASK,
    "seed",
    "sample_neighbors",
    "encodings",
    "structure",
    "edges",
)  # of a finished benchmark


def load_own(data: Any, y: Any = None, **options: Any) -> Benchmark:
    """A benchmark from one's own data; ``Benchmark.describe`` says what was inferred. For ``options`` see ``gnas.load``."""
    for name in options:
        choose(name, [f.name for f in fields(LoadOptions)], "option")
    decided = LoadOptions(**options)
    data = as_table(_expand_path(data), y)
    if isinstance(data, Benchmark):
        benchmark = _adjust(data, decided)
    elif _is_packed(data):
        benchmark = _adjust(load_benchmark(data), decided)
    else:
        benchmark = assemble_benchmark(_read(data, ReadOptions.for_loading(decided)), decided)
    return with_encodings(with_sampling(benchmark, decided.sample_neighbors), decided.encodings, decided.structure)


class EncodedGraphs(NamedTuple):
    """New data as a network reads it. SMILES also have their texts, and notes on skipped rows.

    ``unseen`` are those of the notes that name values which the training data does not have.
    """

    graphs: GraphSet
    smiles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def encode_graphs(
    data: Any,
    encoding: Encoding | None,
    task: Task,
    skip_bad: bool = False,
    unlabelled: bool = True,
    ignore_targets: bool = False,
) -> EncodedGraphs:
    """New data as a network trained on ``task`` reads it.

    Args:
        data: any form that ``load_own`` takes, or a list of SMILES. Targets may be missing: they become NaN or class -1.
        encoding: how the training data was read; None: PyG objects whose x is what the network reads.
        task: the network's task.
        skip_bad: leave out SMILES that do not parse, or that have atoms or bonds outside the training data.
        unlabelled: the data may lack the target. Otherwise only single rows may.
        ignore_targets: leave the targets unknown: they may hold classes that the network never saw.
    """
    encoding = encoding or default_encoding(task)
    data = as_table(_expand_path(data))
    if isinstance(data, Benchmark) or _is_packed(data):
        raise InputError("a benchmark is already encoded; give one of its splits to the network")
    raw = _read(data, ReadOptions.for_prediction(encoding, task, skip_bad, unlabelled))
    raw = dataclasses.replace(raw, targets={}, labelled=None) if ignore_targets else raw
    raw = raw if unlabelled or task.level != "link" else hide_positive_pairs(raw, task.undirected)
    if skip_bad and raw.source != "smiles":
        raise InputError("the option skip_bad leaves out SMILES that cannot be read; these graphs are not SMILES")
    try:
        unseen = tuple(note_unseen(encoding, raw))
        notes = (*raw.notes, *unseen, *note_blanks(encoding, raw))
        return EncodedGraphs(encode_raw(raw, encoding, task), raw.smiles, notes, unseen)
    except UnknownValue as error:
        hint = "; the option skip_bad leaves such molecules out" if raw.source == "smiles" else ""
        raise InputError(f"{error}{hint}") from None


def _expand_path(data: Any) -> Any:
    """A text as a path, ``~`` expanded; anything else as it is."""
    try:
        return Path(data).expanduser() if isinstance(data, str | Path) else data
    except RuntimeError as error:  # ~name of a user that does not exist
        raise InputError(f"{str(data)[:100]!r} is not a path ({error})") from None


def _is_packed(data: Any) -> bool:
    return isinstance(data, Path) and data.suffix.lower() in SUFFIXES


def _adjust(benchmark: Benchmark, options: LoadOptions) -> Benchmark:
    """A finished benchmark under another name, loss, metric, readout or head, with or without its columns of edges.

    Its splits exist, so a seed changes nothing.
    """
    default = LoadOptions()
    changed = [f.name for f in fields(LoadOptions) if getattr(options, f.name) != getattr(default, f.name)]
    fixed = [name for name in changed if name not in ADJUSTABLE]
    if fixed:
        raise InputError(
            f"{benchmark.name} is a finished benchmark: {fixed[0]} cannot change "
            "(name, loss, metric, readout, head, edges, encodings and sample_neighbors can); load or pack the graphs anew"
        )
    if not changed:
        return benchmark
    if options.edges is not None:
        benchmark = _with_edges(benchmark, options.edges)
    changes = {name: getattr(options, name) for name in OF_TASK if getattr(options, name)}
    task = dataclasses.replace(benchmark.task, **changes)
    return dataclasses.replace(benchmark, name=options.name or benchmark.name, task=task)


def _with_edges(benchmark: Benchmark, requested: bool | str) -> Benchmark:
    """A finished benchmark whose networks read the columns of edges, or do not."""
    task = dataclasses.replace(benchmark.task, edge_categories=(), edge_channels=0, edge_other=())
    if not use_edges(requested):
        return dataclasses.replace(benchmark, task=task)
    sets = benchmark.splits().values()
    values = [graphs.edge_attr.reshape(graphs.num_edges, -1) for graphs in sets if graphs.edge_attr is not None]
    if not values and requested != "auto":
        raise InputError(f"{benchmark.name}: edges={requested}, but the edges have no columns")
    if not values or benchmark.task.edge_categories or benchmark.task.edge_channels:
        return benchmark
    rows, encoding = torch.cat(values), benchmark.encoding
    if rows.is_floating_point():
        return dataclasses.replace(benchmark, task=dataclasses.replace(task, edge_channels=rows.size(1)))
    sizes = tuple(int(largest) + 1 for largest in rows.amax(0)) if len(rows) else (1,) * rows.size(1)
    other: tuple[int, ...] = ()
    if encoding is not None and encoding.edges:
        sizes, other = encoding.edge_categories, number_other(encoding.edges)
    return dataclasses.replace(benchmark, task=dataclasses.replace(task, edge_categories=sizes, edge_other=other))


def _read(data: Any, options: ReadOptions) -> RawGraphs:
    if isinstance(data, Table):
        return read_molecules(data, "molecules", options)
    return _read_path(data, options) if isinstance(data, Path) else _read_objects(data, options)


def _read_objects(data: Any, options: ReadOptions) -> RawGraphs:
    from gnas.data.own.pyg import collect_graphs, read_indices, read_pyg  # late: PyG takes as long to import as torch

    parts = collect_graphs(data)
    if parts is None:
        raise InputError(f"cannot read graphs from an object of type {type(data).__name__}; give {FORMS}")
    graphs, place = parts.graphs, parts.place
    if not graphs:
        raise InputError("no graphs: the list is empty")
    if all(isinstance(g, str) for g in graphs):
        if options.unlabelled:
            return read_molecules(tabulate_smiles(graphs), "molecules", options)
        raise InputError("SMILES texts have no targets; pass them too: gnas.load(smiles, y=targets)")
    raw = (read_networkx if is_networkx(graphs[0]) else read_pyg)(graphs, place, options)
    if options.own_split and parts.split is not None:
        raw = dataclasses.replace(raw, graph_split=parts.split, row_split=None)
    if options.own_split and parts.indices is not None:
        raw = read_indices(raw, parts.indices)
    return dataclasses.replace(raw, name=parts.name or raw.name)


def _read_path(path: Path, options: ReadOptions) -> RawGraphs:
    try:
        folder, exists = path.is_dir(), path.is_file()
    except (OSError, ValueError) as error:  # a name that the file system does not take
        raise InputError(f"{str(path)[:100]!r} is not a path ({error})") from None
    if folder:
        files = find_tu_files(path)
        return read_folder(path, options) if files is None else read_tu(files, options)
    if not exists:
        raise InputError(f"{str(path)!r} is neither a file nor a folder; give {FORMS}")
    if path.suffix.lower() in PICKLES:
        raise InputError(f"{path.name}: pickles can run code and are not opened; load it yourself and pass the objects")
    if not is_molecule_file(path):
        raise InputError(f"{path.name}: unknown kind of file; give {FORMS}")
    return read_molecules(read_molecule_file(path), path.name.split(".")[0] or path.name, options)


# -- molecules of Python objects as a table ----------------------------------------------------------------------------


def as_table(data: Any, y: Any = None) -> Any:
    """A DataFrame, a list of SMILES (with ``y``) or a list of (SMILES, target) pairs as a table; else ``data``."""
    if is_frame(data):
        return tabulate_frame(data, y)
    items = list(data) if isinstance(data, list | tuple) or _is_array(data) else []
    if items and all(isinstance(item, str) for item in items) and y is not None:
        return tabulate_smiles(items, y)
    if items and y is None and all(_is_pair(item) for item in items):
        return tabulate_smiles([item[0] for item in items], [item[1] for item in items])
    if y is not None:
        raise InputError("y holds the targets of a list of SMILES or of a DataFrame; other data has its own targets")
    return [str(item) for item in items] if _is_array(data) and all(isinstance(i, str) for i in items) else data


def is_frame(data: Any) -> bool:
    """Whether ``data`` is a pandas DataFrame; pandas need not be installed."""
    return type(data).__name__ == "DataFrame" and hasattr(data, "columns") and hasattr(data, "isna")


def tabulate_frame(frame: Any, y: Any = None) -> Table:
    """A DataFrame as a table."""
    names = [str(name).strip() for name in frame.columns]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"DataFrame: two columns are called {twice[0]!r}")
    columns = {name: to_cells(frame.iloc[:, i].tolist()) for i, name in enumerate(names)}
    targets = _tabulate_targets(y, len(frame))
    return Table("DataFrame", columns | targets, np.arange(len(frame)), "row", tuple(targets))


def tabulate_smiles(texts: Sequence[str], y: Any = None) -> Table:
    """Texts as a table with the column ``smiles``, and their targets: one per text, several, or columns by name."""
    targets = _tabulate_targets(y, len(texts))
    return Table("", {"smiles": to_cells(texts)} | targets, np.arange(len(texts)), "SMILES", tuple(targets))


def _tabulate_targets(y: Any, rows: int) -> dict[str, Array]:
    if y is None:
        return {}
    if isinstance(y, Mapping) or is_frame(y):
        named = {str(name): _to_rows(y[name]) for name in y}
    else:
        given = [_to_list(row) for row in _to_rows(y)]
        width = len(given[0]) if given and isinstance(given[0], list) else 0
        if any((len(row) if isinstance(row, list) else 0) != width for row in given):
            raise InputError("y has rows of different lengths; give one target for each molecule, or as many for all")
        named = {f"y{i}": [row[i] for row in given] for i in range(width)} if width else {"y": given}
    for name, values in named.items():
        if len(values) != rows:
            raise InputError(f"{name} has {len(values)} entries for {rows} molecules")
    return {name: to_cells([_to_list(value) for value in values]) for name, values in named.items()}


def _to_rows(y: Any) -> list[Any]:
    try:
        if not isinstance(y, str | bytes):
            return list(y)
    except TypeError:  # a number, say
        pass
    raise InputError(f"y is of type {type(y).__name__}; give a list, an array or a Series: a target for each molecule")


def _to_list(value: Any) -> Any:
    """A row of targets as a list, a single one as a plain number or text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    value = list(value) if isinstance(value, tuple) else value
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str)


def _is_array(data: Any) -> bool:
    """A one-dimensional array or a pandas Series of texts."""
    return (isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "OU") or (
        type(data).__name__ == "Series" and hasattr(data, "tolist")
    )
