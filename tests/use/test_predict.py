"""Predictions: the same from every folder and batch size, in the caller's order, as a table; errors in one line."""

import csv
import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import random_graph, shake
from torch_geometric.data import Batch, Data
from trained import CLASSES, TASK, keep, network, refused

from gnas.data import load
from gnas.data.storage import save_benchmark
from gnas.model.baselines import BASELINES
from gnas.model.task import Task
from gnas.training.evaluation import evaluate
from gnas.training.store import GraphStore
from gnas.use.export import export_run
from gnas.use.predict import predict

EDGES = Task("edge", "classification", 2, in_channels=4)
TWO = Task("graph", "regression", 2, in_channels=4, center=(1.0, 2.0), scale=(3.0, 4.0))


def graphs(categories: bool = False, count: int = 7) -> list[Data]:
    """Graphs without targets; edges in no particular order, the last node of each isolated."""
    found = [random_graph(3 + k, 2 * k, seed=k) for k in range(count)]
    return [Data(x=g.categories if categories else g.x.float(), edge_index=g.edge_index) for g in found]


def given(what: Task) -> list[Data]:
    return graphs(bool(what.categories))


refusal = functools.partial(refused, predict)


# -- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [TASK, TWO, CLASSES, EDGES], ids=["graph", "two", "node", "edge"])
@pytest.mark.parametrize("exported", [False, True])
def test_predictions_are_the_networks_own(tmp_path: Path, what: Task, exported: bool) -> None:
    net, data = network(what), given(what)
    keep(tmp_path / "run", net)
    folder = tmp_path / "run"
    if exported:
        folder = export_run(folder, tmp_path / "out")
        (folder / "model.py").write_text("raise SystemExit('this must not run')")
    out = torch.cat([net(graph) for graph in data]).detach()
    wanted = net.task.prediction(out) if what.kind == "regression" else out.softmax(1)
    for size in (1, 3, 128):
        found = predict(folder, data, batch_size=size)
        np.testing.assert_allclose(found.values, wanted.numpy(), rtol=1e-5, atol=1e-6)
    if what.kind == "classification":
        assert found.labels == [(what.labels or ("0", "1"))[k] for k in out.argmax(1)]


@pytest.mark.parametrize("what", [TASK, CLASSES, EDGES], ids=["graph", "node", "edge"])
def test_padding_is_left_out(tmp_path: Path, what: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, network(what))
    wanted = predict(tmp_path, given(what), batch_size=3).values
    monkeypatch.setattr(GraphStore, "plan", functools.partialmethod(GraphStore.plan, padded=True))  # as on a GPU
    np.testing.assert_allclose(predict(tmp_path, given(what), batch_size=3).values, wanted, rtol=1e-5, atol=1e-6)


def test_rows_say_where_they_belong(tmp_path: Path) -> None:
    data = given(EDGES)
    for task, name in ((TASK, "graph"), (CLASSES, "node"), (EDGES, "edge")):
        keep(tmp_path / name, network(task))
    assert predict(tmp_path / "graph", data).index["graph"].tolist() == list(range(7))
    nodes = predict(tmp_path / "node", graphs(categories=True)).index
    assert list(zip(nodes["graph"], nodes["node"], strict=True))[:5] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    edges = predict(tmp_path / "edge", data).index
    assert np.array_equal(np.stack([edges["source"], edges["target"]]), torch.cat([g.edge_index for g in data], 1))
    assert edges["edge"].tolist() == [k for g in data for k in range(g.edge_index.size(1))]
    assert edges["graph"].tolist() == [k for k, g in enumerate(data) for _ in range(g.edge_index.size(1))]


def test_a_batch_or_a_single_graph_will_do(tmp_path: Path) -> None:
    keep(tmp_path, network())
    data = graphs()
    wanted = predict(tmp_path, data).values
    assert np.array_equal(predict(tmp_path, Batch.from_data_list(data)).values, wanted)
    np.testing.assert_allclose(predict(tmp_path, data[3]).values, wanted[3:4], rtol=1e-6)


def test_a_baseline_of_the_run_can_be_asked(tmp_path: Path) -> None:
    net = shake(BASELINES["gatedgcn"](TASK, 4, 2)).eval()
    keep(tmp_path, network())
    keep(tmp_path, net, name="gatedgcn")
    wanted = net.task.prediction(torch.cat([net(graph) for graph in graphs()])).detach().numpy()
    np.testing.assert_allclose(predict(tmp_path, graphs(), network="gatedgcn").values, wanted, rtol=1e-5, atol=1e-6)


def test_targets_play_no_part(tmp_path: Path) -> None:
    keep(tmp_path, network(CLASSES))
    bare, odd = graphs(categories=True), graphs(categories=True)
    for graph in odd:
        graph.y = torch.full((3, 2), 99)
    assert np.array_equal(predict(tmp_path, odd).values, predict(tmp_path, bare).values)
    assert int(odd[0].y[0, 0]) == 99


def test_a_class_never_seen_in_a_file_plays_no_part(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    lines = ["smiles,kind", *(f"{'C' * k}{end},{kind}" for k in range(1, 8) for end, kind in (("O", "a"), ("N", "b")))]
    file = tmp_path / "molecules.csv"
    file.write_text("\n".join(lines) + "\n")
    benchmark = load(file)
    keep(tmp_path, network(benchmark.task), encoding=benchmark.encoding)
    wanted = predict(tmp_path, file).values
    file.write_text(file.read_text().replace(",a", ",new"))
    assert np.array_equal(predict(tmp_path, file).values, wanted)


# -- tables ---------------------------------------------------------------------------------------------------------


def test_classes_as_a_table(tmp_path: Path) -> None:
    keep(tmp_path, network(CLASSES))
    found = predict(tmp_path, graphs(categories=True), tmp_path / "new" / "p.csv")
    with open(tmp_path / "new" / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["graph", "node", "prediction", "p_low", "p_mid", "p_high"]
    assert len(rows) == len(found) == sum(3 + k for k in range(7))
    assert [row["prediction"] for row in rows] == found.labels
    read = np.array([[float(row[f"p_{name}"]) for name in CLASSES.labels] for row in rows])
    np.testing.assert_allclose(read, found.values, rtol=1e-6)
    np.testing.assert_allclose(read.sum(1), 1, atol=1e-5)


def test_classes_that_look_like_formulas(tmp_path: Path) -> None:
    keep(tmp_path, network(dataclasses.replace(CLASSES, labels=("=cmd()", "-1", "@a"))))
    found = predict(tmp_path, graphs(categories=True), tmp_path / "p.csv")
    with open(tmp_path / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    written = {"=cmd()": "'=cmd()", "-1": "-1", "@a": "'@a"}
    assert [row["prediction"] for row in rows] == [written[label] for label in found.labels]
    assert list(rows[0])[3:] == ["p_=cmd()", "p_-1", "p_@a"]


@pytest.mark.parametrize(("task", "columns"), [(TASK, "graph,prediction"), (TWO, "graph,prediction_0,prediction_1")])
def test_values_as_a_table(tmp_path: Path, task: Task, columns: str) -> None:
    keep(tmp_path, network(task))
    text = predict(tmp_path, graphs()).to_csv()
    assert text.splitlines()[0] == columns
    assert len(text.splitlines()) == 8


def test_a_file_is_only_replaced_with_force(tmp_path: Path) -> None:
    keep(tmp_path, network())
    file = tmp_path / "p.csv"
    file.write_text("mine")
    assert "exists; use force" in refusal(tmp_path, graphs(), file)
    assert "is a folder; name a file" in refusal(tmp_path, graphs(), tmp_path, force=True)
    assert file.read_text() == "mine"
    predict(tmp_path, graphs(), file, force=True)
    assert file.read_text().startswith("graph,prediction\n0,")


# -- forms of data --------------------------------------------------------------------------------------------------


def test_of_a_benchmark_the_test_split_is_predicted(tmp_path: Path) -> None:
    benchmark = load("molecules-mini")
    net = network(benchmark.task)
    keep(tmp_path, net)
    found = predict(tmp_path, "molecules-mini")
    assert len(found) == len(benchmark.test)
    error = np.abs(found.values[:, 0] - benchmark.test.y.numpy().reshape(-1)).mean()
    assert error == pytest.approx(evaluate(net, benchmark.test)["metric"], rel=1e-5)
    save_benchmark(benchmark, tmp_path / "mini.safetensors")
    for same in (benchmark, benchmark.test, tmp_path / "mini.safetensors", str(tmp_path / "mini.safetensors")):
        assert np.array_equal(predict(tmp_path, same).values, found.values)
    assert "digits: kind is 'classification'" in refusal(tmp_path, "digits")


def test_within_one_graph_only_the_rows_of_the_test_split_are_predicted(tmp_path: Path) -> None:
    one = random_graph(30, 80, seed=5)
    data = Data(x=one.x.float(), edge_index=one.edge_index, y=torch.arange(30) % 2)
    benchmark = load(data)
    keep(tmp_path, network(benchmark.task), encoding=benchmark.encoding)
    found = predict(tmp_path, benchmark)
    assert found.index["node"].tolist() == benchmark.test.mask.nonzero().flatten().tolist()
    assert found.names == ("0", "1")
    assert len(predict(tmp_path, data)) == 30


def test_molecules_as_they_were_given(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    texts = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "OCCO", "CCC", "CNC", "c1ccncc1", "CO", "CCCl"]
    file = tmp_path / "molecules.csv"
    file.write_text("smiles,mass\n" + "".join(f"{text},{1.5 * len(text)}\n" for text in texts))
    benchmark = load(file)
    net = network(benchmark.task)
    keep(tmp_path, net, encoding=benchmark.encoding)
    found = predict(export_run(tmp_path, tmp_path / "out"), file)
    (tmp_path / "new.csv").write_text("smiles\nCCO\nCO\n")
    np.testing.assert_allclose(predict(tmp_path, tmp_path / "new.csv").values, found.values[[0, 8]], rtol=1e-5)
    np.testing.assert_allclose(predict(tmp_path, ["CCO", "CO"]).values, found.values[[0, 8]], rtol=1e-5)
    with pytest.warns(UserWarning, match="'Br' is not in the training data.*guesses") as warned:
        unseen = predict(tmp_path, ["CCO", "CBr"])
    assert len(warned) == 1
    np.testing.assert_allclose(unseen.values[0], found.values[0], rtol=1e-5)
    assert unseen.notes == ("column 'element': 'Br' is not in the training data and is read as 'other' (SMILES 1)",)


def test_molecules_that_cannot_be_read_are_left_out_if_asked(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    file = tmp_path / "molecules.csv"
    texts = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "OCCO", "CCC", "CNC", "c1ccncc1", "CO", "CN"]
    file.write_text("smiles,mass\n" + "".join(f"{text},{1.5 * len(text)}\n" for text in texts))
    benchmark = load(file, atoms="tokens")  # as gnas 0.1 read them: without a category for what was never seen
    keep(tmp_path, network(benchmark.task), encoding=benchmark.encoding)
    readable = predict(tmp_path, ["CCO", "CO"])
    dirty = ["C1CC", "CCO", "CBr", "CO", "C#N"]  # no ring end, an atom and a bond never seen
    for given in (dirty, tmp_path / "new.csv"):
        (tmp_path / "new.csv").write_text("smiles\n" + "\n".join(dirty) + "\n")
        found = predict(tmp_path, given, skip_bad=True)
        np.testing.assert_allclose(found.values, readable.values, rtol=1e-5)
        assert [row[:2] for row in found.rows()] == [(1, "CCO"), (3, "CO")]  # counted as they were given
        assert found.columns == ("graph", "smiles", "prediction")
        first, second = found.notes
        assert "1 row skipped, their SMILES do not parse" in first
        assert "2 rows skipped, their atoms or bonds are not in the training data" in second
        assert "skip_bad" in refusal(tmp_path, given)
    assert "skip_bad leaves such molecules out" in refusal(tmp_path, ["CBr"])
    assert "no molecule is left of 1 row" in refusal(tmp_path, ["CBr"], skip_bad=True)
    assert "skip_bad leaves out SMILES" in refusal(tmp_path, benchmark, skip_bad=True)
    keep(tmp_path / "floats", network())
    assert "these graphs are not SMILES" in refusal(tmp_path / "floats", graphs(), skip_bad=True)


def test_tables_as_they_were_given(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "graphs.csv").write_text("graph_id,y\n" + "".join(f"g{k},{k * 0.5}\n" for k in range(10)))
    (folder / "nodes.csv").write_text(
        "graph_id,node_id,colour\n"
        + "".join(f"g{k},{n},{'red' if n % 2 else 'blue'}\n" for k in range(10) for n in range(4))
    )
    (folder / "edges.csv").write_text("graph_id,source,target\n" + "".join(f"g{k},0,{1 + k % 3}\n" for k in range(10)))
    benchmark = load(folder)
    keep(tmp_path, network(benchmark.task), encoding=benchmark.encoding)
    found = predict(tmp_path, str(folder))
    assert len(found) == 10
    (folder / "nodes.csv").write_text((folder / "nodes.csv").read_text().replace("red", "green", 1))
    (note,) = predict(tmp_path, folder).notes
    assert note == "column 'colour': 'green' is not in the training data and is read as 'other' (nodes.csv line 3)"


# -- what is refused ------------------------------------------------------------------------------------------------


def test_wrong_input_is_named(tmp_path: Path) -> None:
    keep(tmp_path / "floats", network())
    keep(tmp_path / "classes", network(CLASSES))
    wide = [Data(x=torch.zeros(3, 5), edge_index=torch.zeros(2, 0, dtype=torch.long))]
    assert "x has 5 columns; this network reads 4" in refusal(tmp_path / "floats", wide)
    unseen = graphs(categories=True)
    unseen[2].x[1, 1] = 3
    assert "graph 2, node 1: column 'x1' is 3; its categories are 0..2" in refusal(tmp_path / "classes", unseen)
    assert "neither a benchmark nor an existing path" in refusal(tmp_path / "floats", "zincc")
    assert "neither a benchmark nor an existing path" in refusal(tmp_path / "floats", "x" * 5000)
    assert "neither a file nor a folder" in refusal(tmp_path / "floats", tmp_path / "nothing.csv")
    assert "the list is empty" in refusal(tmp_path / "floats", [])
    assert "cannot read graphs from an object of type int" in refusal(tmp_path / "floats", 3)
    assert "finite" in refusal(
        tmp_path / "floats", [Data(x=torch.full((1, 4), torch.nan), edge_index=wide[0].edge_index)]
    )


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    keep(tmp_path, network())
    assert "no trained network and no exported model" in refusal(tmp_path / "trained", graphs())
    assert "no such folder" in refusal(tmp_path / "nowhere", graphs())
    assert "did you mean 'gnas'" in refusal(tmp_path, graphs(), network="gnaz")
    assert "batch_size is 0" in refusal(tmp_path, graphs(), batch_size=0)
    assert "device 'gpu'" in refusal(tmp_path, graphs(), device="gpu")
    if not torch.cuda.is_available():
        assert "torch sees no GPU" in refusal(tmp_path, graphs(), device="cuda")


def test_a_benchmark_of_another_encoding_is_refused(tmp_path: Path) -> None:
    made = [
        Data(x=torch.tensor([[0], [k % 2]]), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([float(k)]))
        for k in range(10)
    ]
    benchmark = load(made)
    assert benchmark.encoding is not None
    keep(tmp_path, network(benchmark.task), encoding=benchmark.encoding)
    assert len(predict(tmp_path, benchmark)) == 1
    column = dataclasses.replace(benchmark.encoding.nodes[0], kind="vocabulary", values=(7, 9))
    other = dataclasses.replace(benchmark, encoding=dataclasses.replace(benchmark.encoding, nodes=(column,)))
    assert "column 'x' is not encoded as in the training data" in refusal(tmp_path, other)
