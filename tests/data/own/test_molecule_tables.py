"""The same molecules from every source are the same graphs."""

import gzip
import sys

import numpy as np
import pytest
import torch
from builders import SMILES, assert_equal, one_line, write_csv, write_smiles

from gnas.data import load
from gnas.data.own.load import encode_graphs, load_own
from gnas.data.own.molecule_tables import as_table

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
