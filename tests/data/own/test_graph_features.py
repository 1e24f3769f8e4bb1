"""Features of whole graphs come from every source in the same way; options of molecules are refused elsewhere."""

import networkx as nx
import pytest
import torch
from builders import citation_graph, one_line, path_graphs, write_csv, write_folder, write_smiles, write_tu

from gnas.data.own.load import encode_graphs, load_own
from gnas.data.own.tu import expand_names

COUNT = 16
WEIGHTS = [3.0 * i + i % 4 for i in range(COUNT)]
VECTORS = [[i % 5 + 0.5, 7.0, float(i * i)] for i in range(COUNT)]  # the second column is constant


def make_tables(folder):
    write_folder(folder, COUNT)
    rows = [(i, i / 4, WEIGHTS[i], *VECTORS[i], "name") for i in range(COUNT)]
    write_csv(folder / "graphs.csv", ("graph_id", "y", "mw", "v0", "v1", "v2", "label"), rows)
    return folder, ["mw", "v0", "v1", "v2"]


def make_tu(folder):
    write_tu(folder, COUNT)
    rows = "".join(f"{w}, {a}, {b}, {c}\n" for w, (a, b, c) in zip(WEIGHTS, VECTORS, strict=True))
    (folder / f"{folder.name}_graph_attributes.txt").write_text(rows)
    return folder, "graph_attribute"


def make_pyg(_):
    graphs = path_graphs(COUNT)
    for graph, weight, vector in zip(graphs, WEIGHTS, VECTORS, strict=True):
        graph.mw, graph.graph_attr = weight, torch.tensor([vector])
    return graphs, ["mw", "graph_attr"]


def make_networkx(_):
    graphs = []
    for i in range(COUNT):
        graph = nx.path_graph(3 + i % 3)
        nx.set_node_attributes(graph, 1, "x")
        graph.graph.update(y=i / 4, mw=WEIGHTS[i], v=VECTORS[i])
        graphs.append(graph)
    return graphs, ["mw", "v"]


SOURCES = {"tables": make_tables, "tu": make_tu, "pyg": make_pyg, "networkx": make_networkx}


@pytest.mark.parametrize("source", SOURCES)
def test_features_reach_the_batch_and_new_data(tmp_path, source):
    data, names = SOURCES[source](tmp_path / "DATA")
    b = load_own(data, graph_features=names, split="random")
    values = torch.tensor([[w, v[0], v[2]] for w, v in zip(WEIGHTS, VECTORS, strict=True)])
    train = values[b.train.rows]
    expected = (values - train.mean(0)) / train.std(0, correction=0)
    assert b.task.graph_channels == 3
    for split in b.splits().values():
        torch.testing.assert_close(split.graph_attr, expected[split.rows])
    new = encode_graphs(data, b.encoding, b.task).graphs
    torch.testing.assert_close(new.graph_attr, expected)
    assert any("1 feature constant in train, left out" in note for note in b.notes)
    assert (
        load_own(data, split="random").task.graph_channels == 0 if source != "tu" else b.task.kind == "classification"
    )


def test_new_data_without_a_feature(tmp_path):
    for make in (make_pyg, make_networkx):
        graphs, _ = make(tmp_path)
        b = load_own(graphs, graph_features="mw")
        for graph in graphs:
            (graph.graph if hasattr(graph, "graph") else graph._store).pop("mw")
        with one_line("graph 0: no attribute 'mw', which this network reads"):
            encode_graphs(graphs, b.encoding, b.task)
    folder, names = make_tables(tmp_path / "tables")
    b = load_own(folder, graph_features=names)
    assert b.left_out == ("graphs.csv columns label: not named as target or feature",)
    with one_line("graphs.csv: no column 'mw', which this network reads"):
        encode_graphs(write_folder(tmp_path / "new"), b.encoding, b.task)
    folder, names = make_tu(tmp_path / "TU")
    b = load_own(folder, graph_features=names)
    (folder / "TU_graph_attributes.txt").unlink()
    with one_line("no column 'graph_attribute0' of graphs, which this network reads"):
        encode_graphs(folder, b.encoding, b.task)


def test_columns_of_a_vector(tmp_path):
    graphs, _ = make_pyg(tmp_path)
    assert [f.name for f in load_own(graphs, graph_features="graph_attr2").encoding.graphs] == ["graph_attr2"]
    folder, _ = make_tu(tmp_path / "TU")
    b = load_own(folder, graph_features="graph_attribute0", kind="regression")
    assert b.encoding.targets == ("graph_attribute1", "graph_attribute2", "graph_attribute3")
    assert expand_names(["v", "w", "v1"], ["v0", "v1", "w", "w2"]) == ["v0", "v1", "w"]


def test_features_that_do_not_apply(tmp_path):
    pyg, _ = make_pyg(tmp_path)
    network, _ = make_networkx(tmp_path)
    folder, _ = make_tables(tmp_path / "tables")
    tu, _ = make_tu(tmp_path / "TU")
    text = [g.clone() for g in pyg]
    for graph in text:
        graph.mw = "heavy"
    cases = (
        (pyg, {"graph_features": "logp"}, ["feature of graphs 'logp'", "mw"]),
        (pyg, {"graph_features": "y"}, ["'y' is both the target and a feature"]),
        (text, {"graph_features": "mw"}, ["'mw' holds 'heavy'; numbers are needed"]),
        (network, {"graph_features": "logp"}, ["feature of graphs 'logp'"]),
        (folder, {"graph_features": "logp"}, ["feature of graphs 'logp'", "mw"]),
        (folder, {"graph_features": "label"}, ["column 'label' holds 'name'; numbers are needed"]),
        (tu, {"graph_features": "logp"}, ["feature of graphs 'logp'", "graph_attribute0"]),
    )
    for data, options, words in cases:
        with one_line(*words):
            load_own(data, **options)
    (folder / "graphs.csv").unlink()
    with one_line("graph_features names columns of graphs.csv, which is missing"):
        load_own(folder, target="ring", level="node", graph_features="mw")


def test_nodes_have_no_features_of_graphs():
    graph = citation_graph()
    graph.mw = 3.0
    with one_line("features of whole graphs need targets of graphs; the targets are of nodes"):
        load_own(graph, graph_features="mw")


@pytest.mark.parametrize("option", [{"smiles": "text"}, {"atoms": "element"}, {"descriptors": "rdkit"}])
def test_options_of_molecules_elsewhere(tmp_path, option):
    name = next(iter(option))
    for source, make in SOURCES.items():
        data, _ = make(tmp_path / source)
        with one_line(f"the data option {name} is for molecules", "leave it out"):
            load_own(data, **option)


def test_options_of_molecules_apply_to_molecules(tmp_path):
    pytest.importorskip("rdkit")
    b = load_own(write_smiles(tmp_path / "m.csv"), atoms="element", smiles="smiles")
    assert [c.name for c in b.encoding.nodes] == ["element"]
