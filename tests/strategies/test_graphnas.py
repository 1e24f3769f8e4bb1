"""GraphNAS's architectures, its controller and what the controller learns."""

import pytest
from tiny import SPACE, tiny

from gnas.errors import InputError
from gnas.model.build import build_network
from gnas.strategies import GraphNAS, search
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.graphnas import _GraphNASTrials

# -- the search -----------------------------------------------------------------------------------------------------


def trials(settings: GraphNAS, kind: str = "regression", num_cells: int = 3) -> _GraphNASTrials:
    benchmark = tiny(kind)
    posed = SearchProblem(benchmark.train, benchmark.val, benchmark.task, SPACE, 8, num_cells)
    return _GraphNASTrials(settings, posed, SearchContext())


def test_no_network_exceeds_the_weights_allowed() -> None:
    found = trials(GraphNAS(max_weights=20_000))
    sizes = [found.build(found.propose()).num_weights() for _ in range(40)]
    assert max(sizes) <= 20_000
    assert max(sizes) > 10_000
    with pytest.raises(InputError, match="max_weights is 100, but the lightest network of 3 layers has"):
        trials(GraphNAS(max_weights=100))


def test_rewards_grow_with_quality() -> None:
    regression, classification = trials(GraphNAS()), trials(GraphNAS(), "classification")
    assert 1 > regression.reward(0.01) > regression.reward(1.0) > regression.reward(1e9) > 0
    assert classification.reward(80.0) == 0.8
    spread = float(tiny().train.y.std(correction=0))
    assert regression.reward(spread) == pytest.approx(0.5)


def test_the_controller_learns_from_every_trial() -> None:
    settings = GraphNAS(trials=2, epochs=1, batch_size=12, heads=(1,), widths=(4,), hidden=8, controller_lr=0.1)
    result = search(tiny(), SPACE, settings, channels=8, num_cells=1)
    assert all(record["num_weights"] < 3000 for record in result.history)
    assert build_network(result.genotype, tiny().task)(tiny().val.batch()).shape == (6, 1)
