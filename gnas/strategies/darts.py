"""Bilevel search (DARTS): alphas follow the loss on a held-out half of train, weights the loss on the other half."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnas import distributed
from gnas.fields import setting
from gnas.graph import GraphBatch, GraphSet
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.gradient import GradientSearch, GradientSettings
from gnas.training.loop import plan_epoch
from gnas.training.optim import autocast
from gnas.training.store import Planned, Store

REACH = 0.01  # step of the weights in the difference quotient of second order, as in DARTS


@dataclass(frozen=True)
class Darts(GradientSettings):
    """DARTS: the alphas are fitted on other graphs than the weights.

    ``order=1`` takes the weights as they are; ``order=2`` looks one weight step ahead (unrolled).

    >>> gnas.Darts(epochs=50, order=2).order
    2
    """

    train_share: float = setting(0.5, above=0, at_most=0.95)  # alphas are trained on other graphs than weights
    order: int = setting(1, "`1` takes the weights as they are, `2` looks one step ahead", choices=(1, 2))
    name: str = "darts"

    def search_once(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        return DartsSearch(self, problem, context).search(f"{self.name}{self.order}")


class DartsSearch(GradientSearch):
    """Each step: alphas on a held-out batch, then weights on a training batch."""

    advice = "the single-level strategy"
    settings: Darts

    def _parts(self) -> list[GraphSet]:
        return list(self.split())

    @property
    def held_out(self) -> Store:
        return self.stores[1]

    def plan(self) -> list[tuple[Planned, ...]]:
        if self.step_number == 0:
            self.begin_epoch()
        size = self.settings.batch_size
        held_out = self.held_out.plan(size, self.generator, share=distributed.batch_share())
        ours = plan_epoch(self.store, size, self.settings.epoch_steps, self.generator)
        return [(p, held_out[k % len(held_out)]) for k, p in enumerate(ours)]

    def _step(self, *planned: Planned) -> None:
        here, there = planned
        train = self.store.batch(here.ids, here.capacity)
        val = self.held_out.batch(there.ids, there.capacity)
        gradients = self._first_order(val) if self.settings.order == 1 else self.unrolled_gradients(train, val)
        for alpha, gradient in zip(self.supernet.alphas(), gradients, strict=True):
            alpha.grad = gradient
        self.alpha_optimizer.step()
        self._weight_step(train)

    def _weight_step(self, train: GraphBatch) -> None:
        weights = self.supernet.weights()
        out, share = self._forward(train)
        loss, gradients = distributed.sum_gradients(share, weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient.contiguous()  # the fused optimiser needs it
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(weights, self.settings.clip)
        self.weight_optimizer.step()
        self.meter.add(out, train, loss)

    def _first_order(self, val: GraphBatch) -> list[Tensor]:
        return self._gradients(val, self.supernet.alphas())

    def unrolled_gradients(self, train: GraphBatch, val: GraphBatch) -> list[Tensor]:
        r"""Gradient of :math:`L_{val}(w', \alpha)` with :math:`w' = w - \xi \nabla_w L_{train}(w, \alpha)`.

        The mixed second derivative times :math:`\nabla_{w'} L_{val}` is taken as a central difference of
        :math:`\nabla_\alpha L_{train}` around w, as in DARTS; nothing is read back to the host.
        """
        supernet, settings = self.supernet, self.settings
        weights, alphas = supernet.weights(), supernet.alphas()
        rate = self.weight_optimizer.param_groups[0]["lr"]
        saved = [w.detach().clone() for w in weights]
        ahead = self._gradients(train, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, ahead, strict=True):
                buffer = self.weight_optimizer.state[weight].get("momentum_buffer")
                step = gradient + settings.weight_decay * weight
                weight.sub_(rate * (step if buffer is None else step + settings.momentum * buffer))
        gradients = self._gradients(val, [*alphas, *weights])
        direct, direction = gradients[: len(alphas)], gradients[len(alphas) :]
        scale = REACH / torch.stack([d.norm() for d in direction]).norm().clamp_min(1e-12)
        sides = [self._alpha_gradient_at(train, weights, saved, direction, sign * scale) for sign in (1.0, -1.0)]
        _set(weights, saved)
        return [d - rate * (p - m) / (2 * scale) for d, p, m in zip(direct, *sides, strict=True)]

    def _alpha_gradient_at(
        self,
        train: GraphBatch,
        weights: list[nn.Parameter],
        saved: list[Tensor],
        direction: list[Tensor],
        distance: Tensor,
    ) -> list[Tensor]:
        _set(weights, [s + distance * d for s, d in zip(saved, direction, strict=True)])
        return self._gradients(train, self.supernet.alphas())

    def _gradients(self, batch: GraphBatch, parameters: list[nn.Parameter]) -> list[Tensor]:
        return distributed.sum_gradients(self._forward(batch)[1], parameters)[1]

    def _forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Outputs and loss of a batch, or of this process's share of it."""
        with autocast(self.engine.device, self.settings.precision), distributed.shared_norms(self.settings.sync_bn):
            out = self.supernet(batch)
            return out, self.problem.task.loss_value(out, batch, distributed.sum_over_processes)


@torch.no_grad()
def _set(weights: list[nn.Parameter], values: list[Tensor]) -> None:
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)
