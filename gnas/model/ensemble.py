"""An ensemble: trained networks that vote. It is called like a network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnas.graph import GraphBatch
from gnas.model.network import GraphModule

LEAST = 1e-12  # probability that is taken for 0 in logarithms


class Ensemble(GraphModule):
    """The weighted mean of what several networks predict: probabilities of classes or labels, or values of targets.

    Args:
        members: Networks for the same task. Their read-outs may differ.
        weights: The share of each in the mean; they are scaled to add up to 1.
    """

    def __init__(self, members: Sequence[GraphModule], weights: Sequence[float]) -> None:
        super().__init__()
        self.members, self.task = nn.ModuleList(members), members[0].task
        self.weights = tuple(float(one) / sum(weights) for one in weights)

    def run(self, batch: GraphBatch) -> Tensor:
        """Outputs whose probabilities or values are the means over the members."""
        outs = [member.run(batch) for member in self.networks()]
        if self.task.kind == "regression":
            return self.average(outs)
        mean = self.average([self.task.predicted_values(out) for out in outs])
        return mean.clamp_min(LEAST).log() if self.task.kind == "classification" else torch.logit(mean, LEAST)

    def networks(self) -> list[GraphModule]:
        """The members, with their type."""
        return [one for one in self.members if isinstance(one, GraphModule)]

    def average(self, values: Sequence[Tensor]) -> Tensor:
        """The weighted mean of values of the members."""
        return torch.stack([share * one for share, one in zip(self.weights, values, strict=True)]).sum(0)

    def spread(self, values: Sequence[Tensor]) -> Tensor:
        """The weighted standard deviation of values of the members."""
        mean = self.average(values)
        return self.average([(one - mean).square() for one in values]).sqrt()
