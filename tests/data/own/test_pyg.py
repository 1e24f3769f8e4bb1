"""PyG objects: one graph, lists, datasets, masks, levels and targets."""

import dataclasses

import numpy as np
import pytest
import torch
from builders import assert_equal, citation_graph, one_line, path_graph, path_graphs
from torch.utils.data import Subset
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from gnas.data.own.load import encode_graphs, load_own
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.graph import GraphSet


class Stored(InMemoryDataset):
    """A PyG dataset of given graphs."""

    def __init__(self, graphs, name="stored"):
        super().__init__()
        self.name = name
        self.data, self.slices = self.collate(graphs)


def test_datasets_subsets_and_three_parts():
    graphs = path_graphs(20)
    plain = load_own(graphs, seed=1)
    stored = load_own(Stored(graphs), seed=1)
    assert stored.name == "stored"
    assert_equal(plain.train, stored.train)
    parts = (graphs[:10], graphs[10:15], graphs[15:])
    three = load_own(parts)
    assert "split: as given" in three.encoding.reasons
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


def test_atomic_numbers_and_edge_weights_are_columns_and_other_attributes_are_named():
    graphs = path_graphs(20)
    for g in graphs:
        g.z = torch.arange(g.num_nodes) % 2 + 6
        g.edge_weight = torch.rand(g.edge_index.size(1))
        g.colour, g.smiles = torch.zeros(3), "CC"
    b = load_own(graphs)
    assert [c.name for c in b.encoding.nodes] == ["x", "z"]
    assert [c.name for c in b.encoding.edges] == ["edge_weight"]
    assert b.left_out[0].startswith("attributes colour, smiles: not read")
    plain = load_own(path_graphs(20))
    new = encode_graphs(graphs, plain.encoding, plain.task).graphs
    assert new.x.shape[1] == 1  # a network trained without z does not read it
    assert encode_graphs(graphs, b.encoding, b.task).graphs.x.shape[1] == 2
    del graphs[3].z
    with one_line("graph 3: no z, which graph 0 has"):
        load_own(graphs)


def test_a_heterogeneous_graph_that_was_merged_keeps_its_types():
    """The advice for a HeteroData, followed: types are categories, and nodes of a type without targets have none."""
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.rand(40, 2), torch.rand(15, 2)
    data["paper"].y = torch.arange(40) % 2
    for name in ("writes", "reads"):
        ends = torch.stack([torch.randint(15, (60,)), torch.randint(40, (60,))])
        data["author", name, "paper"].edge_index = ends
    merged = data.to_homogeneous()
    assert -1 in merged.y
    b = load_own(merged)
    assert [c.name for c in b.encoding.nodes] == ["x0", "x1", "node_type"]
    assert [(c.name, c.size) for c in b.encoding.edges] == [("edge_type", 2)]
    assert b.task.labels == ("0", "1")
    kind = torch.cat([torch.zeros(40), torch.ones(15)])
    hot = torch.stack([kind == 0, kind == 1], dim=1).float()
    assert torch.equal(b.train.x, torch.cat([torch.cat([data["paper"].x, data["author"].x]), hot], dim=1))
    counted = torch.stack([split.mask for split in b.splits().values()]).sum(0)
    assert counted.tolist() == [1] * 40 + [0] * 15
    assert "15 nodes without target or split: they are context and do not count" in b.notes
    signed = [g.clone() for g in path_graphs(20)]
    for i, g in enumerate(signed):
        g.y = torch.tensor([i % 2 * 2 - 1])
    assert load_own(signed, kind="classification").task.labels == ("-1", "1")  # elsewhere -1 is a class


def test_categories_that_train_lacks_keep_their_number_and_are_noted():
    def graph(kind, bond):
        edges = torch.tensor([[0, 1], [1, 0]])
        return Data(
            x=torch.tensor([[0], [kind]]), edge_index=edges, edge_attr=torch.tensor([0, bond]), y=torch.tensor([0.5])
        )

    b = load_own(([graph(4, 2)] * 8, [graph(3, 2), graph(4, 2)], [graph(4, 1)] * 2))
    assert b.task.categories == (5,)
    assert b.val.x.flatten().tolist() == [0, 3, 0, 4]
    kind = "column 'x': 3 is not in the training data and nothing is learned about it"
    bond = "column 'edge_attr': 1 is not in the training data and nothing is learned about it"
    assert f"{kind} (val graph 0, node 1)" in b.notes
    assert f"{bond} (test graph 0, edge 1, test graph 1, edge 1)" in b.notes
    new = encode_graphs([graph(4, 2), graph(3, 1)], b.encoding, b.task)
    assert new.unseen == (f"{kind} (graph 1, node 1)", f"{bond} (graph 1, edge 1)")
    assert encode_graphs([graph(4, 2)], b.encoding, b.task).unseen == ()
    with one_line("graph 0, node 1: column 'x' is 5; its categories are 0..4"):
        encode_graphs([graph(5, 2)], b.encoding, b.task)


def test_what_train_lacks_decides_neither_columns_nor_the_fingerprint(tmp_path):
    graphs = path_graphs(20)
    for g in graphs:
        g.x = 5 * (torch.arange(g.num_nodes)[:, None] % 2)
        g.x[-1] = 2
    b = load_own(graphs)
    (column,) = b.encoding.nodes
    assert column.absent == (1, 3, 4)
    older = dataclasses.replace(column, absent=())
    assert older == column
    bare = dataclasses.replace(b, encoding=dataclasses.replace(b.encoding, nodes=(older,)))
    assert bare.fingerprint == b.fingerprint
    packed = load_benchmark(save_benchmark(b, tmp_path / "b.safetensors"))
    assert packed.encoding.nodes[0].absent == (1, 3, 4)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("HeteroData", "to_homogeneous"),
        ("TemporalData", "one Data per period"),
        ("HyperGraphData", "pairs of its nodes"),
    ],
)
def test_other_kinds_of_graphs_get_one_line(kind, words):
    from torch_geometric import data
    from torch_geometric.data.hypergraph_data import HyperGraphData

    make = HyperGraphData if kind == "HyperGraphData" else getattr(data, kind)
    for thing in (make(), [make()]):
        with one_line(f"a {kind}", words):
            load_own(thing)


def test_several_targets_with_blanks_in_the_shape_of_ogb():
    draw = torch.Generator().manual_seed(1)
    graphs = [path_graph(i, 4, y=torch.rand(1, 3, generator=draw)) for i in range(20)]
    b = load_own(graphs)
    assert (b.task.level, b.encoding.targets) == ("graph", ("y0", "y1", "y2"))
