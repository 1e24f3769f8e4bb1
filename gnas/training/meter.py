"""Loss and metric of an epoch: measured on the device step by step, read once at the end."""

from __future__ import annotations

import torch
from torch import Tensor

from gnas import distributed
from gnas.errors import RunError
from gnas.graph import GraphBatch
from gnas.model.metrics import MetricValue, compute_metric, compute_metrics
from gnas.model.task import Task

WORDS = {"train": "training ", "val": "validation ", "test": "test ", "": ""}  # for the loss of a split


class NotFinite(RunError):
    """A loss became NaN or infinite."""


class Meter:
    """Losses and statistics of an epoch. They stay on the device and are read once, at its end.

    Metrics that follow from sums over batches (``Task.is_additive``) are summed. The others, such as ROC-AUC, need every
    output of the epoch: those are written into a table with one row for each target row of the split, at the place that
    ``GraphBatch.target_rows`` says. The table has a fixed size and nothing is read back, so a step can be recorded; each
    process fills its own rows, and the sum over the processes is the whole table. ``collect`` keeps the table in any case.
    """

    def __init__(
        self,
        task: Task,
        device: torch.device,
        steps: int,
        split: str = "train",
        rows: int = 0,
        collect: bool = False,
    ) -> None:
        self.task, self.split = task, split
        self.total = torch.zeros(task.num_statistics, device=device)
        self.losses = torch.zeros(steps, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.table: Tensor | None = None
        if collect or not task.is_additive:
            # Outputs, targets and which of them are known. Rows of padding share the last row.
            self.table = torch.zeros(rows + 1, task.num_outputs + 2 * task.num_targets, device=device)

    def reset(self) -> None:
        for tensor in (self.total, self.losses, self.at, self.table):
            if tensor is not None:
                tensor.zero_()

    def add(self, out: Tensor, batch: GraphBatch, loss: Tensor) -> None:
        """Count one batch. The work is queued on the device; nothing is read back."""
        self.total.add_(self.task.statistics(out.detach(), batch, loss))
        self.losses.index_copy_(0, self.at, loss.detach()[None].to(self.losses.dtype))
        self.at.add_(1)
        if self.table is not None:
            assert batch.target_rows is not None, "a batch of a store knows its rows"
            y, mask = self.task.known_targets(batch)
            parts = [part.detach().to(self.table.dtype).reshape(len(out), -1) for part in (out, y, mask)]
            self.table.index_copy_(0, batch.target_rows, torch.cat(parts, dim=1))

    def read(self, epoch: int) -> dict[str, float]:
        """The epoch's figures; raises :class:`NotFinite` naming the first batch whose loss was not finite."""
        bad = (~torch.isfinite(self.losses)).nonzero().flatten().tolist()
        if distributed.any_of(bool(bad)):
            bad = bad or [0]  # of an evaluation in another process
            raise NotFinite(
                f"the {WORDS[self.split]}loss is not finite at epoch {epoch + 1}, batch {bad[0] + 1}; "
                "the last good checkpoint is kept: lower the learning rate, or clip gradients (clip=1.0)"
            )
        figures = self.task.summary(distributed.sum_over_processes(self.total))
        if not self.task.is_additive:
            value = compute_metric(self.task.metric, *self._collected()).value
            figures["metric"] = figures["metric_per_batch"] = torch.nan if value is None else value
        return figures

    def read_metrics(self) -> dict[str, MetricValue]:
        """All metrics that fit the task, from the collected outputs."""
        return compute_metrics(self.task.metric_kind, *self._collected())

    def _collected(self) -> tuple[Tensor, Tensor, Tensor]:
        """Predicted values, targets and which of them are known, on the host."""
        assert self.table is not None, "the outputs of this epoch were not collected"
        table = distributed.sum_over_processes(self.table)[:-1].cpu()
        targets = self.task.num_targets
        out, y, mask = table.split([self.task.num_outputs, targets, targets], dim=1)
        values = self.task.predicted_values(out.double())
        if self.task.kind == "classification":
            return values, y[:, 0].long(), mask[:, 0]
        return values, y, mask

    def state(self) -> dict[str, Tensor]:
        found = {"total": distributed.sum_over_processes(self.total), "losses": self.losses, "at": self.at}
        return found if self.table is None else {**found, "table": distributed.sum_over_processes(self.table)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            getattr(self, name).copy_(value)
        if not distributed.is_first():  # the first process holds the counts and the outputs of all
            self.total.zero_()
            if self.table is not None:
                self.table.zero_()
