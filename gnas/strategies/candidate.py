"""A candidate of a race as a value: an architecture, its width, and how it is trained."""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from gnas.arch.architecture import Architecture, read_architecture
from gnas.arch.branches import read_branches
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.operation import split_operation
from gnas.arch.recipes import as_genotype
from gnas.errors import InputError
from gnas.model.build import build_network
from gnas.model.network import GraphModule
from gnas.model.stage import OperationTypes
from gnas.model.task import Task

Features = dict[str, float]


@contextlib.contextmanager
def without_edge_warning() -> Iterator[None]:
    """Inside, networks whose messages read edges are built without a warning if the data has none: others race too."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the data has no edge features")
        yield


@dataclass(frozen=True)
class RaceCandidate:
    """What races: an architecture with its width, read-out, learning rate and dropout.

    Args:
        architecture: A genotype or a hand-made network.
        lr: The learning rate.
        dropout: The dropout rate.
        readout: Replaces the read-out of the task; empty: the task's.
        size: The share of the allowed weights that the width is chosen for.
        channels: The width; 0 until it is chosen.
        origin: Which proposer it comes from. It plays no part in comparisons.
    """

    architecture: Architecture
    lr: float
    dropout: float = 0.0
    readout: str = ""
    size: float = 1.0
    channels: int = 0
    origin: str = field(default="random", compare=False)

    @property
    def id(self) -> str:
        """Ten hex digits of the choices. The width follows from them."""
        text = json.dumps([self._network, self.lr, self.dropout, self.readout, self.size])
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def is_hand_made(self) -> bool:
        return self.architecture.kind == "baseline"

    @property
    def _network(self) -> str:
        made = self.architecture
        if not isinstance(made, HandMade):
            return made.id
        return " ".join(
            [made.name, str(made.num_layers), *(f"{name}={made.options[name]}" for name in sorted(made.options))]
        )

    @property
    def title(self) -> str:
        """The candidate in a few words."""
        made = self.architecture
        name, part = (made.name, "layers") if self.is_hand_made else (f"found {made.id[:4]}", "cells")
        return f"{name}, {len(made.formulas())} {part}, rate {self.lr:g}"

    def task_of(self, task: Task) -> Task:
        """The task as this candidate reads it out."""
        return replace(task, readout=self.readout) if self.readout else task

    def build(self, task: Task, operations: OperationTypes | None = None) -> GraphModule:
        """The network, not trained."""
        size: dict[str, Any] = {"channels": self.channels, "dropout": self.dropout}
        with without_edge_warning():
            return build_network(self.architecture, self.task_of(task), operations=operations, **size)

    def recipe(self) -> dict[str, Any]:
        """All but the architecture, as plain values."""
        return {name: getattr(self, name) for name in ("lr", "dropout", "readout", "size", "channels", "origin")}

    def to_dict(self) -> dict[str, Any]:
        """The candidate as plain values."""
        return {"architecture": self.architecture.to_yaml(), **self.recipe()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> RaceCandidate:
        """The candidate that ``to_dict`` described."""
        try:
            content = dict(values)
            return RaceCandidate(read_architecture(content.pop("architecture")), **content)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a candidate of a race ({type(error).__name__}: {error})") from None

    def features(self) -> Features:
        """The choices and pairs of choices as numbers from 0 to 1, for a predictor.

        A choice that is made once for the whole network is 0 or 1. One that each cell makes is the share of the cells.
        """
        made = self.architecture
        genotype = as_genotype(made)
        named = {
            "kind": made.name if genotype is None else "cells",
            "layers": len(made.formulas()),
            "lr": self.lr,
            "dropout": self.dropout,
            "readout": self.readout,
            "size": self.size,
        }
        around = genotype.stack.to_dict() if genotype is not None else {}
        single = [f"{name}={value}" for name, value in {**named, **around}.items()]
        found = dict.fromkeys(single, 1.0) | {f"{a}&{b}": 1.0 for a, b in combinations(single, 2)}
        return found if genotype is None else {**found, **_use_features(genotype), **_cell_features(genotype)}


def _use_features(genotype: Genotype) -> Features:
    """Share of the cells that use an aggregation, an aggregator or a message at all, and how many aggregations they have."""
    counts: Counter[str] = Counter()
    for cell in genotype:
        used = set(cell.aggregations())
        pairs = {split_operation(name) for name in used}
        counts.update({f"uses {name}" for name in used} | {f"aggregator {one}" for one, _ in pairs})
        counts.update({f"message {one}" for _, one in pairs} | {f"aggregations {len(used)}"})
    return {name: count / len(genotype) for name, count in counts.items()}


def _cell_features(genotype: Genotype) -> Features:
    """Each node's operation and source, and each pair of an operation and the one that it reads; nothing for branches."""
    if all(read_branches(cell) is not None for cell in genotype):
        return {}
    counts: Counter[str] = Counter()
    for cell in genotype:
        by_target = {link.target: link for link in cell.links}
        for link in cell.links:
            counts[f"node {link.target} from {link.source}: {link.operation}"] += 1
            before = by_target.get(link.source)
            pair = f"{before.operation if before else 'input'} > {link.operation}"
            counts[f"level {cell.level(link.target)}: {pair}"] += 1
    links = max(len(genotype[0].links), 1)
    share = {name: count / len(genotype) for name, count in counts.items()}
    return {name: value / (links if name.startswith("level") else 1) for name, value in share.items()}
