"""Random initial weights.

Networks are built on the device ``meta`` to count their weights. Nothing is drawn there: PyTorch would import its compiler,
half of all modules, which takes seconds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def draw_normal(*shape: int, std: float = 1.0) -> Tensor:
    """Normally distributed numbers."""
    weight = torch.empty(*shape)
    return weight if weight.is_meta else weight.normal_(0.0, std)


def draw_xavier(weight: Tensor) -> None:
    """Fill ``weight`` by Glorot's rule with the gain of ReLU."""
    if not weight.is_meta:
        nn.init.xavier_normal_(weight, gain=nn.init.calculate_gain("relu"))
