"""Objects of every kind become the same benchmark; parts are inferred, overridden, described and read again."""

import networkx as nx
import numpy as np
import pytest
import torch
from builders import assert_equal, citation_graph, one_line, path_graph, path_graphs
from torch.utils.data import Subset
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from gnas.data.own.load import encode_graphs, load_own
from gnas.graph import GraphSet

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


def test_datasets_subsets_and_three_parts():
    graphs = path_graphs(20)
    plain = load_own(graphs, seed=1)
    stored = load_own(Stored(graphs), seed=1)
    assert stored.name == "stored"
    assert_equal(plain.train, stored.train)
    parts = (graphs[:10], graphs[10:15], graphs[15:])
    three = load_own(parts)
    assert "split: as given" in three.notes
    assert_equal(three.val, GraphSet.from_data([stored_form(g) for g in graphs[10:15]]))
    for other in (tuple(map(Stored, parts)), [Subset(graphs, range(10)), Subset(graphs, range(10, 15)), parts[2]]):
        assert_equal(three.train, load_own(other).train)
        assert_equal(three.test, load_own(other).test)
    with one_line("val graph 1: no x"):
        load_own((graphs[:3], [graphs[3], Data(edge_index=graphs[0].edge_index, y=graphs[0].y)], graphs[5:]))
    with one_line("the test split is empty (the splits come with the data"):
        load_own((graphs[:3], graphs[3:], []))


def stored_form(graph: Data) -> Data:
    return Data(x=graph.x.short(), edge_index=graph.edge_index, y=graph.y.reshape(1, 1))


def test_a_batch_is_its_graphs():
    graphs = path_graphs(20)
    assert_equal(load_own(Batch.from_data_list(graphs)).train, load_own(graphs).train)
    with one_line("Batch cannot be split into graphs"):
        load_own(Batch(x=torch.ones(2, 1), batch=torch.tensor([0, 1])))


def test_three_graphs_are_not_three_parts():
    assert len(load_own(tuple(path_graphs(3))).train) == 1


@pytest.mark.parametrize("columns", [0, 10])
def test_one_graph_with_masks(columns):
    graph = citation_graph(columns=columns)
    b = load_own(graph)
    assert (b.task.level, b.task.kind, b.task.num_outputs, b.task.in_channels) == ("node", "classification", 3, 6)
    for name, split in b.splits().items():
        assert split.x is b.train.x
        assert split.edge_index is b.train.edge_index
        mask = graph[f"{name}_mask"]
        assert torch.equal(split.mask, mask[:, 0] if columns else mask)
    assert any("10 columns" in n for n in b.notes) == bool(columns)
    assert_equal(load_own(Stored([graph])).val, b.val)
    assert "nodes in 1 shared graph: 9 train" in b.describe()


def test_masks_that_do_not_fit():
    graph = citation_graph()
    graph.val_mask = graph.train_mask
    with one_line("node 0 is in both train and val"):
        load_own(graph)
    del graph.val_mask
    with one_line("val_mask missing", "split=random"):
        load_own(graph)
    graph.val_mask = torch.ones(3, dtype=torch.bool)
    with one_line("val_mask has 3 rows, but the graph has 30 nodes"):
        load_own(graph)
    random = load_own(graph, split="random", fractions=(0.5, 0.25, 0.25))
    assert [int(g.mask.sum()) for g in random.splits().values()] == [14, 8, 8]


def test_one_graph_without_masks_is_split_by_its_nodes():
    graph = citation_graph()
    for name in ("train", "val", "test"):
        del graph[f"{name}_mask"]
    b = load_own(graph, split="stratified", fractions=(0.6, 0.2, 0.2))
    for split in b.splits().values():
        assert len(set(torch.bincount(graph.y[split.mask]).tolist())) == 1
    assert torch.stack([g.mask for g in b.splits().values()]).sum(0).eq(1).all()


def test_splits_of_ogb_datasets():
    class Ogb(Stored):
        def get_idx_split(self):
            return {"train": torch.arange(10, 20), "valid": torch.tensor([0, 1]), "test": np.array([2, 3])}

    b = load_own(Ogb(path_graphs(20)))
    assert [len(g) for g in b.splits().values()] == [10, 2, 2]
    assert b.val.y.flatten().tolist() == pytest.approx([0, 0.1])
    assert "6 graphs in no split: left out" in b.notes
    assert len(load_own(Ogb(path_graphs(20)), split="random").train) == 16


def test_levels_are_read_off_the_rows():
    node = load_own([path_graph(i, 3 + i % 3, y=torch.arange(3 + i % 3) % 2) for i in range(9)])
    assert (node.task.level, node.task.kind, len(node.train)) == ("node", "classification", 7)
    assert node.train.mask is None
    edge = load_own([path_graph(i, 4, y=torch.rand(6)) for i in range(9)])
    assert edge.task.level == "edge"
    several = load_own([path_graph(i, 4, y=torch.rand(5)) for i in range(9)])
    assert (several.task.level, several.task.num_outputs) == ("graph", 5)
    assert load_own([path_graph(i, 4, y=torch.rand(4)) for i in range(9)], level="graph").task.num_outputs == 4
    with one_line("graph 1: y has 7 rows, which fit neither the graph (1), its nodes (4) nor its edges (6)"):
        load_own([path_graph(0, 4, y=torch.rand(4)), path_graph(1, 4, y=torch.rand(7))])
    with one_line("graph 0: y has 1 rows, but the graph has 3 nodes"):
        load_own(path_graphs(9), level="node")


def test_edge_targets_follow_their_edges():
    def graph(i):
        ends = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(i)) for _ in range(2)])
        return Data(x=torch.rand(5, 2), edge_index=ends, y=(ends[0] * 10 + ends[1]).float() + 0.5)

    b = load_own([graph(i) for i in range(9)], level="edge")
    source, target = b.train.edge_index.long()
    assert torch.equal(b.train.y[:, 0], (source * 10 + target).float() + 0.5)


def test_targets_by_name():
    graphs = [path_graph(i, y=torch.rand(1, 3), energy=torch.tensor([i / 3])) for i in range(9)]
    assert load_own(graphs).encoding.targets == ("y0", "y1", "y2")
    assert load_own(graphs, target="energy").encoding.targets == ("energy",)
    b = load_own(graphs, target=["y2"])
    assert b.encoding.targets == ("y2",)
    assert torch.equal(encode_graphs(graphs, b.encoding, b.task).graphs.y[:, 0], torch.cat([g.y[:, 2] for g in graphs]))
    energy = load_own(graphs, target="energy")
    assert torch.equal(
        encode_graphs(graphs, energy.encoding, energy.task).graphs.y[:, 0], torch.cat([g.energy for g in graphs])
    )
    assert encode_graphs([path_graph(0, y=torch.rand(1))], energy.encoding, energy.task).graphs.y.isnan().all()
    with one_line("no target 'energie'"):
        load_own(graphs, target="energie")


def test_extra_fields_are_kept():
    graphs = path_graphs(9)
    for g in graphs:
        g.pos = torch.rand(g.num_nodes, 3)
        g.edge_attr = (g.edge_index[0] * 10 + g.edge_index[1]) / 2
    b = load_own(graphs)
    assert b.train.pos.shape == (b.train.num_nodes, 3)
    source, target = b.train.edge_index.long()
    assert torch.equal(b.train.edge_attr[:, 0], (source * 10 + target) / 2)
    assert "edge_attr: 1 column, stored but not used" in b.describe()


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edge_index": None}, "graph 1: no edge_index"),
        ({"edge_index": torch.zeros(3, 2).long()}, "graph 1: edge_index has the shape [3, 2]"),
        ({"edge_index": torch.rand(2, 2)}, "graph 1: edge_index holds float32"),
        ({"edge_index": torch.tensor([[0], [9]])}, "graph 1, edge 0: target 9 is not a node; the graph has 4 nodes"),
        ({"x": torch.zeros(4, 2)}, "graph 1: x has 2 columns, but graph 0 has 1"),
        ({"x": torch.tensor([[0.0], [1], [float("nan")], [2]])}, "graph 1, node 2: 'x' is nan"),
        ({"x": None}, "graph 1: no x, which graph 0 has"),
        ({"x": torch.zeros(4, 2, 2)}, "graph 1: x has 3 dimensions"),
        ({"x": torch.zeros(0, 1), "edge_index": torch.zeros(2, 0).long()}, "graph 1: no nodes"),
        ({"x": torch.zeros(4, 1, dtype=torch.complex64)}, "graph 1: x holds complex64"),
        ({"x": "text"}, "graph 1: x"),
        ({"x": {}}, "graph 1: x holds object"),
        ({"y": None}, "graph 1: no y, which graph 0 has"),
        ({"y": torch.tensor([float("nan")])}, "graph 1: no target (y is empty or nan)"),
        ({"y": torch.tensor([float("inf")])}, "graph 1: 'y' is inf"),
        ({"y": torch.rand(1, 2)}, "graph 1: y has 2 columns, but graph 0 has 1"),
        ({"edge_attr": torch.rand(6)}, "graph 0: no edge_attr, which graph 1 has"),
        ({"pos": torch.rand(4, 3)}, "graph 0: no pos, which graph 1 has"),
    ],
)
def test_bad_graphs_are_named(change, words):
    graphs = path_graphs(9)
    graphs[1] = Data(**{k: v for k, v in {**graphs[1].to_dict(), **change}.items() if v is not None})
    with one_line(words):
        load_own(graphs)


def test_bad_collections():
    for data, words in (
        ([], "the list is empty"),
        (None, "cannot read graphs from a NoneType"),
        ({"a": 1}, "cannot read graphs from a dict"),
        (np.zeros(3), "cannot read graphs from a ndarray"),
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


def test_every_part_can_be_overridden():
    graphs = path_graphs(30, **CLASSES)
    b = load_own(graphs, kind="regression", loss="mse", metric="rmse", name="mine", categorical=False)
    assert (b.name, b.task.kind, b.task.loss, b.task.metric, b.task.in_channels) == (
        "mine",
        "regression",
        "mse",
        "rmse",
        1,
    )
    assert b.train.x.dtype == torch.float32
    b = load_own(graphs, metric="class_accuracy", loss="weighted_cross_entropy", split="stratified")
    assert (b.task.metric, b.task.loss) == ("class_accuracy", "weighted_cross_entropy")
    assert "classification" in b.describe()
    floats = path_graphs(9)
    for g in floats:
        g.x = g.x.float()
    assert load_own(floats).task.in_channels == 1
    assert load_own(floats, categorical=True).task.categories == (3,)
    assert (load_own(floats).task.readout, load_own(floats, readout="sum").task.readout) == ("mean", "sum")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levl": "node"}, "unknown option 'levl'; choose one of: seed"),
        ({"levl": "node"}, "did you mean 'level'?"),
        ({"level": "planet"}, "task level 'planet'"),
        ({"kind": "clustering"}, "task kind"),
        ({"metric": "auc"}, "metric 'auc'"),
        ({"loss": 3}, "loss 3"),
        ({"readout": "median"}, "readout 'median'"),
        ({"metric": "accuracy"}, "regression metric 'accuracy'"),
        ({"split": "time"}, "split 'time'"),
        ({"split": "given"}, "no split of its own"),
        ({"split": "stratified"}, "one class for each graph"),
        ({"split": "scaffold"}, "SMILES"),
        ({"fractions": (1, 2)}, "fractions"),
        ({"seed": "x"}, "seed"),
        ({"target": 3}, "target must be a name"),
        ({"categorical": 1.5}, "categorical must be a name"),
        ({"categorical": "z"}, "categorical column 'z'"),
        ({"name": 3}, "name must be a text"),
    ],
)
def test_options_that_are_none(options, words):
    with one_line(words):
        load_own(path_graphs(9), **options)


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


def test_description_tells_the_whole_story():
    text = load_own(path_graphs(20), name="paths").describe()
    assert text.splitlines() == [
        "paths (PyG objects)",
        "graphs: 16 train, 2 val, 2 test",
        "nodes: 79; edges: 118",
        "task: graph regression, 1 target; loss l1; metric MAE; readout mean",
        "input: categories (3,)",
        text.splitlines()[5],
        "inferred: graph level: one row of y for each graph",
        "inferred: regression: y holds floats",
        "inferred: input: 1 categorical column of 3 values",
        "note: split: random (0.8, 0.1, 0.1) of graphs by seed 0",
    ]
    assert text.splitlines()[5].startswith("targets: standardised by train (")
