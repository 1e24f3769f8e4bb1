"""Runs as values: what is searched, trained or counted, and the folder it is kept in. Equal runs have equal keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnas.compare.budget import SearchBudget
from gnas.errors import InputError
from gnas.model.structure import measure_names
from gnas.paper.scale import PAPER, Scale, Source
from gnas.run.settings import GRADIENT, Settings

OF_SEARCH = (
    *("strategy", "variant", "nodes", "filters", "aggregators", "cells", "channels", "seed"),
    *("search_epochs", "search_batch", "strategy_settings", "data"),
)
OF_TRAINING = ("output", "dropout", "epochs", "batch", "lr", "patience", "train_settings")
OF_NETWORK = ("output", "dropout")  # of those, what hand-made networks do not take
TRIAL_EPOCHS = 10  # of a candidate in a search by trials, as those strategies have it


@dataclass(frozen=True)
class Changes:
    """Settings that differ from the paper's recipe; they are part of a run's key."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.values:
            if name not in (*OF_SEARCH, *OF_TRAINING) or name in ("strategy", "cells", "seed"):
                known = [n for n in (*OF_SEARCH, *OF_TRAINING) if n not in ("strategy", "cells", "seed")]
                raise InputError(f"setting {name!r} cannot be changed here; what can: {', '.join(known)}")
        for name, value in self.values.get("data", {}).items():
            if name != "structure":
                raise InputError(f"data.{name} cannot be changed here, only data.structure")
            measure_names(value)

    def of(self, names: tuple[str, ...]) -> dict[str, Any]:
        own = {name: value for name, value in self.values.items() if name in names}
        settings = own.pop("strategy_settings", {})
        told = {key: value for key, value in settings.items() if not key.startswith("graphnas.")}
        return own | ({"strategy_settings": told} if told else {})

    def told(self, strategy: str) -> Changes:
        """What a strategy other than the job's own is told: settings of the form ``strategy_settings.NAME.KEY``."""
        settings = self.values.get("strategy_settings", {})
        mine = {key.removeprefix(f"{strategy}."): v for key, v in settings.items() if key.startswith(f"{strategy}.")}
        return Changes(self.of(("data",)) | ({"strategy_settings": mine} if mine else {}))

    def suffix(self, names: tuple[str, ...]) -> str:
        """The changed ones among ``names`` as the end of a folder's name, such as ``-dropout0.2``."""
        words = []
        for name, value in sorted(self.of(names).items()):
            pairs = sorted(value.items()) if isinstance(value, Mapping) else [(name, value)]
            words += [f"-{key}{'+'.join(item) if isinstance(item, list | tuple) else item}" for key, item in pairs]
        return "".join(words)


NO_CHANGES = Changes()


@dataclass(frozen=True)
class DataJob:
    """Count graphs and nodes of a dataset."""

    source: Source
    kind = "data"

    @property
    def key(self) -> str:
        return f"{self.source.folder}/data"

    folder = key
    title = key


@dataclass(frozen=True)
class SearchJob:
    """One search."""

    source: Source
    cells: int
    strategy: str = "single-level"
    seed: int = 0
    budget: int = 0  # of GraphNAS alone, whose candidates differ in size
    scale: Scale = field(default=PAPER, compare=False, repr=False)
    changes: Changes = field(default=NO_CHANGES, compare=False)
    kind = "search"

    @property
    def key(self) -> str:
        changed = self.changes.suffix(OF_SEARCH)
        return f"{self.source.folder}/{self.strategy}-{self.cells}-seed{self.seed}{changed}"

    folder = key

    @property
    def title(self) -> str:
        return f"search {self.key}"

    def settings(self) -> Settings:
        """Everything the search depends on; what belongs to training stays at its default."""
        scaled = {name: value for name, value in self.scale.settings.items() if name in OF_SEARCH}
        if not self.strategy.startswith(GRADIENT):
            scaled.pop("strategy_settings", None)
            scaled["search_epochs"] = min(TRIAL_EPOCHS, scaled.get("search_epochs", TRIAL_EPOCHS))
            own = {} if self.scale.trials is None else {"trials": self.scale.trials}
            scaled["strategy_settings"] = own | ({"max_weights": self.budget} if self.strategy == "graphnas" else {})
        changed = self.changes.of(OF_SEARCH)
        for values in (scaled, changed):
            values["strategy_settings"] = {**scaled.get("strategy_settings", {}), **values.get("strategy_settings", {})}
        here = {"strategy": self.strategy, "cells": self.cells, "seed": self.seed}
        return Settings().changed(scaled).changed(here).changed(changed)


@dataclass(frozen=True)
class DepthJob:
    """Algorithm 1 from ``start`` cells. Its searches are ``SearchJob``s of their own, shared with every other use."""

    source: Source
    start: int
    seed: int = 0
    scale: Scale = field(default=PAPER, compare=False, repr=False)
    changes: Changes = field(default=NO_CHANGES, compare=False)
    kind = "depth"

    @property
    def key(self) -> str:
        return f"{self.source.folder}/depth-from-{self.start}-seed{self.seed}{self.changes.suffix(OF_SEARCH)}"

    folder = key

    @property
    def title(self) -> str:
        return f"depth search {self.key}"

    def search(self, cells: int) -> SearchJob:
        return SearchJob(self.source, cells, seed=self.seed, scale=self.scale, changes=self.changes)


@dataclass(frozen=True)
class TrainJob:
    """One network from several seeds: what a search or Algorithm 1 found (``of``), or a hand-made one (``model``).

    A found network is as wide as ``budget`` weights allow; a hand-made one has the benchmark's width where that is 0.
    """

    source: Source
    seeds: tuple[int, ...]
    of: SearchJob | DepthJob | None = None
    model: str = "gnas"
    layers: int = 0
    budget: int = 0
    scale: Scale = field(default=PAPER, compare=False, repr=False)
    changes: Changes = field(default=NO_CHANGES, compare=False)
    kind = "train"

    @property
    def key(self) -> str:
        names = ", ".join(map(str, self.seeds))
        return f"{self.folder} seeds {names}"

    @property
    def folder(self) -> str:
        """A found network lies with its search, unless its training was changed."""
        if self.of is not None:
            return f"{self.of.folder}{self.changes.suffix(OF_TRAINING)}"
        protocol = ("data", *(name for name in OF_TRAINING if name not in OF_NETWORK))
        return f"{self.source.folder}/{self.model}-{self.layers}{self.changes.suffix(protocol)}"

    @property
    def title(self) -> str:
        return f"train {self.key}"

    def settings(self) -> Settings:
        """Everything the training depends on."""
        scaled = {name: value for name, value in self.scale.settings.items() if name in OF_TRAINING}
        changed = self.changes.of((*OF_TRAINING, "data"))
        return Settings().changed(scaled).changed(changed).changed({"seeds": self.seeds, "budget": self.budget})


@dataclass(frozen=True)
class StrategiesJob:
    """Ways to search under one budget, as ``gnas compare --strategies`` compares them."""

    source: Source
    cells: int
    strategies: tuple[str, ...]
    scale: Scale = field(default=PAPER, compare=False, repr=False)
    kind = "strategies"

    @property
    def key(self) -> str:
        return f"{self.source.folder}/strategies-{self.cells}"

    folder = key

    @property
    def title(self) -> str:
        return f"compare strategies {self.key}"

    @property
    def seeds(self) -> tuple[int, ...]:
        return (0, 1, 2) if self.scale.trials is None else (0,)

    def settings(self) -> Settings:
        scaled = {name: value for name, value in self.scale.settings.items() if name in (*OF_SEARCH, *OF_TRAINING)}
        return Settings().changed(scaled).changed({"cells": self.cells})

    def budget(self) -> SearchBudget:
        """A search of the usual length and the training of four networks derived on the way; less on a small scale."""
        settings, trial = self.settings(), TRIAL_EPOCHS if self.scale.trials is None else 2
        derivations = 4 if self.scale.trials is None else 2
        epochs = settings.search_epochs + derivations * trial
        return SearchBudget(epochs, trial, derivations, settings.batch, settings.lr)


Job = DataJob | SearchJob | DepthJob | TrainJob | StrategiesJob
