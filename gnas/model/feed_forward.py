"""The feed-forward layer after a cell."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from gnas.kernels import fused
from gnas.model.stacked import BatchNorm


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

    def forward(self, h: Tensor, mask: Tensor | None) -> Tensor:
        if fused.joins(h):
            out = self._joined(h)
        else:
            hidden = self._dropped(F.relu(self.first(h)))
            out = h + self._dropped(self.second(hidden))
        return out if self.norm is None else self.norm.plain(out, mask)

    def _joined(self, h: Tensor) -> Tensor:
        """The same up to the norm, as one function."""
        maps = ((one.weight.t()[None], one.bias.view(1, 1, -1)) for one in (self.first, self.second))
        drop = self.dropout if self.training else 0.0
        return fused.feed_forward(h[None], *maps, drop, fused.draw_seeds(2, h) if drop else ()).squeeze(0)

    def _dropped(self, h: Tensor) -> Tensor:
        return F.dropout(h, self.dropout, self.training) if self.dropout else h
