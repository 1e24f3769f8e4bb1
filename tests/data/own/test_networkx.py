"""NetworkX graphs: the same as their PyG twins, with attributes as columns."""

import networkx as nx
import torch
from builders import assert_equal, one_line, path_graph, path_graphs
from torch_geometric.data import Data

from gnas.data.own.load import encode_graphs, load_own


def as_networkx(graph: Data, label) -> nx.Graph:
    out = nx.Graph(y=label)
    for i, x in enumerate(graph.x.tolist()):
        out.add_node(f"n{i}", x=x)
    out.add_edges_from((f"n{a}", f"n{b}") for a, b in graph.edge_index.T.tolist())
    return out


def test_networkx_graphs_are_their_pyg_twins():
    graphs = path_graphs(12, y=lambda i: torch.tensor([i % 3]))
    twins = [as_networkx(g, int(g.y)) for g in graphs]
    assert_equal(load_own(graphs, split="stratified").train, load_own(twins, split="stratified").train)


def test_networkx_attributes():
    graph = nx.DiGraph()
    for i in range(12):
        graph.add_node(i, kind="ab"[i % 2], size=i / 3, pos=(i, 2.0), split=("train", "val", "test")[i // 2 % 3])
        if i != 11:
            graph.nodes[i]["y"] = "yes" if i % 2 else "no"
        graph.add_edge(i, (i + 1) % 12, weight=0.5, bond="single")
    b = load_own(graph)
    assert (b.task.level, b.task.labels, b.task.in_channels) == ("node", ("no", "yes"), 4)  # a, b, other; size
    assert b.train.pos.shape == (12, 2)
    assert b.train.edge_attr.shape == (12, 3)  # weight; single, other
    assert [int(g.mask.sum()) for g in b.splits().values()] == [4, 4, 3]
    assert any("no edge has the reverse" in n for n in b.notes)
    new = encode_graphs(graph, b.encoding, b.task).graphs
    assert torch.equal(new.x, b.train.x)
    assert new.y.tolist() == b.train.y.tolist()


def test_networkx_errors():
    def graphs(**node):
        out = [nx.path_graph(3) for _ in range(9)]
        for i, g in enumerate(out):
            g.graph["y"] = i / 2
            nx.set_node_attributes(g, [1.0, 2.0], "x")
        out[2].nodes[1].update(node)
        return out

    with one_line("graph 2, node 1: attribute 'x' must have one kind and one length"):
        load_own(graphs(x=[1.0]))
    with one_line("graph 2, node 1: no attribute 'x'"):
        load_own(graphs(x=None))
    with one_line("graph 2, node 1: 'x1' is nan"):
        load_own(graphs(x=[0.0, float("nan")]))
    with one_line("object"):
        load_own(graphs(x=[object(), 1]))
    with one_line("no graph, node or edge has the attribute 'z'"):
        load_own(graphs(), target="z")
    with one_line("graph 9: a Data where a NetworkX graph was expected"):
        load_own([*graphs(), path_graph(0)])


def test_all_attributes_are_columns_and_what_cannot_be_read_is_named():
    graphs = []
    for i in range(12):
        graph = nx.path_graph(4)
        graph.graph.update(y=i / 3, name=f"graph {i}")
        nx.set_node_attributes(graph, {n: {"x": [n, 0.5 * i], "kind": "ab"[n % 2], "notes": {}} for n in graph})
        nx.set_edge_attributes(
            graph, {e: {"edge_attr": 1.5, "weight": e[0] * 0.5, "bond": e[0] % 2} for e in graph.edges}
        )
        graphs.append(graph)
    b = load_own(graphs)
    assert [c.name for c in b.encoding.nodes] == ["x0", "x1", "kind"]
    assert [c.name for c in b.encoding.edges] == ["edge_attr", "weight", "bond"]
    assert any("node attribute 'notes'" in line for line in b.left_out)
    assert "graph attributes name: not named as target or feature" in b.left_out
    for graph in graphs:
        for _, attributes in graph.nodes(data=True):
            attributes["later"] = 1
    assert encode_graphs(graphs, b.encoding, b.task).graphs.x.shape[1] == 5  # a, b, other


def test_values_that_train_lacks_are_read_as_other():
    def graph(kind, charge):
        one = nx.path_graph(3, create_using=nx.Graph)
        nx.set_node_attributes(one, "C", "kind")
        nx.set_node_attributes(one, {n: 2 * (n % 2) for n in one}, "charge")
        one.nodes[1].update(kind=kind, charge=charge)
        one.graph["y"] = 0.5
        return one

    b = load_own(([graph("N", 2)] * 8, [graph("O", 2)] * 2, [graph("N", 1)] * 2))
    kind, charge = (
        f"column '{name}': {value} is not in the training data" for name, value in (("kind", "'O'"), ("charge", 1))
    )
    assert any(n.startswith(f"{kind} and is read as 'other' (val graph 0, node 1") for n in b.notes)
    assert any(n.startswith(f"{charge} and is read as 'other' (test graph 0, node 1") for n in b.notes)
    new = encode_graphs([graph("Se", 9)], b.encoding, b.task)
    assert len(new.unseen) == 2
    assert new.graphs.x[1].tolist() == [size - 1 for size in b.task.categories]
