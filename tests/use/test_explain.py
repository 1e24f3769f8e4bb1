"""Explanations: scores agree with a plain integral in float64, add up, and are drawn for every kind of data."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import obvious
import pytest
import torch
from samples import random_graph, shake
from torch_geometric.data import Data
from trained import CLASSES, TASK, keep, network, refused

from gnas.data import load
from gnas.graph import GraphSet
from gnas.model.baselines import BASELINES
from gnas.model.task import Task
from gnas.report.graphs import draw_explanation, save_explanations
from gnas.use.explain import explain
from gnas.use.predict import predict

EDGES = Task("edge", "classification", 2, in_channels=4)
LABELS = Task("graph", "multilabel", 2, in_channels=4, labels=("sour", "sweet"))
BONDS = Task("graph", "regression", 1, in_channels=4, edge_channels=2)
MOLECULES = Path(__file__).parents[2] / "examples" / "molecules.csv"


def graphs(what: Task, count: int = 4) -> list[Data]:
    found = [random_graph(5 + k, 9 + k, seed=k) for k in range(count)]
    made = [Data(x=g.categories if what.categories else g.x.float(), edge_index=g.edge_index) for g in found]
    for k, graph in enumerate(made if what.edge_channels else []):
        graph.edge_attr = torch.randn(graph.edge_index.size(1), 2, generator=torch.Generator().manual_seed(k))
    return made


def plain_integral(model: torch.nn.Module, graph: Data, row: int, output: int, monkeypatch) -> np.ndarray:
    """Scores of nodes by the midpoint rule on a dense network in float64 that shares no code with the package."""
    model = model.double()
    whole = obvious.encoded(model, graph.x.double() if graph.x.is_floating_point() else graph.x).detach()
    batch, total, steps = torch.zeros(len(graph.x), dtype=torch.long), torch.zeros_like(whole), 500
    for k in range(steps):
        h = (whole * ((k + 0.5) / steps)).requires_grad_()
        monkeypatch.setattr(obvious, "encoded", lambda model, x, h=h: h)
        out = obvious.network(model, graph.x, graph.edge_index, batch)[row]
        if model.task.kind == "regression":
            value = out[output] * model.task.scale[output] + model.task.center[output]
        elif model.task.kind == "multilabel":
            value = out[output]
        else:
            chance = out.softmax(0)[output]
            value = torch.log(chance / (1 - chance))
        total += torch.autograd.grad(value, h)[0]
    monkeypatch.undo()
    return (whole * total / steps).sum(1).numpy()


@pytest.mark.parametrize("what", [TASK, CLASSES, EDGES, LABELS], ids=["graph", "node", "edge", "labels"])
def test_scores_are_a_plain_integral(tmp_path: Path, what: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    net, data = network(what), graphs(what)
    keep(tmp_path, net)
    predicted = predict(tmp_path, data)
    row = {"graph": 2, "node": 5 + 6 + 3, "edge": 9 + 10 + 4}[what.level]
    (found,) = explain(tmp_path, data, row)
    inside = {"graph": 0, "node": 3, "edge": 4}[what.level]
    output = predicted.names.index(found.output)
    wanted = plain_integral(network(what), data[2], inside, output, monkeypatch)
    scale = np.abs(wanted).sum()
    np.testing.assert_allclose(found.nodes, wanted, atol=0.01 * scale)
    assert abs(found.gap) < 0.01 * scale
    assert abs(found.nodes.sum() - (found.value - found.baseline)) < 0.01 * scale
    value = predicted.values[row, output]
    likely = found.value if what.kind == "regression" else 1 / (1 + np.exp(-found.value))
    np.testing.assert_allclose(likely, value, rtol=1e-4)
    assert {name: column[row] for name, column in predicted.index.items() if name != "edge"} == found.place


@pytest.mark.parametrize("name", ["gatedgcn", "gin", "gat"])
def test_edges_and_hand_made_networks(tmp_path: Path, name: str) -> None:
    data = graphs(BONDS)
    keep(tmp_path, shake(BASELINES[name](BONDS, 6, 2)).eval(), name=name)
    for one in explain(tmp_path, data, [0, 3]):
        size = np.abs(one.nodes).sum()
        assert abs(one.gap) < 0.01 * size
        assert (one.edges is not None) == (name == "gatedgcn")
        if one.edges is not None:
            assert one.edges.shape == (data[one.row].edge_index.size(1),)
            assert np.abs(one.edges).max() > 0
            assert abs(one.nodes.sum() - (one.value - one.baseline)) > abs(one.gap)  # edges are part of the sum


def test_another_output_has_other_scores(tmp_path: Path) -> None:
    keep(tmp_path, network(CLASSES))
    data = graphs(CLASSES)
    low, high = (explain(tmp_path, data, 0, output=name)[0] for name in ("low", "high"))
    assert low.unit == "log-odds of low"
    assert not np.allclose(low.nodes, high.nodes)


def test_features_of_whole_graphs_have_scores(tmp_path: Path) -> None:
    task = Task("graph", "regression", 1, in_channels=4, graph_channels=2)
    plain = graphs(task)
    for graph in plain:
        graph.y = torch.zeros(1)
    data = replace(GraphSet.from_data(plain), graph_attr=torch.tensor([[1.0, -1.0]] * len(plain)))
    keep(tmp_path, network(task))
    (one,) = explain(tmp_path, data, 1)
    assert one.features is not None
    assert one.features.shape == (2,)
    assert abs(one.gap) < 0.01 * np.abs(one.nodes).sum()


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["svg", "png", "html", "csv"])
def test_files(tmp_path: Path, ending: str) -> None:
    keep(tmp_path / "run", network(CLASSES))
    found = explain(tmp_path / "run", graphs(CLASSES), [0, 7])
    files = save_explanations(found, tmp_path / f"out.{ending}")
    assert all(file.stat().st_size > 100 for file in files)
    assert [file.name for file in files] == (
        [f"out-row0.{ending}", f"out-row7.{ending}"] if ending in ("svg", "png") else [f"out.{ending}"]
    )
    if ending == "csv":
        rows = list(csv.DictReader(files[0].open()))
        scores = [float(row["score"]) for row in rows if row["row"] == "7"]
        np.testing.assert_allclose(scores, found[1].nodes, rtol=1e-5)


def test_molecules_are_drawn_by_rdkit(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    benchmark = load(str(MOLECULES), target="logP")
    keep(tmp_path, network(benchmark.task), encoding=benchmark.encoding)
    (one,) = explain(tmp_path, ["c1ccoc1NC(C)=O"], 0)
    assert sorted(one.names) == sorted("CCONCCCOC")
    svg = draw_explanation(one)
    assert svg.startswith("<svg")
    assert "atom-8" in svg  # a class that rdkit gives to bonds and atoms
    assert "<!--" not in svg


def test_one_line_says_what_cannot_be_done(tmp_path: Path) -> None:
    keep(tmp_path, network(TASK))
    assert "no row 9" in refused(explain, tmp_path, graphs(TASK), 9)
    assert "0" in refused(explain, tmp_path, graphs(TASK), 0, output="logD")
    found = explain(tmp_path, graphs(TASK), 0)
    assert ".svg" in refused(save_explanations, found, tmp_path / "out.gif")
    assert "at least one" in refused(save_explanations, [], tmp_path / "out.svg")
