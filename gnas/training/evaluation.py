"""Loss and metric of a model over a whole split."""

from __future__ import annotations

from typing import Any

import torch

from gnas import distributed
from gnas.graph import GraphSet
from gnas.model.network import GraphModule
from gnas.training.engine import Engine, mode_for
from gnas.training.loop import Meter, tell
from gnas.training.optim import autocast
from gnas.training.sampling import open_store
from gnas.training.store import Planned, Store


def evaluate(
    model: GraphModule, graphs: GraphSet, batch_size: int = 128, device: torch.device | str = "cpu"
) -> dict[str, float]:
    """Loss and metric over a whole split: ``loss``, ``metric`` and ``metric_per_batch``."""
    evaluator = Evaluator(model, open_store(graphs, device), batch_size)
    return evaluator(0)


class Evaluator:
    """Evaluates a model on a store, again and again, with one recorded step."""

    def __init__(
        self,
        model: GraphModule,
        store: Store,
        batch_size: int,
        mode: str = "auto",
        precision: str = "float32",
        stream: Any = None,
        split: str = "",
    ) -> None:
        self.model, self.store, self.precision = model, store, precision
        rank, size = distributed.share()
        self.plan = store.plan(batch_size)[rank::size]  # whole batches: their figures add up exactly
        self.meter = Meter(model.task, store.device, len(self.plan), split)
        self.engine = Engine(self._step, store.device, mode_for(mode, store), stream, model.parts())

    def _step(self, planned: Planned) -> None:
        with torch.no_grad(), autocast(self.store.device, self.precision):
            batch = self.store.batch(planned.ids, planned.capacity)
            out = self.model(batch)
            self.meter.add(out, batch, self.model.task.loss_value(out, batch))

    def __call__(self, epoch: int) -> dict[str, float]:
        was_training = self.model.training
        self.model.eval()
        with self.engine.on_stream():
            self.meter.reset()
            for number, planned in enumerate(self.plan, start=1):
                self.engine(planned)
                tell(None, epoch, 0, number, len(self.plan))
            figures = self.meter.read(epoch)
        self.model.train(was_training)
        return figures
