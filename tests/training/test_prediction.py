"""Predictions of a run's validation and test rows agree with the figures of the training, row by row of the source."""

import csv
import dataclasses
import io

import numpy as np
import pytest
import torch
from builders import path_graphs
from torch_geometric.data import Data

from gnas.data import load
from gnas.data import rows as tables
from gnas.data.rows import index_rows, note_missing_tables, split_csv, to_csv
from gnas.model.baselines import BASELINES
from gnas.run.protocol import TrainConfig
from gnas.training.prediction import predict_splits
from gnas.training.train import train

CONFIG = TrainConfig(epochs=2, batch_size=8)


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def one_graph(level):
    edges = torch.tensor([[i, i + 1] for i in range(59)]).T
    edge_index = torch.cat([edges, edges.flip(0)], 1)
    rows = 60 if level == "node" else edge_index.size(1)
    return Data(x=torch.arange(60)[:, None] % 4, edge_index=edge_index, y=torch.arange(rows) % 2)


def trained(benchmark):
    return train(lambda: BASELINES["gcn"](benchmark.task, 8, 2), benchmark, CONFIG)


def test_regression_rows_give_the_training_s_figures():
    benchmark = load(path_graphs(40, y=lambda i: torch.tensor([float(i)])))
    result = trained(benchmark)
    rows = read(predict_splits(result.network, benchmark, "cpu", 8))
    assert list(rows[0]) == ["graph", "split", "y", "prediction"]
    for split, figure in (("val", result.val), ("test", result.test)):
        errors = [abs(float(r["y"]) - float(r["prediction"])) for r in rows if r["split"] == split]
        assert np.mean(errors) == pytest.approx(figure, rel=1e-4)
    assert all(float(r["graph"]) == float(r["y"]) for r in rows), "the row of the source"
    written = {(r["graph"], r["split"]) for r in read(split_csv(benchmark))}
    assert {(r["graph"], r["split"]) for r in rows} <= written
    assert sorted(int(graph) for graph, _ in written) == list(range(40))


@pytest.mark.parametrize("level", ["node", "edge"])
def test_rows_of_one_graph_that_the_splits_share(level):
    benchmark = load(one_graph(level), kind="classification")
    result = trained(benchmark)
    rows = read(predict_splits(result.network, benchmark, "cpu", 8))
    inside = ["node"] if level == "node" else ["source", "target"]
    if level == "node":
        assert list(rows[0]) == ["graph", "node", "split", "y", "prediction", "p_0", "p_1"]
    right = [r["y"] == r["prediction"] for r in rows if r["split"] == "test"]
    assert 100 * np.mean(right) == pytest.approx(result.test, abs=1e-3)
    assert len(rows) == benchmark.val.num_targets + benchmark.test.num_targets
    assert all(float(r["p_0"]) + float(r["p_1"]) == pytest.approx(1, abs=1e-5) for r in rows)
    table = read(split_csv(benchmark))
    assert list(table[0]) == ["graph", *inside, "split"]
    assert len({tuple(r[name] for name in inside) for r in table}) == len(table)


def test_labels_have_probabilities():
    rows = [[float(i % 3 == 0), float("nan") if i % 4 == 0 else float(i % 2)] for i in range(60)]
    benchmark = load(path_graphs(60, y=lambda i: torch.tensor([rows[i]])))
    assert benchmark.task.kind == "multilabel"
    result = trained(benchmark)
    found = read(predict_splits(result.network, benchmark, "cpu", 8))
    assert list(found[0]) == ["graph", "split", "y_y0", "y_y1", "p_y0", "p_y1"]
    with torch.no_grad():
        graphs = path_graphs(60)
        wanted = [result.network(graphs[int(row["graph"])]).sigmoid()[0].tolist() for row in found]
    np.testing.assert_allclose([[float(r["p_y0"]), float(r["p_y1"])] for r in found], wanted, rtol=1e-4)
    for row in found:
        blank = int(row["graph"]) % 4 == 0
        assert row["y_y1"] == ("" if blank else str(int(row["graph"]) % 2))


def test_labels_stay_texts_and_large_tables_are_left_out(monkeypatch):
    assert to_csv({"a": ["=1+1", "-", "x,y", '"'], "b": [1.5, float("nan"), 2, 1e-9]}) == (
        'a,b\n\'=1+1,1.5\n\'-,\n"x,y",2\n"""",1e-09\n'
    )
    near = [1 - 1e-9, 1 - 1e-12, 0.99995, 1.0]
    assert [float(text) for text in to_csv({"p": near}).split()[1:]] == near
    benchmark = load(path_graphs(30))
    assert note_missing_tables(benchmark) == ()
    monkeypatch.setattr(tables, "MOST_SPLIT_ROWS", 29)
    assert split_csv(benchmark) is None
    assert note_missing_tables(benchmark) == ("split.csv is not written: more than 29 rows",)
    unknown = dataclasses.replace(benchmark.test, rows=None)
    assert index_rows(unknown)["graph"].tolist() == [0, 1, 2]
