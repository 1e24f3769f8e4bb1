"""Equal graphs are found in any order of their nodes, and only equal graphs: compared with NetworkX's isomorphism."""

import itertools
import time

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gnas.data.own.duplicates import find_duplicates
from gnas.data.own.load import load_own
from gnas.graph import GraphSet


def random_graph(seed: int, kinds: int = 2) -> Data:
    draw = torch.Generator().manual_seed(seed)
    nodes = int(torch.randint(2, 7, (1,), generator=draw))
    pairs = torch.combinations(torch.arange(nodes)).T
    pairs = pairs[:, torch.rand(pairs.size(1), generator=draw) < 0.5]
    bonds = torch.randint(0, 2, (pairs.size(1), 1), generator=draw)
    x = torch.randint(0, kinds, (nodes, 1), generator=draw)
    edge_index = torch.cat([pairs, pairs.flip(0)], 1)
    return Data(x=x, edge_index=edge_index, edge_attr=torch.cat([bonds, bonds]), y=torch.zeros(1, 1))


def shuffled(graph: Data, seed: int) -> Data:
    order = torch.randperm(graph.x.size(0), generator=torch.Generator().manual_seed(seed))
    place = order.argsort()
    return Data(x=graph.x[order], edge_index=place[graph.edge_index], edge_attr=graph.edge_attr, y=graph.y)


def to_networkx(graph: Data) -> nx.DiGraph:
    found = nx.DiGraph()
    found.add_nodes_from((i, {"x": x}) for i, x in enumerate(graph.x[:, 0].tolist()))
    for (a, b), kind in zip(graph.edge_index.T.tolist(), graph.edge_attr[:, 0].tolist(), strict=True):
        found.add_edge(a, b, e=kind)
    return found


@given(st.lists(st.integers(0, 40), min_size=2, max_size=14), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_equal_graphs_are_those_that_are_isomorphic(seeds, order):
    graphs = [shuffled(random_graph(seed), order + i) for i, seed in enumerate(seeds)]
    groups = find_duplicates(GraphSet.from_data(graphs))
    found = {pair for group in groups for pair in itertools.combinations(group.tolist(), 2)}
    plain = [to_networkx(g) for g in graphs]
    for a, b in itertools.combinations(range(len(graphs)), 2):
        same = nx.is_isomorphic(plain[a], plain[b], lambda u, v: u["x"] == v["x"], lambda u, v: u["e"] == v["e"])
        assert same == ((a, b) in found)


def test_graphs_that_neighbourhoods_cannot_tell_apart_are_not_equal():
    """Two triangles and one hexagon: every node has two neighbours of its own kind."""
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    graphs = []
    for graph in (triangles, nx.cycle_graph(6), nx.relabel_nodes(nx.cycle_graph(6), {0: 3, 3: 0})):
        ends = torch.tensor(list(graph.edges)).T
        edges = torch.cat([ends, ends.flip(0)], 1)
        graphs.append(Data(x=torch.zeros(6, 1).long(), edge_index=edges, y=torch.zeros(1, 1)))
    assert [group.tolist() for group in find_duplicates(GraphSet.from_data(graphs))] == [[1, 2]]


def test_molecules_are_compared_by_their_canonical_smiles():
    pytest.importorskip("rdkit")
    graphs = GraphSet.from_data([random_graph(3), random_graph(3), random_graph(3)])
    assert [g.tolist() for g in find_duplicates(graphs, ["OCC", "CCO", "CCC"])] == [[0, 1]]


CAGE = (
    "c12c3c4c5c1c1c6c7c2c2c8c3c3c9c4c4c%10c5c5c1c1c6c6c%11c7c2c2c7c8c3c3c8c9c4c4c9c%10c5c5c1c1c6c6c%11c2c2c7c3c3c8c4c4c9c5"
    "c1c1c6c2c3c41"
)
UNUSUAL = "C[Mg](C)(F)(F)N(=O)(=O)O"  # a valence that rdkit does not know


@pytest.mark.parametrize("text", [CAGE, "N1CC2CCCC1CCCC2", UNUSUAL])
@pytest.mark.parametrize("seed", [1, 2])
def test_copies_of_molecules_are_found_however_alike_their_atoms_are(text, seed):
    chem = pytest.importorskip("rdkit.Chem")
    molecule = chem.MolFromSmiles(text) or chem.MolFromSmiles(text, sanitize=False)
    again = chem.MolToRandomSmilesVect(molecule, 1, randomSeed=seed)[0]
    assert again != text
    rows = [text, *("C" * n for n in range(1, 10)), "CO", again]
    b = load_own(rows, y=[float(i) for i in range(12)])
    assert any("different targets (SMILES 0: 0, SMILES 11: 11)" in line for line in b.problems)


def test_many_graphs_take_little_time():
    graphs = GraphSet.from_data([random_graph(seed, kinds=9) for seed in range(300)])
    many = graphs.select(torch.arange(300).repeat(20))
    start = time.perf_counter()
    groups = find_duplicates(many)
    assert len(groups) > 200
    assert time.perf_counter() - start < 5
