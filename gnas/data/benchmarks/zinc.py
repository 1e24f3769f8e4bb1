"""ZINC-12k: molecules with a solubility score, from the prepared arrays, from SMILES, or from PyG."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.benchmarks.compact import Compact, Splits
from gnas.data.benchmarks.facts import Facts
from gnas.data.benchmarks.sources import Dataset, Request, Source, download_splits, may_download
from gnas.data.encoding import Array
from gnas.data.smiles import import_rdkit, parse_smiles
from gnas.data.storage import BrokenFile, read_npz
from gnas.errors import InputError
from gnas.graph import GraphSet
from gnas.model.task import Task

BONDS = (4,)  # categories of bonds: 1, 2 and 3
PREPARED, SMILES = "zinc/zinc12k.npz", "zinc/zinc12k_smiles.csv"


def graph_set(split: Compact, edge_attr: bool = False) -> GraphSet:
    """Atom types as categories; bond types 1, 2, 3 as edge data, requested or not."""
    columns = {key: torch.from_numpy(value) for key, value in split.columns.items()}
    x, bonds = columns["atom"].long()[:, None], columns["bond"].long()
    return split.graph_set(x, columns["target"].float(), "graph", edge_attr=bonds)


def read_prepared(request: Request) -> Splits:
    """The arrays ``SPLIT_atom_type``, ``SPLIT_edge_index``, ... of the prepared file."""
    path = request.find(PREPARED)
    arrays = read_npz(path) if path else {}
    try:
        return {split: _from_prepared(split, arrays) for split in SPLIT_NAMES}
    except (KeyError, IndexError, ValueError) as error:
        raise BrokenFile(f"{PREPARED}: {error!r}") from None


def _from_prepared(split: str, arrays: dict[str, Array]) -> Compact:
    def get(name: str) -> Array:
        return arrays[f"{split}_{name}"]

    source, target = get("edge_index").astype(np.int64)
    return Compact.from_edges(
        np.diff(get("node_ptr")),
        np.diff(get("edge_ptr")),
        source,
        target,
        {"atom": get("atom_type"), "target": get("target")},
        {"bond": get("bond_type")},
    )


def read_raw(request: Request) -> Splits:
    """Every row of the SMILES file, in order, as rdkit reads it."""
    import_rdkit()  # an error at once if it is missing
    rows = _read_csv(request.find(SMILES) or request.root / SMILES)
    total, done = sum(map(len, rows.values())), 0
    splits: Splits = {}
    for split in SPLIT_NAMES:
        splits[split] = _from_smiles(rows[split], done, total, request)
        done += len(rows[split])
    return splits


_Row = tuple[int, str, float]  # line, SMILES, target


def _read_csv(path: Path) -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {split: [] for split in SPLIT_NAMES}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BrokenFile(f"{SMILES} cannot be read: {error}") from None
    for line, row in enumerate(table, start=2):
        try:
            rows[row["split"]].append((line, row["smiles"] or "", float(row["y"])))
        except (KeyError, TypeError, ValueError):
            raise BrokenFile(f"{SMILES}, line {line}: needs split (train, val or test), smiles and y") from None
    return rows


def _from_smiles(rows: list[_Row], done: int, total: int, request: Request) -> Compact:
    atoms, bonds, types = [], [], []
    for i, (line, text, _) in enumerate(rows):
        try:
            molecule = parse_smiles(text)
            atoms.append(molecule.numbers())
        except InputError as error:
            raise BrokenFile(f"{SMILES}, line {line}: {error}") from None
        bonds.append(molecule.bonds)
        types.append(molecule.types)
        if i % 200 == 0:
            request.on_progress("molecules", done + i, total)
    if not rows:
        raise BrokenFile(f"{SMILES} has no rows for one of train, val and test")
    source, target = np.concatenate(bonds, 1)
    return Compact.from_edges(
        np.array([len(a) for a in atoms]),
        np.array([len(t) for t in types]),
        source,
        target,
        {"atom": np.concatenate(atoms), "target": np.array([y for *_, y in rows], np.float32)},
        {"bond": np.concatenate(types)},
    )


def read_pyg(request: Request) -> Splits:
    """The graphs that PyG downloads."""
    splits: Splits = {}
    for split, graphs in download_splits(request.name).items():
        one = GraphSet.from_data(graphs)
        if one.edge_attr is None:
            raise InputError("the download has no bond types")
        columns: dict[str, Array] = {
            "atom": one.x[:, 0].numpy().astype(np.uint8),
            "target": one.y.numpy().astype(np.float32),
        }
        bare = Compact.from_graphs(one, columns)
        bonds = one.edge_attr.reshape(-1).numpy().astype(np.uint8)
        splits[split] = Compact(bare.nodes, bare.degree, bare.source, {**columns, "bond": bonds})
    return splits


DATASETS = {
    "zinc": Dataset(
        Facts(
            "molecules, constrained solubility",
            Task("graph", "regression", 1, (28,), loss="l1", metric="mae"),
            (10_000, 1_000, 1_000),
            *(277_864, 9, 37, 49.83),
            symmetric=True,
        ),
        graph_set,
        (
            Source("prepared", PREPARED, lambda r: r.find(PREPARED) is not None, read_prepared, quick=True),
            Source(
                "raw",
                f"{SMILES} (columns split, smiles, y; needs the chem extra)",
                lambda r: r.find(SMILES) is not None,
                read_raw,
            ),
            Source("download", "ZINC of PyG, subset", may_download, read_pyg),
        ),
        edge_categories=BONDS,
    )
}
