"""The runs behind the tables and figures, as values, and the size of the reproduction. Equal runs have equal keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gnas.compare.strategies import SearchBudget
from gnas.data import Benchmark, load
from gnas.data.graph_encodings import parse_encodings
from gnas.errors import InputError
from gnas.fields import field_kinds
from gnas.model.structure import parse_measures
from gnas.run.protocol import TrainConfig
from gnas.run.settings import GRADIENT, OLD_NAMES, SearchSettings, Settings, group_settings

DATASETS = ("zinc", "pattern", "cluster", "mnist", "cifar10")
SEEDS = (41, 95, 12, 35)
GRID = tuple(range(2, 25, 2))  # depths of the figure on depth


@dataclass(frozen=True)
class Source:
    """The dataset that is loaded for one of the paper's."""

    name: str
    seed: int = 0

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.seed}" if self.seed else self.name

    def load(self, **options: Any) -> Benchmark:
        return load(self.name, seed=self.seed, **options)


@dataclass(frozen=True)
class Scale:
    """Datasets, depths, widths and epochs in place of the paper's. The keys of ``depths`` are the paper's depths."""

    name: str
    sources: Mapping[str, Source]
    depths: Mapping[int, int] = field(default_factory=dict)
    weights: float = 1.0  # share of the paper's
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None  # of strategies by trials; None: their own
    seeds: tuple[int, ...] = SEEDS
    grid: tuple[int, ...] = GRID

    def depth(self, of_paper: int) -> int:
        return self.depths.get(of_paper, of_paper)

    def budget(self, of_paper: int) -> int:
        return round(of_paper * self.weights)


PAPER = Scale("paper", {name: Source(name) for name in DATASETS})

QUICK = Scale(
    "quick",
    {
        "zinc": Source("molecules-mini"),
        "pattern": Source("pattern-mini"),
        "cluster": Source("cluster-mini"),
        "mnist": Source("digits"),
        "cifar10": Source("digits", 1),
    },
    depths={4: 2, 8: 3, 12: 4, 16: 5},
    weights=0.05,
    settings={
        "space": {"channels": 12},
        "search": {"epochs": 4, "batch_size": 64, "alpha_lr": 1e-2, "lr": 0.1},
        "training": {"epochs": 4, "batch_size": 64, "lr": 3e-3},
    },
    trials=2,
    seeds=(41, 95),
    grid=(1, 2, 4),
)

# -- what differs from the paper's recipe ---------------------------------------------------------------------------------

OF_SEARCH = ("space", "search", "data")  # groups of settings that a search depends on
OF_TRAINING = ("training",)
OF_NETWORK = ("output", "dropout")  # settings of a training that hand-made networks do not take
FIXED = {"space": ("cells",), "search": ("strategy", "seed"), "training": ("seeds", "budget", "baselines")}
TRIAL_EPOCHS = 10  # epochs of a candidate in a search by trials


@dataclass(frozen=True)
class Changes:
    """Settings that differ from the paper's recipe, in groups; they are part of a run's key."""

    values: Mapping[str, Any] = field(default_factory=dict)
    strategy: str = ""  # the strategy whose own options the group ``search`` holds; none: the line's

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", group_settings(self.values))
        for group, fixed in FIXED.items():
            for name in fixed:
                if name in self.values.get(group, {}):
                    raise InputError(f"setting {name!r} cannot be changed here: the table or figure decides it")
        for name, value in self.values.get("data", {}).items():
            parse = {"encodings": parse_encodings, "structure": parse_measures}.get(name)
            if parse is None:
                raise InputError(f"data.{name} cannot be changed here, only data.encodings")
            parse(value)

    def of(self, groups: tuple[str, ...], without: tuple[str, ...] = ()) -> dict[str, Any]:
        """The changes in these groups, less the options of strategies other than the job's own."""
        found: dict[str, Any] = {}
        for group in groups:
            for name, value in self.values.get(group, {}).items():
                if name not in without and not isinstance(value, Mapping):
                    found.setdefault(group, {})[name] = value
        return found

    def for_strategy(self, strategy: str) -> Changes:
        """The changes for a strategy other than the job's own: settings of the form ``search.NAME.KEY``."""
        options = self.values.get("search", {}).get(strategy)
        return Changes(self.of(("data",)) | ({"search": options} if options else {}), strategy)

    def suffix(self, groups: tuple[str, ...], without: tuple[str, ...] = ()) -> str:
        """The changes as the end of a folder's name, such as ``-dropout0.2``."""
        changed = self.of(groups, without)
        words = sorted(
            (*_folder_word(group, name, bool(self.strategy)), value)
            for group, values in changed.items()
            for name, value in values.items()
        )
        texts = ("+".join(value) if isinstance(value, list | tuple) else value for *_, value in words)
        return "".join(f"-{word}{text}" for (_, word, _), text in zip(words, texts, strict=True))


def _folder_word(group: str, name: str, of_strategy: bool) -> tuple[str, str]:
    """The place of a setting in a folder's name and its word there: those it had before settings had groups."""
    old = {new: word for word, new in OLD_NAMES.items()}
    protocol = {one.name for one in fields(TrainConfig)} - {"epochs", "batch_size", "lr", "patience"}
    word = old.get(f"{group}.{name}", name)
    if group == "data":
        return "data", word
    if group == "search" and of_strategy:
        return "strategy_settings", name
    if group == "training":
        return ("train_settings" if name in protocol else word), word
    return ("strategy_settings" if group == "search" and name not in field_kinds(SearchSettings) else word), word


NO_CHANGES = Changes()


@dataclass(frozen=True)
class DataRun:
    """Count graphs and nodes of a dataset."""

    source: Source
    kind = "data"

    @property
    def key(self) -> str:
        return f"{self.source.folder}/data"

    folder = key


@dataclass(frozen=True)
class SearchRun:
    """One search."""

    source: Source
    cells: int
    strategy: str = "single-level"
    seed: int = 0
    budget: int = 0  # for GraphNAS only, whose candidates differ in size
    scale: Scale = field(default=PAPER, compare=False, repr=False)
    changes: Changes = field(default=NO_CHANGES, compare=False)
    kind = "search"

    @property
    def key(self) -> str:
        changed = self.changes.suffix(OF_SEARCH)
        return f"{self.source.folder}/{self.strategy}-{self.cells}-seed{self.seed}{changed}"

    folder = key

    def settings(self) -> Settings:
        """Everything the search depends on; settings of training stay at their defaults."""
        scaled = group_settings(self.scale.settings)
        search = dict(scaled.get("search", {}))
        if self.strategy not in GRADIENT:
            search = {name: value for name, value in search.items() if name in field_kinds(SearchSettings)}
            search["epochs"] = min(TRIAL_EPOCHS, search.get("epochs", TRIAL_EPOCHS))
            search |= {} if self.scale.trials is None else {"trials": self.scale.trials}
            search |= {"max_weights": self.budget} if self.strategy == "graphnas" else {}
        search |= {"strategy": self.strategy, "seed": self.seed}
        space = {**scaled.get("space", {}), "cells": self.cells}
        return Settings().changed({"space": space, "search": search}).changed(self.changes.of(OF_SEARCH))


@dataclass(frozen=True)
class DepthRun:
    """Algorithm 1 from ``start`` cells. Its searches are runs of their own, which tables and figures share."""

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

    def search(self, cells: int) -> SearchRun:
        return SearchRun(self.source, cells, seed=self.seed, scale=self.scale, changes=self.changes)


@dataclass(frozen=True)
class TrainRun:
    """One network trained from several seeds: the result of a search or of Algorithm 1 (``of``), or a hand-made one.

    A found network is as wide as ``budget`` weights allow. A hand-made one has the benchmark's width if that is 0.
    """

    source: Source
    seeds: tuple[int, ...]
    of: SearchRun | DepthRun | None = None
    model: str = "gnas"
    layers: int = 0
    budget: int = 0
    scale: Scale = field(default=PAPER, compare=False, repr=False)
    changes: Changes = field(default=NO_CHANGES, compare=False)
    kind = "train"

    @property
    def key(self) -> str:
        return f"{self.folder} seeds {', '.join(map(str, self.seeds))}"

    @property
    def folder(self) -> str:
        """A found network is in the folder of its search, unless its training has other settings."""
        if self.of is not None:
            return f"{self.of.folder}{self.changes.suffix(OF_TRAINING)}"
        changed = self.changes.suffix(("data", *OF_TRAINING), without=OF_NETWORK)
        return f"{self.source.folder}/{self.model}-{self.layers}{changed}"

    def settings(self) -> Settings:
        """Everything the training depends on."""
        scaled = {"training": group_settings(self.scale.settings).get("training", {})}
        changed = self.changes.of((*OF_TRAINING, "data"))
        return Settings().changed(scaled).changed(changed).changed({"seeds": self.seeds, "budget": self.budget})


@dataclass(frozen=True)
class StrategiesRun:
    """Strategies under one budget, as in ``gnas compare --strategies``."""

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
    def seeds(self) -> tuple[int, ...]:
        return (0, 1, 2) if self.scale.trials is None else (0,)

    def settings(self) -> Settings:
        return Settings().changed(self.scale.settings).changed({"cells": self.cells})

    def budget(self) -> SearchBudget:
        """A search of the usual length and the training of four networks that it derives; less on a small scale."""
        settings, trial = self.settings(), TRIAL_EPOCHS if self.scale.trials is None else 2
        derivations = 4 if self.scale.trials is None else 2
        epochs = settings.search.epochs + derivations * trial
        return SearchBudget(epochs, trial, derivations, settings.training.batch_size, settings.training.lr)


PaperRun = DataRun | SearchRun | DepthRun | TrainRun | StrategiesRun
