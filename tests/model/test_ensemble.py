"""An ensemble predicts the weighted mean of its members."""

import pytest
import torch
from samples import assert_near, shake
from small import GENOTYPE, benchmark, multilabel
from torch_geometric.data import Batch

from gnas.data.benchmark import Benchmark
from gnas.graph import GraphBatch
from gnas.model.ensemble import Ensemble
from gnas.model.network import Network


def make(data: Benchmark, weights: tuple[float, ...] = (3.0, 1.0)) -> Ensemble:
    made = [shake(Network(GENOTYPE, data.task, 4), seed=number) for number in range(len(weights))]
    return Ensemble(made, weights).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data", [benchmark(), benchmark("classification"), multilabel()], ids=lambda one: one.task.kind
)
def test_values_and_probabilities_are_means(data: Benchmark) -> None:
    one = make(data)
    batch = GraphBatch.from_pyg(Batch.from_data_list([data.test[k] for k in range(4)]))
    with torch.no_grad():
        parts = [data.task.predicted_values(member.run(batch)) for member in one.networks()]
        found = data.task.predicted_values(one.run(batch))
    assert_near(found, 0.75 * parts[0] + 0.25 * parts[1], 1e-5)


def test_the_spread_is_the_weighted_standard_deviation() -> None:
    values = [torch.tensor([0.0, 2.0]), torch.tensor([4.0, 2.0])]
    one = make(benchmark())
    assert one.average(values).tolist() == [1.0, 2.0]
    assert one.spread(values).tolist() == pytest.approx([(0.75 * 1 + 0.25 * 9) ** 0.5, 0.0])


def test_weights_are_shares() -> None:
    assert make(benchmark(), (2.0, 2.0, 4.0)).weights == (0.25, 0.25, 0.5)
