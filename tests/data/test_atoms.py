"""Columns of atoms and bonds: those of rdkit, and the same for every way to write a molecule."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("rdkit")
from rdkit import Chem

from gnas.data.atoms import ATOM_COLUMNS, BOND_COLUMNS, featurise_smiles, join_tables
from gnas.data.own.load import encode_graphs, load_own
from gnas.model.baselines import build_baseline
from gnas.training.prediction import infer

# Aromatics, charges, stereo of atoms and bonds, pseudo-asymmetric rings, explicit hydrogens, isotopes, salts, metals.
MOLECULES = (
    *("CC(O)CCN", "c1ccc2[nH]ccc2c1", "C[N+](C)(C)CC(=O)[O-]", "N[C@@H](C)C(=O)O", "F/C=C/Cl", "F/C=C\\Cl"),
    *("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1", "[2H]C([2H])O", "[13CH4]", "[Na+].[Cl-]", "O=C(O)c1ccccc1O"),
    *("CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C1CC2CCC1C2", "[H][H]", "CS(=O)(=O)N", "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H]1O"),
    *("O=[N+]([O-])c1ccccc1", "c1ccsc1", "C#CC=C=C", "[NH4][Pt]([NH4])(Cl)Cl", "CC(C)(C)[Si](C)(C)OC"),
)


def rows(text: str) -> list[np.ndarray]:
    table = featurise_smiles([text])
    return [table.node_counts, table.edge_counts, table.edge_index, table.atoms, table.bonds]


def write_otherwise(text: str, seed: int, hydrogens: bool, numbers: bool) -> str:
    """The same molecule from another atom on, with hydrogens written out or atoms numbered."""
    molecule = Chem.MolFromSmiles(text) or Chem.MolFromSmiles(text, sanitize=False)
    if hydrogens and molecule.NeedsUpdatePropertyCache() is False:
        molecule = Chem.AddHs(molecule)
    if numbers:
        for atom in molecule.GetAtoms():
            atom.SetAtomMapNum(atom.GetIdx() + 1)
    order = np.random.default_rng(seed).permutation(molecule.GetNumAtoms()).tolist()
    return Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)


@given(st.sampled_from(MOLECULES), st.integers(0, 10**6), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_way_to_write_a_molecule_gives_the_same_rows(text, seed, hydrogens, numbers):
    other = write_otherwise(text, seed, hydrogens, numbers)
    for mine, theirs in zip(rows(text), rows(other), strict=True):
        assert np.array_equal(mine, theirs), other


def test_the_same_molecule_has_the_same_prediction(tmp_path):
    (tmp_path / "m.csv").write_text("smiles,y\n" + "".join(f"{t},{i / 3}\n" for i, t in enumerate(MOLECULES)))
    b = load_own(tmp_path / "m.csv")
    torch.manual_seed(0)
    model = build_baseline("gcn", b.task, num_layers=2, budget=4000)
    pairs = [("CC(O)CCN", "C[CH](O)CCN"), ("N[C@@H](C)C(=O)O", "C[C@H](N)C(O)=O"), ("c1ccsc1", "C1=CSC=C1")]
    first, second = (infer(model, encode_graphs(list(t), b.encoding, b.task).graphs) for t in zip(*pairs, strict=True))
    assert torch.equal(first, second)
    mirrored = infer(model, encode_graphs(["N[C@H](C)C(=O)O"], b.encoding, b.task).graphs)
    assert not torch.equal(mirrored, second[1:2])  # stereo counts


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A network with random weights that reads atoms, bonds, walks and descriptors, and its benchmark."""
    table = tmp_path_factory.mktemp("molecules") / "m.csv"
    table.write_text("smiles,y\n" + "".join(f"{t},{i / 3}\n" for i, t in enumerate(MOLECULES)))
    b = load_own(table, encodings="auto", descriptors="rdkit")
    torch.manual_seed(0)
    return build_baseline("gatedgcn", b.task, num_layers=2, budget=6000), b


@given(st.sampled_from(MOLECULES), st.lists(st.integers(0, 10**6), min_size=3, max_size=3), st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_smiles_of_a_molecule_has_its_prediction(network, text, seeds, hydrogens):
    model, b = network
    texts = [text, *(write_otherwise(text, seed, hydrogens, False) for seed in seeds)]
    found = infer(model, encode_graphs(texts, b.encoding, b.task).graphs)
    torch.testing.assert_close(found, found[:1].expand_as(found), msg=str(texts))


def test_columns_are_those_of_rdkit():
    for text in MOLECULES[:20]:
        table = featurise_smiles([text])
        molecule = Chem.MolFromSmiles(Chem.CanonSmiles(text))
        nodes, edges = table.node_columns(), table.edge_columns()
        assert list(nodes) == [*ATOM_COLUMNS]
        assert list(edges) == [*BOND_COLUMNS]
        atoms = list(molecule.GetAtoms())
        assert [v.decode() for v in nodes["element"]] == [a.GetSymbol() for a in atoms]
        assert [v.decode() for v in nodes["hybridisation"]] == [
            str(a.GetHybridization()) if str(a.GetHybridization()) != "UNSPECIFIED" else "other" for a in atoms
        ]
        for name, value in (
            ("degree", Chem.Atom.GetDegree),
            ("charge", Chem.Atom.GetFormalCharge),
            ("hydrogens", Chem.Atom.GetTotalNumHs),
            ("aromatic", Chem.Atom.GetIsAromatic),
            ("ring", Chem.Atom.IsInRing),
        ):
            assert nodes[name].tolist() == [int(value(a)) for a in atoms], name
        for source, target, *columns in zip(*table.edge_index.tolist(), *edges.values(), strict=True):
            bond = molecule.GetBondBetweenAtoms(source, target)
            assert columns[0].decode() == str(bond.GetBondType()).lower()
            stereo = str(bond.GetStereo()).removeprefix("STEREO")
            assert columns[1].decode() == {"NONE": "none"}.get(stereo, stereo)
            assert columns[2:] == [bond.GetIsConjugated(), bond.IsInRing()]
        assert table.edge_index.shape[1] == 2 * molecule.GetNumBonds()


def test_stereo_is_read():
    def chirality(text: str) -> list[str]:
        return [v.decode() for v in featurise_smiles([text]).node_columns()["chirality"] if v != b"none"]

    assert chirality("N[C@@H](C)C(=O)O") == ["S"]
    assert chirality("N[C@H](C)C(=O)O") == ["R"]
    assert chirality("C[C@H]1CC[C@@H](C)CC1") != chirality("C[C@H]1CC[C@H](C)CC1")
    stereo = [set(featurise_smiles([t]).edge_columns()["stereo"].tolist()) for t in ("F/C=C/Cl", "F/C=C\\Cl", "FC=CCl")]
    assert stereo == [{b"none", b"E"}, {b"none", b"Z"}, {b"none"}]


def test_texts_that_are_no_molecules_have_no_atoms():
    texts = ["C1CC", "", "?", "CCO", "C(C)(C)(C)(C)C"]
    table = featurise_smiles(texts)
    assert table.node_counts.tolist() == [0, 0, 0, 3, 6]
    assert table.unusual.tolist() == [False, False, False, False, True]
    joined = join_tables([featurise_smiles([t]) for t in texts])
    assert np.array_equal(joined.atoms, table.atoms)
    assert np.array_equal(joined.edge_index, table.edge_index)
    assert featurise_smiles([]).edge_index.shape == (2, 0)
