"""The seven hand-made networks the paper compares with, as in Dwivedi et al., Benchmarking Graph Neural Networks.

Each is called like any network of this package and takes ``(task, channels, num_layers, dropout)``; ``build`` picks the
width for a number of weights. They are written on ``aggregate`` rather than on PyG's layers, so that they run on padded
batches of fixed shape without waiting for the device; the tests hold each to PyG's layer where PyG has the same one,
and to a dense computation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from gnas.errors import InputError
from gnas.model.baselines.base import Baseline
from gnas.model.baselines.gat import GAT
from gnas.model.baselines.gatedgcn import GatedGCN
from gnas.model.baselines.gcn import GCN
from gnas.model.baselines.gin import GIN
from gnas.model.baselines.graphsage import GraphSage
from gnas.model.baselines.mlp import MLP
from gnas.model.baselines.monet import MoNet
from gnas.model.network import GraphModule, width_for
from gnas.model.task import Task
from gnas.plugins import known, resolve

__all__ = [
    "BASELINES",
    "GAT",
    "GCN",
    "GIN",
    "MLP",
    "WIDTHS",
    "Baseline",
    "GatedGCN",
    "GraphSage",
    "MoNet",
    "baseline",
    "budget_for",
    "build",
    "check_name",
]

BASELINES: dict[str, Callable[..., Baseline]] = {
    "mlp": MLP,
    "gcn": GCN,
    "gin": GIN,
    "graphsage": GraphSage,
    "gat": GAT,
    "gatedgcn": GatedGCN,
    "monet": MoNet,
}

GROUP = "gnas.baselines"  # of entry points

# The benchmark's widths (GAT: of each head) by number of layers: for ZINC, for PATTERN and CLUSTER, for MNIST and
# CIFAR10. GatedGCN with 16 layers keeps 70 on ZINC, the paper's 0.41M. MNIST and CIFAR10 have no published width with
# 16 layers; they take one that gives 0.50M.
WIDTHS: dict[int, dict[str, tuple[int, int, int]]] = {
    4: {
        "mlp": (150, 150, 168),
        "gcn": (145, 146, 146),
        "gin": (110, 110, 110),
        "graphsage": (90, 89, 90),
        "gat": (18, 19, 19),
        "gatedgcn": (70, 70, 70),
        "monet": (90, 90, 90),
    },
    16: {
        "mlp": (174, 174, 178),
        "gcn": (172, 172, 172),
        "gin": (124, 124, 120),
        "graphsage": (101, 101, 101),
        "gat": (22, 22, 22),
        "gatedgcn": (70, 78, 78),
        "monet": (101, 102, 101),
    },
}


def build(
    name: str,
    task: Task,
    *,
    num_layers: int = 4,
    budget: int | None = None,
    channels: int | None = None,
    dropout: float = 0.0,
) -> GraphModule:
    """A baseline by name, as wide as ``channels`` says or as ``budget`` weights allow: one of ours, or an entry point.

    Without either it has the benchmark's width at 4 and 16 layers. At other depths, or where a large input would make
    it much heavier than its fellows, it is as wide as ``budget_for(num_layers)`` allows.

    >>> build("gatedgcn", task, num_layers=16)  # doctest: +SKIP
    """
    make = baseline(name)
    if budget is not None and channels is not None:
        raise InputError("give a baseline either channels or a budget of weights, not both")
    if (channels is not None and channels < 1) or not 0 <= dropout < 1:
        raise InputError(f"channels must be at least 1 and dropout in [0, 1), not {channels} and {dropout}")
    if channels is not None:
        return make(task, channels, num_layers, dropout)
    if budget is None and name in WIDTHS.get(num_layers, ()):
        model = make(task, WIDTHS[num_layers][name][_column(task)], num_layers, dropout)
        if model.num_weights() <= 1.15 * budget_for(num_layers):
            return model
    limit = budget_for(num_layers) if budget is None else budget
    return make(task, width_for(limit, lambda width: make(task, width, num_layers)), num_layers, dropout)


def check_name(name: str) -> str:
    """The name of one of ours, or of an entry point of the group ``gnas.model.baselines``; any other is an error."""
    return known(name, BASELINES, GROUP, "baseline")


def baseline(name: str) -> Callable[..., GraphModule]:
    """What makes the baseline of this name, called as ``make(task, channels, num_layers, dropout)``.

    What another package offers is checked, and the network remembers how it was made: it can be saved and loaded.
    """
    make = resolve(name, BASELINES, GROUP, "baseline")
    return make if name in BASELINES else functools.partial(_from_outside, name, make)


def _from_outside(
    name: str, make: Callable[..., GraphModule], task: Task, channels: int, num_layers: int, dropout: float = 0.0
) -> GraphModule:
    try:
        model = make(task, channels, num_layers, dropout)
    except TypeError as error:
        raise InputError(
            f"baseline {name} cannot be made with (task, channels, num_layers, dropout): {error}"
        ) from error
    if not isinstance(model, GraphModule) or getattr(model, "task", None) != task:
        raise InputError(
            f"baseline {name} is a {type(model).__name__}; it must be a GraphModule with the task it was given"
        )
    model.made_as = {"baseline": name, "channels": channels, "num_layers": num_layers, "dropout": dropout}
    return model


def budget_for(num_layers: int) -> int:
    """About how many weights a baseline has: 100,000 at 4 layers and 500,000 at 16, on straight lines through them.

    >>> [budget_for(n) for n in (2, 4, 10, 16)]
    [50000, 100000, 300000, 500000]
    """
    return 25_000 * num_layers if num_layers <= 4 else 100_000 + 100_000 * (num_layers - 4) // 3


def _column(task: Task) -> int:
    """Which of the benchmark's datasets a task is most like."""
    if not task.categories:
        return 2
    return 1 if task.level == "node" else 0
