"""ZINC-12k: molecules with a solubility score, from the prepared arrays, from SMILES, or from PyG."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.benchmarks.compact import Compact, Splits
from gnas.data.benchmarks.sources import Dataset, Facts, Request, Source, download_splits
from gnas.data.smiles import Molecule, import_rdkit, parse_smiles
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


def pack_molecules(molecules: Sequence[Molecule], targets: Sequence[float]) -> Compact:
    """Molecules with a target each."""
    return Compact.from_edges(
        np.array([len(one.atoms) for one in molecules]),
        np.array([one.types.size for one in molecules]),
        np.concatenate([one.bonds for one in molecules], 1),
        {"atom": np.concatenate([one.numbers() for one in molecules]), "target": np.array(targets, np.float32)},
        {"bond": np.concatenate([one.types for one in molecules])},
    )


def read_prepared(request: Request, path: Path) -> Splits:
    """The arrays ``SPLIT_atom_type``, ``SPLIT_edge_index``, ... of the prepared file."""
    arrays = read_npz(path)

    def pack(split: str) -> Compact:
        names = ("node_ptr", "edge_ptr", "edge_index", "atom_type", "target", "bond_type")
        node_ptr, edge_ptr, ends, atom, target, bond = (arrays[f"{split}_{name}"] for name in names)
        columns = {"atom": atom, "target": target}
        return Compact.from_edges(np.diff(node_ptr), np.diff(edge_ptr), ends.astype(np.int64), columns, {"bond": bond})

    try:
        return {split: pack(split) for split in SPLIT_NAMES}
    except (KeyError, IndexError, ValueError) as error:
        raise BrokenFile(f"{PREPARED}: {error!r}") from None


def read_raw(request: Request, path: Path) -> Splits:
    """Every row of the SMILES file, in order, as rdkit reads it."""
    import_rdkit()  # an error at once if it is missing
    rows = _read_csv(path)
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
    molecules = []
    for i, (line, text, _) in enumerate(rows):
        try:
            molecules.append(parse_smiles(text))
            molecules[-1].numbers()
        except InputError as error:
            raise BrokenFile(f"{SMILES}, line {line}: {error}") from None
        if i % 200 == 0:
            request.on_progress("molecules", done + i, total)
    if not rows:
        raise BrokenFile(f"{SMILES} has no rows for one of train, val and test")
    return pack_molecules(molecules, [target for *_, target in rows])


def read_pyg(request: Request) -> Splits:
    """The graphs that PyG downloads."""
    splits: Splits = {}
    for split, one in download_splits(request.name).items():
        if one.edge_attr is None:
            raise InputError("the download has no bond types")
        integers = {"atom": one.x[:, 0], "bond": one.edge_attr.reshape(-1)}
        columns = {name: column.numpy().astype(np.uint8) for name, column in integers.items()}
        splits[split] = Compact.from_graphs(one, {"target": one.y.numpy().astype(np.float32), **columns})
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
            Source.of_file("prepared", PREPARED, read_prepared, quick=True),
            Source.of_file("raw", SMILES, read_raw, " (columns split, smiles, y; needs the chem extra)"),
            Source.of_download("ZINC of PyG, subset", read_pyg),
        ),
        edge_categories=BONDS,
    )
}
