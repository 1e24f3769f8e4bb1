"""Loss and metric of a model over a whole split, and statistics of its batch norms computed for evaluation.

The running averages of training lag behind the weights and cover few batches. If a feature is almost constant (the maximum
over the neighbours in a dense graph) or rare (the one labelled node of a community), the lag is as large as the feature's
spread. The network then fits its training batches and fails in evaluation. Recomputing the statistics is known as precise batch
norm (Wu and Johnson, Rethinking "Batch" in BatchNorm, 2021).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gnas import distributed
from gnas.errors import explain_memory
from gnas.graph import GraphSet
from gnas.model.metrics import METRIC_TABLE, MetricValue
from gnas.model.network import GraphModule
from gnas.model.stacked import StackedBatchNorm
from gnas.model.task import Task
from gnas.training.engine import Engine, choose_mode
from gnas.training.loop import make_generator, report_step
from gnas.training.meter import Meter
from gnas.training.optim import autocast
from gnas.training.sampling import open_store
from gnas.training.store import Planned, Store

SETTLED = 50  # steps after which running averages no longer depend on their start; a new batch has a share of 0.1
# By how much evaluation may be worse. In 114 trainings on the benchmarks three accuracies were worse by .11 to .35, all others
# by at most .001, and errors by at most .06.
WORSE, WORSE_ERROR = 0.05, 0.1


def evaluate(
    model: GraphModule, graphs: GraphSet, batch_size: int = 128, device: torch.device | str = "cpu"
) -> dict[str, float]:
    """Loss and metric over a whole split: ``loss``, ``metric`` and ``metric_per_batch``."""
    evaluator = Evaluator(model, open_store(graphs, device), batch_size)
    return evaluator(0)


class Evaluator:
    """Evaluates a model on a store repeatedly, with one recorded step. ``collect`` keeps outputs for :meth:`read_metrics`."""

    def __init__(
        self,
        model: GraphModule,
        store: Store,
        batch_size: int,
        mode: str = "auto",
        precision: str = "float32",
        stream: Any = None,
        split: str = "",
        collect: bool = False,
    ) -> None:
        self.model, self.store, self.precision, self.batch_size = model, store, precision, batch_size
        rank, size = distributed.batch_share()
        self.plan = store.plan(batch_size)[rank::size]  # whole batches: their figures add up exactly
        self.meter = Meter(model.task, store.device, len(self.plan), split, store.num_rows, collect)
        self.engine = Engine(self._step, store.device, choose_mode(mode, store), stream, model.parts())

    def _step(self, planned: Planned) -> None:
        with torch.no_grad(), autocast(self.store.device, self.precision):
            batch = self.store.batch(planned.ids, planned.capacity)
            out = self.model(batch)
            self.meter.add(out, batch, self.model.task.loss_value(out, batch))

    def __call__(self, epoch: int) -> dict[str, float]:
        was_training = self.model.training
        self.model.eval()
        with explain_memory(self.store.device, f"the batch size of the evaluation (now {self.batch_size})"):
            figures = self._run(epoch)
        self.model.train(was_training)
        return figures

    def _run(self, epoch: int) -> dict[str, float]:
        with self.engine.on_stream():
            self.meter.reset()
            for number, planned in enumerate(self.plan, start=1):
                self.engine(planned)
                report_step(None, epoch, 0, number, len(self.plan))
            return self.meter.read(epoch)

    def read_metrics(self) -> dict[str, MetricValue]:
        """All metrics of the last call, if this evaluator collects outputs."""
        with self.engine.on_stream():
            return self.meter.read_metrics()


def list_norms(model: nn.Module) -> list[StackedBatchNorm]:
    """The norms whose statistics can be recomputed."""
    return [part for part in model.modules() if isinstance(part, StackedBatchNorm)]


def lag_behind(task: Task, batches: float, evaluated: float) -> bool:
    """Whether the training graphs score clearly worse in evaluation than in the batches of their epoch.

    Usually they score better: weights improve during the epoch, and evaluation has no dropout.
    """
    if METRIC_TABLE[task.metric].signed:
        return 1 - evaluated > (1 + WORSE_ERROR) * (1 - batches)
    if task.higher_is_better:
        return batches > (1 + WORSE) * evaluated
    return evaluated > (1 + WORSE_ERROR) * batches


class PreciseNorms:
    """Sets the running statistics of a model's norms to their mean over ``batches`` batches, always the same graphs.

    All other modules are in evaluation mode meanwhile, so there is no dropout.
    """

    def __init__(
        self, model: GraphModule, store: Store, batch_size: int, batches: int, mode: str, precision: str, stream: Any
    ) -> None:
        self.model, self.store, self.precision = model, store, precision
        self.norms = list_norms(model)
        self.running = [value for norm in self.norms for value in (norm.running_mean, norm.running_var)]
        self.sums = [torch.zeros_like(value) for value in self.running]
        self.plan = store.plan(batch_size, make_generator(0))
        self.plan = self.plan[: max(min(batches, len(self.plan) - 1), 1)]  # the last batch is a short one
        self.engine = Engine(self._step, store.device, choose_mode(mode, store), stream)

    def _step(self, planned: Planned) -> None:
        with torch.no_grad(), autocast(self.store.device, self.precision):
            self.model(self.store.batch(planned.ids, planned.capacity))
            torch._foreach_add_(self.sums, self.running)

    @torch.no_grad()
    def __call__(self) -> None:
        if not self.norms:
            return
        was_training, momenta = self.model.training, [norm.momentum for norm in self.norms]
        self.model.eval()
        for norm in self.norms:
            norm.train()
            norm.momentum = 1.0  # the statistics of each batch, without averaging
        with self.engine.on_stream():
            torch._foreach_zero_(self.sums)
            for planned in self.plan:
                self.engine(planned)
            torch._foreach_copy_(self.running, torch._foreach_div(self.sums, float(len(self.plan))))
        for norm, momentum in zip(self.norms, momenta, strict=True):
            norm.momentum = momentum
        self.model.train(was_training)
