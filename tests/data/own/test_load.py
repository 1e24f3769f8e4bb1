"""Objects of every kind become the same benchmark; parts are inferred, overridden, described and read again."""

import networkx as nx
import numpy as np
import pytest
import torch
from builders import assert_equal, citation_graph, one_line, path_graph, path_graphs
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from gnas.data.own.load import encode_graphs, load_own
from gnas.data.storage import save_benchmark

CLASSES = {"y": lambda i: torch.tensor([i % 3])}


class Stored(InMemoryDataset):
    """A PyG dataset of given graphs."""

    def __init__(self, graphs, name="stored"):
        super().__init__()
        self.name = name
        self.data, self.slices = self.collate(graphs)


# -- PyG -----------------------------------------------------------------------------------------------------------


def test_a_list_of_data():
    graphs = path_graphs(20)
    b = load_own(graphs, seed=5)
    assert [len(g) for g in b.splits().values()] == [16, 2, 2]
    assert (b.task.level, b.task.kind, b.task.categories, b.task.loss, b.task.metric) == (
        "graph",
        "regression",
        (3,),
        "l1",
        "mae",
    )
    found = sorted(float(y) for g in b.splits().values() for y in g.y)
    assert found == pytest.approx([i / 10 for i in range(20)])
    for split in b.splits().values():
        for graph in (split[i] for i in range(len(split))):
            original = graphs[round(10 * float(graph.y))]
            assert torch.equal(graph.x, original.x.to(graph.x.dtype))
            assert set(zip(*graph.edge_index.tolist(), strict=True)) == set(
                zip(*original.edge_index.tolist(), strict=True)
            )


def test_one_graph_without_masks_is_split_by_its_nodes():
    graph = citation_graph()
    for name in ("train", "val", "test"):
        del graph[f"{name}_mask"]
    b = load_own(graph, split="stratified", fractions=(0.6, 0.2, 0.2))
    for split in b.splits().values():
        assert len(set(torch.bincount(graph.y[split.mask]).tolist())) == 1
    assert torch.stack([g.mask for g in b.splits().values()]).sum(0).eq(1).all()


def test_extra_fields_are_kept():
    graphs = path_graphs(9)
    for g in graphs:
        g.pos = torch.rand(g.num_nodes, 3)
        g.edge_attr = (g.edge_index[0] * 10 + g.edge_index[1]) / 2
    b = load_own(graphs)
    assert b.train.pos.shape == (b.train.num_nodes, 3)
    source, target = b.train.edge_index.long()
    values = (source * 10 + target) / 2
    torch.testing.assert_close(b.train.edge_attr[:, 0], (values - values.mean()) / values.std(correction=0))
    assert b.task.edge_channels == 1


def test_graphs_without_features_use_their_degree():
    graphs = path_graphs(9)
    for g in graphs:
        g.num_nodes = g.num_nodes
        del g.x
    b = load_own(graphs)
    assert b.task.categories == (64,)
    assert torch.equal(b.train[0].x[:, 0], torch.bincount(b.train[0].edge_index[1]).short())
    assert any("in-degree" in n for n in b.notes)
    star = Data(edge_index=torch.stack([torch.arange(1, 101), torch.zeros(100).long()]), num_nodes=101, y=1.0)
    assert encode_graphs([star], b.encoding, b.task).graphs.x[0, 0] == 63


def test_bad_collections():
    for data, words in (
        ([], "the list is empty"),
        (None, "cannot read graphs from an object of type NoneType"),
        ({"a": 1}, "cannot read graphs from an object of type dict"),
        (np.zeros(3), "cannot read graphs from an object of type ndarray"),
        ([1, 2], "graph 0: a int"),
        ([HeteroData()], "to_homogeneous"),
        (HeteroData(), "to_homogeneous"),
        ([path_graph(0, y=torch.rand(1)), nx.path_graph(3)], "graph 1: a Graph"),
        (["CCO", "CC"], "SMILES texts have no targets"),
        ("nowhere.csv", "neither a file nor a folder"),
        ("a\0b", "neither a file nor a folder"),
        ("long" * 2000, "path"),
        ("~no_such_user/data.npz", "not a path"),
        ([Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0).long())] * 4, "no targets; set data.y"),
        (path_graphs(2), "split is empty (2 to split"),
    ):
        with one_line(words):
            load_own(data)


def test_files_of_other_kinds(tmp_path):
    for name, words in (("a.pt", "pickles can run code"), ("a.txt", "unknown kind of file")):
        (tmp_path / name).write_bytes(b"")
        with one_line(name, words):
            load_own(tmp_path / name)


# -- tasks ---------------------------------------------------------------------------------------------------------


def test_targets_are_standardised_by_train_alone():
    graphs = path_graphs(20, y=lambda i: torch.tensor([[i * 1.0, 100.0 - i, 7.0]]))
    b = load_own(graphs)
    y = b.train.y.double()
    assert b.task.center == pytest.approx(y.mean(0).tolist())
    assert b.task.scale == pytest.approx([*y.std(0, correction=0).tolist()[:2], 1.0])
    assert torch.allclose(b.task.prediction(torch.zeros(1, 3)).double(), y.mean(0))
    raw = load_own(graphs, standardise=False)
    assert (raw.task.center, raw.task.scale) == ((0.0,), (1.0,))
    assert torch.equal(raw.train.y, b.train.y)


@pytest.mark.parametrize(("labels", "names"), [((5, -2, 9), ("-2", "5", "9")), ((True, False), ("0", "1"))])
def test_classes_become_contiguous(labels, names):
    b = load_own(path_graphs(12, y=lambda i: torch.tensor([labels[i % len(labels)]])), split="stratified")
    assert b.task.labels == names
    assert set(b.train.y.tolist()) == set(range(len(names)))
    assert b.train.y.dtype == torch.int64


def test_a_class_without_training_example():
    with one_line("class '2' has no training example"):
        load_own(
            (path_graphs(6, y=lambda i: torch.tensor([i % 2])), path_graphs(3, **CLASSES), path_graphs(3, **CLASSES))
        )


def test_a_benchmark_is_returned_as_it_is():
    b = load_own(path_graphs(9))
    assert load_own(b) is b
    other = load_own(b, name="other", metric="rmse")
    assert (other.name, other.task.metric, other.train is b.train) == ("other", "rmse", True)
    assert load_own(b, readout="max").task.readout == "max"
    assert load_own(b, seed=1).train is b.train
    with one_line("finished benchmark", "split"):
        load_own(b, split="random")


def test_a_seed_gives_the_same_split():
    graphs = path_graphs(30)
    assert_equal(load_own(graphs, seed=4).train, load_own(graphs, seed=4).train)
    assert not torch.equal(load_own(graphs, seed=4).train.y, load_own(graphs, seed=5).train.y)


@pytest.mark.parametrize("kind", ["categories", "numbers"])
def test_columns_of_edges_of_a_packed_file_can_be_turned_off_and_on(tmp_path, kind):
    graphs = path_graphs(20)
    for graph in graphs:
        columns = torch.arange(graph.num_edges) % 3
        graph.edge_attr = columns if kind == "categories" else columns[:, None] / 7
    whole = load_own(graphs)
    read = whole.task.edge_categories, whole.task.edge_channels
    assert read == (((3,), 0) if kind == "categories" else ((), 1))
    file = save_benchmark(whole, tmp_path / "edges.safetensors")
    off = load_own(file, edges="none")
    assert (off.task.edge_categories, off.task.edge_channels) == ((), 0)
    assert "stored but not used" in str(off)
    for benchmark in (load_own(file), load_own(file, edges="yes"), load_own(off, edges="auto")):
        assert (benchmark.task.edge_categories, benchmark.task.edge_channels) == read
    plain = save_benchmark(load_own(path_graphs(20)), tmp_path / "plain.safetensors")
    assert load_own(plain, edges="auto").task.edge_channels == 0
    with one_line("edges=yes, but the edges have no columns"):
        load_own(plain, edges="yes")
