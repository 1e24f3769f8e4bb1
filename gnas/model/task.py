"""A task: what is read, what is predicted, its loss, metric and direction."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from gnas.arch.stack import READOUTS
from gnas.errors import InputError, choose
from gnas.graph import GraphBatch
from gnas.model.losses import LOSSES, Total, class_weights, error_losses, label_losses, masked_mean
from gnas.model.metrics import (
    DEFAULT_METRICS,
    KINDS,
    METRIC_TABLE,
    METRICS,
    UNITS,
    decimals,
    higher_is_better,
)
from gnas.model.structure import MEASURES

__all__ = ["HEADS", "KINDS", "LEVELS", "LOSSES", "METRICS", "READOUTS", "UNITS", "Task", "decimals", "higher_is_better"]

LEVELS = ("graph", "node", "edge", "link")
HEADS = ("mlp", "linear")


def _alone(value: Tensor) -> Tensor:
    """Return ``value`` unchanged: a single process has nothing to sum."""
    return value


@dataclass(frozen=True)
class Task:
    """One prediction task: what goes into a network and what comes out. :func:`gnas.load` makes it.

    At level ``link`` rows are pairs of nodes, and the one label says whether an edge joins them. Of several targets (a
    regression, or the labels of ``multilabel``) ``y`` may hold NaN: such an entry is not known and does not count.

    Args:
        level: ``graph``, ``node``, ``edge`` or ``link``.
        kind: ``regression``, ``classification`` or ``multilabel``.
        num_outputs: Targets, classes or labels.
        categories: The number of values of each categorical input column; empty if the input is continuous.
        in_channels: The number of continuous input columns.
        loss, metric: Their names; empty: the usual ones of the kind.
        readout: Of nodes to a graph: ``mean``, ``sum``, ``max`` or ``mean_max``.
        center, scale: Standardise regression targets for training. Losses are computed in the standardised unit, metrics in
            the unit of the target.
        labels: Names of the classes, or of several targets.
        structure: Measures that nodes read too (``gnas.model.structure``).
        structure_center, structure_scale: Standardise them.
        edge_categories, edge_channels: The columns of ``edge_attr``, as for nodes; both empty if edges have no columns.
        graph_channels: The number of columns of ``graph_attr``.
        walks, laplacian: The columns of ``node_pe``: steps of a random walk from a node to itself, and eigenvectors.
        edge_walks: The columns of ``edge_pe``.
        positive_weight: The weight of the positive entries of each label in the loss ``weighted_bce``.
        other, edge_other: Numbers of the categorical columns whose last category stands for all values that the training
            data does not have. Nothing is learned about it: its embedding is zero.
        head: The map of embeddings to outputs: ``mlp`` of three layers, or ``linear``.
        undirected: Of links: the score of a pair does not depend on its order.

    >>> task = gnas.Task("graph", "regression", 1, in_channels=3)
    >>> task.loss, task.metric
    ('l1', 'mae')
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
    positive_weight: tuple[float, ...] = ()
    other: tuple[int, ...] = ()
    edge_other: tuple[int, ...] = ()
    head: str = "mlp"
    undirected: bool = False

    @property
    def of_one_graph(self) -> bool:
        """Whether targets are nodes and the head is linear, as own data of one graph has it."""
        return self.level == "node" and self.head == "linear"

    def __post_init__(self) -> None:
        choose(self.level, LEVELS, "task level")
        choose(self.kind, KINDS, "task kind")
        choose(self.readout, READOUTS, "readout")
        choose(self.head, HEADS, "head")
        for name in self.structure:
            choose(name, MEASURES, "structure")
        if not len(self.structure) == len(self.structure_center) == len(self.structure_scale):
            raise InputError("structure, structure_center and structure_scale must have one entry for each measure")
        object.__setattr__(self, "loss", self.loss or LOSSES[self.kind][0])
        object.__setattr__(self, "metric", self.metric or DEFAULT_METRICS[self.metric_kind])
        choose(self.loss, LOSSES[self.kind], f"{self.kind} loss")
        choose(self.metric, METRICS[self.metric_kind], f"{self.metric_kind} metric")
        if self.level == "link" and (self.kind, self.num_outputs) != ("multilabel", 1):
            raise InputError("a link task has one label, 1 for a link and 0 for none: kind multilabel, 1 output")
        if self.num_outputs < 1 or (self.kind == "classification" and self.num_outputs < 2):
            raise InputError(f"a {self.kind} task cannot have {self.num_outputs} outputs")
        if bool(self.categories) == bool(self.in_channels):
            raise InputError(
                "a task reads either categories or in_channels continuous features; give exactly one of them"
            )
        if len(self.positive_weight) not in (0, self.num_outputs):
            raise InputError(f"positive_weight has {len(self.positive_weight)} entries for {self.num_outputs} outputs")
        for name, columns in (("other", self.categories), ("edge_other", self.edge_categories)):
            if any(column not in range(len(columns)) for column in getattr(self, name)):
                raise InputError(f"{name} is {getattr(self, name)}; it numbers some of {len(columns)} columns from 0")
        if self.edge_categories and self.edge_channels:
            raise InputError("edges have either edge_categories or edge_channels continuous features, not both")

    @property
    def metric_kind(self) -> str:
        """The key of the metrics that fit: ``link`` for a link task, else the kind."""
        return "link" if self.level == "link" else self.kind

    @property
    def higher_is_better(self) -> bool:
        return higher_is_better(self.metric)

    @property
    def num_targets(self) -> int:
        """Columns of ``y``."""
        return 1 if self.kind == "classification" else self.num_outputs

    @property
    def reads_edges(self) -> bool:
        """Whether edges have columns or encodings."""
        return bool(self.edge_categories or self.edge_channels or self.edge_walks)

    @property
    def needs_batch(self) -> bool:
        """Whether outputs depend on which nodes form a graph."""
        return self.level == "graph" or "size" in self.structure

    def better(self, a: float, b: float) -> bool:
        """Whether metric ``a`` beats ``b``; any value beats NaN."""
        if math.isnan(b):
            return not math.isnan(a)
        return a > b if self.higher_is_better else a < b

    # -- loss and metric: additive statistics on the device, finished on the host -----------------------------------

    def loss_value(self, out: Tensor, batch: GraphBatch, total: Total = _alone) -> Tensor:
        """The training loss of one batch; rows of padding and of other splits do not count.

        With several processes this is the share of one process. ``total`` sums counts over the processes, so that their losses
        add up to the loss of the whole batch.
        """
        y, mask = self.known_targets(batch)
        out = out if out.dtype == torch.float64 else out.float()
        if self.kind == "regression":
            return masked_mean(error_losses(self.loss, out - self._standardised(y)), mask, total)
        if self.kind == "multilabel":
            weighted = self.loss == "weighted_bce" and self.positive_weight
            weight = _constant(self.positive_weight, out.device, out.dtype) if weighted else None
            return masked_mean(label_losses(out, y, weight), mask, total)
        target = y.long()
        losses = F.cross_entropy(out, target, reduction="none")
        if self.loss == "cross_entropy":
            return masked_mean(losses, mask, total)
        weights = class_weights(target, mask, self.num_outputs, total)[target] * mask
        return (losses * weights).sum() / total(weights.sum()).clamp_min(1e-12)

    @property
    def is_additive(self) -> bool:
        """Whether the metric follows from sums over batches; otherwise it needs the outputs of a whole epoch."""
        return METRIC_TABLE[self.metric].additive

    def statistics(self, out: Tensor, batch: GraphBatch, loss: Tensor) -> Tensor:
        """Additive statistics of one batch: loss, count, metric parts, per-batch metric, batches. See ``summary``."""
        y, mask = self.known_targets(batch)
        count = mask.sum()
        parts = self._metric_parts(out, y, mask, count)
        here = self._metric(parts)
        any_row = count.clamp_max(1).to(parts.dtype)
        return torch.cat(
            [(loss.detach() * count)[None], count[None], parts, (here * any_row)[None], any_row[None]]
        ).float()

    def summary(self, statistics: Tensor) -> dict[str, float]:
        """Loss and metric from summed statistics, and the average of the metric per batch.

        A metric that is not additive is NaN here: ``gnas.training.meter`` computes it from the outputs.
        """
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

    def _metric_parts(self, out: Tensor, y: Tensor, mask: Tensor, count: Tensor) -> Tensor:
        if not self.is_additive:
            return torch.stack([count * torch.nan, count])
        if self.kind == "regression":
            error = self.prediction(out) - y
            error = error.abs() if self.metric == "mae" else error.square()
            return torch.stack([(error * mask).sum(), count]).detach()
        if self.kind == "multilabel":
            return torch.stack([(((out > 0) == (y > 0.5)) * mask).sum(), count])
        right = (out.argmax(-1) == y).to(mask.dtype) * mask
        if self.metric == "accuracy":
            return torch.stack([right.sum(), count])
        zeros = torch.zeros(self.num_outputs, device=out.device, dtype=mask.dtype)
        target = y.long()
        return torch.cat([zeros.index_add(0, target, right), zeros.index_add(0, target, mask)])

    def _metric(self, parts: Tensor) -> Tensor:
        if self.metric == "class_accuracy":
            right, count = parts.view(2, -1)
            # A class with no row in these statistics has recall 0, as in the benchmark this metric comes from.
            return 100 * (right / count.clamp_min(1)).mean()
        value = parts[0] / parts[1].clamp_min(1)
        if self.metric == "rmse":
            return value.sqrt()
        return 100 * value if self.metric == "accuracy" else value

    def known_targets(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Targets ``[rows]`` (classes) or ``[rows, targets]``, and a float of 1 for each entry that counts."""
        if batch.y is None:
            raise InputError("this batch has no targets y; a loss or a metric needs them")
        y, keep = batch.y, batch.target_mask
        if self.kind == "classification":
            if keep is None:
                return y, torch.ones(y.size(0), device=y.device)
            return torch.where(keep, y, torch.zeros_like(y)), keep.float()
        y = (y if y.is_floating_point() else y.float()).reshape(y.size(0), -1)
        # Entries that do not count can hold any value, even NaN, and 0 * NaN is NaN. NaN as a single target is an error.
        known = ~torch.isnan(y) if self.num_outputs > 1 else None
        if keep is not None:
            known = keep[:, None] if known is None else known & keep[:, None]
        if known is None:
            return y, torch.ones_like(y, dtype=torch.float32)
        return torch.where(known, y, 0.0), known.to(torch.float32)

    def _standardised(self, y: Tensor) -> Tensor:
        if not self._scaled:
            return y
        return (y - _constant(self.center, y.device, y.dtype)) / _constant(self.scale, y.device, y.dtype)

    @property
    def _scaled(self) -> bool:
        return any(c != 0 for c in self.center) or any(s != 1 for s in self.scale)

    def prediction(self, out: Tensor) -> Tensor:
        """The output in the unit of the target (regression), or logits unchanged."""
        if self.kind == "regression" and self._scaled:
            return out * _constant(self.scale, out.device, out.dtype) + _constant(self.center, out.device, out.dtype)
        return out

    def predicted_values(self, out: Tensor) -> Tensor:
        """What metrics and people read: values in the unit of the target, or probabilities of classes or labels."""
        if self.kind == "classification":
            return out.softmax(-1)
        return out.sigmoid() if self.kind == "multilabel" else self.prediction(out)


@functools.lru_cache(maxsize=64)
def _constant(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """The values on the device. They are copied once: a recorded step cannot copy from the host."""
    return torch.tensor(values, device=device, dtype=dtype)
