"""Targets with blanks, from a table to a trained network and its predictions."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import SMILES, one_line, path_graphs, write_csv

import gnas
from gnas.data.benchmark import Benchmark
from gnas.data.own.load import load_own
from gnas.data.own.targets import compute_target_moments
from gnas.data.storage import save_benchmark
from gnas.model import baselines
from gnas.use.predict import predict_graphs, read_graphs

TOX21 = ("NR-AR", "NR-AhR", "SR-p53")
TOXIC = ["0,1,", "1,,0", "0,0,1", ",1,0", "1,0,0", "0,,1", "0,0,0", "1,1,1", "0,1,0", ",,"]


def tox21(folder: Path) -> Path:
    """A slice of Tox21's form: labels with blanks, one row with none at all."""
    rows = [(smiles, *TOXIC[i % 10].split(",")) for i, smiles in enumerate(SMILES * 3)]
    return write_csv(folder / "tox21.csv", ("smiles", *TOX21), rows)


def train_briefly(bench: Benchmark) -> gnas.TrainResult:
    build = lambda: baselines.build_baseline("gin", bench.task, num_layers=2, budget=2000)  # noqa: E731
    return gnas.train(build, bench, gnas.TrainConfig(epochs=2, batch_size=16), 1)


def test_labels_with_blanks_from_a_table_to_predictions(tmp_path: Path) -> None:
    bench = gnas.load(tox21(tmp_path), target=list(TOX21), fractions=(0.6, 0.2, 0.2))
    task = bench.task
    assert (task.kind, task.num_outputs, task.loss, task.metric, task.labels) == (
        "multilabel",
        3,
        "bce",
        "roc_auc",
        TOX21,
    )
    assert bench.encoding is not None
    reasons, notes = bench.encoding.reasons, bench.notes
    assert "multilabel: 3 targets hold only 0 and 1; 24 of 162 entries are blank and do not count" in reasons
    assert "metric ROC-AUC: the mean over the labels of which both classes are known" in reasons
    assert any(
        n.startswith("6 graphs without a target (NR-AR, NR-AhR, SR-p53): left out (tox21.csv line 11") for n in notes
    )
    assert "3 labels (NR-AR, NR-AhR, SR-p53); loss bce; metric ROC-AUC" in bench.describe()
    assert sum(len(split) for split in bench.splits().values()) == 54
    result = train_briefly(bench)
    assert set(result.metrics["test"]) == {"accuracy", "f1", "roc_auc", "average_precision"}
    assert 0 <= result.test <= 1
    found = predict_graphs(result.network, read_graphs(["CCO", "CCN"], task, bench.encoding), bench.encoding)
    assert found.columns == ("graph", "smiles", "p_NR-AR", "p_NR-AhR", "p_SR-p53")
    assert ((found.values > 0) & (found.values < 1)).all()
    with one_line("a multilabel task has no classes"):
        found.classes  # noqa: B018


def test_two_columns_of_0_and_1_are_labels(tmp_path: Path) -> None:
    rows = [(smiles, int(i % 4 > 0), i % 2) for i, smiles in enumerate(SMILES)]
    path = write_csv(tmp_path / "clintox.csv", ("smiles", "FDA_APPROVED", "CT_TOX"), rows)
    both = ["FDA_APPROVED", "CT_TOX"]
    assert gnas.load(path, target=both).task.kind == "multilabel"
    assert gnas.load(path, target=both, kind="regression").task.kind == "regression"
    one = gnas.load(path, target="CT_TOX", kind="multilabel", metric="accuracy")
    assert (one.task.kind, one.task.num_outputs) == ("multilabel", 1)
    with one_line("several class targets", "kind=multilabel"):
        gnas.load(path, target=both, kind="classification")
    weighted = gnas.load(path, target=both, loss="weighted_bce", fractions=(0.8, 0.1, 0.1))
    y = weighted.train.y
    assert weighted.task.positive_weight == pytest.approx(((y == 0).sum(0) / (y == 1).sum(0)).tolist())
    assert np.isfinite(train_briefly(weighted).history[-1]["train_loss"])


def test_labels_are_0_1_or_blank() -> None:
    graphs = path_graphs(20, lambda i: torch.tensor([[i % 2, i % 3]]))
    assert load_own(graphs).task.kind == "regression"
    with one_line("graph 2: target 'y1' is 2", "0, 1 or blank"):
        load_own(graphs, kind="multilabel")


def test_pyg_targets_with_nan_as_ogb_has_them() -> None:
    nan = float("nan")
    values = [[0.0, 1.0], [1.0, nan], [nan, 0.0], [1.0, 1.0], [0.0, 0.0]]
    bench = load_own(path_graphs(40, lambda i: torch.tensor([values[i % 5]])))
    assert (bench.task.kind, bench.train.y.shape[1]) == ("multilabel", 2)
    assert bool(bench.train.y.isnan().any())
    assert not bool(bench.train.y.isnan().all(1).any())


def test_several_numbers_with_blanks(tmp_path: Path) -> None:
    rows = [(s, i / 3, "" if i % 4 == 0 else 100 + i) for i, s in enumerate(SMILES)]
    bench = gnas.load(write_csv(tmp_path / "two.csv", ("smiles", "a", "b"), rows), target=["a", "b"])
    assert (bench.task.kind, bench.task.num_outputs, bench.task.labels) == ("regression", 2, ("a", "b"))
    y = bench.train.y.double()
    for k in range(2):
        known = y[~y[:, k].isnan(), k]
        assert bench.task.center[k] == pytest.approx(known.mean().item())
        assert bench.task.scale[k] == pytest.approx(known.std(correction=0).item())
    result = train_briefly(bench)
    assert list(result.per_target["test"]["mae"]) == ["a", "b"]
    assert all(np.isfinite(record["train_loss"]) for record in result.history)


def test_moments_of_a_target_without_any_value() -> None:
    nan = float("nan")
    assert compute_target_moments(torch.tensor([[nan, 3.0], [nan, 3.0]])) == ((0.0, 3.0), (1.0, 1.0))


@pytest.mark.parametrize("split", ["random", "scaffold"])
def test_rows_without_a_target_are_left_out(tmp_path: Path, split: str) -> None:
    rows = [(s, "" if i in (3, 7) else i / 3) for i, s in enumerate(SMILES)]
    path = write_csv(tmp_path / "one.csv", ("smiles", "y"), rows)
    bench = gnas.load(path, split=split, fractions=(0.6, 0.2, 0.2))
    assert "2 graphs without a target (y): left out (one.csv line 5, one.csv line 9)" in bench.notes
    assert sum(len(graphs) for graphs in bench.splits().values()) == 18
    assert all(graphs.mask is None for graphs in bench.splits().values())
    path = write_csv(tmp_path / "without.csv", ("smiles", "y"), [row for row in rows if row[1] != ""])
    clean = gnas.load(path, split=split, fractions=(0.6, 0.2, 0.2))
    assert sorted(clean.train.y.flatten().tolist()) == sorted(bench.train.y.flatten().tolist())


@pytest.mark.parametrize(
    ("share", "metric", "words"),
    [
        (5, "roc_auc", "metric ROC-AUC: of two classes the smaller one (1) has 20 % of train, less than 25 %"),
        (2, "accuracy", "metric accuracy %: of two classes the smaller one (0) has 50 % of train"),
    ],
)
def test_roc_auc_selects_for_two_unbalanced_classes(share: int, metric: str, words: str) -> None:
    graphs = path_graphs(100, lambda i: torch.tensor([int(i % share == 0)]))
    bench = load_own(graphs, split="stratified")
    assert bench.task.metric == metric
    assert bench.encoding is not None
    assert words in bench.encoding.reasons
    assert load_own(graphs, split="stratified", metric="f1").task.metric == "f1"


def test_a_metric_that_a_split_does_not_define() -> None:
    graphs = path_graphs(60, lambda i: torch.tensor([int(i == 1 or (i < 48 and i % 6 == 0))]))
    given = [graphs[:48], graphs[48:54], graphs[54:]]
    bench = load_own(tuple(given))
    assert bench.task.metric == "accuracy"
    assert bench.encoding is not None
    words = "metric accuracy %: the val split has one class only, so ROC-AUC is not defined"
    assert words in bench.encoding.reasons
    with one_line("the metric roc_auc is not defined on the val split"):
        load_own(tuple(given), metric="roc_auc")


def test_labels_with_one_class_in_a_split_are_named() -> None:
    graphs = path_graphs(60, lambda i: torch.tensor([[float(i % 2), float(i < 6)]]))
    bench = load_own((graphs[:40], graphs[40:50], graphs[50:]))
    assert "labels with one class only in val: y1; they have no ROC-AUC" in bench.notes


def test_a_packed_benchmark_keeps_blanks(tmp_path: Path) -> None:
    bench = gnas.load(tox21(tmp_path), target=list(TOX21), fractions=(0.6, 0.2, 0.2))
    again = gnas.load(save_benchmark(bench, tmp_path / "tox21.safetensors"))
    assert again.fingerprint == bench.fingerprint
    assert dataclasses.asdict(again.task) == dataclasses.asdict(bench.task)
    assert torch.equal(again.val.y.isnan(), bench.val.y.isnan())


def test_all_folds_have_one_metric(tmp_path):
    """A fold without a positive row has no ROC-AUC, so no fold is selected by it: the mean over folds is of one metric."""
    rows = [(text, int(i in (0, 7)), int(i in (0, 7))) for i, text in enumerate(SMILES)]
    path = write_csv(tmp_path / "m.csv", ("smiles", "a", "b"), rows)
    found = [load_own(path, target=["a", "b"], folds=3, fold=fold) for fold in (1, 2, 3)]
    assert {b.task.metric for b in found} == {"accuracy"}
    assert {line for b in found for line in b.encoding.reasons if line.startswith("metric")} == {
        "metric accuracy %: the val split of fold 1 has one class only, so ROC-AUC is not defined"
    }
    with pytest.raises(gnas.InputError, match="roc_auc is not defined on the val split of fold 1, whose targets"):
        load_own(path, target=["a", "b"], folds=3, fold=2, metric="roc_auc")


def test_folds_by_group_have_one_metric():
    """A quarter of all rows is positive; of the training rows of a fold it is more or less than that."""
    positive = (8, 4, 1, 1, 1, 0)  # of the ten rows of each site
    graphs = path_graphs(60, y=lambda i: torch.tensor([int(i % 10 < positive[i // 10])]))
    for i, graph in enumerate(graphs):
        graph.site = str(i // 10)
    found = [load_own(graphs, split="group:site", folds=3, fold=fold) for fold in (1, 2, 3)]
    shares = [b.train.targets().double().mean().item() for b in found]
    assert min(shares) < 0.25 < max(shares)
    assert {b.task.metric for b in found} == {"accuracy"}
    assert "metric accuracy %: of two classes the smaller one (1) has 25 % of all rows" in found[2].encoding.reasons
