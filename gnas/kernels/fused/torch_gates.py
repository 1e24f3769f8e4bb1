"""The gates of a stage's filters in PyTorch operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gnas.kernels.fused import GatePlan, Gates


def gate_forward(h: Tensor, x: Tensor, gates: Gates, plan: GatePlan) -> Tensor:
    """Each filter's source times its gate."""
    out = h.new_empty(len(plan.filters), *h.shape[1:])
    opened = _Opened(h, x, gates)
    for filter, (source, kind, row) in enumerate(plan.filters):
        if kind == 0:
            out[filter].copy_(h[source])
        else:
            torch.mul(h[source], opened(source, kind, row), out=out[filter])
    return out


def gate_backward(
    grad: Tensor, h: Tensor, x: Tensor, gates: Gates, plan: GatePlan
) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the sources, of the cell's input, and of the four tensors of the gates."""
    weight, bias, dense, dense_bias = gates
    channels = h.size(2)
    grad_h, grad_weight, grad_dense = torch.zeros_like(h), torch.empty_like(weight), torch.empty_like(dense)
    grad_dense_bias = torch.empty_like(dense_bias)
    slopes = h.new_empty(len(weight), h.size(1))
    opened = _Opened(h, x, gates)
    ones = h.new_ones(1, h.size(1))
    for filter, (source, kind, row) in enumerate(plan.filters):
        if kind == 0:
            grad_h[source].add_(grad[filter])
            continue
        open_ = opened(source, kind, row)
        grad_h[source].addcmul_(grad[filter], open_)
        reached = grad[filter] * h[source]
        if kind == 2:
            slope = reached.mul_(open_.sub_(open_.square()))
            grad_dense[row].copy_(slope)
            grad_dense_bias[row].copy_(ones @ slope)  # faster than a sum
            continue
        torch.mul(reached.sum(-1), (open_ - open_.square()).flatten(), out=slopes[row])
        grad_h[source].addr_(slopes[row], weight[row, :channels, 0])
        torch.mv(h[source].t(), slopes[row], out=grad_weight[row, :channels, 0])
    if not len(weight):
        return grad_h, None, grad_weight, torch.empty_like(bias), grad_dense, grad_dense_bias
    grad_weight[:, channels:, 0] = slopes @ x
    grad_x = slopes.t() @ weight[:, channels:, 0]
    return grad_h, grad_x, grad_weight, slopes.sum(1).view_as(bias), grad_dense, grad_dense_bias


class _Opened:
    """The value of each gate: ``[nodes, 1]`` for sparse filters, ``[nodes, channels]`` for dense ones."""

    def __init__(self, h: Tensor, x: Tensor, gates: Gates) -> None:
        self.h, self.gates = h, gates
        # The share of the cell's input in all sparse gates, as one product.
        self.given = gates.weight[:, h.size(2) :, 0] @ x.t()

    def __call__(self, source: int, kind: int, row: int) -> Tensor:
        weight, bias, dense, dense_bias = self.gates
        if kind == 2:
            return torch.add(dense[row], dense_bias[row]).sigmoid_()
        own = torch.addmv(self.given[row], self.h[source], weight[row, : self.h.size(2), 0])
        return own.add_(bias[row, 0]).sigmoid_()[:, None]
