"""The small benchmarks: they need nothing, never change, and reward looking at neighbours."""

from __future__ import annotations

import csv
import hashlib
import sys

import pytest
import torch
from torch import Tensor

from gnas.data import load
from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import check_benchmark, find_facts, mini
from gnas.data.smiles import parse_smiles
from gnas.graph import GraphSet


def digest(benchmark: Benchmark) -> str:
    """One hash of all edges, inputs and targets; floats rounded to what every machine agrees on."""
    whole = hashlib.sha256()
    for graphs in benchmark.splits().values():
        for tensor in (graphs.node_ptr, graphs.edge_index, graphs.x, graphs.y):
            values = (tensor * 1000).round().long() if tensor.is_floating_point() else tensor.long()
            whole.update(values.numpy().tobytes())
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("name", mini.DATASETS)
def test_it_has_the_numbers_it_says(name: str) -> None:
    benchmark = load(name)
    assert [c for c in check_benchmark(benchmark, find_facts(name)) if not c.ok] == []
    nodes = sum(s.num_nodes for s in benchmark.splits().values())
    assert nodes == find_facts(name).nodes
    assert benchmark.source == "built in"
    assert benchmark.train.x.size(0) == benchmark.train.num_nodes


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pattern-mini", "9187301466d40924"),
        ("cluster-mini", "2d6b7c925529c7b6"),
        ("digits", "72a2e702d4e5b73d"),
        ("molecules-mini", "91d9220de2f526d8"),
    ],
)
def test_a_seed_gives_the_same_graphs_on_every_machine(name: str, wanted: str) -> None:
    assert digest(load(name)) == wanted
    assert digest(load(name, seed=1)) != wanted


@pytest.mark.parametrize("name", mini.DATASETS)
def test_every_class_is_in_every_split(name: str) -> None:
    benchmark = load(name)
    if benchmark.task.kind == "classification":
        for graphs in benchmark.splits().values():
            assert graphs.y.unique().tolist() == list(range(benchmark.task.num_outputs))
    if benchmark.task.categories:
        assert int(benchmark.train.x.max()) < benchmark.task.categories[0]
    else:
        assert benchmark.train.x.size(1) == benchmark.task.in_channels


def neighbor_sum(graphs: GraphSet, values: Tensor) -> Tensor:
    """Sum over senders of each node."""
    shift = torch.repeat_interleave(graphs.node_ptr[:-1], graphs.edge_counts)
    source, target = graphs.edge_index.long() + shift
    return torch.zeros_like(values).index_add(0, target, values[source])


def class_accuracy(guess: Tensor, y: Tensor) -> float:
    classes = y.unique()
    return float(sum((guess[y == c] == c).double().mean() for c in classes) / len(classes))


def test_communities_can_be_told_from_marked_neighbours_only() -> None:
    graphs = load("cluster-mini").train
    marks = torch.nn.functional.one_hot(graphs.x[:, 0], 5)[:, 1:].double()
    near = marks + neighbor_sum(graphs, marks)
    far = near + 0.3 * neighbor_sum(graphs, near)
    assert class_accuracy(marks.argmax(1), graphs.y) < 0.45
    assert class_accuracy(far.argmax(1), graphs.y) > 0.7


def test_patterns_can_be_told_from_degrees_only() -> None:
    graphs = load("pattern-mini").train
    degree = neighbor_sum(graphs, torch.ones(graphs.num_nodes).double())
    by_signal = max(class_accuracy((graphs.x[:, 0] == s).long(), graphs.y) for s in range(3))
    by_degree = max(class_accuracy((degree > d).long(), graphs.y) for d in range(5, 20))
    assert by_signal < 0.6
    assert by_degree > 0.65


def test_molecules_need_no_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    benchmark = load("molecules-mini")
    assert len(benchmark.train) == 400
    assert abs(benchmark.task.center[0] - float(benchmark.train.y.mean())) < 1e-6


CORES = (
    *("c1ccccc1{}", "c1ccncc1{}", "Cc1ccc(C)cc1{}", "c1ccc2ccccc2c1{}", "C1CCCCC1{}", "C1CCOC1{}", "C1CCNCC1{}"),
    *("c1ccsc1{}", "c1ccoc1{}", "Cn1ccnc1{}", "O=C1CCCC1{}", "c1cnc2ccccc2c1{}", "CC(C)C{}", "CCOCC{}"),
    *("CC(=O)N(C)C{}", "COc1ccccc1{}", "Clc1cccnc1{}", "C1CC1{}", "O=C1NC(=O)CC1{}", "C1COCCN1C{}"),
    *("c1ccc(-c2ccccc2)cc1{}", "CC=C(C){}"),
    *("C[N+](C)(C)C{}", "CS(=O)(=O)C{}"),
)
SUBSTITUENTS = (
    *("C", "CC", "C(C)C", "O", "OC", "N", "N(C)C", "F", "Cl", "Br", "C#N", "C(F)(F)F", "C(=O)O", "C(=O)[O-]", "C(=O)N"),
    *("C(=O)OC", "S(=O)(=O)N", "CO", "CCN", "C=C", "C#C", "NC(C)=O", "CS", "I"),
)


def list_smiles() -> list[str]:
    """Every core with every substituent, in the order of the table."""
    return [core.format(substituent) for core in CORES for substituent in SUBSTITUENTS]


def make_cells(text: str) -> list[str]:
    """A row of the table by rdkit: SMILES, logP, atom tokens, bonds as 0-1 1=2 2#3."""
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.Crippen import MolLogP

    molecule = parse_smiles(text)
    ends = molecule.bonds[:, : molecule.types.size // 2]
    bonds = [f"{a}{mini.MARKS[int(t)]}{b}" for a, b, t in zip(*ends, molecule.types, strict=False)]
    return [text, f"{MolLogP(MolFromSmiles(text)):.4f}", ";".join(molecule.atoms), " ".join(bonds)]


def test_the_table_of_molecules_is_what_rdkit_says() -> None:
    pytest.importorskip("rdkit")
    with open(mini.TABLE, newline="") as file:
        header, *cells = csv.reader(file)
    assert header == ["smiles", "logp", "atoms", "bonds"]
    assert [row[0] for row in cells] == list_smiles()
    for kept in cells:
        fresh = make_cells(kept[0])
        assert [fresh[0], *fresh[2:]] == [kept[0], *kept[2:]]
        assert abs(float(fresh[1]) - float(kept[1])) < 2e-4  # logP contributions have been revised between releases


def test_no_molecule_is_in_two_splits() -> None:
    chem = pytest.importorskip("rdkit.Chem")
    texts = [chem.CanonSmiles(text) for text in list_smiles()]
    assert len(set(texts)) == len(texts) == sum(find_facts("molecules-mini").graphs)


def test_edges_of_digits_have_the_strength_of_their_distance() -> None:
    plain, benchmark = load("digits"), load("digits", edges="yes")
    assert (plain.task.edge_channels, benchmark.task.edge_channels) == (0, 1)
    graphs = benchmark.test
    assert graphs.edge_attr is not None
    assert torch.equal(graphs.edge_index, plain.test.edge_index)
    shift = torch.repeat_interleave(graphs.node_ptr[:-1], graphs.edge_counts)
    source, target = graphs.edge_index.long() + shift
    away = (graphs.x[source, 1:] - graphs.x[target, 1:]).norm(dim=1)
    strength = graphs.edge_attr.reshape(-1)
    assert 0 < float(strength.min()) < float(strength.max()) <= 1
    assert float(torch.corrcoef(torch.stack([away, strength]))[0, 1]) < -0.7
