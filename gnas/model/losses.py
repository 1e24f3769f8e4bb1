"""Losses of single entries, and how they become the loss of a batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

LOSSES = {
    "regression": ("l1", "mse", "huber"),
    "classification": ("cross_entropy", "weighted_cross_entropy"),
    "multilabel": ("bce", "weighted_bce"),
}
Total = Callable[[Tensor], Tensor]


def error_losses(name: str, error: Tensor) -> Tensor:
    """Losses of errors: ``l1`` |e|, ``mse`` e², ``huber`` e²/2 up to |e| = 1 and |e| - 1/2 beyond."""
    if name == "huber":
        return F.huber_loss(error, torch.zeros_like(error), reduction="none")
    return error.abs() if name == "l1" else error.square()


def label_losses(out: Tensor, y: Tensor, positive_weight: Tensor | None) -> Tensor:
    """Binary cross-entropy of each label; the weight multiplies the losses of positive entries."""
    return F.binary_cross_entropy_with_logits(out, y.to(out.dtype), reduction="none", pos_weight=positive_weight)


def class_weights(target: Tensor, mask: Tensor, classes: int, total: Total) -> Tensor:
    """(V - V_c) / V for the classes present in the batch, 0 for the absent ones."""
    counts = total(mask.new_zeros(classes).index_add_(0, target, mask))
    rows = counts.sum()
    return (rows - counts) / rows.clamp_min(1) * (counts > 0)


def masked_mean(values: Tensor, mask: Tensor, total: Total) -> Tensor:
    """The mean of the entries that count, over all processes."""
    return (values * mask).sum() / total(mask.sum()).clamp_min(1)


def positive_weights(y: Tensor) -> tuple[float, ...]:
    """Negative over positive entries of each label; 1 for a label of which only one class is known."""
    positive, negative = ((y == value).sum(0).double() for value in (1, 0))
    both = (positive > 0) & (negative > 0)
    return tuple(torch.where(both, negative / positive.clamp_min(1), 1.0).tolist())
