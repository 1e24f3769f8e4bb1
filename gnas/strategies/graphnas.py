"""GraphNAS: a recurrent controller trained by REINFORCE over a coarse space of whole layers.

Gao et al., Graph Neural Architecture Search, IJCAI 2020: the other search method in the paper's tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gnas.arch.graphnas import (
    ACTIVATIONS,
    AGGREGATORS,
    ATTENTIONS,
    HEADS,
    WIDTHS,
    GraphNASArchitecture,
    GraphNASSpace,
)
from gnas.errors import InputError
from gnas.fields import setting
from gnas.model.graphnas import count_weights
from gnas.model.metrics import higher_is_better, is_percentage
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.controller import Controller, Draw, Reinforce
from gnas.strategies.trial import TrialSettings
from gnas.strategies.trials import TrialSearch


@dataclass(frozen=True)
class GraphNAS(TrialSettings):
    """Draw an architecture of ``num_cells`` layers, train it for ``epochs``, reward the controller by validation.

    The result's ``genotype`` holds a ``GraphNASArchitecture``, the best trial by validation: this strategy has a
    space of its own and does not use the problem's space and operations. ``max_weights`` excludes options that lead only to
    networks with more weights. Defaults are those of the authors; every candidate
    is trained from scratch. A reward is the accuracy in 0..1, or 1 / (1 + error / spread of the training targets).

    >>> gnas.GraphNAS(trials=20, max_weights=100_000).max_weights
    100000
    """

    trials: int = setting(100, "networks to try", at_least=1)
    max_weights: int = setting(5_000_000, "largest number of weights of a network", above=0)
    hidden: int = setting(100, "width of the controller", above=0)
    controller_lr: float = setting(3.5e-4, "learning rate of the controller", above=0)
    baseline_decay: float = setting(0.95, "decay of the average reward", at_least=0, below=1)
    entropy: float = setting(1e-4, "weight of the entropy in the reward")
    temperature: float = setting(5.0, "of the controller's scores", above=0)
    bound: float = setting(2.5, "largest score after the `tanh`", above=0)
    attentions: tuple[str, ...] = setting(ATTENTIONS, "attention functions to choose from")
    aggregators: tuple[str, ...] = setting(AGGREGATORS, "aggregators to choose from")
    activations: tuple[str, ...] = setting(ACTIVATIONS, "activations to choose from")
    heads: tuple[int, ...] = setting(HEADS, "numbers of heads to choose from")
    widths: tuple[int, ...] = setting(WIDTHS, "widths of a head to choose from")
    name: str = "graphnas"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.space()

    def space(self) -> GraphNASSpace:
        return GraphNASSpace(self.attentions, self.aggregators, self.activations, self.heads, self.widths)

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        return _GraphNASTrials(self, problem, context).search(self.name)


class _GraphNASTrials(TrialSearch):
    settings: GraphNAS
    drawn: Draw

    def __init__(self, settings: GraphNAS, problem: SearchProblem, context: SearchContext) -> None:
        super().__init__(settings, problem, context)
        self.space = settings.space()
        least = self._weights(())
        if least > settings.max_weights:
            layers = f"the lightest network of {problem.num_cells} layers"
            raise InputError(f"max_weights is {settings.max_weights:,}, but {layers} has {least:,}")
        controller = Controller(self.space.sizes(), settings.hidden, settings.temperature, settings.bound)
        self.policy = Reinforce(controller, settings.controller_lr, settings.baseline_decay, settings.entropy)

    def propose(self) -> GraphNASArchitecture:
        problem = self.problem
        self.drawn = self.policy.controller.draw(problem.num_cells, self.rng, self.mark_allowed)
        layers = self.space.layers(self._values(self.drawn.options), problem.num_cells)
        return GraphNASArchitecture(tuple(layers), problem.channels)

    def learn(self, val_metric: float | None) -> None:
        self.policy.learn(self.drawn, 0.0 if val_metric is None else self.reward(val_metric))

    def reward(self, val_metric: float) -> float:
        """Between 0 and 1, higher for better networks whatever the unit of the metric."""
        metric = self.problem.task.metric
        if is_percentage(metric):
            return val_metric / 100
        if higher_is_better(metric):
            return max(val_metric, 0.0)
        y = self.problem.train.targets().double()
        spread = float(y[torch.isfinite(y)].std(correction=0))
        return 1 / (1 + val_metric / max(spread, 1e-12))

    def mark_allowed(self, options: Sequence[int]) -> list[bool]:
        """Which options of the next decision leave room for the lightest rest within ``max_weights``."""
        size = self.space.sizes()[len(options) % len(self.space.sizes())]
        return [self._weights([*options, option]) <= self.settings.max_weights for option in range(size)]

    def _weights(self, options: Sequence[int]) -> int:
        layers = self.space.layers(self._values(options), self.problem.num_cells)
        return count_weights(layers, self.problem.channels, self.problem.task)

    def _values(self, options: Sequence[int]) -> list[Any]:
        kinds = self.space.options()
        return [kinds[step % len(kinds)][option] for step, option in enumerate(options)]

    def state(self) -> dict[str, Any]:
        return self.policy.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self.policy.load_state(state)
