"""Atoms and bonds as named columns, from SMILES with rdkit. The same molecule gives the same rows however it is written.

Each molecule is read, written as rdkit's canonical SMILES and read again. So the order of its atoms and all columns depend
on the molecule alone. Hydrogens are counted at their atom, whether they are written out or not. Chirality is the CIP label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnas.data.encoding import Array
from gnas.data.smiles import import_rdkit

MOST_ATOMS = 4_000  # of a molecule: rdkit writes a chain by recursion, and a longer one ends the process

ATOM_COLUMNS = ("element", "degree", "charge", "chirality", "hydrogens", "hybridisation", "aromatic", "ring")
BOND_COLUMNS = ("bond", "stereo", "conjugated", "ring")
PLAIN_ATOMS, PLAIN_BONDS = ATOM_COLUMNS[:1], BOND_COLUMNS[:1]

# Text columns are kept as positions in these lists.
CHIRALITIES = ("none", "R", "S", "r", "s", "other")
HYBRIDISATIONS = ("other", "S", "SP", "SP2", "SP3", "SP2D", "SP3D", "SP3D2")
BONDS = ("other", "single", "double", "triple", "aromatic", "dative")
STEREOS = ("none", "Z", "E", "cis", "trans", "other")

MOST_LABEL_STEPS = 100_000  # CIP labels of a large symmetric molecule can take very long; beyond this: "other"


@dataclass(frozen=True)
class AtomTable:
    """Atoms and bonds of many molecules; a text that does not parse has no atoms."""

    node_counts: Array  # [G]
    edge_counts: Array  # [G]
    edge_index: Array  # [2, E] atom numbers local to each molecule, both directions of a bond
    atoms: Array  # [N, 8] whole numbers, columns as ATOM_COLUMNS
    bonds: Array  # [E, 4] columns as BOND_COLUMNS
    unusual: Array  # [G] molecules with an atom of unusual valence

    def select(self, keep: Array) -> AtomTable:
        """The molecules with ``keep`` set; those left out must be empty."""
        counts = self.node_counts[keep], self.edge_counts[keep]
        return AtomTable(*counts, self.edge_index, self.atoms, self.bonds, self.unusual[keep])

    def node_columns(self, names: Sequence[str] = ATOM_COLUMNS) -> dict[str, Array]:
        """Columns of atoms as whole numbers or texts."""
        texts = {"element": _symbols(), "chirality": CHIRALITIES, "hybridisation": HYBRIDISATIONS}
        return _columns(self.atoms, ATOM_COLUMNS, names, texts)

    def edge_columns(self, names: Sequence[str] = BOND_COLUMNS) -> dict[str, Array]:
        """Columns of bonds as whole numbers or texts."""
        return _columns(self.bonds, BOND_COLUMNS, names, {"bond": BONDS, "stereo": STEREOS})


def _columns(
    rows: Array, columns: Sequence[str], names: Sequence[str], texts: Mapping[str, Sequence[str]]
) -> dict[str, Array]:
    found = {}
    for name in names:
        codes = rows[:, columns.index(name)].astype(np.int64)
        found[name] = np.array(texts[name], np.bytes_)[codes] if name in texts else codes
    return found


def _symbols() -> list[str]:
    table = import_rdkit().GetPeriodicTable()
    return [table.GetElementSymbol(number) for number in range(119)]


def join_tables(parts: Sequence[AtomTable]) -> AtomTable:
    """Tables of molecules one after another."""
    fields = ("node_counts", "edge_counts", "edge_index", "atoms", "bonds", "unusual")
    return AtomTable(*(np.concatenate([getattr(p, f) for p in parts], axis=int(f == "edge_index")) for f in fields))


def featurise_smiles(texts: Sequence[str]) -> AtomTable:
    """Atoms and bonds of molecules given as SMILES."""
    return join_tables([_featurise(texts[i : i + 5000]) for i in range(0, max(len(texts), 1), 5000)])


def parse_canonical(text: str) -> tuple[Any, bool] | None:
    """rdkit's molecule, atoms in canonical order, and whether a valence is unusual; None if ``text`` does not parse."""
    chem = import_rdkit()
    first = _parse(chem, text)
    if first is None:
        return None
    molecule, unusual = first
    if ":" in text:  # else no atom has a number
        for atom in list_atoms(molecule):
            atom.SetAtomMapNum(0)
    again = _parse(chem, chem.MolToSmiles(molecule))
    return again and (again[0], unusual)


def _parse(chem: Any, text: str) -> tuple[Any, bool] | None:
    if not text:
        return None
    molecule = chem.MolFromSmiles(text)
    if molecule is not None:
        return (molecule, False) if 0 < molecule.GetNumAtoms() <= MOST_ATOMS else None
    # Metal complexes often have a valence that rdkit does not know: everything but the valence is checked.
    try:
        molecule = chem.MolFromSmiles(text, sanitize=False)
        if molecule is None or not 0 < molecule.GetNumAtoms() <= MOST_ATOMS:
            return None
        molecule.UpdatePropertyCache(strict=False)
        chem.SanitizeMol(molecule, chem.SANITIZE_ALL ^ chem.SANITIZE_PROPERTIES)
        molecule = chem.RemoveHs(molecule, sanitize=False)
        chem.AssignStereochemistry(molecule, cleanIt=True, force=True)
    except (ValueError, RuntimeError):  # rdkit's own complaints are among these
        return None
    return molecule, True


def _featurise(texts: Sequence[str]) -> AtomTable:
    chem = import_rdkit()
    lookup = _Codes(chem)
    counts, unusual = np.zeros((len(texts), 2), np.int64), np.zeros(len(texts), bool)
    atoms: list[int] = []
    bonds: list[int] = []
    for i, text in enumerate(texts):
        parsed = parse_canonical(text)
        if parsed is None:
            continue
        molecule, unusual[i] = parsed
        label_chirality(molecule)
        counts[i] = molecule.GetNumAtoms(), 2 * molecule.GetNumBonds()
        for atom in list_atoms(molecule):
            atoms += lookup.describe_atom(atom)
        for number in range(molecule.GetNumBonds()):
            bonds += lookup.describe_bond(molecule.GetBondWithIdx(number))
    rows = np.array(bonds, np.int64).reshape(-1, 2 + len(BOND_COLUMNS))
    ends, kinds = np.repeat(rows[:, :2], 2, axis=0), np.repeat(rows[:, 2:], 2, axis=0).astype(np.int16)
    ends[1::2] = ends[1::2, ::-1]
    table = np.array(atoms, np.int16).reshape(-1, len(ATOM_COLUMNS))
    return AtomTable(counts[:, 0], counts[:, 1], np.ascontiguousarray(ends.T), table, kinds, unusual)


def list_atoms(molecule: Any) -> list[Any]:
    """The atoms by their numbers; rdkit's own iterator takes several times as long."""
    return [molecule.GetAtomWithIdx(number) for number in range(molecule.GetNumAtoms())]


def label_chirality(molecule: Any) -> None:
    """CIP labels for centres that the quick labels of rdkit's parser leave out (r and s)."""
    if all(not atom.GetChiralTag() or atom.HasProp("_CIPCode") for atom in list_atoms(molecule)):
        return
    from rdkit.Chem import rdCIPLabeler

    try:
        rdCIPLabeler.AssignCIPLabels(molecule, maxRecursiveIterations=MOST_LABEL_STEPS)
    except (ValueError, RuntimeError):
        return


class _Codes:
    """Positions of rdkit's values in the lists of this module."""

    def __init__(self, chem: Any) -> None:
        self.hybridisation = {
            value: HYBRIDISATIONS.index(str(value)) if str(value) in HYBRIDISATIONS else 0
            for value in chem.HybridizationType.values.values()
        }
        self.bond = {value: _bond_code(str(value).lower()) for value in chem.BondType.values.values()}
        self.stereo = {
            value: _stereo_code(str(value).removeprefix("STEREO")) for value in chem.BondStereo.values.values()
        }

    def describe_atom(self, atom: Any) -> tuple[int, ...]:
        return (
            atom.GetAtomicNum(),
            atom.GetDegree(),
            atom.GetFormalCharge(),
            _chirality(atom),
            atom.GetTotalNumHs(),
            self.hybridisation[atom.GetHybridization()],
            atom.GetIsAromatic(),
            atom.IsInRing(),
        )

    def describe_bond(self, bond: Any) -> tuple[int, ...]:
        return (
            bond.GetBeginAtomIdx(),
            bond.GetEndAtomIdx(),
            self.bond[bond.GetBondType()],
            self.stereo[bond.GetStereo()],
            bond.GetIsConjugated(),
            bond.IsInRing(),
        )


def _chirality(atom: Any) -> int:
    if not atom.GetChiralTag():
        return 0
    label = atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "other"
    return CHIRALITIES.index(label if label in CHIRALITIES else "other")


def _bond_code(name: str) -> int:
    name = "dative" if name.startswith("dative") else name
    return BONDS.index(name) if name in BONDS else 0


def _stereo_code(name: str) -> int:
    known = {"NONE": "none", "ANY": "none", "Z": "Z", "E": "E", "CIS": "cis", "TRANS": "trans"}
    return STEREOS.index(known.get(name, "other"))
