"""The lightest and the heaviest network of a space."""

from dataclasses import replace

import numpy as np
from tiny import SPACE, tiny

from gnas.arch.space import SearchSpace
from gnas.model.network import Network
from gnas.strategies.base import SearchProblem
from gnas.strategies.weights import least_weights, most_weights


def count_drawn(space: SearchSpace, cells: int, channels: int = 8) -> list[int]:
    task, rng = tiny().task, np.random.default_rng(0)
    return [Network(space.sample(rng, cells), task, channels).num_weights() for _ in range(60)]


def test_every_draw_lies_between_the_lightest_and_the_heaviest() -> None:
    data = tiny()
    for space in (SPACE, SearchSpace(), replace(SPACE, filters=("dense",), aggregators=("max",))):
        drawn = count_drawn(space, 2)
        least = least_weights(space, data.task, 8, 2)
        most = most_weights(SearchProblem(data.train, data.val, data.task, space, 8, 2))
        assert least <= min(drawn) <= max(drawn) <= most


def test_a_space_with_one_network_has_one_number() -> None:
    data, space = tiny(), SearchSpace(nodes=1, outputs=1, filters=("dense",), aggregators=("sum",))
    (drawn,) = set(count_drawn(space, 3))
    problem = SearchProblem(data.train, data.val, data.task, space, 8, 3)
    assert least_weights(space, data.task, 8, 3) <= drawn <= most_weights(problem)
