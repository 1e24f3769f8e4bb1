"""Anyone's own graphs: the kind of thing given decides how it is read; the rest is inferred or said by the caller."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from gnas.data.benchmark import Benchmark
from gnas.data.encoding import Array, Encoding, UnknownValue
from gnas.data.large import Asked, with_sampling
from gnas.data.measured import with_structure
from gnas.data.options import Options
from gnas.data.own.assemble import assemble, encode_raw, encoding_of
from gnas.data.own.bundle import unpack
from gnas.data.own.inputs import Categorical
from gnas.data.own.molecules import read_smiles, read_smiles_csv
from gnas.data.own.nx import is_networkx, read_networkx
from gnas.data.own.pyg import read_pyg
from gnas.data.own.raw import RawGraphs, Reading
from gnas.data.own.sequences import given_indices, parts_of
from gnas.data.own.tables import read_folder
from gnas.data.splits import DEFAULT_FRACTIONS
from gnas.errors import InputError, choose
from gnas.graph import GraphSet
from gnas.model.task import Task

FORMS = (
    "PyG data (a dataset, a list of Data, one Data with masks, a (train, val, test) tuple), NetworkX graphs, "
    "a folder with graphs.csv, nodes.csv and edges.csv, a .csv of SMILES, or a .npz bundle"
)


def load_custom(
    data: Any,
    *,
    seed: int = 0,
    name: str | None = None,
    level: str | None = None,
    kind: str | None = None,
    metric: str | None = None,
    loss: str | None = None,
    readout: str | None = None,
    categorical: Categorical = None,
    target: str | Sequence[str] | None = None,
    split: str | None = None,
    fractions: Sequence[float] = DEFAULT_FRACTIONS,
    standardise: bool = True,
    skip_bad: bool = False,
    sample_neighbors: Asked = None,
    structure: str | Sequence[str] | None = None,
    **unknown: Any,
) -> Benchmark:
    """A benchmark from one's own data; see ``describe`` for what was inferred.

    ``level``, ``kind``, ``metric``, ``loss`` and ``readout`` override the task, ``categorical`` (True, False or column names) the
    input; ``target`` names attributes or columns. ``split``: given, random, stratified or scaffold; None: given if the
    data bring one, else random. ``skip_bad`` leaves out SMILES that do not parse. ``sample_neighbors``: neighbours drawn a hop,
    such as ``(10, 5)``, for a graph too large to be computed whole; None: where it is; ``()``: never. ``structure``: what nodes
    read besides their columns, of ``size`` (of their graph) and ``degree``.
    """
    if unknown:
        choose(next(iter(unknown)), [f.name for f in fields(Options)], "option")
    options = Options(
        seed=seed,
        name=name,
        level=level,
        kind=kind,
        metric=metric,
        loss=loss,
        readout=readout,
        categorical=categorical,
        target=target,
        split=split,
        fractions=fractions,
        standardise=standardise,
        skip_bad=skip_bad,
        sample_neighbors=sample_neighbors,
        structure=structure,
    )
    data = _path(data)
    if isinstance(data, Benchmark):
        return _sampled_or_measured(_adjusted(data, options), options)
    if _is_bundle(data):
        return _sampled_or_measured(_adjusted(unpack(data), options), options)
    how = Reading(
        target=options.targets,
        level=options.level,
        text=options.text,
        text_labels=options.kind == "classification",
        given=options.split in (None, "given"),
        skip_bad=options.skip_bad,
    )
    return _sampled_or_measured(assemble(_read(data, how), options), options)


def _sampled_or_measured(benchmark: Benchmark, options: Options) -> Benchmark:
    return with_structure(with_sampling(benchmark, options.sample_neighbors), options.structure)


class Encoded(NamedTuple):
    """New data as a network reads it; of SMILES also the texts, their rows in the source, and what was left out."""

    graphs: GraphSet
    smiles: tuple[str, ...] = ()
    kept: Array | None = None
    notes: tuple[str, ...] = ()


def encode(data: Any, encoding: Encoding | None, task: Task, skip_bad: bool = False) -> Encoded:
    """New data as a network trained on ``task`` reads it, in any form ``load_custom`` takes, or SMILES texts.

    Targets may be missing: NaN or class -1 stands for them. ``encoding=None`` takes PyG objects with x as it is. ``skip_bad``
    leaves out SMILES that do not parse, or have atoms or bonds the network does not know.
    """
    encoding = encoding or encoding_of(task)
    data = _path(data)
    if isinstance(data, Benchmark) or _is_bundle(data):
        raise InputError("a benchmark is already encoded; give one of its splits to the network")
    texts = tuple(c.name for c in (*encoding.nodes, *encoding.edges) if c.kind == "vocabulary")
    target = encoding.asked or (encoding.targets if encoding.source in ("tables", "smiles") else ())
    how = Reading(
        target,
        task.level,
        texts,
        text_labels=task.kind == "classification",
        given=False,
        unlabelled=True,
        skip_bad=skip_bad,
        known=(*encoding.nodes, *encoding.edges),
    )
    raw = _read(data, how)
    if skip_bad and raw.source != "smiles":
        raise InputError("skip_bad=True leaves out SMILES that cannot be read; these graphs are no SMILES")
    try:
        return Encoded(encode_raw(raw, encoding, task), raw.smiles, raw.kept, raw.notes if skip_bad else ())
    except UnknownValue as error:
        hint = "; skip_bad=True leaves such molecules out" if raw.source == "smiles" else ""
        raise InputError(f"{error}{hint}") from None


def _path(data: Any) -> Any:
    """A text as a path, ``~`` expanded; anything else as it is."""
    try:
        return Path(data).expanduser() if isinstance(data, str | Path) else data
    except RuntimeError as error:  # ~name of nobody
        raise InputError(f"{str(data)[:100]!r} is not a path ({error})") from None


def _is_bundle(data: Any) -> bool:
    return isinstance(data, Path) and data.suffix.lower() == ".npz"


def _adjusted(benchmark: Benchmark, options: Options) -> Benchmark:
    """A finished benchmark under another name, loss or metric; its splits are made, so a seed changes nothing."""
    default = Options()
    changed = [f.name for f in fields(Options) if getattr(options, f.name) != getattr(default, f.name)]
    fixed = [
        c for c in changed if c not in ("name", "loss", "metric", "readout", "seed", "sample_neighbors", "structure")
    ]
    if fixed:
        raise InputError(
            f"{benchmark.name} is a finished benchmark: {fixed[0]} cannot change (name, loss, metric and readout can)"
        )
    if not changed:
        return benchmark
    asked = {name: getattr(options, name) for name in ("loss", "metric", "readout")}
    task = dataclasses.replace(benchmark.task, **{name: value for name, value in asked.items() if value})
    return dataclasses.replace(benchmark, name=options.name or benchmark.name, task=task)


def _read(data: Any, how: Reading) -> RawGraphs:
    if isinstance(data, Path):
        return _read_path(data, how)
    parts = parts_of(data)
    if parts is None:
        raise InputError(f"cannot read graphs from a {type(data).__name__}; give {FORMS}")
    graphs, place = parts.graphs, parts.place
    if not graphs:
        raise InputError("no graphs: the list is empty")
    if all(isinstance(g, str) for g in graphs):
        if how.unlabelled:
            return read_smiles(graphs, how)
        raise InputError("SMILES texts have no targets; put them in a .csv with a smiles and a y column")
    read = read_networkx if is_networkx(graphs[0]) else read_pyg
    raw = read(graphs, place, how)
    if how.given and parts.split is not None:
        raw = dataclasses.replace(raw, graph_split=parts.split, row_split=None)
    if how.given and parts.indices is not None:
        raw = given_indices(raw, parts.indices)
    return dataclasses.replace(raw, name=parts.name or raw.name)


def _read_path(path: Path, how: Reading) -> RawGraphs:
    try:
        if path.is_dir():
            return read_folder(path, how)
        exists = path.is_file()
    except (OSError, ValueError) as error:  # a name the file system does not take
        raise InputError(f"{str(path)[:100]!r} is not a path ({error})") from None
    if not exists:
        raise InputError(f"{str(path)!r} is neither a file nor a folder; give {FORMS}")
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".pickle"):
        raise InputError(f"{path.name}: pickles can run code and are not opened; load it yourself and pass the objects")
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path.name}: unknown kind of file; give {FORMS}")
    return read_smiles_csv(path, how)
