"""``molecules-mini``: every core with every substituent, and the octanol-water coefficient logP rdkit computes for it.

The graphs are kept in a small table beside this file, so that loading them needs no rdkit; ``build_rows`` makes the
table again.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gnas.data.benchmarks.draws import Draws
from gnas.data.cache import Array
from gnas.data.compact import Compact, Splits
from gnas.data.smiles import ZINC_ATOMS, Molecule, import_rdkit, read_smiles

TABLE = Path(__file__).with_name("molecules_mini.csv")
CORES = (
    *("c1ccccc1{}", "c1ccncc1{}", "Cc1ccc(C)cc1{}", "c1ccc2ccccc2c1{}", "C1CCCCC1{}", "C1CCOC1{}", "C1CCNCC1{}"),
    *(
        "c1ccsc1{}",
        "c1ccoc1{}",
        "Cn1ccnc1{}",
        "O=C1CCCC1{}",
        "c1cnc2ccccc2c1{}",
        "CC(C)C{}",
        "CCOCC{}",
        "CC(=O)N(C)C{}",
    ),
    *(
        "COc1ccccc1{}",
        "Clc1cccnc1{}",
        "C1CC1{}",
        "O=C1NC(=O)CC1{}",
        "C1COCCN1C{}",
        "c1ccc(-c2ccccc2)cc1{}",
        "CC=C(C){}",
    ),
    *("C[N+](C)(C)C{}", "CS(=O)(=O)C{}"),
)
SUBSTITUENTS = (
    *("C", "CC", "C(C)C", "O", "OC", "N", "N(C)C", "F", "Cl", "Br", "C#N", "C(F)(F)F", "C(=O)O", "C(=O)[O-]", "C(=O)N"),
    *("C(=O)OC", "S(=O)(=O)N", "CO", "CCN", "C=C", "C#C", "NC(C)=O", "CS", "I"),
)
MARKS = {1: "-", 2: "=", 3: "#"}


class Row(NamedTuple):
    """One molecule of the table."""

    smiles: str
    logp: float
    molecule: Molecule


def all_smiles() -> list[str]:
    """The molecules, in the order of the table."""
    return [core.format(substituent) for core in CORES for substituent in SUBSTITUENTS]


def build_rows() -> list[Row]:
    """The table from rdkit."""
    chem = import_rdkit()
    from rdkit.Chem.Crippen import MolLogP  # type: ignore[attr-defined]

    return [Row(text, round(MolLogP(chem.MolFromSmiles(text)), 4), read_smiles(text)) for text in all_smiles()]


def format_row(row: Row) -> list[str]:
    """The cells of a row: SMILES, logP, atom tokens, bonds as 0-1 1=2 2#3."""
    ends = row.molecule.bonds[:, : row.molecule.types.size // 2]
    bonds = [f"{a}{MARKS[int(t)]}{b}" for a, b, t in zip(*ends, row.molecule.types, strict=False)]
    return [row.smiles, f"{row.logp:.4f}", ";".join(row.molecule.atoms), " ".join(bonds)]


def parse_row(cells: list[str]) -> Row:
    """A row back from its cells."""
    smiles, logp, atoms, bonds = cells
    types = np.array([next(t for t, mark in MARKS.items() if mark in bond) for bond in bonds.split()], np.uint8)
    ends = np.array([bond.replace("=", "-").replace("#", "-").split("-") for bond in bonds.split()], np.int64).T
    molecule = Molecule(tuple(atoms.split(";")), np.concatenate([ends, ends[::-1]], 1), np.tile(types, 2))
    return Row(smiles, float(logp), molecule)


def read_table() -> list[Row]:
    """The table that comes with the package."""
    with open(TABLE, newline="", encoding="utf-8") as file:
        return [parse_row(cells) for cells in list(csv.reader(file))[1:]]


def molecules(counts: dict[str, int], seed: int) -> Splits:
    """The table dealt out to the splits in random order."""
    rows, order, first = read_table(), Draws(seed, 0).order(sum(counts.values())), 0
    splits: Splits = {}
    for split, count in counts.items():
        splits[split] = _compact([rows[i] for i in order[first : first + count]])
        first += count
    return splits


def _compact(rows: list[Row]) -> Compact:
    graphs = [row.molecule for row in rows]
    number = {token: i for i, token in enumerate(ZINC_ATOMS)}
    atoms: Array = np.array([number[a] for g in graphs for a in g.atoms], np.uint8)
    source, target = np.concatenate([g.bonds for g in graphs], 1)
    return Compact.from_edges(
        np.array([len(g.atoms) for g in graphs]),
        np.array([g.types.size for g in graphs]),
        source,
        target,
        {"atom": atoms, "target": np.array([row.logp for row in rows], np.float32)},
        {"bond": np.concatenate([g.types for g in graphs])},
    )
