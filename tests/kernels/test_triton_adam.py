"""Adam as two kernels takes the steps of PyTorch's."""

from __future__ import annotations

import copy

import pytest
import torch
from samples import INTERPRETED, assert_near
from torch import nn

from gnas.training.optim import clear_state, clip_and_step, make_adam, restore, set_rate

DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]  # test_aggregate.py runs this file in Triton's interpreter


def pair(monkeypatch: pytest.MonkeyPatch, decoupled: bool) -> list[tuple[nn.Module, torch.optim.Optimizer]]:
    """The same model twice, with PyTorch's optimiser and ours."""
    torch.manual_seed(0)  # near a gradient of zero Adam makes much of the last bit
    model = nn.Sequential(nn.Linear(30, 70), nn.Linear(70, 1), nn.Linear(3, 3)).to(DEVICE)  # the last has no gradient
    found = []
    for name in ("torch", "triton"):
        monkeypatch.setenv("GNAS_FUSED", name)
        own = copy.deepcopy(model)
        found.append((own, make_adam(own.parameters(), 0.1, 0.01, DEVICE, decoupled=decoupled)))
    assert type(found[0][1]) is not type(found[1][1])
    return found


def train(model: nn.Module, optimizer: torch.optim.Optimizer, clip: float, steps: int) -> None:
    for number in range(steps):
        optimizer.zero_grad()
        model[:2](torch.full((2, 30), 1.0 + number, device=DEVICE)).square().sum().backward()
        clip_and_step(optimizer, model.parameters(), clip)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("clip", [0.0, 0.5, 1e6])
def test_steps(clip: float, decoupled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    both = pair(monkeypatch, decoupled)
    for model, optimizer in both:
        train(model, optimizer, clip, 3)
        set_rate(optimizer, 0.01)
        train(model, optimizer, clip, 2)
    (wanted, _), (found, _) = both
    assert_near(list(found.parameters()), list(wanted.parameters()), 1e-5)


def test_a_state_goes_from_one_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    both = pair(monkeypatch, True)
    for model, optimizer in both:
        train(model, optimizer, 1.0, 2)
    states = [copy.deepcopy(optimizer.state_dict()) for _, optimizer in both]
    for (model, optimizer), state in zip(both, reversed(states), strict=True):
        restore(optimizer, state)
        train(model, optimizer, 1.0, 2)
    assert_near(list(both[1][0].parameters()), list(both[0][0].parameters()), 1e-5)
    ours = both[1][1]
    clear_state(ours)
    assert all(float(value.abs().sum()) == 0 for one in ours.state.values() for value in one.values())
