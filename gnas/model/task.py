"""A task: what is read, what is predicted, its loss, metric and direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from gnas.arch.stack import READOUTS
from gnas.errors import InputError, choose
from gnas.graph import GraphBatch
from gnas.model.structure import MEASURES

LEVELS = ("graph", "node", "edge")
KINDS = ("regression", "classification")
LOSSES = {
    "regression": ("l1", "mse"),
    "classification": ("cross_entropy", "weighted_cross_entropy"),
}
METRICS = {
    "regression": ("mae", "rmse"),
    "classification": ("accuracy", "class_accuracy"),
}
UNITS = {"mae": "MAE", "rmse": "RMSE", "accuracy": "accuracy %", "class_accuracy": "class-averaged accuracy %"}

Total = Callable[[Tensor], Tensor]


def higher_is_better(metric: str) -> bool:
    return metric in METRICS["classification"]


def decimals(metric: str) -> int:
    """Number of decimals of a metric: two for percentages, four for errors."""
    return 2 if higher_is_better(metric) else 4


def _alone(value: Tensor) -> Tensor:
    """Return ``value`` unchanged: a single process has nothing to sum."""
    return value


@dataclass(frozen=True)
class Task:
    """One prediction task.

    ``categories`` holds the number of values of each categorical input column; with continuous input it is empty and
    ``in_channels`` counts the columns. ``center`` and ``scale`` standardise regression targets for training; losses are
    computed in the standardised unit, metrics in the unit of the target. ``structure`` names measures that nodes read too
    (``gnas.model.structure``), ``structure_center`` and ``structure_scale`` standardise it.

    ``edge_categories`` or ``edge_channels`` describe ``edge_attr`` in the same way; both are empty if edges have no
    columns. ``graph_channels`` counts the columns of ``graph_attr``. ``walks`` (steps of a random walk from a node to
    itself) and ``laplacian`` (eigenvectors) are the columns of ``node_pe``, ``edge_walks`` those of ``edge_pe``.
    """

    level: str
    kind: str
    num_outputs: int
    categories: tuple[int, ...] = ()
    in_channels: int = 0
    loss: str = ""
    metric: str = ""
    readout: str = "mean"
    center: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    labels: tuple[str, ...] = field(default=(), compare=False)
    structure: tuple[str, ...] = ()
    structure_center: tuple[float, ...] = ()
    structure_scale: tuple[float, ...] = ()
    edge_categories: tuple[int, ...] = ()
    edge_channels: int = 0
    graph_channels: int = 0
    walks: int = 0
    laplacian: int = 0
    edge_walks: int = 0

    def __post_init__(self) -> None:
        choose(self.level, LEVELS, "task level")
        choose(self.kind, KINDS, "task kind")
        choose(self.readout, READOUTS, "readout")
        for name in self.structure:
            choose(name, MEASURES, "structure")
        if not len(self.structure) == len(self.structure_center) == len(self.structure_scale):
            raise InputError("structure, structure_center and structure_scale must have one entry for each measure")
        object.__setattr__(self, "loss", self.loss or LOSSES[self.kind][0])
        object.__setattr__(self, "metric", self.metric or METRICS[self.kind][0])
        choose(self.loss, LOSSES[self.kind], f"{self.kind} loss")
        choose(self.metric, METRICS[self.kind], f"{self.kind} metric")
        if self.num_outputs < 1 or (self.kind == "classification" and self.num_outputs < 2):
            raise InputError(f"a {self.kind} task cannot have {self.num_outputs} outputs")
        if bool(self.categories) == bool(self.in_channels):
            raise InputError(
                "a task reads either categories or in_channels continuous features; give exactly one of them"
            )
        if self.edge_categories and self.edge_channels:
            raise InputError("edges have either edge_categories or edge_channels continuous features, not both")

    @property
    def higher_is_better(self) -> bool:
        return self.kind == "classification"

    @property
    def reads_edges(self) -> bool:
        """Whether edges have columns or encodings."""
        return bool(self.edge_categories or self.edge_channels or self.edge_walks)

    @property
    def needs_batch(self) -> bool:
        """Whether outputs depend on which nodes form a graph."""
        return self.level == "graph" or "size" in self.structure

    def better(self, a: float, b: float) -> bool:
        """Whether metric ``a`` beats ``b``."""
        return a > b if self.higher_is_better else a < b

    # -- loss and metric: additive statistics on the device, finished on the host -----------------------------------

    def loss_value(self, out: Tensor, batch: GraphBatch, total: Total = _alone) -> Tensor:
        """The training loss of one batch; rows of padding and of other splits do not count.

        With several processes this is the share of one process. ``total`` sums counts over the processes, so that their losses
        add up to the loss of the whole batch.
        """
        y, mask = self._targets(batch)
        if self.kind == "regression":
            error = (out - self._standardised(y)).to(torch.float32 if out.dtype != torch.float64 else out.dtype)
            return _masked_mean(error.abs() if self.loss == "l1" else error.square(), mask, total)
        target = y.long()
        losses = F.cross_entropy(out.float() if out.dtype != torch.float64 else out, target, reduction="none")
        if self.loss == "cross_entropy":
            return _masked_mean(losses, mask, total)
        weights = self._class_weights(target, mask, total)[target] * mask
        return (losses * weights).sum() / total(weights.sum()).clamp_min(1e-12)

    def _class_weights(self, target: Tensor, mask: Tensor, total: Total) -> Tensor:
        """(V - V_c) / V for the classes present in the batch, 0 for the absent ones."""
        counts = total(mask.new_zeros(self.num_outputs).index_add_(0, target, mask))
        rows = counts.sum()
        return (rows - counts) / rows.clamp_min(1) * (counts > 0)

    def statistics(self, out: Tensor, batch: GraphBatch, loss: Tensor) -> Tensor:
        """Additive statistics of one batch: loss, count, metric parts, per-batch metric, batches. See ``summary``."""
        y, mask = self._targets(batch)
        count = mask.sum()
        parts = self._metric_parts(out, y, mask)
        here = self._metric(parts)
        any_row = (count > 0).to(parts.dtype)
        return torch.cat(
            [(loss.detach() * count)[None], count[None], parts, torch.stack([here * any_row, any_row])]
        ).float()

    def summary(self, statistics: Tensor) -> dict[str, float]:
        """Loss and metric from summed statistics, and the average of the metric per batch."""
        s = statistics.double().cpu()
        metric = self._metric(s[2:-2])
        return {
            "loss": float(s[0] / s[1].clamp_min(1)),
            "metric": float(metric),
            "metric_per_batch": float(s[-2] / s[-1].clamp_min(1)),
        }

    @property
    def num_statistics(self) -> int:
        return 4 + (2 * self.num_outputs if self.metric == "class_accuracy" else 2)

    def _metric_parts(self, out: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        if self.kind == "regression":
            error = self.prediction(out) - y
            error = (error.abs() if self.metric == "mae" else error.square()).mean(-1)
            return torch.stack([(error * mask).sum(), mask.sum()]).detach()
        right = (out.argmax(-1) == y).to(mask.dtype) * mask
        if self.metric == "accuracy":
            return torch.stack([right.sum(), mask.sum()])
        zeros = torch.zeros(self.num_outputs, device=out.device, dtype=mask.dtype)
        target = y.long()
        return torch.cat([zeros.index_add(0, target, right), zeros.index_add(0, target, mask)])

    def _metric(self, parts: Tensor) -> Tensor:
        if self.metric == "class_accuracy":
            right, count = parts.view(2, -1)
            # A class with no row in these statistics has recall 0, as in the benchmark this metric comes from.
            return 100 * (right / count.clamp_min(1)).mean()
        value = parts[0] / parts[1].clamp_min(1)
        return {"mae": value, "rmse": value.sqrt(), "accuracy": 100 * value}[self.metric]

    def _targets(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        if batch.y is None:
            raise InputError("this batch has no targets y; a loss or a metric needs them")
        y = batch.y
        if self.kind == "regression":
            y = (y if y.is_floating_point() else y.float()).reshape(y.size(0), -1)
        if batch.target_mask is None:
            return y, torch.ones(y.size(0), device=y.device)
        mask = batch.target_mask.float()
        # Rows that do not count can hold any value, even NaN, and 0 * NaN is NaN.
        keep = batch.target_mask if y.dim() == 1 else batch.target_mask[:, None]
        return torch.where(keep, y, torch.zeros_like(y)), mask

    def _standardised(self, y: Tensor) -> Tensor:
        return (y - y.new_tensor(self.center)) / y.new_tensor(self.scale) if self._scaled else y

    @property
    def _scaled(self) -> bool:
        return any(c != 0 for c in self.center) or any(s != 1 for s in self.scale)

    def prediction(self, out: Tensor) -> Tensor:
        """The output in the unit of the target (regression), or logits unchanged."""
        if self.kind == "regression" and self._scaled:
            return out * out.new_tensor(self.scale) + out.new_tensor(self.center)
        return out


def _masked_mean(values: Tensor, mask: Tensor, total: Total) -> Tensor:
    rows = values if values.dim() == 1 else values.mean(-1)
    return (rows * mask).sum() / total(mask.sum()).clamp_min(1)
