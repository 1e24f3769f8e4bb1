"""Tables give the same graphs as the objects they describe; every slip of the pen is named with file and line."""

import time

import numpy as np
import pytest
import torch
from builders import one_line, replace_line, write_csv, write_folder

from gnas.data.own.load import encode_graphs, load_own


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "own")


# -- cells ---------------------------------------------------------------------------------------------------------


# -- graphs --------------------------------------------------------------------------------------------------------


def test_a_folder_is_its_graphs(folder):
    b = load_own(folder)
    assert [len(g) for g in b.splits().values()] == [8, 2, 2]
    assert (b.task.level, b.task.kind, b.task.in_channels) == (
        "graph",
        "regression",
        4 + 5 + 1,
    )  # "other" besides 3 and 4 values
    assert b.name == "own"
    graph = b.train[1]
    atoms = ["CNO".index("CNO"[(1 + n) % 3]) for n in range(4)]
    assert graph.x[:, :3].argmax(1).tolist() == atoms
    assert graph.x[:, 4:8].argmax(1).tolist() == [0, 1, 2, 3]
    assert graph.x[:, 9].tolist() == [0.5, -0.5, -1.5, -2.5]
    assert graph.edge_index.tolist() == [[1, 0, 2, 1, 3, 2], [0, 1, 1, 2, 2, 3]]
    assert graph.edge_attr.flatten().tolist() == [0, 0, 1, 1, 0, 0]
    assert graph.y.tolist() == [[0.25]]


def test_the_order_of_rows_and_the_kind_of_ids_do_not_matter(folder, tmp_path):
    plain = load_own(folder)
    other = tmp_path / "other"
    other.mkdir()
    shuffle = np.random.default_rng(0).permutation
    (other / "graphs.csv").write_text((folder / "graphs.csv").read_text().replace("\n", "\ng").rstrip("g"))
    for name, columns in (("nodes", 2), ("edges", 3)):
        header, *lines = (folder / f"{name}.csv").read_text().splitlines()
        rows = [line.split(",") for line in lines]
        for row in rows:
            row[0] = f"g{row[0]}"
            row[1:columns] = [f"n{10**12 - int(v)}" for v in row[1:columns]]
        mixed = rows if name == "nodes" else [rows[i] for i in shuffle(len(rows))]
        # Nodes keep their order within a graph: it is their number.
        mixed = sorted(mixed, key=lambda r: hash(r[0]) % 97) if name == "nodes" else mixed
        write_csv(other / f"{name}.csv", header.split(","), mixed)
    texts = load_own(other)
    for split in ("train", "val", "test"):
        a, b = plain.splits()[split], texts.splits()[split]
        for field in ("x", "edge_index", "node_ptr", "edge_ptr", "y", "edge_attr"):
            assert torch.equal(getattr(a, field), getattr(b, field)), field


@pytest.mark.parametrize(
    ("file", "line", "text", "words"),
    [
        ("edges.csv", 5, "1,0,99,0", "edges.csv line 5: target 99 is not a node of graph 1"),
        ("edges.csv", 5, "1,-4,0,0", "edges.csv line 5: source -4 is not a node of graph 1"),
        ("edges.csv", 5, "77,0,1,0", "edges.csv line 5: graph_id 77 is not in graphs.csv"),
        ("edges.csv", 5, "1,a,1,0", "edges.csv line 5: source 'a' is not a node of graph 1"),
        ("nodes.csv", 5, "0,2,C,0,1.0", "nodes.csv line 5: node_id 2 of graph 0 is listed twice"),
        ("nodes.csv", 4, "0,2,C,0,nan", "nodes.csv line 4: 'charge' is nan"),
        ("nodes.csv", 4, "0,2,C,0,inf", "nodes.csv line 4: 'charge' is inf"),
        ("nodes.csv", 4, "0,2,C,0,", "nodes.csv line 4: column 'charge' is empty"),
        ("nodes.csv", 4, "0,2,C,0,heavy", "nodes.csv line 4: column 'charge' holds 'heavy', not a number"),
        ("nodes.csv", 4, "0,,C,0,1.0", "nodes.csv line 4: node_id is empty"),
        ("nodes.csv", 4, "0,2,C,0", "nodes.csv line 4: 4 cells"),
        ("nodes.csv", 1, "graph,node_id,atom,ring,charge", "nodes.csv: no column 'graph_id'"),
        ("edges.csv", 1, "graph_id,from,target,bond", "edges.csv: no column 'source'"),
        ("graphs.csv", 4, "1,0.5,train", "graphs.csv line 4: graph_id 1 is listed twice"),
        ("graphs.csv", 4, "2,0.5,trian", "graphs.csv line 4: split is 'trian'"),
        ("graphs.csv", 4, "2,inf,train", "graph 2: 'y' is inf"),
        ("graphs.csv", 1, "graph_id,split,extra", "graphs.csv line 2: split is '0.0'"),
    ],
)
def test_slips_are_named(folder, file, line, text, words):
    replace_line(folder / file, line, text)
    with one_line(words):
        load_own(folder)


def test_files_and_rows_that_are_missing(folder, tmp_path):
    with one_line("neither a file nor a folder"):
        load_own(tmp_path / "nowhere")
    (folder / "edges.csv").unlink()
    with one_line("no edges.csv here", "graphs.csv, nodes.csv and edges.csv"):
        load_own(folder)
    write_csv(folder / "edges.csv", ("graph_id", "source", "target"), [])
    assert "no graph has an edge" in load_own(folder).notes
    write_csv(folder / "graphs.csv", ("graph_id", "y"), [])
    with one_line("graphs.csv: no rows"):
        load_own(folder)


def test_a_graph_without_nodes(folder):
    with (folder / "graphs.csv").open("a") as file:
        file.write("500,1.0,train\n")
    with one_line("graph 500: no nodes"):
        load_own(folder)


def test_targets_are_found_named_and_chosen(folder):
    write_csv(folder / "graphs.csv", ("graph_id", "mu", "gap"), [(i, i / 2, i % 2) for i in range(12)])
    both = load_own(folder)
    assert (both.task.num_outputs, both.encoding.targets) == (2, ("mu", "gap"))
    one = load_own(folder, target="gap", split="stratified")
    assert (one.task.kind, one.task.labels) == ("classification", ("0", "1"))
    with one_line("target column 'gpa'", "did you mean 'gap'"):
        load_own(folder, target="gpa")
    with one_line("nodes.csv: no target column"):
        load_own(folder, level="node")


def test_node_level_with_text_classes_gaps_and_one_graph(tmp_path):
    rows = [
        (n, 0.5 * n, "" if n == 9 else "even" if n % 2 == 0 else "odd", ("train", "train", "val", "test")[n // 2 % 4])
        for n in range(24)
    ]
    write_csv(tmp_path / "nodes.csv", ("node_id", "size", "y", "split"), rows)
    write_csv(tmp_path / "edges.csv", ("source", "target"), [(n, (n + 1) % 24) for n in range(24)])
    b = load_own(tmp_path)
    assert (b.task.level, b.task.labels) == ("node", ("even", "odd"))
    assert b.train.x is b.test.x
    assert [int(g.mask.sum()) for g in b.splits().values()] == [11, 6, 6]
    assert b.train.y[9] == -1
    assert any("1 node without target" in n for n in b.notes)
    assert any("no edge has the reverse" in n for n in b.notes)


def test_edge_level_keeps_the_directions_of_an_edge_together(tmp_path):
    write_csv(tmp_path / "nodes.csv", ("graph_id", "node_id", "pos_x", "pos_y"), [(0, n, n, n / 2) for n in range(20)])
    forth = [(0, a, b, (a * b) % 2) for a in range(20) for b in range(a) if (a + b) % 3 == 0]
    write_csv(
        tmp_path / "edges.csv", ("graph_id", "source", "target", "y"), [*forth, *((g, b, a, y) for g, a, b, y in forth)]
    )
    b = load_own(tmp_path, seed=3)
    assert b.task.level == "edge"
    assert b.train.pos.shape == (20, 2)
    source, target = b.train.edge_index.tolist()
    assert b.train.y.tolist() == [(a * b) % 2 for a, b in zip(source, target, strict=True)]
    where = {}
    for name, graphs in b.splits().items():
        for edge in torch.nonzero(graphs.mask).flatten().tolist():
            where.setdefault(frozenset((source[edge], target[edge])), set()).add(name)
    assert len(where) == len(forth)
    assert all(len(names) == 1 for names in where.values())


def test_new_tables_are_read_the_same_way(folder, tmp_path):
    b = load_own(folder)
    whole = encode_graphs(folder, b.encoding, b.task).graphs
    assert torch.equal(whole.select(range(8)).x, b.train.x)
    assert torch.equal(whole.select(range(8)).y, b.train.y)
    new = write_folder(tmp_path / "new", 2)
    write_csv(new / "graphs.csv", ("graph_id",), [(0,), (1,)])
    unlabelled = encode_graphs(new, b.encoding, b.task).graphs
    assert torch.equal(unlabelled.x, whole.select([0, 1]).x)
    assert unlabelled.y.isnan().all()
    replace_line(new / "nodes.csv", 3, "0,1,Xe,1,0.5")
    unseen = encode_graphs(new, b.encoding, b.task)
    assert unseen.notes == (
        "column 'atom': 'Xe' is not in the training data and is read as 'other' (nodes.csv line 3)",
    )
    assert unseen.graphs.x[1, :4].tolist() == [0, 0, 0, 0]
    write_csv(new / "nodes.csv", ("graph_id", "node_id", "atom"), [(g, n, "C") for g in (0, 1) for n in range(6)])
    with one_line("nodes have no column 'ring'"):
        encode_graphs(new, b.encoding, b.task)


def test_a_number_that_only_the_test_split_has_is_named(tmp_path):
    kinds = {5: 2}  # of the graph: others have 0 and 3
    write_csv(
        tmp_path / "graphs.csv",
        ("graph_id", "y", "split"),
        [(g, g / 3, ("train", "val", "test")[g % 3]) for g in range(9)],
    )
    nodes = [(g, n, kinds.get(g, 3 * n)) for g in range(9) for n in range(2)]
    write_csv(tmp_path / "nodes.csv", ("graph_id", "node_id", "kind"), nodes)
    write_csv(tmp_path / "edges.csv", ("graph_id", "source", "target"), [(g, 0, 1) for g in range(9)])
    b = load_own(tmp_path)
    wanted = (
        "column 'kind': 2 is not in the training data and is read as 'other' (nodes.csv line 12, nodes.csv line 13)"
    )
    assert wanted in b.notes
    assert b.test.select([1]).x.tolist() == [[4], [4]]
    assert b.task.other == (0,)


def test_many_graphs_in_little_time(tmp_path):
    count, nodes = 5_000, 20
    graph = np.repeat(np.arange(count), nodes)
    node = np.tile(np.arange(nodes), count)
    for name, header, columns in (
        ("graphs", "graph_id,y", (np.arange(count), np.arange(count) / 7)),
        ("nodes", "graph_id,node_id,kind,size", (graph, node, node % 5, node / 3)),
        ("edges", "graph_id,source,target", (graph, node, (node + 1) % nodes)),
    ):
        lines = ["%d," * (len(columns) - 1) % t[:-1] + f"{t[-1]:.6g}" for t in zip(*columns, strict=True)]
        (tmp_path / f"{name}.csv").write_text(header + "\n" + "\n".join(lines))
    before = time.process_time()
    b = load_own(tmp_path)
    assert time.process_time() - before < 3
    assert sum(len(g) for g in b.splits().values()) == count


# -- molecules -----------------------------------------------------------------------------------------------------


def test_files_and_unused_columns_are_named(tmp_path):
    folder = write_folder(tmp_path / "t")
    lines = (folder / "graphs.csv").read_text().splitlines()
    (folder / "graphs.csv").write_text("\n".join([f"{lines[0]},lab", *(f"{line},3" for line in lines[1:])]) + "\n")
    b = load_own(folder)
    assert b.files == ("graphs.csv (12 rows)", "nodes.csv (48 rows)", "edges.csv (72 rows)")
    assert b.left_out == ("graphs.csv columns lab: not named as target or feature",)
