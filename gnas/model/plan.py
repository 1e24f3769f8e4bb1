"""What a network reads and which of its parts exist, from its messages, its stack and the task."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gnas.arch.operation import PLAIN, split_operation
from gnas.arch.stack import Stack
from gnas.errors import InputError
from gnas.model.encoder import list_encodings
from gnas.model.stage import CellConfig
from gnas.model.task import Task


@dataclass(frozen=True)
class NetworkPlan:
    """Which parts a network has around and beside its cells.

    Args:
        stack: What was chosen for the whole network.
        encodings: Those that the network reads, of the task's; None: all.
        messages: Kinds of messages of all cells, without ``plain``.
        edge_state: Whether edges have a state.
        updates: For each cell, whether it gives the edges a new state.
    """

    stack: Stack
    encodings: tuple[str, ...] | None
    messages: frozenset[str]
    edge_state: bool
    updates: tuple[bool, ...]

    @staticmethod
    def make(operations: Sequence[Iterable[str]], stack: Stack, task: Task) -> NetworkPlan:
        """The plan for cells with these operations on level 2. Nothing reads the state of the edges after the last reader."""
        kinds = [{split_operation(name)[1] for name in names} - {PLAIN} for names in operations]
        readers = [number for number, found in enumerate(kinds) if found]
        encodings = select_encodings(task, stack)
        walks = task.edge_walks and (encodings is None or "edge_walks" in encodings)
        updated = stack.edges == "updated" and bool(readers)
        if stack.propagation and task.level != "node":
            raise InputError(f"stack.propagation is for targets of nodes; this task has targets of level {task.level}")
        edge_state = updated or (bool(readers) and bool(task.edge_categories or task.edge_channels or walks))
        messages = frozenset[str]().union(*kinds)
        if "edge" in messages and not edge_state:
            warnings.warn("the data has no edge features, so messages of the kind edge are plain")
        updates = tuple(updated and number < readers[-1] for number in range(len(kinds)))
        return NetworkPlan(stack, encodings, messages, edge_state, updates)

    def configure(self, config: CellConfig) -> CellConfig:
        """The configuration of the cells, with the choices of the stack."""
        stack = self.stack
        dropout = config.dropout if stack.dropout is None else stack.dropout
        return dataclasses.replace(config, dropout=dropout, edge_state=self.edge_state, ffn=stack.ffn, mlp=stack.mlp)


def select_encodings(task: Task, stack: Stack) -> tuple[str, ...] | None:
    """The names of the encodings that the stack reads, of the task's; None: all."""
    if stack.encodings is None:
        return None
    return tuple(name for name in list_encodings(task) if stack.reads("structure" if name in task.structure else name))
