"""Molecules from SMILES: tokens, bonds, and how aromatic rings get their double bonds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from gnas.data.smiles import ZINC_ATOMS, pair_double_bonds, parse_smiles
from gnas.errors import InputError


def ring(n: int) -> dict[int, list[int]]:
    return {i: sorted(((i - 1) % n, (i + 1) % n)) for i in range(n)}


def test_a_ring_of_six_starts_at_its_first_atom() -> None:
    assert set(pair_double_bonds(ring(6), frozenset(range(6)))) == {(0, 1), (5, 4), (2, 3)}


def test_atoms_that_need_no_double_bond_are_left_out() -> None:
    pairs = pair_double_bonds(ring(5), frozenset({1, 2, 3, 4}))
    assert {frozenset(p) for p in pairs} == {frozenset((1, 2)), frozenset((3, 4))}
    assert pair_double_bonds(ring(5), frozenset(range(5))) == ()  # five atoms cannot be paired


@pytest.mark.parametrize("seed", range(30))
def test_a_pairing_is_found_whenever_there_is_one(seed: int) -> None:
    """Random small graphs, against trying every set of bonds; wrong first choices must be taken back."""
    rng = np.random.default_rng(seed)
    bonds = [pair for pair in combinations(range(8), 2) if rng.random() < 0.28]
    neighbors = {a: [b for b in range(8) if (min(a, b), max(a, b)) in bonds] for a in range(8)}
    possible = any(len({a for bond in four for a in bond}) == 8 for four in combinations(bonds, 4))
    pairs = pair_double_bonds(neighbors, frozenset(range(8)))
    assert (sorted(a for pair in pairs for a in pair) == list(range(8))) == possible
    assert all((min(p), max(p)) in bonds for p in pairs)


def test_tokens_and_bonds_of_a_molecule() -> None:
    pytest.importorskip("rdkit")
    molecule = parse_smiles("C[NH2+]Cc1cc[nH]c1C#N")
    assert molecule.atoms == ("C", "N H2 +", "C", "C", "C", "C", "N", "C", "C", "N")
    assert molecule.numbers().tolist() == [0, 11, 0, 0, 0, 0, 2, 0, 0, 2]
    assert sorted(molecule.types.tolist()) == [1] * 14 + [2] * 4 + [3] * 2
    assert parse_smiles("C[C@H](F)Cl").atoms[1] == "C H1"
    assert len(ZINC_ATOMS) == len(set(ZINC_ATOMS)) == 28


@pytest.mark.parametrize("text", ["", "C1CC", "not a molecule", "c1ccc1c"])
def test_a_text_that_is_no_molecule_is_said(text: str) -> None:
    pytest.importorskip("rdkit")
    with pytest.raises(InputError, match="does not parse"):
        parse_smiles(text)


def test_an_atom_out_of_the_vocabulary_is_said() -> None:
    pytest.importorskip("rdkit")
    with pytest.raises(InputError, match="'Si'"):
        parse_smiles("C[Si](C)C").numbers()
