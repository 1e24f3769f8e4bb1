"""Metrics of a whole epoch from outputs that are collected on the device, by any store, padded or not, resumed or not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import shake
from small import benchmark, builder, multilabel, stop_after, transductive
from tiny import untimed

from gnas.data.benchmark import Benchmark, with_sampling
from gnas.errors import Interrupted
from gnas.graph import GraphSet
from gnas.model.metrics import METRICS, compute_metric
from gnas.model.network import GraphModule
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.training.evaluation import Evaluator
from gnas.training.prediction import infer
from gnas.training.sampling import open_store
from gnas.training.store import GraphStore
from gnas.training.train import train

CONFIG = TrainConfig(epochs=3, batch_size=5)


def select_by(bench: Benchmark, metric: str) -> Benchmark:
    return replace(bench, task=replace(bench.task, metric=metric))


CASES = [
    *(select_by(benchmark(kind), name) for kind in ("regression", "classification") for name in METRICS[kind]),
    *(select_by(multilabel(), name) for name in METRICS["multilabel"]),
    select_by(transductive(), "roc_auc"),
    select_by(with_sampling(transductive(), "-1,-1"), "roc_auc"),
]


def whole(model: GraphModule, graphs: GraphSet, metric: str) -> float | None:
    """The metric of predictions for all rows at once."""
    return compute_metric(metric, infer(model, graphs), graphs.y, graphs.mask).value


@pytest.mark.parametrize("bench", CASES, ids=lambda b: f"{b.name}-{b.task.metric}")
@pytest.mark.parametrize("padded", [False, True])
def test_an_epoch_has_the_metrics_of_all_its_rows(bench: Benchmark, padded: bool, monkeypatch) -> None:
    plan = GraphStore.plan
    monkeypatch.setattr(GraphStore, "plan", lambda self, size, *rest, **more: plan(self, size, *rest, padded=padded))
    model = builder(bench)()
    shake(model)
    evaluator = Evaluator(model, open_store(bench.test), 3, collect=True)
    for _ in range(2):
        found = evaluator(0)
        wanted = whole(model.eval(), bench.test, bench.task.metric)
        assert found["metric"] == pytest.approx(wanted, rel=1e-5)
        every = evaluator.read_metrics()
        assert set(every) == set(METRICS[bench.task.kind])
        for name, one in every.items():
            assert one.value == pytest.approx(whole(model, bench.test, name), rel=1e-5)


@pytest.mark.parametrize("bench", [select_by(benchmark(), "spearman"), multilabel()], ids=lambda b: b.name)
def test_a_stop_within_an_epoch_loses_no_output(bench: Benchmark, tmp_path: Path) -> None:
    once = train(builder(bench), bench, CONFIG, 3)
    with Run(tmp_path, {}) as run, pytest.raises(Interrupted):
        train(builder(bench), bench, CONFIG, 3, run=run, should_stop=stop_after(5))
    with Run(tmp_path, {}, resume=True) as run:
        again = train(builder(bench), bench, CONFIG, 3, run=run)
    assert untimed(again.history) == untimed(once.history)
    assert (again.test, again.metrics) == (once.test, once.metrics)


def test_a_result_holds_all_metrics_and_those_of_each_target() -> None:
    found = train(builder(multilabel()), multilabel(), CONFIG, 3)
    assert found.metrics["test"]["roc_auc"] == found.test
    assert found.metrics["val"]["roc_auc"] == pytest.approx(found.val)
    assert set(found.per_target) == {"val", "test"}
    assert list(found.per_target["test"]["roc_auc"]) == ["high", "even"]
    values = found.per_target["test"]["average_precision"].values()
    assert sum(values) / 2 == pytest.approx(found.metrics["test"]["average_precision"])
    assert train(builder(benchmark()), benchmark(), CONFIG, 3).per_target == {"val": {}, "test": {}}


def test_sums_need_no_table() -> None:
    store = open_store(benchmark().val)
    assert Evaluator(builder(benchmark())(), store, 3).meter.table is None
    table = Evaluator(builder(multilabel())(), open_store(multilabel().val), 3).meter.table
    assert table is not None
    assert table.shape == (len(multilabel().val) + 1, 2 + 2 + 2)
    assert not torch.is_grad_enabled() or not table.requires_grad
