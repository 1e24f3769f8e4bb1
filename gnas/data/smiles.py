"""A molecule's graph from its SMILES text, with rdkit: atoms as tokens, bonds as single, double and triple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gnas.data.encoding import Array
from gnas.errors import InputError

# The 28 atom tokens of ZINC in the order of their numbers: symbol, hydrogens written out in the SMILES, charge.
ZINC_ATOMS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -"),
    *("S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +"),
)


@dataclass(frozen=True)
class Molecule:
    """Heavy atoms and the bonds between them, both directions."""

    atoms: tuple[str, ...]
    bonds: Array  # [2, E] (source, target)
    types: Array  # [E] 1 single, 2 double, 3 triple

    def numbers(self, vocabulary: tuple[str, ...] = ZINC_ATOMS) -> Array:
        """Atom numbers in a vocabulary of tokens."""
        missing = sorted(set(self.atoms) - set(vocabulary))
        if missing:
            raise InputError(f"atom {missing[0]!r} is not in the vocabulary of {len(vocabulary)} atoms")
        return np.array([vocabulary.index(a) for a in self.atoms], np.uint8)


def parse_smiles(text: str) -> Molecule:
    """Parse one SMILES; ``InputError`` if it is not a molecule."""
    chem = import_rdkit()
    molecule = chem.MolFromSmiles(text) if text else None
    if molecule is None or not molecule.GetNumAtoms():
        raise InputError(f"the SMILES {text[:60]!r} does not parse")
    types = _bond_types(chem, molecule)
    plain = chem.Mol(molecule)
    # Writing an aromatic [nH] as a plain N with a single bond makes its hydrogen implicit, as in the published tokens.
    chem.Kekulize(plain, clearAromaticFlags=True)
    atoms = tuple(_token(a.GetSymbol(), a.GetNumExplicitHs(), a.GetFormalCharge()) for a in plain.GetAtoms())
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()], np.int64).reshape(-1, 2).T
    return Molecule(atoms, np.concatenate([ends, ends[::-1]], 1), np.tile(np.array(types, np.uint8), 2))


def _bond_types(chem: Any, molecule: Any) -> list[int]:
    aromatic = [b for b in molecule.GetBonds() if b.GetIsAromatic()]
    if not aromatic:
        return [int(b.GetBondTypeAsDouble()) for b in molecule.GetBonds()]
    kekule = chem.Mol(molecule)
    chem.Kekulize(kekule)
    types = [int(b.GetBondTypeAsDouble()) for b in kekule.GetBonds()]
    # Which atoms take part in a double bond is the same in every assignment; only the partners differ.
    needy = {a for b in aromatic if types[b.GetIdx()] == 2 for a in (b.GetBeginAtomIdx(), b.GetEndAtomIdx())}
    neighbors: dict[int, list[int]] = {a: [] for b in aromatic for a in (b.GetBeginAtomIdx(), b.GetEndAtomIdx())}
    for atom in neighbors:
        for bond in molecule.GetAtomWithIdx(atom).GetBonds():
            if bond.GetIsAromatic():
                neighbors[atom].append(bond.GetOtherAtomIdx(atom))
    pairs = {frozenset(pair) for pair in pair_double_bonds(neighbors, frozenset(needy))}
    for bond in aromatic if pairs else ():
        types[bond.GetIdx()] = 2 if frozenset((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())) in pairs else 1
    return types


def _token(symbol: str, hydrogens: int, charge: int) -> str:
    sign = "" if not charge else " +" if charge > 0 else " -"
    return symbol + (f" H{hydrogens}" if hydrogens else "") + sign


def import_rdkit() -> Any:
    """rdkit's Chem module, silent; an error line that names the extra if it is not installed."""
    try:
        from rdkit import Chem
        from rdkit.RDLogger import DisableLog  # type: ignore[attr-defined]
    except ImportError:
        raise InputError("reading SMILES needs rdkit: pip install gnas[chem]") from None
    DisableLog("rdApp.*")
    return Chem


# -- aromatic rings ------------------------------------------------------------------------------------------------
#
# A ring system can be written with single and double bonds in several ways. Current rdkit takes a canonical one; the
# published ZINC graphs hold the choice of rdkit before 2023: walk the ring system breadth-first from its first atom, pair
# each atom that needs a double bond with its first neighbour that needs one too, and go back to the last choice when an
# atom is left over.


class _State(NamedTuple):
    queue: tuple[int, ...]
    done: frozenset[int]
    needy: frozenset[int]  # atoms still without their double bond
    pairs: tuple[tuple[int, int], ...]


def pair_double_bonds(neighbors: Mapping[int, Sequence[int]], needy: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """Pair up the atoms in ``needy`` along aromatic bonds; ``neighbors`` lists those bonds for every aromatic atom."""
    state, choices = _State((), frozenset(), needy, ()), list[tuple[_State, int, tuple[int, ...]]]()
    while len(state.done) < len(neighbors):
        atom = state.queue[0] if state.queue else min(a for a in neighbors if a not in state.done)
        state = _visit(state, atom, neighbors)
        if atom not in state.needy:
            continue
        options = tuple(n for n in neighbors[atom] if n in state.needy)
        if not options:  # a wrong choice earlier
            if not choices:
                return ()
            state, atom, options = choices.pop()
        if options[1:]:
            choices.append((state, atom, options[1:]))
        pair = (atom, options[0])
        state = state._replace(needy=state.needy - set(pair), pairs=(*state.pairs, pair))
    return state.pairs


def _visit(state: _State, atom: int, neighbors: Mapping[int, Sequence[int]]) -> _State:
    done = state.done | {atom}
    queue = tuple(a for a in state.queue if a != atom)
    new = tuple(n for n in neighbors[atom] if n not in done and n not in queue)
    return state._replace(queue=queue + new, done=done)
