"""Splits of one's own data: by group, by a named column, stratified, in folds; from tables, SMILES, PyG and NetworkX."""

import networkx
import numpy as np
import pytest
import torch
from builders import one_line, path_graphs, write_csv

from gnas.data.own.load import load_own

SMILES = ["CCO", "CCN", "c1ccccc1", "c1ccccc1C", "C1CCCCC1", "CCCC", "CCOC", "c1ccncc1", "CC", "CCC", "CCCl", "CCBr"]


def molecules(path, **columns):
    rows = [(text, i / 4, *(values[i] for values in columns.values())) for i, text in enumerate(SMILES)]
    return write_csv(path, ("smiles", "y", *columns), rows)


def by_split(benchmark):
    return {name: sorted(split.y.reshape(-1).tolist()) for name, split in benchmark.splits().items()}


def test_no_group_of_a_csv_is_in_two_splits(tmp_path):
    site = ["a", "b", "c", "d", "e", "f"] * 2
    file = molecules(tmp_path / "m.csv", site=site)
    b = load_own(file, split="group:site", fractions=(0.6, 0.2, 0.2))
    groups = [{site[round(4 * y)] for y in values} for values in by_split(b).values()]
    assert all(groups)
    assert not (groups[0] & groups[1])
    assert not (groups[0] & groups[2])
    assert not (groups[1] & groups[2])
    assert "split: by group 'site' (0.6, 0.2, 0.2) of graphs by seed 0" in b.encoding.reasons
    with one_line("unknown column of m.csv 'sit'", "did you mean 'site'"):
        load_own(file, split="group:sit")
    with one_line("m.csv line 2: the group 'site' is empty"):
        load_own(molecules(tmp_path / "m.csv", site=["", *site[1:]]), split="group:site")


def test_a_named_column_is_the_split(tmp_path):
    part = ["train"] * 8 + ["val"] * 2 + ["test"] * 2
    b = load_own(molecules(tmp_path / "m.csv", part=part), split="column:part")
    assert by_split(b)["test"] == [2.5, 2.75]
    assert "split: as given by the column 'part'" in b.encoding.reasons


def test_groups_and_columns_of_tables(tmp_path):
    rows = [(i, i / 2, "abcdef"[i % 6], ("train", "val", "test")[i % 3]) for i in range(18)]
    write_csv(tmp_path / "graphs.csv", ("graph_id", "y", "site", "part"), rows)
    write_csv(tmp_path / "nodes.csv", ("graph_id", "node_id", "x"), [(i, k, k) for i in range(18) for k in range(2)])
    write_csv(tmp_path / "edges.csv", ("graph_id", "source", "target"), [(i, 0, 1) for i in range(18)])
    b = load_own(tmp_path, target="y", split="column:part")
    assert by_split(b)["test"] == [i / 2 for i in range(18) if i % 3 == 2]
    b = load_own(tmp_path, target="y", split="group:site")
    groups = [{int(2 * y) % 6 for y in values} for values in by_split(b).values()]
    assert sum(map(len, groups)) == 6
    with one_line("unknown column of graphs.csv 'where'"):
        load_own(tmp_path, target="y", split="group:where")


def test_groups_of_nodes_in_one_table(tmp_path):
    nodes = [(i, i % 4, i % 2, f"g{i // 3}") for i in range(30)]
    write_csv(tmp_path / "nodes.csv", ("node_id", "x", "y", "part"), nodes)
    write_csv(tmp_path / "edges.csv", ("source", "target"), [(i, i + 1) for i in range(29)])
    b = load_own(tmp_path, split="group:part")
    assert len(b.task.categories) == 1, "the group is not a feature"
    masks = torch.stack([split.mask for split in b.splits().values()])
    assert (masks.reshape(3, 10, 3).sum(2) % 3 == 0).all()


def test_groups_of_pyg_and_networkx():
    graphs = path_graphs(18)
    for i, graph in enumerate(graphs):
        graph.site, graph.part = f"s{i % 6}", ("train", "val", "test")[i % 3]
    wanted = [float(graph.y.reshape(-1)[0]) for graph in graphs]
    b = load_own(graphs, split="group:site")
    groups = [{wanted.index(y) % 6 for y in values} for values in by_split(b).values()]
    assert sum(map(len, groups)) == 6
    assert by_split(load_own(graphs, split="column:part"))["val"] == sorted(wanted[1::3])
    graphs[0].site = torch.arange(2)
    with one_line("site"):
        load_own(graphs, split="group:site")
    nx = [networkx.path_graph(3) for _ in range(12)]
    for i, graph in enumerate(nx):
        graph.graph.update(y=i / 2, site=i % 4)
    groups = [{int(2 * y) % 4 for y in values} for values in by_split(load_own(nx, split="group:site")).values()]
    assert sum(map(len, groups)) == 4


def test_regression_is_stratified_by_quantiles_and_several_targets_at_random():
    graphs = path_graphs(200, y=lambda i: torch.tensor([float(i)]))
    b = load_own(graphs, split="stratified")
    for name in ("val", "test"):
        assert np.bincount(np.array(by_split(b)[name]).astype(int) // 20, minlength=10).tolist() == [2] * 10
    several = load_own(path_graphs(30, y=lambda i: torch.tensor([[float(i), i / 2]])), split="stratified")
    assert "several targets cannot be stratified: the split is random" in several.encoding.reasons


@pytest.mark.parametrize("split", [None, "random", "stratified"])
def test_folds_test_every_graph_once(split):
    graphs = path_graphs(40, y=lambda i: torch.tensor([i % 2]))
    tested = []
    for fold in range(1, 5):
        b = load_own(graphs, split=split, folds=4, fold=fold)
        assert len(b.test) == 10
        assert 3 <= len(b.val) <= 4
        tested += b.test.rows.tolist()
        if split is None:
            assert int(b.test.y.sum()) == 5, "classes are stratified unless a rule is named"
    assert sorted(tested) == list(range(40))
    assert any("fold 4 of 4 is the test split" in note for note in b.encoding.reasons)


def test_rows_name_the_graphs_of_the_source(tmp_path):
    file = molecules(tmp_path / "m.csv")
    for split in load_own(file).splits().values():
        assert (split.y.reshape(-1) * 4).tolist() == split.rows.tolist()
    bad = write_csv(tmp_path / "b.csv", ("smiles", "y"), [("C(", 9.5), *((s, i / 4) for i, s in enumerate(SMILES))])
    for split in load_own(bad, skip_bad=True).splits().values():
        assert (split.y.reshape(-1) * 4 + 1).tolist() == split.rows.tolist()
