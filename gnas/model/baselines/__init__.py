"""Hand-made networks: the seven the paper compares with, as in Dwivedi et al., Benchmarking Graph Neural Networks, and others.

The seven are classes. The networks of today (``gine``, ``gatv2``, ``pna``, ``gcn+``, ...) are genotypes, ``gnas.arch.recipes``.
Each is called like any network of this package and takes ``(task, channels, num_layers, dropout)``; ``build_baseline``
chooses the width for a number of weights. They use ``aggregate`` instead of PyG's layers, so that they run on padded batches of
fixed shape without waiting for the device. Tests compare each with PyG's layer, if PyG has it, and with a dense computation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gnas.arch.hand_made import HandMade
from gnas.arch.recipes import RECIPES, expand_recipe
from gnas.errors import InputError
from gnas.model.baselines.base import Baseline
from gnas.model.baselines.gat import GAT
from gnas.model.baselines.gatedgcn import GatedGCN
from gnas.model.baselines.gcn import GCN
from gnas.model.baselines.gin import GIN
from gnas.model.baselines.graphsage import GraphSage
from gnas.model.baselines.mlp import MLP
from gnas.model.baselines.monet import MoNet
from gnas.model.network import GraphModule, Network, width_for
from gnas.model.task import Task
from gnas.plugins import check_plugin, resolve_plugin

__all__ = [
    "BASELINES",
    "GAT",
    "GCN",
    "GIN",
    "HAND_MADE",
    "MLP",
    "Baseline",
    "GatedGCN",
    "GraphSage",
    "MoNet",
    "budget_for",
    "build_baseline",
    "build_recipe",
    "check_baseline",
    "find_baseline",
    "usual_depth",
    "usual_options",
]

BASELINES: dict[str, type[Baseline]] = {one.name: one for one in (MLP, GCN, GIN, GraphSage, GAT, GatedGCN, MoNet)}

GROUP = "gnas.baselines"  # of entry points
ONE_GRAPH_LAYERS = 2
MOST_WIDTH, ORIGINAL_WIDTH = 4096, 256  # that a budget leads to; few columns and two layers would make GCN's very wide


def build_recipe(name: str, task: Task, channels: int = 64, num_layers: int = 4, dropout: float = 0.0) -> Network:
    """The network of a recipe, such as ``gin+``: it is built from its genotype, there is no second implementation."""
    if num_layers < 1:
        raise InputError(f"a network needs at least one layer, not {num_layers}")
    network = Network(expand_recipe(name, num_layers), task, channels, dropout=dropout)
    network.architecture, network.options = HandMade(name, num_layers, channels), {"dropout": dropout}
    return network


HAND_MADE: dict[str, Callable[..., GraphModule]] = {
    **BASELINES,
    **{name: functools.partial(build_recipe, name) for name in RECIPES if name not in BASELINES},
}


def build_baseline(
    name: str,
    task: Task,
    *,
    num_layers: int = 4,
    budget: int | None = None,
    channels: int | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> GraphModule:
    """A hand-made network by name: one of this package or of an entry point.

    Args:
        name: Its name, such as ``gcn``.
        task: The task whose inputs it reads and whose outputs it makes.
        num_layers: Number of layers.
        budget: The network is as wide as this number of weights allows.
        channels: The width. Without ``channels`` and ``budget`` a network of 4 or 16 layers has the benchmark's width.
            At other depths, or if a large input makes it much heavier than the others, ``budget_for`` sets the width.
        dropout: The dropout rate.
        options: Further arguments of its class, such as ``heads=8`` of ``gat``.

    >>> task = gnas.load("cluster-mini").task
    >>> gnas.baselines.build_baseline("gatedgcn", task, num_layers=2, budget=5000).num_weights() <= 5000
    True
    """
    make = find_baseline(name)
    if budget is not None and channels is not None:
        raise InputError("set either channels or a budget of weights of a baseline, not both")
    if (channels is not None and channels < 1) or not 0 <= dropout < 1:
        raise InputError(f"channels must be at least 1 and dropout in [0, 1), not {channels} and {dropout}")
    if channels is not None:
        return make(task, channels, num_layers, dropout, **options)
    usual = BASELINES[name].widths.get(num_layers) if name in BASELINES else None
    if budget is None and usual:
        model = make(task, usual[_column(task)], num_layers, dropout, **options)
        if model.num_weights() <= 1.15 * budget_for(num_layers):
            return model
    limit = budget_for(num_layers) if budget is None else budget
    most = ORIGINAL_WIDTH if options.get("original") else MOST_WIDTH
    width = width_for(limit, lambda channels: make(task, channels, num_layers, **options), limit=most)
    return make(task, width, num_layers, dropout, **options)


def usual_depth(task: Task, num_layers: int, dropout: float) -> int:
    """``num_layers``; with dropout on one graph at most two: deeper networks learn its few labels by heart."""
    return min(num_layers, ONE_GRAPH_LAYERS) if task.of_one_graph and dropout else num_layers


def usual_options(name: str, task: Task, dropout: float) -> dict[str, Any]:
    """Arguments of a baseline's class that the task decides: with dropout on one graph, GCN is that of its authors."""
    return {"original": True} if name == "gcn" and task.of_one_graph and dropout else {}


def check_baseline(name: str) -> str:
    """Return ``name`` if it is a baseline of this package or of an entry point ``gnas.baselines``."""
    return check_plugin(name, HAND_MADE, GROUP, "baseline")


def find_baseline(name: str) -> Callable[..., GraphModule]:
    """The function that builds the baseline of this name, called as ``make(task, channels, num_layers, dropout)``.

    A network of another package is checked, and stores its arguments, so that it can be saved and loaded.
    """
    make = resolve_plugin(name, HAND_MADE, GROUP, "baseline")
    return make if name in HAND_MADE else functools.partial(_from_outside, name, make)


def _from_outside(
    name: str,
    make: Callable[..., GraphModule],
    task: Task,
    channels: int,
    num_layers: int,
    dropout: float = 0.0,
    **options: Any,
) -> GraphModule:
    try:
        model = make(task, channels, num_layers, dropout, **options)
    except TypeError as error:
        raise InputError(
            f"baseline {name} cannot be made with (task, channels, num_layers, dropout): {error}"
        ) from error
    if not isinstance(model, GraphModule) or getattr(model, "task", None) != task:
        raise InputError(
            f"baseline {name} is a {type(model).__name__}; it must be a GraphModule with the task of its first argument"
        )
    model.architecture, model.options = HandMade(name, num_layers, channels, options=options), {"dropout": dropout}
    return model


def budget_for(num_layers: int) -> int:
    """Approximate number of weights of a baseline: 100,000 at 4 layers, 500,000 at 16, linear between and beyond.

    >>> [budget_for(n) for n in (2, 4, 10, 16)]
    [50000, 100000, 300000, 500000]
    """
    return 25_000 * num_layers if num_layers <= 4 else 100_000 + 100_000 * (num_layers - 4) // 3


def _column(task: Task) -> int:
    """The column of ``widths`` of the most similar dataset."""
    if not task.categories:
        return 2
    return 1 if task.level == "node" else 0
