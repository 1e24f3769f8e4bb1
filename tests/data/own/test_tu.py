"""TU folders: read as PyG reads them, any column as the target, and errors with file and line."""

from pathlib import Path

import numpy as np
import pytest
import torch
from builders import assert_equal, one_line, replace_line, write_tu
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.io import read_tu_data

from gnas.data.own.load import encode_graphs, load_own
from gnas.data.own.options import ReadOptions
from gnas.data.own.tu import find_tu_files, read_tu


def test_graphs_are_those_of_pyg(tmp_path):
    folder = write_tu(tmp_path / "TOY", graphs=14)
    data, slices, sizes = read_tu_data(str(folder), "TOY")
    raw = read_tu(find_tu_files(folder), ReadOptions())
    assert raw.node_counts.tolist() == slices["x"].diff().tolist()
    assert raw.edge_counts.tolist() == slices["edge_index"].diff().tolist()
    assert sorted(zip(*raw.edge_index.tolist(), strict=True)) == sorted(zip(*data.edge_index.tolist(), strict=True))
    attributes = np.stack([raw.nodes["node_attribute0"], raw.nodes["node_attribute1"]], 1)
    assert torch.allclose(torch.from_numpy(attributes).float(), data.x[:, : sizes["num_node_attributes"]])
    labels = data.x[:, sizes["num_node_attributes"] :].argmax(1).tolist()
    assert (raw.nodes["node_label"] - raw.nodes["node_label"].min()).tolist() == labels
    assert np.unique(raw.targets["graph_label"], return_inverse=True)[1].tolist() == data.y.tolist()
    assert set(raw.edges) == {"edge_label", "edge_attribute"}


def test_a_folder_becomes_a_benchmark(tmp_path):
    folder = write_tu(tmp_path / "TOY")
    b = load_own(folder, split="stratified")
    assert (b.name, b.source, b.task.level, b.task.kind) == ("TOY", "TU folder", "graph", "classification")
    assert b.task.labels == ("-1", "1")
    raw = folder.rename(tmp_path / "other") / ".."
    inside = tmp_path / "TOY"
    inside.mkdir()
    (raw / "other").rename(inside / "raw")
    assert_equal(load_own(inside, split="stratified").train, b.train)
    new = encode_graphs(inside, b.encoding, b.task).graphs
    assert new.y.tolist() == [(i % 2) for i in range(len(new))]
    for file in (inside / "raw").glob("*graph_labels.txt"):
        file.unlink()
    unlabelled = encode_graphs(inside, b.encoding, b.task).graphs
    assert (unlabelled.y == -1).all()
    assert torch.equal(unlabelled.x, new.x)


def test_graph_attributes_are_a_regression_and_any_column_can_be_the_target(tmp_path):
    folder = write_tu(tmp_path / "TOY")
    (folder / "TOY_graph_attributes.txt").write_text("".join(f"{i / 4}, {i * 2.5}\n" for i in range(12)))
    b = load_own(folder)
    assert (b.task.kind, b.encoding.targets) == ("regression", ("graph_attribute0", "graph_attribute1"))
    assert load_own(folder, target="graph_label", split="stratified").task.kind == "classification"
    node = load_own(folder, target="node_label", fractions=(0.6, 0.2, 0.2))
    assert (node.task.level, [c.name for c in node.encoding.nodes]) == ("node", ["node_attribute0", "node_attribute1"])
    assert load_own(folder, target="edge_attribute").task.level == "edge"
    with one_line("target column", "colour"):
        load_own(folder, target="colour")
    with one_line("different levels"):
        load_own(folder, target=["node_label", "edge_label"])
    with one_line("name the node column to predict"):
        load_own(folder, level="node")


def test_a_node_of_two_graphs(tmp_path):
    folder = write_tu(tmp_path / "TOY")
    (folder / "TOY_graph_indicator.txt").write_text("1, 1\n1, 1\n")
    with one_line("TOY_graph_indicator.txt line 1: 2 numbers; a node has one: its graph"):
        load_own(folder)


@pytest.mark.parametrize(
    ("file", "line", "text", "words"),
    [
        ("A", 3, "1, 999", ("TOY_A.txt line 3", "999 is not a node; nodes are numbered 1..48")),
        ("A", 2, "0, 1", ("TOY_A.txt line 2", "0 is not a node")),
        ("A", 2, "1, 40", ("TOY_A.txt line 2", "joins graph 1 and graph 11")),
        ("A", 4, "1, x", ("TOY_A.txt line 4", "'x' is not a whole number")),
        ("A", 4, "1, --3", ("TOY_A.txt line 4", "'--3' is not a whole number")),
        ("A", 5, "1", ("TOY_A.txt line 5", "1 cells, but the first line has 2")),
        ("A", 5, "", ("TOY_edge_labels.txt", "TOY_A.txt has")),
        ("graph_indicator", 1, "0", ("TOY_graph_indicator.txt line 1", "graph 0 does not exist")),
        ("graph_indicator", 48, "13", ("TOY_graph_indicator.txt line 48", "graph 13", "12 rows")),
        ("graph_indicator", 48, "1.5", ("TOY_graph_indicator.txt line 48", "'1.5' is not a whole number")),
        ("node_attributes", 7, "0.5, nan", ("line 7", "finite")),
        ("node_attributes", 7, "0.5, a", ("TOY_node_attributes.txt line 7", "'a'")),
        ("node_labels", 7, "", ("TOY_node_labels.txt: 47 rows", "48", "one row per node")),
    ],
)
def test_errors_name_file_and_line(tmp_path, file, line, text, words):
    folder = write_tu(tmp_path / "TOY")
    replace_line(folder / f"TOY_{file}.txt", line, text)
    with one_line(*words):
        load_own(folder)


def test_files_that_are_missing_or_empty(tmp_path):
    folder = write_tu(tmp_path / "TOY")
    (folder / "TOY_graph_indicator.txt").unlink()
    with one_line("no TOY_graph_indicator.txt"):
        load_own(folder)
    (folder / "TOY_graph_indicator.txt").write_text("\n")
    with one_line("TOY_graph_indicator.txt: no rows"):
        load_own(folder)
    folder = write_tu(tmp_path / "TOY")
    (folder / "TOY_graph_labels.txt").unlink()
    with one_line("NAME_graph_labels.txt or NAME_graph_attributes.txt"):
        load_own(folder)
    (folder / "OTHER_A.txt").write_text("1,2\n")
    renamed = folder.rename(tmp_path / "two")
    with one_line("several TU datasets (OTHER, TOY)"):
        load_own(renamed)


@given(st.permutations(range(48)))
@settings(max_examples=15, deadline=None)
def test_nodes_may_come_in_any_order(tmp_path_factory, order):
    """Node numbers and files permuted together: the same graphs up to the order of their nodes."""
    folder = write_tu(tmp_path_factory.mktemp("tu") / "TOY")
    plain = read_tu(find_tu_files(folder), ReadOptions())
    for name in ("graph_indicator", "node_labels", "node_attributes"):
        file = folder / f"TOY_{name}.txt"
        lines = file.read_text().splitlines()
        file.write_text("\n".join(lines[i] for i in order) + "\n")
    new = {old + 1: i + 1 for i, old in enumerate(order)}
    file = folder / "TOY_A.txt"
    pairs = [[int(v) for v in line.split(",")] for line in file.read_text().splitlines()]
    file.write_text("".join(f"{new[a]}, {new[b]}\n" for a, b in pairs))
    mixed = read_tu(find_tu_files(folder), ReadOptions())
    assert edge_texts(mixed) == edge_texts(plain)


def edge_texts(raw) -> list[tuple]:
    source, target = raw.flat_edges()
    graph = np.repeat(np.arange(len(raw)), raw.edge_counts)
    key = raw.nodes["node_attribute0"]  # differs from node to node
    return sorted(zip(graph.tolist(), key[source].tolist(), key[target].tolist(), strict=True))


def test_other_files_are_named(tmp_path):
    folder: Path = write_tu(tmp_path / "TOY")
    (folder / "TOY_colours.txt").write_text("1\n")
    raw = read_tu(find_tu_files(folder), ReadOptions())
    assert raw.left_out == ("TOY_colours.txt: not part of the TU format",)
    assert raw.files[0] == "TOY_A.txt (72 rows)"
