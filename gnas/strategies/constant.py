"""The loss of the best constant prediction: what a supernet must beat to have learned anything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gnas.graph import GraphSet
from gnas.model.losses import error_losses, label_losses
from gnas.model.task import Task

GAIN = 0.02  # a loss that is lower than that of the constant by less is no gain
PATIENCE, STEPS = 5, 100  # epochs and steps after which a rate is judged
FACTOR, MOST = 0.1, 2  # what a rate that is too high is multiplied by, and how often
SMOOTHING = 0.5  # counts that every class has more


@dataclass
class ConstantWatch:
    """Watches whether a supernet beats the best constant prediction, on its training graphs or on validation.

    Args:
        train: The loss of the constant on the training graphs.
        val: Its loss on validation.
        steps: Steps of an epoch.
    """

    train: float
    val: float
    steps: int
    lowered: int = 0  # how often the rate was lowered
    epochs: int = 0  # epochs since then
    learned: bool = False

    @staticmethod
    def from_graphs(task: Task, train: GraphSet, val: GraphSet, steps: int) -> ConstantWatch:
        """The watch for a task whose constant is fitted to ``train``."""
        return ConstantWatch(constant_loss(task, train, train), constant_loss(task, train, val), steps)

    @property
    def factor(self) -> float:
        """What the rate is multiplied by."""
        return FACTOR**self.lowered

    def judge(self, train_loss: float, val_loss: float) -> bool:
        """Count an epoch; whether the supernet has not learned in time. Once it has learned, it is not judged again."""
        self.epochs += 1
        self.learned |= train_loss < (1 - GAIN) * self.train or val_loss < (1 - GAIN) * self.val
        return not self.learned and self.epochs >= PATIENCE and self.epochs * self.steps >= STEPS

    def lower(self) -> bool:
        """Lower the rate and count from 0 again; False if it was lowered often enough."""
        self.epochs = 0
        if self.lowered == MOST:
            self.learned = True  # said once
            return False
        self.lowered += 1
        return True

    def state(self) -> dict[str, int | bool]:
        return {"lowered": self.lowered, "epochs": self.epochs, "learned": self.learned}

    def load_state(self, state: dict[str, int | bool]) -> None:
        self.lowered, self.epochs = int(state["lowered"]), int(state["epochs"])
        self.learned = bool(state["learned"])


def constant_loss(task: Task, train: GraphSet, graphs: GraphSet) -> float:
    """The loss on ``graphs`` of the constant that is best on ``train``; infinite if no target is known."""
    y, own = train.targets(), graphs.targets()
    if task.kind == "classification":
        return _class_loss(task, y, own)
    fitted, judged = (one.reshape(len(one), -1).double() for one in (y, own))
    known = torch.isfinite(judged)
    if not known.any() or not torch.isfinite(fitted).any():
        return math.inf
    if task.kind == "multilabel":
        share = fitted.nanmean(0).nan_to_num(0.5).clamp(1e-6, 1 - 1e-6)
        weight = torch.tensor(task.positive_weight, dtype=torch.double) if task.loss == "weighted_bce" else None
        if weight is not None and len(weight):
            share = share * weight / (share * weight + 1 - share)
        losses = label_losses(share.logit().expand_as(judged), judged.nan_to_num(), weight)
        return float(losses[known].mean())
    center, scale = (torch.tensor(one, dtype=torch.double) for one in (task.center, task.scale))
    fitted, judged = (fitted - center) / scale, (judged - center) / scale
    constant = fitted.nanmean(0) if task.loss == "mse" else fitted.nanmedian(0).values
    return float(error_losses(task.loss, judged - constant)[known].mean())


def _class_loss(task: Task, y: Tensor, own: Tensor) -> float:
    """Cross-entropy of the shares of the classes; with class weights, of the weighted shares."""
    fitted, judged = (torch.bincount(one[one >= 0].long(), minlength=task.num_outputs).double() for one in (y, own))
    if not judged.sum():
        return math.inf
    share = fitted + SMOOTHING
    if task.loss == "weighted_cross_entropy":
        share, judged = share * (share.sum() - share), judged * (judged.sum() - judged)
    if not judged.sum():
        return math.inf
    return float(-(judged * (share / share.sum()).log()).sum() / judged.sum())
