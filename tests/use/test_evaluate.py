"""Metrics of a kept network on labelled files: equal to those computed from its predictions; errors in one line."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import random_graph
from terminal import gnas, one_line
from torch_geometric.data import Data
from trained import CLASSES, keep, network, refused

from gnas.data import load
from gnas.training.evaluation import evaluate as evaluate_split
from gnas.training.prediction import infer
from gnas.use.evaluate import Evaluation, evaluate
from gnas.use.export import export_run
from gnas.use.predict import predict

TEXTS = ["C" * a + middle + end for a in range(1, 6) for middle in ("", "O", "C=O") for end in ("", "N")]
A = [int("O" in text) for text in TEXTS]
B = ["" if k % 4 == 0 else int("N" in text) for k, text in enumerate(TEXTS)]


def write(path: Path, **columns: list) -> Path:
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path


def keep_for(path: Path, **options) -> Path:
    """A run folder with a network of random weights that reads the data of this file."""
    benchmark = load(path, **options)
    keep(path.parent / "run", network(benchmark.task), encoding=benchmark.encoding)
    return path.parent / "run"


def pairs_in_order(values: np.ndarray, y: np.ndarray) -> float:
    """ROC-AUC by its definition."""
    difference = values[y == 1][:, None] - values[y == 0][None]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    pytest.importorskip("rdkit")
    return write(tmp_path / "labels.csv", smiles=TEXTS, a=A, b=B)


def test_labels_with_blanks(labels: Path) -> None:
    run = keep_for(labels, target=["a", "b"])
    found = evaluate(run, labels)
    chances = predict(run, labels).values
    assert found.metric == "roc_auc"
    assert (found.rows, found.left_out) == (len(TEXTS), 0)
    assert found.counts == {"a": len(TEXTS), "b": sum(one != "" for one in B)}
    known = np.array([one != "" for one in B])
    b = np.array([one or 0 for one in B])[known]
    assert len(np.unique(chances[:, 0])) > 5, "a network that tells molecules apart"
    wanted = {"a": pairs_in_order(chances[:, 0], np.array(A)), "b": pairs_in_order(chances[known, 1], b)}
    assert found.per_target["roc_auc"] == pytest.approx(wanted)
    assert found.value == found.metrics["roc_auc"] == pytest.approx(np.mean(list(wanted.values())))
    right = np.concatenate([(chances[:, 0] > 0.5) == A, (chances[known, 1] > 0.5) == b])
    assert found.metrics["accuracy"] == pytest.approx(100 * right.mean())


def test_rows_without_any_target_are_left_out(labels: Path) -> None:
    run = keep_for(labels, target=["a", "b"])
    blank = write(labels.parent / "more.csv", smiles=[*TEXTS, "CCC", "CO"], a=[*A, "", ""], b=[*B, "", ""])
    found = evaluate(run, blank)
    assert (found.rows, found.left_out) == (len(TEXTS), 2)
    assert found.metrics == pytest.approx(evaluate(run, labels).metrics)


def test_a_regression_on_a_file(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    y = [len(text) / 2 for text in TEXTS]
    run = keep_for(write(tmp_path / "train.csv", smiles=TEXTS, size=y))
    new = write(tmp_path / "new.csv", other=y[:6], size=[*y[:5], ""], smiles=TEXTS[:6])
    for folder in (run, str(run), export_run(run, tmp_path / "out")):
        found = evaluate(folder, new)
        error = predict(folder, TEXTS[:5]).values[:, 0] - y[:5]
        assert found.metrics["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
        assert found.metrics["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)
        assert found.metrics["r2"] == pytest.approx(1 - (error**2).sum() / 5 / np.var(y[:5]), rel=1e-5)
        assert (found.rows, found.left_out, found.per_target, found.counts) == (5, 1, {}, {"size": 5})
    message = refused(evaluate, run, write(tmp_path / "none.csv", smiles=TEXTS[:2], size=["", ""]))
    assert message == "none of 2 rows has a target; an evaluation needs labelled rows"


def test_classes_of_nodes(tmp_path: Path) -> None:
    net = network(CLASSES)
    keep(tmp_path, net)
    made = [random_graph(3 + k, 2 * k, seed=k) for k in range(5)]
    data = [Data(x=g.categories, edge_index=g.edge_index, y=torch.arange(len(g.categories)) % 2) for g in made]
    found = evaluate(tmp_path, data)
    y, out = torch.cat([graph.y for graph in data]), torch.cat([net(graph) for graph in data]).argmax(1)
    assert found.metrics["accuracy"] == pytest.approx(100 * (out == y).float().mean().item())
    assert found.counts == {"low": int((y == 0).sum()), "mid": int((y == 1).sum()), "high": 0}
    assert found.notes == ("no row of high: the class-averaged accuracy counts such classes as 0",)
    assert found.per_target["class_accuracy"]["high"] == 0
    assert found.per_target["roc_auc"]["high"] is None
    bare = [Data(x=graph.x, edge_index=graph.edge_index) for graph in data]
    assert "graph 0: no targets; set data.y" in refused(evaluate, tmp_path, bare)


def test_of_a_benchmark_the_test_split_counts(tmp_path: Path) -> None:
    one = random_graph(30, 80, seed=5)
    benchmark = load(Data(x=one.x.float(), edge_index=one.edge_index, y=torch.arange(30) % 2))
    net = network(benchmark.task)
    keep(tmp_path, net, encoding=benchmark.encoding)
    found = evaluate(tmp_path, benchmark)
    assert found.rows == benchmark.test.num_targets
    assert found.value == pytest.approx(evaluate_split(net, benchmark.test)["metric"])
    assert evaluate(net, benchmark.test) == evaluate_split(net, benchmark.test), "a network and a split"


def test_probabilities_near_one_stay_apart() -> None:
    task = dataclasses.replace(CLASSES, kind="multilabel", level="graph", loss="", metric="")
    net = network(task)
    with torch.no_grad():
        list(net.parameters())[-1].add_(18)  # the bias of the head
    made = [random_graph(4 + k, 2 * k, seed=k) for k in range(12)]
    data = [Data(x=g.categories, edge_index=g.edge_index, y=torch.tensor([float(k)])) for k, g in enumerate(made)]
    values = infer(net, load(data).train)[:, 0]
    assert bool(((values > 0.5) & (values <= 1)).all())
    assert len(values.unique()) > len(values.float().unique())


# -- the command ----------------------------------------------------------------------------------------------------


def test_the_command(labels: Path) -> None:
    run = keep_for(labels, target=["a", "b"])
    found = evaluate(run, labels)
    assert isinstance(found, Evaluation)
    ended = gnas("evaluate", run, labels, "--json", "--device", "cpu")
    assert ended.code == 0, ended
    assert ended.json["metrics"] == pytest.approx(dict(found.metrics))
    assert ended.json["per_target"]["roc_auc"] == pytest.approx(found.per_target["roc_auc"])
    ended = gnas("evaluate", run, labels, "--device", "cpu")
    assert f"{found.value:.4f}" in ended.out
    assert "average precision" in ended.out
    assert gnas("evaluate", run, labels, "-q", "--device", "cpu").out == ""


def test_what_the_command_refuses(labels: Path) -> None:
    run = keep_for(labels, target=["a", "b"])
    part = write(labels.parent / "part.csv", smiles=TEXTS, a=A)
    one_line(gnas("evaluate", run, part), 2, "unknown target column of part.csv 'b'", "choose one of: a")
    three = write(labels.parent / "three.csv", smiles=TEXTS, a=A, b=[3, *B[1:]])
    one_line(gnas("evaluate", run, three), 2, "three.csv line 2: target 'b' is 3", "0, 1 or blank")
    bad = write(labels.parent / "bad.csv", smiles=["C1CC", *TEXTS[1:]], a=A, b=B)
    one_line(gnas("evaluate", run, bad), 2, "bad.csv line 2", "does not parse")
    ended = gnas("evaluate", run, bad, "--skip-bad", "--json")
    assert (ended.code, ended.json["rows"]) == (0, len(TEXTS) - 1)
    one_line(gnas("evaluate", run, labels.parent / "nothing.csv"), 2, "neither a benchmark nor an existing path")
    one_line(gnas("evaluate", run, labels, "--network", "gnaz"), 2, "did you mean 'gnas'")
    one_line(gnas("evaluate", labels.parent / "no-run", labels), 2, "no such folder")


def test_a_column_of_smiles_may_have_another_name_than_in_training(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    y = [len(text) / 2 for text in TEXTS]
    run = keep_for(write(tmp_path / "train.csv", mine=TEXTS, size=y), smiles="mine")
    assert evaluate(run, write(tmp_path / "new.csv", smiles=TEXTS, size=y)).rows == len(TEXTS)
