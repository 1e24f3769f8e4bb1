"""Losses and metrics against numpy; encoder and head by hand."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import assert_near, pad
from torch import Tensor
from torch_geometric.data import Batch

from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.encoder import Encoder
from gnas.model.head import Head
from gnas.model.metrics import METRIC_TABLE
from gnas.model.task import LOSSES, METRICS, Task

ADDITIVE = {kind: [name for name in names if METRIC_TABLE[name].additive] for kind, names in METRICS.items()}


def batch_of(y: np.ndarray, mask: np.ndarray | None = None) -> GraphBatch:
    """A batch of single nodes with these targets."""
    plain = GraphBatch.from_edges(torch.zeros(len(y), 1), torch.zeros(2, 0, dtype=torch.long))
    target_mask = None if mask is None else torch.tensor(mask)
    return dataclasses.replace(plain, y=torch.tensor(y), target_mask=target_mask)


def scores(rng: np.random.Generator, rows: int, outputs: int) -> np.ndarray:
    return rng.normal(size=(rows, outputs)) * 2


def summary(task: Task, *pairs: tuple[np.ndarray, GraphBatch]) -> dict[str, float]:
    """Statistics of several batches added up, as an epoch does."""
    total = torch.zeros(task.num_statistics)
    for out, batch in pairs:
        given = torch.tensor(out)
        total = total + task.statistics(given, batch, task.loss_value(given, batch))
    return task.summary(total)


# -- the same in numpy ----------------------------------------------------------------------------------------------


def cross_entropies(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    largest = out.max(1, keepdims=True)
    return np.log(np.exp(out - largest).sum(1)) + largest[:, 0] - out[np.arange(len(y)), y]


def weighted_cross_entropy(out: np.ndarray, y: np.ndarray, classes: int) -> float:
    """Weight of class c in a batch: (V - V_c) / V, 0 if absent; the weighted mean."""
    counts = np.bincount(y, minlength=classes)
    weights = np.where(counts > 0, (len(y) - counts) / len(y), 0)[y]
    return float((weights * cross_entropies(out, y)).sum() / weights.sum())


def class_accuracy(out: np.ndarray, y: np.ndarray, classes: int) -> float:
    hit = out.argmax(1) == y
    return 100 * float(np.mean([hit[y == c].mean() if (y == c).any() else 0.0 for c in range(classes)]))


def classification(loss: str, metric: str, out: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    classes = out.shape[1]
    plain = loss == "cross_entropy"
    value = cross_entropies(out, y).mean() if plain else weighted_cross_entropy(out, y, classes)
    accuracy = 100 * (out.argmax(1) == y).mean() if metric == "accuracy" else class_accuracy(out, y, classes)
    return float(value), float(accuracy)


def regression(loss: str, metric: str, out: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    error = out - y
    size = np.abs(error)
    values = {"l1": size, "mse": error**2, "huber": np.where(size <= 1, error**2 / 2, size - 0.5)}
    value = values[loss].mean()
    return float(value), float(np.abs(error).mean() if metric == "mae" else np.sqrt((error**2).mean()))


# -- losses and metrics ---------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from(LOSSES["classification"]), st.sampled_from(ADDITIVE["classification"]))
@settings(max_examples=40, deadline=None)
def test_classification(seed: int, loss: str, metric: str) -> None:
    rng = np.random.default_rng(seed)
    rows, classes = int(rng.integers(5, 30)), int(rng.integers(2, 6))
    out, y, mask = scores(rng, rows, classes), rng.integers(0, classes, rows), rng.random(rows) < 0.7
    y[:2], mask[:2] = [0, 1], True
    task = Task("node", "classification", classes, in_channels=1, loss=loss, metric=metric)
    for batch, kept in ((batch_of(y), slice(None)), (batch_of(y, mask), mask)):
        wanted = classification(loss, metric, out[kept], y[kept])
        found = summary(task, (out, batch))
        assert (found["loss"], found["metric"]) == pytest.approx(wanted, rel=1e-5)
        assert found["metric_per_batch"] == pytest.approx(wanted[1], rel=1e-5)


@given(st.integers(0, 10_000), st.sampled_from(LOSSES["regression"]), st.sampled_from(ADDITIVE["regression"]))
@settings(max_examples=40, deadline=None)
def test_regression(seed: int, loss: str, metric: str) -> None:
    rng = np.random.default_rng(seed)
    rows, outputs = int(rng.integers(2, 20)), int(rng.integers(1, 4))
    out, y, mask = scores(rng, rows, outputs), scores(rng, rows, outputs), rng.random(rows) < 0.7
    mask[0] = True
    task = Task("graph", "regression", outputs, in_channels=1, loss=loss, metric=metric)
    for batch, kept in ((batch_of(y), slice(None)), (batch_of(y, mask), mask)):
        found = summary(task, (out, batch))
        assert (found["loss"], found["metric"]) == pytest.approx(regression(loss, metric, out[kept], y[kept]), rel=1e-5)


def test_weighted_cross_entropy_is_torchs_with_the_papers_weights() -> None:
    rng = np.random.default_rng(1)
    out, y = torch.tensor(scores(rng, 20, 4)).requires_grad_(), rng.choice([0, 0, 0, 2, 3], 20)
    weights = torch.tensor([(20 - (y == c).sum()) / 20 if (y == c).any() else 0 for c in range(4)])
    wanted = torch.nn.functional.cross_entropy(out, torch.tensor(y), weight=weights)
    task = Task("node", "classification", 4, in_channels=1, loss="weighted_cross_entropy")
    found = task.loss_value(out, batch_of(y))
    assert_near(found, wanted, 1e-6)
    assert_near(*(torch.autograd.grad(value, out)[0] for value in (found, wanted)), 1e-6)


def test_a_batch_of_a_single_class_has_no_weight_and_no_nan() -> None:
    task = Task("node", "classification", 2, in_channels=1, loss="weighted_cross_entropy")
    out = torch.randn(3, 2, requires_grad=True)
    loss = task.loss_value(out, batch_of(np.array([1, 1, 1])))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(out.grad, torch.zeros(3, 2))


def test_class_accuracy_is_not_plain_accuracy() -> None:
    y = np.array([0] * 9 + [1])
    out = np.tile([1.0, 0.0], (10, 1))
    values = {}
    for metric in ADDITIVE["classification"]:
        task = Task("node", "classification", 2, in_channels=1, metric=metric)
        values[metric] = summary(task, (out, batch_of(y)))["metric"]
    assert values == {"accuracy": pytest.approx(90), "class_accuracy": pytest.approx(50)}


@pytest.mark.parametrize("metric", ["accuracy", "class_accuracy"])
def test_whole_split_and_average_over_batches(metric: str) -> None:
    rng = np.random.default_rng(3)
    task = Task("node", "classification", 3, in_channels=1, metric=metric)
    parts = [(scores(rng, rows, 3), rng.integers(0, 3, rows)) for rows in (4, 11, 30)]
    found = summary(task, *((out, batch_of(y)) for out, y in parts))
    whole = classification("cross_entropy", metric, *(np.concatenate(part) for part in zip(*parts, strict=True)))
    each = [classification("cross_entropy", metric, out, y)[1] for out, y in parts]
    assert (found["loss"], found["metric"]) == pytest.approx(whole, rel=1e-5)
    assert found["metric_per_batch"] == pytest.approx(np.mean(each), rel=1e-5)
    assert abs(whole[1] - np.mean(each)) > 0.1


def test_rmse_of_a_split_is_the_root_of_the_mean() -> None:
    task = Task("graph", "regression", 1, in_channels=1, metric="rmse")
    one, other = (np.zeros((2, 1)), batch_of(np.full((2, 1), 1.0))), (np.zeros((1, 1)), batch_of(np.full((1, 1), 5.0)))
    found = summary(task, one, other)
    assert found["metric"] == pytest.approx(np.sqrt((1 + 1 + 25) / 3))
    assert found["metric_per_batch"] == pytest.approx((1 + 5) / 2)


def test_a_batch_without_rows_counts_for_nothing() -> None:
    task = Task("node", "classification", 3, in_channels=1)
    rng = np.random.default_rng(0)
    full = (scores(rng, 5, 3), batch_of(rng.integers(0, 3, 5)))
    empty = (scores(rng, 4, 3), batch_of(rng.integers(0, 3, 4), np.zeros(4, dtype=bool)))
    assert summary(task, full, empty) == pytest.approx(summary(task, full))
    assert all(np.isfinite(value) for value in summary(task, empty).values())


@pytest.mark.parametrize("loss", ["l1", "mse", "huber"])
def test_not_a_number_in_rows_that_do_not_count_is_harmless(loss: str) -> None:
    y, mask = np.array([[1.0], [np.nan], [3.0], [np.inf]]), np.array([True, False, True, False])
    task = Task("graph", "regression", 1, in_channels=1, loss=loss, center=(2.0,), scale=(0.5,))
    out = torch.zeros(4, 1, dtype=torch.float64, requires_grad=True)
    loss_value = task.loss_value(out, batch_of(y, mask))
    loss_value.backward()
    assert bool(out.grad.isfinite().all())
    assert out.grad[[1, 3]].abs().max() == 0
    wanted = summary(task, (np.zeros((2, 1)), batch_of(y[mask])))
    assert summary(task, (np.zeros((4, 1)), batch_of(y, mask))) == pytest.approx(wanted)


def test_labels_outside_the_classes_are_harmless_where_masked() -> None:
    task = Task("node", "classification", 2, in_channels=1, loss="weighted_cross_entropy", metric="class_accuracy")
    rng = np.random.default_rng(2)
    out, y, mask = scores(rng, 6, 2), np.array([0, 1, -1, 1, -100, 0]), np.array([1, 1, 0, 1, 0, 1], dtype=bool)
    wanted = classification("weighted_cross_entropy", "class_accuracy", out[mask], y[mask])
    found = summary(task, (out, batch_of(y, mask)))
    assert (found["loss"], found["metric"]) == pytest.approx(wanted, rel=1e-5)


@given(st.integers(0, 10_000), st.sampled_from(["bce", "weighted_bce"]))
@settings(max_examples=30, deadline=None)
def test_labels(seed: int, loss: str) -> None:
    rng = np.random.default_rng(seed)
    rows, labels = int(rng.integers(2, 20)), int(rng.integers(2, 5))
    out, y = scores(rng, rows, labels), rng.integers(0, 2, (rows, labels)).astype(float)
    known, mask = rng.random((rows, labels)) < 0.7, rng.random(rows) < 0.8
    known[0, 0] = mask[0] = True
    weight = rng.uniform(0.5, 9, labels)
    task = Task(
        "graph", "multilabel", labels, in_channels=1, loss=loss, metric="accuracy", positive_weight=tuple(weight)
    )
    p = 1 / (1 + np.exp(-out))
    each = -((weight if loss == "weighted_bce" else 1) * y * np.log(p) + (1 - y) * np.log(1 - p))
    counts = known & mask[:, None]
    found = summary(task, (out, batch_of(np.where(known, y, np.nan), mask)))
    assert found["loss"] == pytest.approx(each[counts].mean(), rel=1e-5)
    assert found["metric"] == pytest.approx(100 * ((out > 0) == y)[counts].mean(), rel=1e-5)


@given(st.integers(0, 10_000), st.sampled_from(LOSSES["regression"]), st.sampled_from(["mae", "rmse"]))
@settings(max_examples=30, deadline=None)
def test_blank_entries_do_not_count(seed: int, loss: str, metric: str) -> None:
    rng = np.random.default_rng(seed)
    rows, targets = int(rng.integers(1, 20)), int(rng.integers(2, 5))
    out, y, known = scores(rng, rows, targets), scores(rng, rows, targets), rng.random((rows, targets)) < 0.6
    known[0, 0] = True
    task = Task("graph", "regression", targets, in_channels=1, loss=loss, metric=metric)
    blank = np.where(known, y, np.nan)
    found = summary(task, (out, batch_of(blank)))
    assert (found["loss"], found["metric"]) == pytest.approx(regression(loss, metric, out[known], y[known]), rel=1e-5)
    given_out = torch.tensor(out, requires_grad=True)
    task.loss_value(given_out, batch_of(blank)).backward()
    assert given_out.grad[~torch.tensor(known)].abs().sum() == 0
    assert bool(given_out.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_standardised_targets_are_reported_in_their_own_unit(dtype: type) -> None:
    rng = np.random.default_rng(4)
    y, out = np.array([[3, 10], [4, 30], [8, 20]], dtype=dtype), rng.normal(size=(3, 2))
    center, scale = np.array([4.5, 21.5]), np.array([0.5, 8.25])
    task = Task("graph", "regression", 2, in_channels=1, center=tuple(center), scale=tuple(scale))
    found = summary(task, (out, batch_of(y)))
    assert found["loss"] == pytest.approx(np.abs(out - (y - center) / scale).mean(), rel=1e-5)
    assert found["metric"] == pytest.approx(np.abs(out * scale + center - y).mean(), rel=1e-5)
    assert_near(task.prediction(torch.tensor(out)), torch.tensor(out * scale + center), 1e-6)


def test_one_column_of_targets_may_be_flat() -> None:
    task, out = Task("graph", "regression", 1, in_channels=1), np.array([[1.0], [5.0]])
    found = summary(task, (out, batch_of(np.array([2.0, 2.0]))))
    assert found == pytest.approx({"loss": 2, "metric": 2, "metric_per_batch": 2})


def test_padded_graphs_do_not_count(batch: Batch) -> None:
    task = Task("graph", "regression", 1, in_channels=4)
    plain = GraphBatch.from_pyg(batch)
    y = torch.cat([plain.y, torch.tensor([torch.nan], dtype=torch.float64)])
    padded = dataclasses.replace(pad(plain), y=y, target_mask=torch.tensor([True, True, True, False]))
    out = torch.randn(4, 1, dtype=torch.float64)
    assert_near(task.loss_value(out, padded), task.loss_value(out[:3], plain), 1e-12)


def test_a_batch_without_targets_is_refused() -> None:
    plain = dataclasses.replace(batch_of(np.zeros(2)), y=None)
    with pytest.raises(InputError, match="no targets"):
        Task("graph", "regression", 1, in_channels=1).loss_value(torch.zeros(2, 1), plain)


# -- the value itself -----------------------------------------------------------------------------------------------


def test_defaults_and_direction() -> None:
    regression_task = Task("graph", "regression", 1, in_channels=1)
    classes = Task("node", "classification", 2, categories=(3,))
    assert (regression_task.loss, regression_task.metric, regression_task.readout) == ("l1", "mae", "mean")
    assert (classes.loss, classes.metric) == ("cross_entropy", "accuracy")
    assert regression_task.better(0.1, 0.2)
    assert not regression_task.better(0.2, 0.2)
    assert classes.better(90, 80)
    assert not classes.better(80, 80)
    assert classes.better(1, float("nan"))
    assert not classes.better(float("nan"), float("nan"))
    labels = Task("graph", "multilabel", 12, categories=(3,))
    assert (labels.loss, labels.metric, labels.higher_is_better) == ("bce", "roc_auc", True)
    assert Task("graph", "regression", 1, in_channels=1, metric="r2").higher_is_better


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": "graphs"}, "graph, node, edge, link; did you mean 'graph'"),
        ({"kind": "ranking"}, "regression, classification"),
        ({"readout": "median"}, "mean, sum, max"),
        ({"loss": "cross_entropy"}, "l1, mse"),
        ({"metric": "accuracy"}, "mae, rmse"),
        ({"num_outputs": 0}, "cannot have 0 outputs"),
        ({"kind": "classification"}, "cannot have 1 outputs"),
        ({"categories": (3,)}, "exactly one of them"),
        ({"in_channels": 0}, "exactly one of them"),
        ({"kind": "multilabel", "loss": "cross_entropy"}, "bce, weighted_bce"),
        ({"kind": "multilabel", "metric": "class_accuracy"}, "accuracy, f1, roc_auc, average_precision"),
        ({"kind": "multilabel", "positive_weight": (1.0, 2.0)}, "2 entries for 1 outputs"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict, message: str) -> None:
    good = {"level": "graph", "kind": "regression", "num_outputs": 1, "in_channels": 1}
    with pytest.raises(InputError, match=message):
        Task(**{**good, **change})


# -- encoder and head -----------------------------------------------------------------------------------------------


def nodes(x: Tensor) -> GraphBatch:
    """Nodes without edges."""
    none = torch.zeros(2, 0, dtype=torch.long)
    return dataclasses.replace(GraphBatch.from_edges(x[:, None], none), x=x)


def test_encoder_adds_one_embedding_a_column() -> None:
    encoder = Encoder(Task("graph", "regression", 1, categories=(3, 2, 4)), 5)
    x = torch.tensor([[2, 1, 3], [0, 0, 0], [0, 1, 2]])
    tables = encoder.weight.split([3, 2, 4])
    wanted = torch.stack([tables[0][a] + tables[1][b] + tables[2][c] for a, b, c in x.tolist()])
    assert_near(encoder(nodes(x)), wanted, 1e-6)
    assert_near(encoder(nodes(x.to(torch.uint8))), wanted, 1e-6)
    out = torch.autograd.grad(encoder(nodes(x)).sum(), encoder.weight)[0]
    assert out[:, 0].tolist() == [2, 0, 1, 1, 2, 1, 0, 1, 1]


def test_encoder_of_features_is_linear() -> None:
    encoder = Encoder(Task("graph", "regression", 1, in_channels=3), 5)
    x = torch.rand(4, 3, dtype=torch.float64)
    assert_near(encoder(nodes(x)), x.float() @ encoder.linear.weight.T + encoder.linear.bias, 1e-6)


@pytest.mark.parametrize(
    ("columns", "shape"), [(1, (4, 3)), (3, (4, 1)), (2, (4, 3)), (2, (4,)), (2, (4, 2, 1))], ids=str
)
@pytest.mark.parametrize("categorical", [True, False])
def test_another_number_of_columns_is_an_error(columns: int, shape: tuple[int, ...], categorical: bool) -> None:
    task = {"categories": (9,) * columns} if categorical else {"in_channels": columns}
    encoder = Encoder(Task("graph", "regression", 1, **task), 5)
    wanted = rf"x has shape {'x'.join(map(str, shape))}; this network reads \[nodes, {columns}\]"
    with pytest.raises(InputError, match=wanted):
        encoder(nodes(torch.zeros(shape, dtype=torch.long)))


@pytest.mark.parametrize(
    ("level", "equal", "sizes"),
    [
        ("graph", False, [(8, 4), (4, 2), (2, 3)]),
        ("node", False, [(8, 4), (4, 2), (2, 3)]),
        ("edge", False, [(16, 4), (4, 2), (2, 3)]),
        ("graph", True, [(8, 8), (8, 8), (8, 8), (8, 3)]),
    ],
)
def test_widths_of_the_head(level: str, equal: bool, sizes: list[tuple[int, int]]) -> None:
    head = Head(Task(level, "regression", 3, in_channels=1), 8, equal)
    assert [(layer.in_features, layer.out_features) for layer in head.layers] == sizes
    assert len(Head(Task(level, "regression", 3, in_channels=1), 1).layers) == 3


@pytest.mark.parametrize("readout", ["mean", "sum", "max"])
def test_readout_of_an_empty_graph_is_zero(readout: str) -> None:
    head = Head(Task("graph", "regression", 1, in_channels=1, readout=readout), 4)
    h = torch.randn(3, 4)
    batch = GraphBatch.from_edges(h, torch.zeros(2, 0, dtype=torch.long), torch.tensor([0, 0, 2]), 3)

    def mlp(value: Tensor) -> Tensor:
        return head.layers[2](head.layers[1](head.layers[0](value).relu()).relu())

    reduced = {"sum": lambda v: v.sum(0), "mean": lambda v: v.mean(0), "max": lambda v: v.amax(0)}[readout]
    wanted = torch.stack([reduced(h[:2]), torch.zeros(4), h[2]])
    assert_near(head(h, batch), mlp(wanted), 1e-6)
