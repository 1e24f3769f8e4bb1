"""Initial weights are drawn as PyTorch draws them, and not at all on the device meta."""

from __future__ import annotations

import torch

from gnas.model.initial import draw_normal, draw_xavier


def test_normal_numbers_are_those_of_randn() -> None:
    torch.manual_seed(3)
    found = draw_normal(4, 5, std=0.1)
    torch.manual_seed(3)
    torch.testing.assert_close(found, 0.1 * torch.randn(4, 5))


def test_glorots_rule() -> None:
    weight = torch.zeros(300, 200)
    draw_xavier(weight)
    assert abs(float(weight.std()) / (2 / 500 * 2) ** 0.5 - 1) < 0.05  # the gain of ReLU is the root of 2


def test_nothing_is_drawn_on_meta() -> None:
    state = torch.get_rng_state()
    with torch.device("meta"):
        draw_xavier(draw_normal(3, 4))
    assert torch.equal(torch.get_rng_state(), state)
