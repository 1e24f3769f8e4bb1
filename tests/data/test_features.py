"""Features of whole graphs: columns of the table and descriptors, standardised by train, read the same at prediction."""

import sys

import numpy as np
import pytest
import torch
from builders import SMILES, one_line, write_csv
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("rdkit")

from gnas.data import cache
from gnas.data.atoms import featurise_smiles
from gnas.data.encoding import CLIP, Encoding, Feature
from gnas.data.own import molecules
from gnas.data.own.load import encode_graphs, load_own
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.model.baselines import build_baseline


@pytest.fixture
def path(tmp_path):
    rows = [(text, i / 3, 10 * i + 3, "" if i == 4 else i % 5, 7, "text") for i, text in enumerate(SMILES)]
    return write_csv(tmp_path / "m.csv", ("smiles", "y", "mw", "tpsa", "same", "words"), rows)


def test_columns_as_features(path, tmp_path):
    b = load_own(path, target="y", graph_features=["mw", "tpsa", "same"])
    assert [f.name for f in b.encoding.graphs] == ["mw", "tpsa"]
    assert b.task.graph_channels == 2
    assert b.left_out == ("columns words: not named as target or feature",)
    assert any("1 feature constant in train, left out: same" in n for n in b.notes)
    assert any("missing values, read as the mean of train: tpsa (1)" in n for n in b.notes)
    mw = torch.tensor([10.0 * i + 3 for i in range(len(SMILES))])
    train = mw[b.train.rows]
    expected = (mw - train.mean()) / train.std(correction=0)
    for split in b.splits().values():
        torch.testing.assert_close(split.graph_attr[:, 0], expected[split.rows])
    whole = encode_graphs(path, b.encoding, b.task).graphs
    assert torch.equal(whole.graph_attr[b.train.rows], b.train.graph_attr)
    assert whole.graph_attr[4, 1] == 0
    packed = load_benchmark(save_benchmark(b, tmp_path / "b.safetensors"))
    assert packed.encoding == b.encoding
    assert torch.equal(packed.train.graph_attr, b.train.graph_attr)
    batch = b.train.batch()
    assert build_baseline("gin", b.task, num_layers=2, budget=4000)(batch).isfinite().all()


def test_constant_descriptors_are_left_out_and_no_problem_of_the_data(path):
    b = load_own(path, target="y", graph_features=["mw", "same"], descriptors="rdkit")
    assert any("constant in train, left out: same, rdkit:" in n for n in b.notes)
    (line,) = [line for line in b.problems if "same value" in line]
    assert line == "1 graph column of 2 with the same value everywhere (same): remove it"


def test_features_that_are_none(path, tmp_path):
    for options, words in (
        ({"graph_features": "logp"}, ["feature of graphs 'logp'", "mw, tpsa"]),
        ({"graph_features": "words"}, ["m.csv line 2", "'words' holds 'text'; numbers are needed"]),
        ({"graph_features": "same"}, ["constant in train: same"]),
        ({"graph_features": "y"}, ["both the target and a feature"]),
        ({"descriptors": "mordred"}, ["descriptors 'mordred'", "rdkit"]),
    ):
        with one_line(*words):
            load_own(path, target="y", **options)
    b = load_own(path, target="y", graph_features="mw")
    with one_line("a list of SMILES: no column 'mw', which this network reads"):
        encode_graphs(["CC"], b.encoding, b.task)
    with one_line("new.csv: no column 'mw'"):
        encode_graphs(write_csv(tmp_path / "new.csv", ("smiles",), [("CC",)]), b.encoding, b.task)


def test_descriptors_are_those_of_rdkit(path, monkeypatch):
    from rdkit import Chem
    from rdkit.Chem import Descriptors

    chosen = ("MolWt", "TPSA", "MolLogP", "NumHDonors", "Ipc")
    monkeypatch.setattr(Descriptors, "descList", [d for d in Descriptors.descList if d[0] in chosen])
    b = load_own(path, target="y", descriptors="rdkit", graph_features="mw")
    names = [f.name for f in b.encoding.graphs]
    assert set(names) == {"mw", "rdkit:MolWt", "rdkit:TPSA", "rdkit:MolLogP", "rdkit:NumHDonors"}
    weight = b.encoding.graphs[names.index("rdkit:MolWt")]
    expected = [Descriptors.MolWt(Chem.MolFromSmiles(SMILES[i])) for i in b.train.rows.tolist()]
    assert (weight.center, weight.scale) == pytest.approx((np.mean(expected), np.std(expected)))
    alone = load_own(path, target="y", descriptors="rdkit")
    new = encode_graphs(["CCO", "OCC"], alone.encoding, alone.task).graphs  # computed for new molecules too
    assert torch.equal(new.graph_attr[0], new.graph_attr[1])
    assert new.graph_attr.abs().max() <= CLIP


def test_processes_compute_what_one_does(monkeypatch):
    texts = [*SMILES, "C1CC", "", "c1ccc2[nH]ccc2c1" * 3]  # not molecules, and a long text
    here = molecules.describe_molecules(texts)["values"], featurise_smiles(texts)
    monkeypatch.setattr(cache, "available_cores", lambda: 2)
    monkeypatch.setattr(molecules, "FEWEST_DESCRIBED", 3)
    monkeypatch.setattr(molecules, "FEWEST", 3)
    monkeypatch.setattr(molecules, "describe_molecules", Elsewhere(molecules.describe_molecules))
    monkeypatch.setattr(molecules, "describe_atoms", Elsewhere(molecules.describe_atoms))
    apart = np.stack(list(molecules.compute_descriptors(texts).values()), axis=1)
    np.testing.assert_array_equal(apart, here[0])
    for name, array in vars(molecules._featurise(texts)).items():
        np.testing.assert_array_equal(array, getattr(here[1], name))


class Elsewhere:
    """A function that must not be called in this process."""

    def __init__(self, function):
        self.__module__, self.__qualname__ = function.__module__, function.__name__

    def __call__(self, texts):
        pytest.fail("called here")


def test_a_process_that_ends_early_is_replaced(monkeypatch):
    monkeypatch.setattr(cache, "available_cores", lambda: 2)
    monkeypatch.setattr(cache, "start_command", lambda *words: [sys.executable, "-c", "raise SystemExit('no')"])
    found = cache.compute_in_parts(molecules.describe_molecules, SMILES[:6], 3)
    np.testing.assert_array_equal(
        np.concatenate([part["values"] for part in found]), molecules.describe_molecules(SMILES[:6])["values"]
    )
    stop = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGINT)"
    monkeypatch.setattr(cache, "start_command", lambda *words: [sys.executable, "-c", stop])
    with pytest.raises(KeyboardInterrupt):
        cache.compute_in_parts(molecules.describe_molecules, SMILES[:6], 3)


@given(st.lists(st.floats(allow_subnormal=False), min_size=1, max_size=8), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
@settings(max_examples=60, deadline=None)
def test_features_are_finite_and_clipped(values, center, scale):
    found = Feature("f", center, scale).read(np.array(values))
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= CLIP


def test_features_of_files_are_checked():
    whole = Encoding("smiles", "graph", "regression", (), targets=("y",), graphs=(Feature("f", 1.0, 2.0),)).to_dict()
    assert Encoding.from_dict(whole).graphs == (Feature("f", 1.0, 2.0),)
    for broken in ([{"name": "f", "center": float("nan"), "scale": 1}], [{"name": "f", "center": 0, "scale": 0}], [3]):
        with one_line():
            Encoding.from_dict({**whole, "graphs": broken})
