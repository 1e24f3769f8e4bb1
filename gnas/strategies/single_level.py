"""Single-level search: weights and alphas both follow the training loss (paper, appendix Collapse problem)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gnas import distributed
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.gradient import GradientSearch, GradientSettings
from gnas.training.optim import autocast
from gnas.training.store import Planned


@dataclass(frozen=True)
class SingleLevel(GradientSettings):
    """The paper's search: one forward and one backward pass serve the weights and the alphas.

    >>> result = gnas.search(data, strategy=gnas.SingleLevel(epochs=1), channels=8, num_cells=2)
    >>> len(result.genotype.cells)
    2
    """

    name: str = "single-level"

    def search_once(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        return SingleLevelSearch(self, problem, context).search(self.name)


class SingleLevelSearch(GradientSearch):
    """Each step: one loss, one backward pass, both optimisers."""

    def _step(self, *planned: Planned) -> None:
        (here,) = planned
        supernet, task = self.supernet, self.problem.task
        supernet.zero_grad(set_to_none=True)
        with autocast(self.engine.device, self.settings.precision), distributed.shared_norms(self.settings.sync_bn):
            batch = self.store.batch(here.ids, here.capacity)
            out = supernet(batch)
            loss = task.loss_value(out, batch, distributed.sum_over_processes)
        loss.backward()
        loss = distributed.reduce_gradients(loss, list(supernet.parameters()))
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(supernet.weights(), self.settings.clip)
        self.weight_optimizer.step()
        self.alpha_optimizer.step()
        self.meter.add(out, batch, loss)
