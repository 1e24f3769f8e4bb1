"""Link prediction: pairs from edges, from RandomLinkSplit and from pairs.csv; negative pairs; no leak of val and test."""

from __future__ import annotations

import dataclasses
import types
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from terminal import TINY
from terminal import gnas as command
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import RandomLinkSplit

import gnas
from gnas.data.storage import load_benchmark, save_benchmark
from gnas.errors import InputError
from gnas.graph import GraphBatch, GraphSet
from gnas.model import baselines
from gnas.model.export_code import write_module
from gnas.model.metrics import METRICS, compute_metric
from gnas.run.protocol import TrainConfig
from gnas.training.sampling import open_store
from gnas.training.train import train
from gnas.use.export import collect_weights, export_run
from gnas.use.predict import predict


def draw_graph(nodes: int = 90, classes: int = 3, seed: int = 0) -> Data:
    """A stochastic block model whose nodes have noisy class features; no class is told."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % classes
    chance = torch.where(y[:, None] == y, 0.25, 0.01)
    upper = torch.triu(torch.rand(nodes, nodes, generator=random) < chance, 1)
    x = torch.nn.functional.one_hot(y, classes) + torch.randn(nodes, classes, generator=random)
    return Data(x=x, edge_index=(upper | upper.T).nonzero().T)


def pairs_of(graphs: GraphSet, positive: bool) -> set[tuple[int, ...]]:
    """Pairs as (graph, smaller end, larger end)."""
    assert graphs.pairs is not None
    graph = torch.repeat_interleave(torch.arange(len(graphs)), graphs.pair_counts)
    rows = (graphs.y.reshape(-1) > 0.5) == positive
    ends = graphs.pairs.long().sort(0).values
    return set(map(tuple, torch.stack([graph, *ends])[:, rows].T.tolist()))


def edges_of(graphs: GraphSet) -> set[tuple[int, ...]]:
    graph = torch.repeat_interleave(torch.arange(len(graphs)), graphs.edge_counts)
    return set(map(tuple, torch.stack([graph, *graphs.edge_index.long().sort(0).values]).T.tolist()))


def all_edges(graphs: list[Data]) -> set[tuple[int, ...]]:
    return {(g, *sorted(edge)) for g, graph in enumerate(graphs) for edge in graph.edge_index.T.tolist()}


@pytest.mark.parametrize("count", [1, 5])
def test_messages_never_run_over_edges_of_val_and_test(count: int) -> None:
    graphs = [draw_graph(40, seed=seed) for seed in range(count)]
    benchmark = gnas.load(graphs if count > 1 else graphs[0], level="link")
    positive = {name: pairs_of(split, True) for name, split in benchmark.splits().items()}
    every = all_edges(graphs)
    assert set.union(*positive.values()) == every
    assert sum(map(len, positive.values())) == len(every)
    for split in benchmark.splits().values():
        assert edges_of(split) == positive["train"]
    sizes = [len(positive[name]) / len(every) for name in ("train", "val", "test")]
    assert sizes == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    for split in benchmark.splits().values():
        negative = pairs_of(split, False)
        assert not negative & every
        assert all(first != second for _, first, second in negative)
        assert len(negative) == int((split.y == 0).sum()) == int((split.y == 1).sum())
    assert benchmark.task.undirected
    assert benchmark.task.metric == "roc_auc"


def test_the_seed_decides_the_pairs() -> None:
    one, same, other = (gnas.load(draw_graph(), level="link", seed=seed) for seed in (1, 1, 2))
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_every_pass_of_a_training_draws_other_negative_pairs() -> None:
    graphs = [draw_graph(30, seed=seed) for seed in range(3)]
    benchmark = gnas.load(graphs, level="link")
    store, every = open_store(benchmark.train), all_edges(graphs)
    stored = pairs_of(benchmark.train, False)
    seen = []
    for padded in (False, True):
        generator = torch.Generator().manual_seed(0)
        (planned,) = store.plan(3, generator, padded=padded)
        order = torch.randperm(3, generator=torch.Generator().manual_seed(0))
        batch = store.batch(planned.ids, planned.capacity)
        assert batch.pairs is not None
        assert batch.y is not None
        assert batch.target_mask is not None
        assert int(batch.target_mask.sum()) == benchmark.train.num_targets
        graph = batch.batch[batch.pairs[0]].long()
        start = batch.members.ptr.long()[graph.clamp_max(2)]
        found = torch.stack([order[graph.clamp_max(2)], *(batch.pairs - start).sort(0).values])
        real, label = batch.target_mask, batch.y.reshape(-1) > 0.5
        positive = set(map(tuple, found[:, real & label].T.tolist()))
        negative = set(map(tuple, found[:, real & ~label].T.tolist()))
        assert positive == pairs_of(benchmark.train, True)
        assert not negative & positive
        assert all(first != second for _, first, second in negative)
        assert len(negative & stored) < len(negative) / 3
        assert len(negative & (every - positive)) < len(negative) / 10  # edges of val and test are not known
        seen.append(negative)
    assert seen[0] == seen[1]  # padding changes nothing
    (again,) = store.plan(3)
    kept = store.batch(again.ids, again.capacity)
    torch.testing.assert_close(kept.y, benchmark.train.y)
    assert kept.pairs is not None
    shift = torch.repeat_interleave(benchmark.train.node_ptr[:-1], benchmark.train.pair_counts)
    assert torch.equal(kept.pairs, benchmark.train.pairs.long() + shift)  # type: ignore[union-attr]


def test_drawn_pairs_are_spread_over_all_nodes() -> None:
    benchmark = gnas.load(draw_graph(60), level="link")
    store, counts = open_store(benchmark.train), torch.zeros(60)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        (planned,) = store.plan(1, generator)
        batch = store.batch(planned.ids, planned.capacity)
        assert batch.pairs is not None
        assert batch.y is not None
        counts += torch.bincount(batch.pairs[:, batch.y.reshape(-1) == 0].reshape(-1), minlength=60)
    free = 59 - torch.bincount(benchmark.train.edge_index[1].long(), minlength=60)  # nodes that are not neighbours
    expected = counts.sum() * free / free.sum()
    assert ((counts - expected).square() / expected).sum() < 110  # chi-square of 59 degrees of freedom: p is 0.0001


@pytest.mark.parametrize("negatives", [True, False])
def test_random_link_split_is_read_as_it_is(negatives: bool) -> None:
    torch.manual_seed(0)
    parts = RandomLinkSplit(is_undirected=True, add_negative_train_samples=negatives)(draw_graph())
    benchmark = gnas.load(parts)
    assert benchmark.task.level == "link"
    assert benchmark.train.draw_negatives != negatives
    for part, split in zip(parts, benchmark.splits().values(), strict=True):
        assert edges_of(split) == all_edges([part])
        if negatives or split is not benchmark.train:
            assert split.pairs is not None
            assert torch.equal(split.pairs.long(), part.edge_label_index)
            assert torch.equal(split.y.reshape(-1), part.edge_label)
    counts = ", ".join(f"{split.num_targets:,} {name}" for name, split in benchmark.splits().items())
    assert f"pairs in 3 graphs: {counts}" in str(benchmark)


def test_split_labels_of_random_link_split_are_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match="without split_labels=True"):
        gnas.load(RandomLinkSplit(is_undirected=True, split_labels=True)(draw_graph()))


def test_pairs_of_a_folder_keep_their_labels_and_leave_the_messages(tmp_path: Path) -> None:
    write_folder(tmp_path, draw_graph(30))
    graph = draw_graph(30)
    edges = [tuple(e) for e in graph.edge_index.T.tolist() if e[0] < e[1]]
    lines = [f"n{a},n{b},1,{('train', 'val', 'test')[k % 3]}" for k, (a, b) in enumerate(edges[:30])]
    free = [(a, b) for a in range(30) for b in range(a) if (b, a) not in set(edges)][:30]
    lines += [f"n{a},n{b},0,{('train', 'val', 'test')[k % 3]}" for k, (a, b) in enumerate(free)]
    (tmp_path / "pairs.csv").write_text("source,target,y,split\n" + "\n".join(lines) + "\n")
    benchmark = gnas.load(str(tmp_path), level="link")
    assert not benchmark.train.draw_negatives
    for number, split in enumerate(benchmark.splits().values()):
        assert pairs_of(split, True) == {(0, *edge) for edge in edges[:30][number::3]}
        held_out = {(0, *edge) for k, edge in enumerate(edges[:30]) if k % 3}
        assert edges_of(split) == {(0, *edge) for edge in edges} - held_out
    assert any("left out of the messages" in note for note in benchmark.notes)


def test_bad_tables_of_pairs_are_one_line(tmp_path: Path) -> None:
    write_folder(tmp_path, draw_graph(30))
    with pytest.raises(InputError, match="level=link predicts which nodes are joined"):
        gnas.load(str(tmp_path))
    for rows, words in {
        "source,target,y\nn0,n1,1\nn0,n2,maybe\n": "pairs.csv line 3: column 'y' holds 'maybe'",
        "source,target,y\nn0,n1,1\nn0,n2,\n": "pairs.csv line 3: column 'y' is empty",
        "source,target,y\nn0,n1,1\nn0,n2,2\n": "pairs.csv line 3: the label of a pair is neither 1",
        "source,target,y\nn0,n99,1\n": "pairs.csv line 2: target 'n99' is not a node",
        "source,y\nn0,1\n": "no column 'target'",
        "source,target\nn0,n1\n": "pairs have no labels",
        "source,target,y\n": "holds no pairs",
    }.items():
        (tmp_path / "pairs.csv").write_text(rows)
        with pytest.raises(InputError, match=words):
            gnas.load(str(tmp_path), level="link")


def write_folder(folder: Path, graph: Data, split: bool = False) -> None:
    rows = [f"n{i},{','.join(f'{v:.4f}' for v in row)}" for i, row in enumerate(graph.x.tolist())]
    (folder / "nodes.csv").write_text("node_id,a,b,c\n" + "\n".join(rows) + "\n")
    ends = [
        f"n{a},n{b}" + (f",{('train', 'val', 'test')[(a + b) % 3]}" if split else "")
        for a, b in graph.edge_index.T.tolist()
    ]
    (folder / "edges.csv").write_text("source,target" + ",split" * split + "\n" + "\n".join(ends) + "\n")


def test_a_split_column_of_edges_is_used(tmp_path: Path) -> None:
    write_folder(tmp_path, draw_graph(30), split=True)
    benchmark = gnas.load(str(tmp_path), level="link")
    for code, split in enumerate(benchmark.splits().values()):
        assert {(a + b) % 3 for _, a, b in pairs_of(split, True)} == {code}


def test_networkx_graphs_and_directed_edges() -> None:
    assert gnas.load([nx.karate_club_graph()], level="link", edges="none").task.undirected
    graph = nx.gnp_random_graph(40, 0.2, seed=1, directed=True)
    benchmark = gnas.load([graph], level="link")
    assert not benchmark.task.undirected
    pairs = benchmark.test.pairs
    assert pairs is not None
    ends = {tuple(pair) for pair in pairs[:, benchmark.test.y.reshape(-1) == 1].T.tolist()}
    assert ends <= set(graph.edges)
    assert not ends & {tuple(edge) for edge in benchmark.train.edge_index.T.tolist()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "regression"}, "leave out the data options kind"),
        ({"target": "y"}, "leave out the data options kind"),
        ({"split": "stratified"}, "cannot be split by stratified"),
        ({"metric": "hits@100"}, "hits@100 is not defined on the val split"),
        ({"metric": "mae"}, "link metric"),
        ({"sample_neighbors": "5,5"}, "needs targets of nodes"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        gnas.load(draw_graph(30), level="link", **options)
    assert "\n" not in str(error.value)


def test_bad_pairs_are_one_line() -> None:
    graph = draw_graph(30)
    graph.edge_label_index, graph.edge_label = torch.tensor([[0, 1], [2, 30]]), torch.tensor([0.0, 1.0])
    with pytest.raises(InputError, match="graph 0, pair 1: target 30 is not a node; the graph has 30 nodes"):
        gnas.load(graph)
    graph.edge_label_index = torch.tensor([[0, 1], [2, 3]])
    graph.edge_label = torch.tensor([0.0, 2.0])
    with pytest.raises(InputError, match="neither 1"):
        gnas.load(graph)
    graph.edge_label_index, graph.edge_label = torch.empty(2, 0).long(), torch.empty(0)
    with pytest.raises(InputError, match="holds no pairs"):
        gnas.load(graph)
    full = Data(x=torch.ones(6, 1), edge_index=torch.ones(6, 6).triu(1).add(torch.ones(6, 6).tril(-1)).nonzero().T)
    with pytest.raises(
        InputError, match="hits@50 is not defined on the val split, which has fewer than 50 negative pairs"
    ):
        gnas.load(draw_graph(30), level="link", metric="hits@50")
    with pytest.raises(InputError, match="no negative pairs"):
        gnas.load(full, level="link")


def test_a_packed_file_keeps_pairs_and_refuses_wrong_ones(tmp_path: Path) -> None:
    benchmark = gnas.load(draw_graph(30), level="link")
    file = save_benchmark(benchmark, tmp_path / "links.safetensors")
    again = load_benchmark(file)
    assert again.fingerprint == benchmark.fingerprint
    assert again.train.draw_negatives
    assert not again.val.draw_negatives
    wrong = dataclasses.replace(benchmark.test, pairs=benchmark.test.pairs + 30)  # type: ignore[operator]
    with pytest.raises(InputError, match="a node that does not exist"):
        load_benchmark(save_benchmark(dataclasses.replace(benchmark, test=wrong), tmp_path / "wrong.safetensors"))


# -- metrics and networks ------------------------------------------------------------------------------------------


def test_metrics_agree_with_scikit_learn_and_a_plain_count() -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 500).astype(float)
    values = np.round(random.random(500) + 0.2 * y, 2)  # with ties
    found = {name: compute_metric(name, torch.tensor(values), torch.tensor(y)).value for name in METRICS["link"]}
    assert found["roc_auc"] == pytest.approx(roc_auc_score(y, values))
    assert found["average_precision"] == pytest.approx(average_precision_score(y, values))
    negative = sorted(values[y == 0], reverse=True)
    for k in (10, 50, 100):
        assert found[f"hits@{k}"] == pytest.approx(np.mean([v > negative[k - 1] for v in values[y == 1]]))
    few = compute_metric("hits@50", torch.rand(40), torch.tensor([0.0, 1.0] * 20))
    assert few.value is None


@pytest.mark.parametrize("name", ["gcn", "gin", "gatedgcn", "gcn+"])
@pytest.mark.parametrize("directed", [False, True])
def test_scores_do_not_depend_on_the_order_of_a_pair_in_undirected_graphs(name: str, directed: bool) -> None:
    task = gnas.load(draw_graph(30), level="link").task
    task = dataclasses.replace(task, undirected=not directed)
    torch.manual_seed(0)
    model = baselines.build_baseline(name, task, num_layers=2, channels=8).eval()
    graph = draw_graph(30)
    graph.edge_label_index = torch.tensor([[0, 3, 5], [7, 9, 1]])
    with torch.no_grad():
        out = model(graph)
        graph.edge_label_index = graph.edge_label_index.flip(0)
        assert torch.allclose(out, model(graph), atol=1e-6) != directed
    assert out.shape == (3, 1)
    with pytest.raises(InputError, match="edge_label_index"):
        model(GraphBatch.from_edges(graph.x, graph.edge_index))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_exported_network_scores_the_same_pairs(directed: bool, weighted: bool) -> None:
    graphs = [draw_graph(20, seed=seed) for seed in (1, 2)]
    for graph in graphs:
        graph.edge_attr = torch.rand(graph.num_edges, 1) if weighted else None
    task = gnas.load(graphs, level="link", encodings="walks:3").task
    for graph in graphs:
        graph.edge_label_index = torch.tensor([[0, 3, 5], [7, 9, 1]])
    torch.manual_seed(0)
    net = baselines.build_baseline(
        "gatedgcn+", dataclasses.replace(task, undirected=not directed), num_layers=2, channels=8
    )
    batch = Batch.from_data_list(graphs)
    module = types.ModuleType("model")
    module.__file__ = "model.py"
    exec(compile(write_module(net, "links"), "model.py", "exec"), module.__dict__)
    model = module.Model().eval()
    model.load_state_dict(collect_weights(net))
    given = (batch.edge_attr,) if weighted else ()
    out = model(batch.x, batch.edge_index, batch.edge_label_index, *given, batch.batch)
    assert out.shape == (6, 1)
    torch.testing.assert_close(out, net.eval()(batch))


def test_a_network_beats_chance_clearly() -> None:
    benchmark = gnas.load(draw_graph(), level="link")
    config = TrainConfig(epochs=15, batch_size=1, lr=0.01, epoch_steps=5, patience=10)
    result = train(
        lambda: baselines.build_baseline("gcn", benchmark.task, num_layers=2, channels=16), benchmark, config, seed=0
    )
    assert result.test > 0.75  # two of three pairs of nodes differ in class; edges mostly join equal ones
    assert set(result.metrics["test"]) == set(METRICS["link"])


# -- from the command line -----------------------------------------------------------------------------------------


def test_search_predict_and_evaluate_a_folder(tmp_path: Path) -> None:
    folder, run = tmp_path / "graph", tmp_path / "run"
    folder.mkdir()
    write_folder(folder, draw_graph(40))
    ended = command("search", folder, "--data", "level=link", "--out", run, *TINY)
    assert ended.code == 0
    assert "gnas export" in ended.out + ended.err
    with pytest.raises(InputError, match="none are given"):
        predict(run, folder)
    pairs = [(a, b) for a in range(8) for b in range(a)]
    (folder / "pairs.csv").write_text(
        "source,target,y\n" + "".join(f"n{a},n{b},{(a - b) % 3 == 0:d}\n" for a, b in pairs)
    )
    found = predict(run, folder)
    assert found.columns == ("graph", "source", "target", "p_link")
    assert list(zip(found.index["source"], found.index["target"], strict=True)) == pairs
    again = predict(export_run(run, tmp_path / "exported", network="gnas"), folder)
    np.testing.assert_allclose(again.values, predict(run, folder, network="gnas").values, rtol=1e-4, atol=1e-6)
    (reason,) = gnas.explain(run, folder, rows=3, network="gnas")
    assert (reason.place["source"], reason.place["target"]) == pairs[3]
    assert abs(reason.gap) < 0.05 * (1 + abs(reason.value - reason.baseline))
    result = gnas.evaluate(str(run), folder)
    labels = [(a - b) % 3 == 0 for a, b in pairs]
    lines = (folder / "edges.csv").read_text().splitlines()
    links = {f"n{x},n{y}" for (a, b), label in zip(pairs, labels, strict=True) for x, y in ((a, b), (b, a)) if label}
    assert links & set(lines)
    assert any(note.endswith("left out of the messages: they are pairs to predict") for note in result.notes)
    (folder / "edges.csv").write_text("\n".join(line for line in lines if line not in links) + "\n")
    hidden = predict(run, folder)  # an evaluation must not see the links that it asks for
    assert result.metrics["roc_auc"] == pytest.approx(roc_auc_score(labels, hidden.values[:, 0]))
    assert result.metrics["hits@50"] is None  # fewer negative pairs
    split = (run / "split.csv").read_text().splitlines()
    assert split[0] == "graph,source,target,split"


def test_the_estimator_scores_pairs() -> None:
    graph = draw_graph(40)
    model = gnas.GNAS(task="link", search_epochs=1, epochs=2).fit(graph)
    edges = set(map(tuple, graph.edge_index.t().tolist()))
    others = [(0, node) for node in range(1, 40) if (0, node) not in edges][
        :3
    ]  # a score removes edges that it asks for
    graph.edge_label_index, graph.edge_label = torch.tensor(others).t(), torch.tensor([1.0, 0.0, 0.0])
    assert model.predict(graph).shape == (3,)
    assert model.predict_proba(graph).shape == (3, 1)
    assert model.score(graph) == pytest.approx(np.mean(model.predict(graph) == [1, 0, 0]))
