"""GraphNAS's architectures, its controller and what the controller learns."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import SPACE, tiny

from gnas.arch.architecture import read_architecture
from gnas.arch.graphnas import (
    ACTIVATIONS,
    AGGREGATORS,
    ATTENTIONS,
    GraphNASArchitecture,
    GraphNASSpace,
    LayerChoice,
)
from gnas.errors import InputError
from gnas.model.build import build_network
from gnas.strategies import GraphNAS, search
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.controller import Controller, Reinforce
from gnas.strategies.graphnas import _GraphNASTrials

layers = st.builds(
    LayerChoice,
    st.sampled_from(ATTENTIONS),
    st.sampled_from(AGGREGATORS),
    st.sampled_from(ACTIVATIONS),
    st.integers(1, 16),
    st.integers(1, 256),
)


@given(st.builds(GraphNASArchitecture, st.lists(layers, min_size=1, max_size=4).map(tuple), st.integers(1, 64)))
def test_yaml_round_trip(architecture: GraphNASArchitecture) -> None:
    again = GraphNASArchitecture.from_yaml(architecture.to_yaml())
    assert again == architecture
    assert again.id == architecture.id
    assert again.depth() == len(again.formulas()) == len(architecture.layers)


def test_files_and_formulas(tmp_path: Path) -> None:
    architecture = GraphNASArchitecture((LayerChoice("sym-gat", "max-pooling", "relu6", 4, 16),))
    assert read_architecture(architecture.save(tmp_path / "found.yaml")) == architecture
    assert architecture.formulas() == ("relu6(max-pooling(sym-gat, 4 x 16))",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gnas-graphnas", "gnas-genotype", "<string>: unknown file format 'gnas-genotype'"),
        ("heads: 4", "heads: four", "layer 1: heads is 'four'; it must be a whole number"),
        (": gat", ": gta", "layer 1: unknown attention 'gta'.*did you mean 'gat'"),
        ("  width: 16\n", "", "layer 1: key width is missing"),
        ("heads: 4", "heads: 0", "0 heads of 16 channels"),
    ],
)
def test_bad_files_are_named(old: str, new: str, message: str) -> None:
    text = GraphNASArchitecture((LayerChoice("gat", "sum", "elu", 4, 16),)).to_yaml()
    assert old in text
    with pytest.raises(InputError, match=message):
        GraphNASArchitecture.from_yaml(text.replace(old, new))


def test_the_space_is_graphnas() -> None:
    assert GraphNASSpace().sizes() == (7, 4, 8, 6, 7)
    with pytest.raises(InputError, match="at least one LayerChoice"):
        GraphNASArchitecture(())


# -- the controller -------------------------------------------------------------------------------------------------


def test_probabilities_of_all_sequences_sum_to_one() -> None:
    torch.manual_seed(0)
    controller = Controller((2, 3), hidden=6)
    draws = [controller.judge((a, b, c, d)) for a, b, c, d in itertools.product(range(2), range(3), range(2), range(3))]
    total = torch.stack([draw.log_prob.detach() for draw in draws]).exp().sum()
    assert float(total) == pytest.approx(1, abs=1e-5)
    different = {round(float(draw.log_prob.detach()), 6) for draw in draws}
    assert len(different) > 30  # later decisions depend on earlier ones


def test_draws_follow_the_probabilities() -> None:
    torch.manual_seed(1)
    controller, rng = Controller((3,), hidden=4, temperature=0.1), np.random.default_rng(0)
    counts = np.bincount([controller.draw(1, rng).options[0] for _ in range(1500)], minlength=3)
    wanted = [float(controller.judge((k,)).log_prob.detach().exp()) for k in range(3)]
    assert counts / 1500 == pytest.approx(wanted, abs=0.04)
    drawn = controller.draw(4, rng)
    assert torch.equal(controller.judge(drawn.options).log_prob, drawn.log_prob)
    assert 0 < float(drawn.entropy.detach()) <= 4 * np.log(3) + 1e-5


def test_forbidden_options_are_never_drawn() -> None:
    torch.manual_seed(0)
    controller, rng = Controller((3, 2), hidden=4), np.random.default_rng(0)

    def allowed(options: list[int]) -> list[bool]:
        return [False, True, True] if len(options) % 2 == 0 else [options[-1] == 1, True]

    draws = [controller.draw(2, rng, allowed) for _ in range(200)]
    assert {draw.options[:2] for draw in draws} == {(1, 0), (1, 1), (2, 1)}
    for draw in draws[:3]:
        draw.entropy.backward(retain_graph=True)
        draw.log_prob.backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in controller.parameters())


@pytest.mark.parametrize("place", range(4))
def test_reinforce_raises_a_rewarded_choice(place: int) -> None:
    torch.manual_seed(place)
    rng = np.random.default_rng(place)
    policy = Reinforce(Controller((3, 2), hidden=16), lr=0.02, entropy=0.0)

    def share() -> float:
        return np.mean([policy.controller.draw(2, rng).options[place] == 1 for _ in range(60)])

    before = share()
    for _ in range(150):
        draw = policy.controller.draw(2, rng)
        policy.learn(draw, float(draw.options[place] == 1))
    assert share() > max(before + 0.2, 0.8)


def test_the_baseline_is_a_moving_average_and_entropy_is_rewarded() -> None:
    torch.manual_seed(0)
    policy = Reinforce(Controller((4,), hidden=8), lr=0.05, decay=0.9, entropy=1.0)
    torch.nn.init.constant_(policy.controller.decoders[0].bias, 0.0)
    with torch.no_grad():
        policy.controller.decoders[0].bias[0] = 5.0
    rng, before = np.random.default_rng(0), float(policy.controller.judge((0,)).entropy.detach())
    for reward in (1.0, 0.0, 0.5):
        policy.learn(policy.controller.draw(1, rng), reward)
    assert policy.baseline == pytest.approx(0.9 * (0.9 * 1.0) + 0.1 * 0.5)
    for _ in range(30):
        policy.learn(policy.controller.draw(1, rng), policy.baseline)
    assert float(policy.controller.judge((0,)).entropy.detach()) > before


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
