"""Settings of the main job: presets, a YAML file, and overrides; resolved once and kept in the run folder."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnas.arch.genotype import OUTPUTS
from gnas.arch.space import SearchSpace
from gnas.errors import InputError, choose, located
from gnas.files import parse_yaml, read_text

PRESETS = ("paper", "fast", "strong")
GRADIENT = ("single-level", "darts")  # strategies that presets have settings for
NOT_SETTINGS = ("job", "dataset", "network")  # what else a run's config.yaml tells
SWITCHES = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run of the main job, as plain values. The same settings rerun the same run."""

    preset: str = "paper"
    strategy: str = "single-level"
    variant: str = "paper"
    nodes: int = 3
    filters: tuple[str, ...] = SearchSpace.filters  # candidates of levels 1 and 3
    aggregators: tuple[str, ...] = SearchSpace.aggregators  # candidates of level 2
    cells: int = 4
    channels: int = 64
    budget: int = 0  # weights of the trained network: its width is chosen to fit; 0: as wide as the supernet
    output: str = ""  # nodes that make a found cell's output: third, all or leaves; empty: as it was searched
    dropout: float = 0.0
    seed: int = 0
    search_epochs: int = 50
    search_batch: int = 64
    seeds: tuple[int, ...] = (41, 95, 12, 35)
    epochs: int = 1000
    batch: int = 128
    lr: float = 1e-3
    patience: int = 0  # 0: the dataset's own
    baselines: tuple[str, ...] = ("gcn", "gin", "gatedgcn")
    strategy_settings: dict[str, Any] = field(default_factory=dict)
    train_settings: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(
        default_factory=dict
    )  # how the dataset is loaded: target, split, seed, ... of gnas.load

    @staticmethod
    def resolve(preset: str = "paper", file: str | Path | None = None, **overrides: Any) -> Settings:
        """A preset, changed by a file or run folder (see :func:`read_settings`), changed by overrides that are not None."""
        values = {} if file is None else read_settings(file)
        given = {name: value for name, value in overrides.items() if value is not None}
        return Settings.from_values(preset, values, given, str(file or ""))

    @staticmethod
    def from_values(preset: str, values: Mapping[str, Any], given: Mapping[str, Any], source: str = "") -> Settings:
        """``values`` (which may name another preset) over a preset, ``given`` over both; errors in ``values`` name ``source``.

        ``data`` goes option by option. To values that name every other setting, as a run keeps them, the preset adds nothing.
        """
        chosen = str(given.get("strategy", values.get("strategy", Settings.strategy)))
        with located(source) if source else contextlib.nullcontext():
            preset = choose(str(values.get("preset", preset)), PRESETS, "preset")
            whole = {f.name for f in dataclasses.fields(Settings)} - {"preset", "data"} <= set(values)
            base = {} if whole else dict(_PRESETS[preset])
            if not chosen.startswith(GRADIENT):
                base.pop("strategy_settings", None)
            found = Settings(preset=preset).changed(base)
            found = found.changed({**_joined(found, values), "preset": preset})
        return found.changed(_joined(found, given))

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """A copy with other values, each brought to the type of its field."""
        kinds = {f.name: getattr(Settings(), f.name) for f in dataclasses.fields(Settings)}
        clean = {}
        for name, value in values.items():
            choose(name, kinds, "setting")
            clean[name] = _converted(name, value, kinds[name])
        if clean.get("output"):
            choose(clean["output"], OUTPUTS, "output")
        if not 0 <= clean.get("dropout", 0.0) < 1:
            raise InputError(f"setting dropout is {clean['dropout']}; it must be at least 0 and less than 1")
        return dataclasses.replace(self, **clean)

    def space(self) -> SearchSpace:
        """The search space these settings ask for."""
        return SearchSpace(self.nodes, self.nodes, self.filters, self.aggregators, self.variant)

    def settings_of(self, strategy: str) -> dict[str, Any]:
        """What ``strategy_settings`` tell a strategy: ``NAME.KEY`` the one of that name, a plain ``KEY`` the job's own.

        Gradient strategies take the plain ones too where the job's is one: presets have settings for them.
        """
        ours = strategy == self.strategy or (strategy.startswith(GRADIENT) and self.strategy.startswith(GRADIENT))
        told = {key: value for key, value in self.strategy_settings.items() if ours and "." not in key}
        parts = ((*key.partition("."), value) for key, value in self.strategy_settings.items())
        same = strategy.replace("-", "_")  # the command line writes names of settings so
        return told | {key: value for name, dot, key, value in parts if dot and name.replace("-", "_") == same}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a YAML file; ``data`` only where something is said of it."""
        values = {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}
        return values if self.data else {name: value for name, value in values.items() if name != "data"}


# GCN's scaling by degrees is worth several points on graphs with communities, and a search takes next to no longer.
_WIDER = (*SearchSpace.aggregators, "symmetric")

# What a few layers cannot see, as two more inputs: most often it pays, at worst it cost half a point (docs/results.md).
_STRUCTURE = {"structure": ["auto"]}

_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # Minutes on a CPU: a smaller network, fewer epochs, one seed.
    "fast": {
        "aggregators": _WIDER,
        "data": _STRUCTURE,
        "channels": 32,
        "cells": 3,
        "search_epochs": 40,
        "search_batch": 16,
        "seeds": (41,),
        "epochs": 60,
        "batch": 32,
        "lr": 3e-3,
        "patience": 5,
        "strategy_settings": {"alpha_lr": 1e-2, "lr": 0.1},  # few steps: larger ones
    },
    # More than the paper's recipe: the best epoch of the search, warm-up and cosine, decoupled weight decay, averaged weights,
    # whose norms' statistics must be taken anew.
    "strong": {
        "aggregators": _WIDER,
        "data": _STRUCTURE,
        "strategy_settings": {"derive": "best", "precise_norms": 16},
        "seeds": (41, 95, 12, 35),
        "epochs": 300,
        "train_settings": {
            "schedule": "cosine",
            "warmup": 5,
            "optimizer": "adamw",
            "weight_decay": 1e-4,
            "ema": 0.999,
            "precise_norms": 16,
            "clip": 5.0,
        },
    },
}


def _joined(settings: Settings, values: Mapping[str, Any]) -> dict[str, Any]:
    """``values``, with their options of the data over those that the settings have."""
    if "data" not in values:
        return dict(values)
    return {**values, "data": {**settings.data, **settings.changed({"data": values["data"]}).data}}


def read_settings(path: str | Path) -> dict[str, Any]:
    """Settings by name from a YAML file, from the ``config.yaml`` or ``command.json`` of a run, or from a run folder."""
    told = read_command(path)
    inner = told.get("settings")
    values = dict(inner) if isinstance(inner, Mapping) else told
    if isinstance(values.get("strategy"), Mapping):  # as a depth search keeps it
        raise InputError(f"{path}: not a file of settings; name the run folder, whose command.json has them")
    return {name: value for name, value in values.items() if name not in NOT_SETTINGS}


def read_command(path: str | Path) -> dict[str, Any]:
    """Everything the file tells; of a run folder, what its command was told."""
    file = Path(path)
    if file.is_dir():
        file = next((file / name for name in ("command.json", "config.yaml") if (file / name).exists()), file)
    found = parse_yaml(read_text(file), str(file))
    if not isinstance(found, dict):
        raise InputError(f"{file}: expected settings by name, such as 'cells: 4'")
    return found


def _converted(name: str, value: Any, like: Any) -> Any:
    try:
        if isinstance(like, tuple):
            items = value.replace(",", " ").split() if isinstance(value, str) else list(value)
            return tuple(int(item) for item in items) if name == "seeds" else tuple(str(item) for item in items)
        if isinstance(like, dict):
            convert = _data_option if name == "data" else lambda _, item: _scalar(item)
            return {str(key): convert(str(key), item) for key, item in dict(value).items()}
        if isinstance(like, bool):
            return str(value).lower() in ("1", "true", "yes")
        if isinstance(like, int) and float(value) != int(float(value)):
            raise ValueError
        return type(like)(float(value)) if isinstance(like, int) else type(like)(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"setting {name} is {value!r}; expected something like {like!r}") from None


def _data_option(name: str, value: Any) -> Any:
    """An option of ``gnas.load`` as text gives it: names stay texts, even those that look like numbers."""
    if isinstance(value, str) and value.lower() in SWITCHES and name != "target":
        return SWITCHES[value.lower()]
    if name in ("target", "categorical", "structure") and isinstance(value, str | list | tuple):
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else [str(part) for part in value]
    if name in ("fractions", "sample_neighbors") and isinstance(value, str):
        value = value.replace(",", " ").split()
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_scalar(item) for item in value]
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return {"true": True, "false": False, "null": None}.get(value.lower(), value)
