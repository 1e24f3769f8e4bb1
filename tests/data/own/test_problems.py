"""What looks wrong in data is one line with numbers and what to do; sound data gives no line."""

import networkx as nx
import pytest
import torch
from builders import citation_graph, path_graph, path_graphs, write_csv, write_folder

from gnas.data.own.load import load_own


def problems(data, **options) -> str:
    return "\n".join(load_own(data, **options).problems)


def floats(count: int, nodes: int = 4, y=lambda i: torch.tensor([float(i * 37 % 101)]), **more) -> list:
    """Paths with random numbers on their nodes: no two are equal."""
    draw = torch.Generator().manual_seed(0)
    return [path_graph(i, nodes, x=torch.rand(nodes, 2, generator=draw), y=y(i), **more) for i in range(count)]


def test_sound_data_has_no_line():
    assert problems(floats(40)) == ""
    assert problems(floats(40, y=lambda i: torch.tensor([i % 2])), split="stratified", fractions=(0.6, 0.2, 0.2)) == ""


def test_copies_across_splits_and_their_targets():
    graphs = floats(30)
    twin = graphs[3].clone()
    twin.y = twin.y + 1
    text = problems((graphs[:20], graphs[20:25], [*graphs[25:], graphs[0], twin]))
    assert "copies across splits: 2 of 7 test graphs in train (first: test graph 5 = train graph 0)" in text
    assert "1 group of equal graphs with different targets (train graph 3: 10, test graph 6: 11)" in text
    classes = floats(12, y=lambda i: torch.tensor([i % 2]))
    other = classes[1].clone()
    other.y = 1 - other.y
    text = problems((classes, classes[:4], [other, classes[5]]))
    assert "2 of 2 test graphs in train, 4 of 4 val graphs in train, 1 of 2 test graphs in val" in text
    assert "different targets (test graph 0: 0, train graph 1: 1)" in text


def test_constant_columns(tmp_path):
    graphs = floats(20)
    for g in graphs:
        g.x[:, 1] = 7
    assert "1 node column of 2 with the same value everywhere (x1): remove it" in problems(graphs)
    for g in graphs:
        g.x[:, 0] = 7
    assert "node columns x0, x1: the same value everywhere, so networks see the edges alone" in problems(graphs)


@pytest.mark.parametrize("scale", [1.0, -2.5])
def test_columns_that_give_the_target_away(scale):
    graphs = floats(20)
    for g in graphs:
        g.x[:, 1] = g.y * scale + 3
    assert "node column 'x1' tells the target 'y'" in problems(graphs)
    node = citation_graph()
    node.x = torch.cat([node.x, (node.y * 2 % 3)[:, None]], 1)
    assert "node column 'x6' tells the target 'y'" in problems(node)
    assert "tells" not in problems(citation_graph())


def test_texts_give_the_target_away_too(tmp_path):
    folder = write_folder(tmp_path / "t", 20)
    write_csv(folder / "graphs.csv", ("graph_id", "y"), [(g, "ab"[g % 2]) for g in range(20)])
    nodes = [(g, n, "xz"[g % 2], n % 3) for g in range(20) for n in range(3 + g % 3)]
    write_csv(folder / "nodes.csv", ("graph_id", "node_id", "mark", "kind"), nodes)
    assert "node column 'mark' tells the target 'y'" in problems(folder, split="stratified", fractions=(0.6, 0.2, 0.2))


def test_rare_classes_and_outliers():
    text = problems(
        floats(60, y=lambda i: torch.tensor([int(i % 20 == 0)])), split="stratified", fractions=(0.4, 0.3, 0.3)
    )
    assert "few rows of a class: '1' (1 in " in text
    assert "add rows or merge classes" in text
    assert "or set split=stratified" in problems(floats(60, y=lambda i: torch.tensor([int(i % 20 == 0)])))
    graphs = floats(40)
    graphs[7].y[:] = 99999
    assert "target 'y': 1 row far from the rest (such as 1e+05 at graph 7; median" in problems(graphs)


def test_graphs_without_edges():
    graphs = floats(20)
    graphs[4].edge_index = torch.zeros(2, 0).long()
    assert "1 graph of 20 without an edge (first: graph 4)" in problems(graphs)


def test_blanks_and_other_levels_are_no_obstacle():
    graphs = [nx.path_graph(4) for _ in range(8)]
    for i, graph in enumerate(graphs):
        nx.set_node_attributes(graph, {n: {"x": float(i * 4 + n)} for n in graph})
        nx.set_node_attributes(graph, {n: (n * 7 + i) % 5 / 3 for n in list(graph)[:3]}, "y")
    assert problems(graphs) == ""
    assert path_graphs(20)
