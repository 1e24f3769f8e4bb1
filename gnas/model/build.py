"""The network of an architecture of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnas.arch.architecture import Architecture
from gnas.arch.genotype import Genotype
from gnas.arch.graphnas import GraphNASArchitecture
from gnas.arch.hand_made import HandMade
from gnas.errors import choose
from gnas.model import baselines
from gnas.model.graphnas import GraphNASNetwork
from gnas.model.network import GraphModule, Network, width_for
from gnas.model.stage import OperationTypes
from gnas.model.task import Task


def build_network(
    architecture: Architecture,
    task: Task,
    *,
    channels: int = 64,
    dropout: float = 0.0,
    operations: OperationTypes | None = None,
    **options: Any,
) -> GraphModule:
    """The network of an architecture, not trained.

    Args:
        architecture: A genotype, a GraphNAS architecture or a hand-made network.
        task: The task whose inputs it reads and whose outputs it makes.
        channels: The width, if the architecture does not fix it.
        dropout: The dropout rate. GraphNAS architectures have none.
        operations: Classes of your own operations by name, if a genotype uses any.
        options: Further arguments of :class:`Network`, for genotypes only.

    >>> build_network(gap.approximate("gcn", 4), task, channels=32)  # doctest: +SKIP
    """
    build = BUILDERS[choose(architecture.kind, BUILDERS, "kind of architecture")]
    return build(architecture, task, channels=channels, dropout=dropout, operations=operations, **options)


def width_of(
    architecture: Architecture, task: Task, channels: int, budget: int | None = None, multiple: int = 1
) -> int:
    """The width to build: the architecture's own, else as many channels as ``budget`` weights allow, else ``channels``."""
    if architecture.channels is not None:
        return architecture.channels
    if not budget:
        return channels
    return width_for(budget, lambda width: build_network(architecture, task, channels=width), multiple)


def _build_found(genotype: Genotype, task: Task, *, channels: int, **options: Any) -> GraphModule:
    return Network(genotype, task, channels, **options)


def _build_graphnas(architecture: GraphNASArchitecture, task: Task, **_: Any) -> GraphModule:
    return GraphNASNetwork(architecture, task)


def _build_hand_made(made: HandMade, task: Task, *, dropout: float, **_: Any) -> GraphModule:
    size: dict[str, Any] = {"num_layers": made.num_layers, "channels": made.channels, "budget": made.budget}
    return baselines.build_baseline(made.name, task, dropout=dropout, **size, **made.options)


BUILDERS: dict[str, Callable[..., GraphModule]] = {
    "found": _build_found,
    "graphnas": _build_graphnas,
    "baseline": _build_hand_made,
}
