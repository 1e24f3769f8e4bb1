"""The network of an architecture of any kind."""

import pytest
import torch
from small import GENOTYPE
from tiny import ring, tiny

from gnas.arch.architecture import Architecture
from gnas.arch.graphnas import GraphNASArchitecture, LayerChoice
from gnas.arch.hand_made import HandMade
from gnas.errors import InputError
from gnas.model.build import build_network, width_of

TASK = tiny().task
LAYER = LayerChoice("gat", "sum", "relu", 2, 8)
KINDS = [GENOTYPE, HandMade("gcn", 2, 8), GraphNASArchitecture((LAYER, LAYER))]


@pytest.mark.parametrize("architecture", KINDS, ids=["found", "hand-made", "graphnas"])
def test_every_kind_is_built_and_says_what_it_is(architecture: Architecture) -> None:
    network = build_network(architecture, TASK, channels=8)
    graph = ring(6, 0)
    assert network.architecture.kind == architecture.kind
    assert network(graph.x, graph.edge_index).shape == (1, 1)


def test_the_seed_decides_the_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.cat([p.flatten() for p in build_network(GENOTYPE, TASK, channels=8).parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize("budget", [2_000, 20_000])
def test_a_network_is_as_wide_as_the_budget_allows(budget: int) -> None:
    width = width_of(GENOTYPE, TASK, 64, budget)
    assert build_network(GENOTYPE, TASK, channels=width).num_weights() <= budget
    assert build_network(GENOTYPE, TASK, channels=width + 1).num_weights() > budget
    assert width_of(GENOTYPE, TASK, 64, budget, multiple=4) == width // 4 * 4


def test_without_a_budget_the_architecture_or_the_setting_decides_the_width() -> None:
    assert width_of(GENOTYPE, TASK, 64) == 64
    assert width_of(HandMade("gcn", 2, 24), TASK, 64, 1_000_000) == 24


def test_a_budget_for_which_no_width_is_small_enough() -> None:
    with pytest.raises(InputError, match="10"):
        width_of(GENOTYPE, TASK, 64, 10)
