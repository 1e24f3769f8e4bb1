"""Weights of labels by hand; the losses themselves are tested with the task."""

import torch

from gnas.model.losses import error_losses, positive_weights


def test_positive_weights_are_negatives_over_positives() -> None:
    nan = float("nan")
    y = torch.tensor([[1.0, 0, nan, 1], [0, 0, nan, nan], [0, 0, nan, 0], [nan, 0, nan, 1]])
    assert positive_weights(y) == (2.0, 1.0, 1.0, 0.5)


def test_huber_is_torchs() -> None:
    error = torch.linspace(-3, 3, 25, dtype=torch.float64)
    wanted = torch.nn.functional.smooth_l1_loss(error, torch.zeros_like(error), reduction="none")
    assert torch.equal(error_losses("huber", error), wanted)
