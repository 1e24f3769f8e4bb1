"""A budget: what each strategy gets of it, and how many weights are fair."""

import pytest
from tiny import SPACE, tiny

from gnas.arch.space import SearchSpace
from gnas.compare.strategies import SearchBudget, most_weights
from gnas.errors import InputError
from gnas.model.network import Network
from gnas.strategies import Darts, Evolution, GraphNAS, RandomSearch, SingleLevel
from gnas.strategies.base import SearchProblem


def problem(space: SearchSpace = SPACE, channels: int = 8) -> SearchProblem:
    data = tiny()
    return SearchProblem(data.train, data.val, data.task, space, channels, num_cells=2)


def test_everybody_gets_the_same() -> None:
    budget = SearchBudget(epochs=50, trial_epochs=4, derivations=5, batch_size=16, lr=0.1)
    for found in map(budget.given_to, (SingleLevel(alpha_lr=0.5), Darts(order=2, alpha_lr=0.5))):
        assert (found.epochs, found.alpha_lr, found.batch_size) == (30, 0.5, 64)  # the rest is for 5 networks
    for found in map(budget.given_to, (RandomSearch(), Evolution(inherit=True), GraphNAS())):
        assert (found.trials, found.epochs, found.max_epochs, found.batch_size, found.lr) == (12, 4, 50, 16, 0.1)
    assert budget.given_to(Darts(order=2)).order == 2


def test_evolution_has_room_to_evolve() -> None:
    few, many = SearchBudget(20, 4, 1), SearchBudget(400, 4, 1)
    assert (few.given_to(Evolution()).population, few.given_to(Evolution()).sample) == (2, 2)
    assert (many.given_to(Evolution()).population, many.given_to(Evolution()).sample) == (10, 3)


def test_other_strategies_are_left_alone() -> None:
    own = object()
    assert SearchBudget().given_to(own) is own


@pytest.mark.parametrize("space", [SPACE, SearchSpace(), SearchSpace(3, 3, variant="reference")], ids=str)
def test_no_network_of_the_space_is_heavier(space: SearchSpace) -> None:
    import numpy as np

    one, rng = problem(space), np.random.default_rng(0)
    most = most_weights(one)
    drawn = [Network(space.sample(rng, 2), one.task, 8).num_weights() for _ in range(30)]
    assert max(drawn) <= most
    assert SearchBudget().for_problem(one).given_to(GraphNAS()).max_weights == most
    assert SearchBudget(max_weights=7).for_problem(one).given_to(GraphNAS()).max_weights == 7
    assert SearchBudget().for_problem(one).given_to(GraphNAS(max_weights=9)).max_weights == 9


def test_what_cannot_be_paid_is_refused() -> None:
    with pytest.raises(InputError, match=r"too small for 4 derived networks of 10 epochs each.*at least 44 epochs"):
        SearchBudget(epochs=43)
    assert SearchBudget(epochs=44).search_epochs == 4
    with pytest.raises(InputError, match="trial_epochs of the budget is 0; it must be at least 1"):
        SearchBudget(trial_epochs=0)
