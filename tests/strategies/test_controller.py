"""The controller: probabilities of its sequences, and what REINFORCE makes of rewards."""

import itertools

import numpy as np
import pytest
import torch

from gnas.strategies.controller import Controller, Reinforce


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
