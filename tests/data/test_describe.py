"""The description of a benchmark: one screen, the same text in Python, notebooks and on the command line."""

import dataclasses

import pytest
import torch
from builders import citation_graph, path_graphs, write_folder
from torch_geometric.data import Data

from gnas.data.describe import Description, describe_benchmark
from gnas.data.own.load import load_own
from gnas.data.storage import load_benchmark, save_benchmark


def test_the_whole_story():
    b = dataclasses.replace(load_own(path_graphs(20), name="paths"), problems=())
    assert repr(b) == str(b) == b.describe()
    lines = b.describe().splitlines()
    assert lines == [
        "paths (PyG objects)",
        "data      graphs: 16 train, 2 val, 2 test",
        "          nodes: 79 (3 to 5 per graph); edges: 118",
        "nodes     1 categorical: x (3)",
        "task      graph regression, 1 target; loss l1; metric MAE; readout mean",
        lines[5],
        "inferred  graph level: one row of y for each graph",
        "          regression: y holds floats",
        "          input: 1 categorical column of 3 values",
        "          split: random (0.8, 0.1, 0.1) of graphs by seed 0",
    ]
    assert "targets standardised by train (" in lines[5]


def test_values_that_do_not_occur_are_not_counted(tmp_path):
    graphs = path_graphs(20)
    for g in graphs:
        g.x = 7 * (torch.arange(g.num_nodes)[:, None] % 2)
    assert "nodes     1 categorical: x (2)" in load_own(graphs).describe()
    lines = ["graph_id,y", *(f"{g},{g / 7}" for g in range(20))]
    nodes = ["graph_id,node_id,kind", *(f"{g},{n},{3 * n + 1}" for g in range(20) for n in range(2))]
    for name, text in (("graphs", lines), ("nodes", nodes), ("edges", ["graph_id,source,target", "0,0,1"])):
        (tmp_path / f"{name}.csv").write_text("\n".join(text))
    assert "nodes     1 categorical: kind (2)" in load_own(tmp_path).describe()


def test_columns_by_kind(tmp_path):
    text = load_own(write_folder(tmp_path / "tables")).describe()
    assert "nodes     2 categorical: atom (3), ring (4); 1 continuous: charge; categories as one-hot columns" in text
    graph = citation_graph()
    assert "6 continuous: x0, x1, x2, x3, x4, x5" in load_own(graph).describe()
    graph.x = torch.rand(30, 40)
    assert "40 continuous: x0, x1, x2, x3, x4, x5 and 34 more" in load_own(graph).describe()


def test_it_fits_on_one_screen():
    b = load_own(path_graphs(20))
    many = tuple(f"line {i}" for i in range(30))
    full = describe_benchmark(dataclasses.replace(b, notes=many, left_out=many, problems=many, files=many))
    assert len(full.lines) <= 40
    assert ("", "26 more") in full.lines
    assert full.to_dict()["left_out"] == list(many)
    assert "line 0, line 1, line 2, line 3 and 26 more" in str(full)


def test_a_packed_benchmark_keeps_its_description(tmp_path):
    b = dataclasses.replace(load_own(path_graphs(20)), files=("a (2 rows)",), left_out=("b: why",), problems=("c",))
    again = load_benchmark(save_benchmark(b, tmp_path / "b.safetensors"))
    assert again.describe() == b.describe()
    assert again.fingerprint == b.fingerprint


def test_notebooks_show_a_table_of_plain_text():
    page = Description("a<b", (("note", ("<script>", "two")),)).to_html()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert load_own(path_graphs(9))._repr_html_().startswith("<b>graphs (PyG objects)</b><table>")


def test_what_was_read_of_molecules(tmp_path):
    """The file, its rows and each target; of a list of SMILES there is no file."""
    texts = ["C" * (1 + i % 7) for i in range(30)]
    (tmp_path / "m.csv").write_text(
        "smiles,y1,y2\n" + "".join(f"{text},{i / 2},{i / 3}\n" for i, text in enumerate(texts))
    )
    text = load_own(tmp_path / "m.csv", target=["y1", "y2"]).describe()
    assert "read      m.csv (30 rows)\n" in text
    assert "graph level: m.csv has the targets y1, y2\n" in text
    chem = pytest.importorskip("rdkit.Chem")
    with chem.SDWriter(str(tmp_path / "m.sdf")) as writer:
        for i, one in enumerate(texts):
            molecule = chem.MolFromSmiles(one)
            molecule.SetProp("logP", str(i / 2))
            writer.write(molecule)
    text = load_own(tmp_path / "m.sdf").describe()
    assert "read      m.sdf (30 records)\n" in text
    assert "graph level: m.sdf has the target logP\n" in text
    assert "\nread " not in load_own(texts, y=list(range(30))).describe()


def test_graphs_of_one_size():
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graphs = [Data(x=torch.rand(3, 1), edge_index=ring, y=torch.tensor([i / 2])) for i in range(12)]
    assert "nodes: 36 (3 per graph); edges: 36" in load_own(graphs).describe()


def test_the_split_is_always_shown(tmp_path):
    """Labels with blanks have the most inferred lines, and the split is the last of them."""
    rows = "".join(f"{'C' * (1 + i % 7)},{i % 2},{'' if i == 3 else int(i % 3 == 0)}\n" for i in range(60))
    (tmp_path / "m.csv").write_text("smiles,a,b\n" + rows)
    lines = load_own(tmp_path / "m.csv").describe().splitlines()
    assert any(line.strip() == "split: random (0.8, 0.1, 0.1) of graphs by seed 0" for line in lines)
    assert len(lines) <= 24
    assert (
        "graph level: the table has the target y"
        in load_own(["C" * (1 + i % 7) for i in range(60)], y=list(range(60))).describe()
    )
