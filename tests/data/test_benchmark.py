"""A benchmark's fingerprint stands for its data: the same for the same data, another one for any other."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small import benchmark, transductive

import gnas
from gnas.data import benchmark as module
from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import NAMES, find_facts, find_patience
from gnas.data.own.assemble import default_encoding

MOLECULES = "smiles,logP,tpsa\nCCO,0.1,20.2\nCCN,0.2,26.0\nCCC,1.4,0.1\nc1ccccc1,1.7,0.2\nCO,-0.4,20.3\nCC,1.0,0.3\n"


def with_split(one: Benchmark, split: str, **changes) -> Benchmark:
    return dataclasses.replace(one, **{split: dataclasses.replace(one.splits()[split], **changes)})


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("name", ["x", "y", "edge_index"])
def test_a_changed_value_changes_the_fingerprint(split: str, name: str) -> None:
    one = benchmark()
    tensor = getattr(one.splits()[split], name).clone()
    tensor.view(-1)[-1] += 1
    assert with_split(one, split, **{name: tensor}).fingerprint != one.fingerprint


def test_every_part_of_a_split_counts() -> None:
    one = transductive()
    train = one.train
    changes = {
        "mask": ~train.mask,
        "edge_attr": torch.zeros(train.num_edges),
        "pos": torch.zeros(train.num_nodes, 2),
        "sample_neighbors": (10, 5),
        "x": train.x.to(torch.float64),
    }
    prints = {with_split(one, "train", **{name: value}).fingerprint for name, value in changes.items()}
    assert len({*prints, one.fingerprint}) == len(changes) + 1


def test_swapped_splits_change_it() -> None:
    one = benchmark()
    assert dataclasses.replace(one, val=one.test, test=one.val).fingerprint != one.fingerprint


@pytest.mark.parametrize("change", [{"metric": "rmse"}, {"loss": "mse"}, {"readout": "sum"}, {"scale": (2.0,)}])
def test_the_task_counts(change: dict) -> None:
    one = benchmark()
    assert dataclasses.replace(one, task=dataclasses.replace(one.task, **change)).fingerprint != one.fingerprint


def test_words_for_people_and_the_protocol_do_not_count() -> None:
    one = benchmark()
    other = dataclasses.replace(one, name="other", source="elsewhere", notes=("odd",), patience=3)
    assert other.fingerprint == one.fingerprint


def test_means_are_compared_to_four_digits() -> None:
    """The last digits of a mean depend on the machine that adds."""
    one = benchmark()
    near, far = (dataclasses.replace(one.task, center=(center,)) for center in (1.5 + 1e-7, 1.51))
    first = dataclasses.replace(one, task=dataclasses.replace(one.task, center=(1.5,)))
    assert dataclasses.replace(one, task=near).fingerprint == first.fingerprint
    assert dataclasses.replace(one, task=far).fingerprint != first.fingerprint


def test_the_version_of_the_reader_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    named = benchmark()
    own = dataclasses.replace(named, encoding=default_encoding(named.task))  # only data of users has an encoding
    before = [one.fingerprint for one in (named, own)]
    monkeypatch.setattr(module, "READER_VERSION", module.READER_VERSION + 1)
    assert benchmark().fingerprint == before[0]
    assert dataclasses.replace(own).fingerprint != before[1]


def test_options_of_a_file_count_and_its_path_does_not(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(MOLECULES)
    load = {
        "plain": gnas.load(tmp_path / "a.csv", target="logP"),
        "target": gnas.load(tmp_path / "a.csv", target="tpsa"),
        "seed": gnas.load(tmp_path / "a.csv", target="logP", seed=1),
        "metric": gnas.load(tmp_path / "a.csv", target="logP", metric="rmse"),
        "standardise": gnas.load(tmp_path / "a.csv", target="logP", standardise=False),
        "structure": gnas.load(tmp_path / "a.csv", target="logP", structure="degree"),
        "fractions": gnas.load(tmp_path / "a.csv", target="logP", fractions=(0.4, 0.3, 0.3)),
    }
    assert len({one.fingerprint for one in load.values()}) == len(load)
    assert gnas.load(tmp_path / "b.csv", target="logP").fingerprint == load["plain"].fingerprint
    (tmp_path / "b.csv").write_text(MOLECULES.replace("0.1,", "0.15,"))
    assert gnas.load(tmp_path / "b.csv", target="logP").fingerprint != load["plain"].fingerprint


def test_classes_by_other_names_are_other_data() -> None:
    one = benchmark("classification")
    labels = tuple("abcdefghijklmnopqrstuvwxyz"[: one.task.num_outputs])
    assert dataclasses.replace(one, task=dataclasses.replace(one.task, labels=labels)).fingerprint != one.fingerprint


def test_another_process_finds_the_same() -> None:
    code = "import gnas; print(gnas.load('cluster-mini').fingerprint)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == gnas.load("cluster-mini").fingerprint


def test_loading_twice_gives_the_same_and_it_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = gnas.load("molecules-mini")
    assert one.fingerprint == gnas.load("molecules-mini").fingerprint != gnas.load("molecules-mini", seed=1).fingerprint
    assert len(one.fingerprint) == 64
    monkeypatch.setattr(module, "_hash_tensor", None)
    assert one.fingerprint


def test_shared_tensors_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    hash_tensor = module._hash_tensor
    monkeypatch.setattr(module, "_hash_tensor", lambda tensor: hashed.append(tensor) or hash_tensor(tensor))
    assert transductive().fingerprint
    assert len(hashed) == 5 + 3  # x, edge_index, two pointers, y; and a mask for each split


def test_benchmarks_carry_the_patience_of_their_protocol() -> None:
    short = {name for name in NAMES if find_facts(name).patience == 5}
    assert short == {"pattern", "cluster", "pattern-mini", "cluster-mini"}
    assert {find_facts(name).patience for name in NAMES} == {5, 10}
    assert (gnas.load("cluster-mini").patience, gnas.load("molecules-mini").patience, benchmark().patience) == (
        5,
        10,
        10,
    )
    assert (find_patience("pattern"), find_patience("patterns.csv")) == (5, 10)
