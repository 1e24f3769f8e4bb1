"""Molecules from SMILES: atoms, bonds, targets, splits by scaffold."""

import gzip
import sys

import numpy as np
import pytest
import torch
from builders import SMILES, assert_equal, one_line, write_csv, write_smiles
from torch_geometric.data import Data

from gnas.data import load
from gnas.data.atoms import ATOM_COLUMNS, BOND_COLUMNS, parse_canonical
from gnas.data.own.load import as_table, encode_graphs, load_own


def test_molecules_from_smiles(tmp_path):
    pytest.importorskip("rdkit")
    b = load_own(write_smiles(tmp_path / "mols.csv"), seed=1)
    assert (b.name, b.task.kind, b.task.level) == ("mols", "regression", "graph")
    assert [c.name for c in b.encoding.nodes] == [*ATOM_COLUMNS]
    assert [c.name for c in b.encoding.edges] == [*BOND_COLUMNS]
    assert all(c.other for c in (*b.encoding.nodes, *b.encoding.edges))
    new = encode_graphs(["CCO", "CC(=O)[O-]"], b.encoding, b.task).graphs
    elements = b.encoding.nodes[0].values
    assert [elements[i] for i in new.x[:, 0]] == ["C", "C", "O", "C", "C", "O", "O"]
    assert new.edge_index[:, : new.edge_ptr[1]].tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert new.edge_attr[:4, 0].tolist() == [b.encoding.edges[0].values.index("single")] * 4
    assert new.y.isnan().all()
    unseen = encode_graphs(["CC", "C[Xe]"], b.encoding, b.task)
    assert unseen.notes == ("column 'element': 'Xe' is not in the training data and is read as 'other' (SMILES 1)",)
    assert unseen.graphs.x[2:, 0].tolist() == [elements.index("C"), len(elements)]
    with one_line("SMILES 0", "does not parse"):
        encode_graphs(["C("], b.encoding, b.task)


def test_plain_atoms_and_the_tokens_of_earlier_versions(tmp_path):
    pytest.importorskip("rdkit")
    path = write_smiles(tmp_path / "mols.csv")
    plain = load_own(path, atoms="element")
    assert ([c.name for c in plain.encoding.nodes], [c.name for c in plain.encoding.edges]) == (["element"], ["bond"])
    b = load_own(path, atoms="tokens", seed=1)
    (atoms,) = b.encoding.nodes
    new = encode_graphs(["CCO", "CC(=O)[O-]"], b.encoding, b.task).graphs
    assert [atoms.values[i] for i in new.x.flatten()] == ["C", "C", "O", "C", "C", "O", "O -"]
    assert new.edge_attr.flatten().tolist()[:4] == [1, 1, 1, 1]
    with one_line("SMILES 1, node 1", "'Xe'"):
        encode_graphs(["CC", "C[Xe]"], b.encoding, b.task)


def test_smiles_that_do_not_parse(tmp_path):
    pytest.importorskip("rdkit")
    path = write_smiles(tmp_path / "mols.csv", [("C1CC", 3.0), ("", 4.0), ("not a molecule", 5.0)])
    with one_line("mols.csv line 22", "'C1CC' does not parse", "skip_bad"):
        load_own(path)
    b = load_own(path, skip_bad=True)
    assert sum(len(g) for g in b.splits().values()) == len(SMILES)
    assert "3 rows skipped, their SMILES do not parse: mols.csv line 22, mols.csv line 23, mols.csv line 24" in b.notes
    with one_line("no molecule is left of 1 row", "bad.csv line 2"):
        load_own(write_csv(tmp_path / "bad.csv", ("smiles", "y"), [("?", 1)]), skip_bad=True)


def test_scaffolds_and_given_splits(tmp_path):
    pytest.importorskip("rdkit")
    path = write_smiles(tmp_path / "mols.csv")
    b = load_own(path, split="scaffold", fractions=(0.6, 0.2, 0.2))
    rings = [{int(k) for g in range(len(s)) for k in [s[g].num_edges]} for s in b.splits().values()]
    assert all(rings)
    assert "split: scaffold (0.6, 0.2, 0.2) of graphs by seed 0" in b.encoding.reasons
    rows = [(text, i % 3, ("train", "valid", "test")[i // 3 % 3], i) for i, text in enumerate(SMILES)]
    given_split = load_own(write_csv(tmp_path / "split.csv", ("SMILES", "y", "split", "id"), rows))
    assert (given_split.task.kind, len(given_split.train)) == ("classification", 8)
    with one_line("scaffold split needs molecules"):
        load_own(
            [Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0).long(), y=i / 2) for i in range(9)], split="scaffold"
        )


def test_which_column_is_the_target(tmp_path):
    pytest.importorskip("rdkit")
    rows = [(text, i / 3, i) for i, text in enumerate(SMILES)]
    path = write_csv(tmp_path / "mols.csv", ("smiles", "logp", "id"), rows)
    with one_line("mols.csv: which column is the target?", "logp, id"):
        load_own(path)
    assert load_own(path, target="logp").encoding.targets == ("logp",)
    with one_line("target column of mols.csv 'logq'", "'logp'"):
        load_own(path, target="logq")
    found = load_own(write_csv(tmp_path / "x.csv", ("number", "text", "y"), [(i, t, y) for t, y, i in rows]))
    assert found.encoding.targets == ("y",)
    assert found.left_out == ("columns number: not named as target or feature",)
    with one_line("x.csv: no column 'smiles', and none of its columns holds SMILES", "number, y"):
        load_own(write_csv(tmp_path / "x.csv", ("number", "y"), [(1, 1)]))
    with one_line("column of mols.csv 'text'", "smiles, logp"):
        load_own(path, target="logp", smiles="text")
    with one_line("graph level"):
        load_own(path, target="logp", level="node")
    with one_line("target column of bare.csv 'logp'; there is none to choose"):
        load_own(write_csv(tmp_path / "bare.csv", ("smiles",), [(text,) for text in SMILES]), target="logp")


def test_without_rdkit_the_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with one_line("pip install gnas[chem]"):
        load_own(write_smiles(tmp_path / "mols.csv"))


def write_labels(path, **columns):
    """Three columns of labels as in Tox21, with blanks; texts and other columns beside them."""
    labels = [(i % 2, "" if i % 4 == 0 else float(i % 3 == 0), "" if i % 5 else 1 - i % 2) for i in range(len(SMILES))]
    header = ("NR-AR", "NR-ER", "SR-p53", "mol_id", "smiles", *columns)
    rows = [(*label, f"TOX{i}", SMILES[i], *(c[i] for c in columns.values())) for i, label in enumerate(labels)]
    return write_csv(path, header, rows)


def test_columns_of_labels_are_the_targets(tmp_path):
    pytest.importorskip("rdkit")
    b = load_own(write_labels(tmp_path / "tox.csv"))
    assert (b.task.kind, b.task.labels) == ("multilabel", ("NR-AR", "NR-ER", "SR-p53"))
    assert any("3 targets: all columns of tox.csv that hold 0, 1 and blanks" in reason for reason in b.encoding.reasons)
    assert "columns mol_id" in b.left_out[0]
    named = load_own(tmp_path / "tox.csv", target=["NR-AR", "NR-ER", "SR-p53"])
    assert named.fingerprint == b.fingerprint
    assert not any("all columns of" in reason for reason in named.encoding.reasons)
    assert encode_graphs(["CCO"], b.encoding, b.task).graphs.y.isnan().all()


def test_numbers_beside_labels_are_asked_about(tmp_path):
    pytest.importorskip("rdkit")
    numbers = [i / 3 for i in range(len(SMILES))]
    path = write_labels(tmp_path / "tox.csv", mass=numbers)
    with one_line("which column is the target?", "mass"):
        load_own(path)
    assert load_own(path, graph_features="mass").task.kind == "multilabel"
    path = write_csv(tmp_path / "two.csv", ("smiles", "a", "b"), zip(SMILES, numbers, numbers, strict=True))
    with one_line("which column is the target?"):
        load_own(path)
    path = write_csv(tmp_path / "one.csv", ("smiles", "name", "active"), [(s, s, i % 2) for i, s in enumerate(SMILES)])
    with one_line("which column is the target?"):
        load_own(path)


def test_a_molecule_that_ends_the_process_is_refused(tmp_path):
    """rdkit writes a chain by recursion: a file of 20 kB ended Python without a word."""
    file = write_smiles(tmp_path / "mols.csv")
    text = file.read_text().splitlines()
    file.write_text("\n".join([*text, text[-1].replace(text[-1].split(",")[0], "C" * 20_000)]) + "\n")
    with one_line("does not parse, or has more than 4,000 atoms", "skip_bad"):
        load_own(file)
    assert load_own(file, skip_bad=True)
    chain = "C" * 3_990
    assert parse_canonical(chain)[0].GetNumAtoms() == 3_990


pytest.importorskip("rdkit")

Y = [i / 2 for i in range(len(SMILES))]


class DataFrame:
    """What is read of a pandas DataFrame."""

    def __init__(self, columns):
        self.content, self.columns = columns, list(columns)
        self.iloc = self

    def __len__(self):
        return len(self.content[self.columns[0]])

    def __getitem__(self, key):
        return np.array(self.content[self.columns[key[1]] if isinstance(key, tuple) else key], dtype=object)

    def isna(self):
        raise NotImplementedError


def write_sdf(path, texts, values):
    from rdkit import Chem

    records = []
    for text, value in zip(texts, values, strict=True):
        block = Chem.MolToMolBlock(Chem.MolFromSmiles(text))
        records.append(f"{block}>  <y>\n{value}\n\n>  <note>\nsome text\n\n$$$$\n")
    path.write_text("".join(records))
    return path


def test_every_source_gives_the_same_graphs(tmp_path):
    plain = load_own(write_smiles(tmp_path / "m.csv"))
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress((tmp_path / "m.csv").read_bytes()))
    sdf = write_sdf(tmp_path / "m.sdf", SMILES, Y)
    (tmp_path / "m.sdf.gz").write_bytes(gzip.compress(sdf.read_bytes()))
    pairs = list(zip(SMILES, Y, strict=True))
    for data in (tmp_path / "m.csv.gz", sdf, tmp_path / "m.sdf.gz", DataFrame({"smiles": SMILES, "y": Y}), pairs):
        found = load_own(data)
        for name, split in found.splits().items():
            assert_equal(split, plain.splits()[name])
    for y in (Y, np.array(Y), torch.tensor(Y), np.array(Y)[:, None]):
        assert load(list(SMILES), y=y).fingerprint == plain.fingerprint
    assert load_own(sdf).left_out == ("columns note: not named as target or feature",)
    assert (load_own(sdf).name, load_own(tmp_path / "m.csv.gz").name) == ("m", "m")
    new = DataFrame({"SMILES": ["CCO", "CC"], "extra": [None, 1.5]})
    assert encode_graphs(new, plain.encoding, plain.task).smiles == ("CCO", "CC")


def test_a_frame_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"smiles": SMILES, "y": Y})
    assert load(frame).fingerprint == load_own(write_smiles(tmp_path / "m.csv")).fingerprint
    assert load(frame["smiles"], y=frame["y"]).fingerprint == load(frame).fingerprint
    shuffled = frame.set_index(frame.index[::-1])  # an index of its own does not change the order of the rows
    assert load(shuffled["smiles"], y=shuffled["y"]).fingerprint == load(frame).fingerprint
    b = load(frame)
    new = encode_graphs(pandas.Series(["CCO", "CC"], dtype="string"), b.encoding, b.task)
    assert new.smiles == ("CCO", "CC")


def test_types_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "smiles": pandas.Series(SMILES, dtype="string"),
            "count": pandas.array([None if i == 3 else i for i in range(len(SMILES))], dtype="Int64"),
            "toxic": pandas.array([i % 2 == 0 for i in range(len(SMILES))], dtype="boolean"),
            "kind": pandas.Categorical(["ab"[i % 2] for i in range(len(SMILES))]),
        }
    )
    b = load(frame, target="kind", graph_features=["count", "toxic"])
    assert b.task.labels == ("a", "b")
    assert any("missing values, read as the mean of train: count (1)" in note for note in b.notes)
    whole = encode_graphs(frame.drop(columns="kind"), b.encoding, b.task).graphs
    assert whole.graph_attr[:, 1].sign().tolist() == [1 if i % 2 == 0 else -1 for i in range(len(SMILES))]
    with one_line("row 3: no molecule", "skip_bad"):
        load(frame.assign(smiles=frame["smiles"].where(frame.index != 3)), target="kind")
    targets = frame[["count", "toxic"]]
    assert load(frame["smiles"], y=targets).encoding.targets == ("count", "toxic")


def test_several_targets_and_names():
    table = as_table(["CC", "CO"], {"logP": [1.5, None], "name": ["a", "b"]})
    assert {n: c.tolist() for n, c in table.columns.items()} == {
        "smiles": [b"CC", b"CO"],
        "logP": [b"1.5", b""],
        "name": [b"a", b"b"],
    }
    assert list(as_table(["CC", "CO"], [[1, 2], [3, 4]]).columns) == ["smiles", "y0", "y1"]
    assert load(list(SMILES), y=["ab"[i % 2] for i in range(len(SMILES))]).task.labels == ("a", "b")


def test_what_is_no_molecules(tmp_path):
    for data, y, words in (
        (["CC", "CO"], [1], ["y has 1 entries for 2 molecules"]),
        (["CC", "CO"], [1, [2, 3]], ["y has rows of different lengths"]),
        ([1, 2], [1, 2], ["y holds the targets of a list of SMILES"]),
        (["CC", "CO"], None, ["SMILES texts have no targets", "y=targets"]),
        (["CC", "C("], [1.5, 2], ["SMILES 1: the SMILES 'C(' does not parse"]),
    ):
        with one_line(*words):
            load_own(data, y)
    with one_line("'zinc' has its own targets"):
        load("zinc", y=[1])
    with one_line("two columns are called 'y'"):
        frame = DataFrame({"smiles": SMILES, "y": Y})
        frame.columns.append("y")
        load_own(frame)
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"smiles,y\nCC,1\n" * 99)[:-20])
    with one_line("cut.csv.gz: not a complete gzip file"):
        load_own(tmp_path / "cut.csv.gz")
    (tmp_path / "bad.sdf").write_text("nothing\nof the\nkind\nM  END\n$$$$\n")
    with one_line("bad.sdf"):
        load_own(tmp_path / "bad.sdf")


def test_the_column_of_smiles(tmp_path):
    rows = [(text, text, i / 3) for i, text in enumerate(SMILES)]
    for header in ("canonical_smiles", "Structure", "mol"):
        found = load_own(write_csv(tmp_path / "m.csv", (header, "id", "y"), rows))
        assert found.encoding.smiles == ""
        assert f"molecules: the column {header!r} of m.csv is read as SMILES" in found.describe()
    path = write_csv(tmp_path / "m.csv", ("one", "two", "y"), rows)
    with one_line("several hold SMILES (one, two)", "data option smiles"):
        load_own(path)
    named = load_own(path, smiles="two")
    assert named.encoding.smiles == "two"
    assert encode_graphs(path, named.encoding, named.task).smiles == SMILES
    assert encode_graphs(["CC"], named.encoding, named.task).smiles == ("CC",)


def test_large_files_are_featurised_once(tmp_path, monkeypatch):
    from gnas.data import cache
    from gnas.data.own import molecules

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GNAS_DATA", raising=False)
    monkeypatch.setattr(cache, "FEWEST_TEXTS", 5)
    path = write_smiles(tmp_path / "m.csv")
    first = load_own(path)
    (file,) = (tmp_path / "cache/gnas/data/molecules").iterdir()
    monkeypatch.setattr(molecules, "featurise_smiles", lambda texts: sys.exit("featurised again"))
    assert load_own(path).fingerprint == first.fingerprint
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GNAS_DATA", raising=False)
    monkeypatch.setattr(cache, "FEWEST_TEXTS", 5)
    file.write_bytes(file.read_bytes()[:-7])
    assert load_own(path).fingerprint == first.fingerprint
