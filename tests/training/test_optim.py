"""Optimisers whose learning rate stays where it is, averages and precision."""

import copy

import pytest
import torch
from torch import nn

from gnas.training.optim import (
    WeightAverage,
    autocast,
    make_adam,
    make_sgd,
    read_steps,
    restore,
    set_rate,
    use_precision,
)

CPU = torch.device("cpu")


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    return [
        make_adam(model.parameters(), 0.1, 0.01, CPU, betas=(0.5, 0.9)),
        make_adam(model.parameters(), 0.1, 0.01, CPU, decoupled=True),
        make_sgd(model.parameters(), 0.1, 0.9, 0.01, CPU),
    ]


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(2, 3)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("tensor", [False, True])
def test_restore_goes_on_and_keeps_the_rates_place(kind: int, tensor: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = optimizers(model)[kind]
    for _ in range(2):
        step(model, optimizer)
    set_rate(optimizer, 0.03)
    other = copy.deepcopy(model)
    again = optimizers(other)[kind]
    rate = torch.tensor(0.1)
    if tensor:  # as on a GPU
        again.param_groups[0]["lr"] = rate
    restore(again, copy.deepcopy(optimizer.state_dict()))
    if tensor:
        assert again.param_groups[0]["lr"] is rate
        assert float(rate) == pytest.approx(0.03)
        set_rate(again, 0.02)
        assert again.param_groups[0]["lr"] is rate
        assert float(rate) == pytest.approx(0.02)
        return
    assert again.param_groups[0]["lr"] == 0.03
    step(model, optimizer)
    step(other, again)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("kind", range(3))
def test_they_step_as_pytorchs_own(kind: int) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    twin = copy.deepcopy(model)
    ours, weights = optimizers(model)[kind], list(twin.parameters())
    theirs = (
        torch.optim.Adam(weights, 0.1, (0.5, 0.9), weight_decay=0.01),
        torch.optim.AdamW(weights, 0.1, weight_decay=0.01),
        torch.optim.SGD(weights, 0.1, 0.9, weight_decay=0.01),
    )[kind]
    for _ in range(4):
        step(model, ours)
        step(twin, theirs)
    assert ours.param_groups[0]["fused"]  # PyTorch's default on a CPU is not: it takes four times as long
    for mine, own in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, own, rtol=1e-6, atol=1e-7)
    assert not any(p.requires_grad and p.grad_fn for p in model.parameters())
    saved = theirs.state_dict()
    ours.load_state_dict(saved)
    assert str(ours.state_dict()) == str(saved)


def test_a_saved_tensor_rate_becomes_a_number_on_the_cpu() -> None:
    model = nn.Linear(3, 2)
    optimizer = optimizers(model)[0]
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = torch.tensor(0.5)
    restore(optimizer, state)
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert isinstance(optimizer.param_groups[0]["lr"], float)


def test_the_kinds() -> None:
    first, second, third = optimizers(nn.Linear(3, 2))
    kinds = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
    assert all(isinstance(one, kind) for one, kind in zip((first, second, third), kinds, strict=True))
    assert not isinstance(first, torch.optim.AdamW)
    assert first.param_groups[0]["betas"] == (0.5, 0.9)
    assert [o.param_groups[0]["weight_decay"] for o in (first, second, third)] == [0.01] * 3


def test_weight_average() -> None:
    model, average = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    nn.init.constant_(model.weight, 3.0)
    model.running_mean.fill_(2.0)
    averaging = WeightAverage(average, model, 0.75)
    averaging.step(torch.tensor(100.0))
    assert average.weight.tolist() == [1.5] * 3  # 0.75 * 1 + 0.25 * 3
    assert average.running_mean.tolist() == [0.5] * 3
    assert model.weight.tolist() == [3.0] * 3
    assert average.weight.grad_fn is None
    averaging.step(torch.tensor(8.0))  # the first steps: (1 + 8) / (10 + 8)
    assert average.weight.tolist() == [2.25] * 3


def test_adam_counts_its_steps() -> None:
    model = nn.Linear(3, 2)
    for decoupled in (False, True):
        one = make_adam(model.parameters(), 0.1, 0.0, CPU, decoupled=decoupled)
        for taken in (1, 2):
            model(torch.ones(1, 3)).sum().backward()
            one.step()
            assert float(read_steps(one)) == taken


@pytest.mark.parametrize(("precision", "wanted"), [("float32", "highest"), ("tf32", "high"), ("bf16", "high")])
def test_precision(precision: str, wanted: str) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        use_precision(precision)
        assert torch.get_float32_matmul_precision() == wanted
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"  # TF32 on a CPU: half as fast with small networks
        with autocast(CPU, precision):
            kind = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        assert kind == (torch.bfloat16 if precision == "bf16" else torch.float32)
    finally:
        torch.set_float32_matmul_precision(before)
