"""The feed-forward layer after a cell."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from gnas.kernels import fused
from gnas.model.stacked import BatchNorm, as_stack


class FeedForward(nn.Module):
    r"""Two linear layers, residual and norm after them: :math:`\mathrm{BN}(h + W_2\,\mathrm{ReLU}(W_1 h))`, as in GNN+.

    The hidden layer is twice as wide. Dropout acts after each of the two layers.
    """

    def __init__(self, channels: int, dropout: float, norm: bool) -> None:
        super().__init__()
        self.first = nn.Linear(channels, 2 * channels)
        self.second = nn.Linear(2 * channels, channels)
        self.norm = BatchNorm(channels) if norm else None
        self.dropout = dropout

    def forward(self, h: Tensor, mask: Tensor | None, drops: tuple[fused.Drop, ...] = ()) -> Tensor:
        """``drops``: dropout after each of the two, if it was drawn already."""
        if fused.joins(h):
            rate = self.dropout if self.training else 0.0
            maps = (as_stack(self.first), as_stack(self.second))
            out = fused.feed_forward(h[None], *maps, drops or fused.draw_drops(rate, 2, h)).squeeze(0)
        else:
            hidden = self._dropped(F.relu(self.first(h)))
            out = h + self._dropped(self.second(hidden))
        return out if self.norm is None else self.norm(out, mask)

    def _dropped(self, h: Tensor) -> Tensor:
        return F.dropout(h, self.dropout, self.training) if self.dropout else h
