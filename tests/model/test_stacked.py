"""Layers for a stack of operations are as many separate layers."""

import pytest
import torch
from samples import assert_near, gradients, shake
from torch import nn

from gnas.model.stacked import BatchNorm, StackedBatchNorm, StackedLinear, as_stack, masked_moments

H = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_stacked_linear_map_is_a_map_for_each_slice() -> None:
    stacked = shake(StackedLinear(3, 4, 5).double())
    alone = []
    for k in range(3):
        linear = nn.Linear(4, 5).double()
        linear.weight.data, linear.bias.data = stacked.weight[k].T.detach(), stacked.bias[k, 0].detach()
        alone.append(linear)
    wanted = torch.stack([linear(h) for linear, h in zip(alone, H, strict=True)])
    assert_near(stacked(H), wanted, 1e-12)
    every = stacked.wide(H[0]).unflatten(1, (3, 5)).transpose(0, 1)
    assert_near(every, torch.stack([linear(H[0]) for linear in alone]), 1e-12)


def test_a_linear_layer_is_a_stack_of_one() -> None:
    linear = nn.Linear(4, 5).double()
    weight, bias = as_stack(linear)
    assert bias is not None
    assert_near(H[0] @ weight[0] + bias[0], linear(H[0]), 1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_a_stacked_norm_is_a_norm_for_each_slice(training: bool) -> None:
    stacked = shake(StackedBatchNorm(3, 4).double()).train(training)
    alone = []
    for k in range(3):
        norm = nn.BatchNorm1d(4).double().train(training)
        norm.weight.data, norm.bias.data = stacked.weight[k, 0].detach(), stacked.bias[k, 0].detach()
        norm.running_mean, norm.running_var = stacked.running_mean[k, 0].clone(), stacked.running_var[k, 0].clone()
        alone.append(norm)
    h, other = H.clone().requires_grad_(), H.clone().requires_grad_()
    found, wanted = stacked(h), torch.stack([norm(one) for norm, one in zip(alone, other, strict=True)])
    assert_near(found, wanted, 1e-12)
    assert_near(gradients(found, [h]), gradients(wanted, [other]), 1e-11)
    assert_near(stacked.running_mean[:, 0], torch.stack([norm.running_mean for norm in alone]), 1e-12)
    assert_near(stacked.running_var[:, 0], torch.stack([norm.running_var for norm in alone]), 1e-12)


@pytest.mark.parametrize("kept", [7, 4, 1])
def test_moments_of_the_rows_that_count(kept: int) -> None:
    mean, var, count = masked_moments(H, torch.arange(7) < kept)
    assert_near(mean[:, 0], H[:, :kept].mean(1), 1e-12)
    assert_near(var[:, 0], H[:, :kept].var(1, correction=0), 1e-12)
    assert count == kept


def test_relu_after_a_norm_is_added_to_what_was_before() -> None:
    norm = shake(BatchNorm(4).double())
    wanted = H[1] + torch.relu(norm.eval()(H[0]))
    assert_near(norm.relu(H[0], before=H[1]), wanted, 1e-12)
