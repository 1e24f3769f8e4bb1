"""Settings of the main job: presets, a YAML file, and overrides; resolved once and kept in the run folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnas.documents import parse_yaml, read_text
from gnas.errors import InputError, choose

PRESETS = ("paper", "fast", "strong")
GRADIENT = ("single-level", "darts")  # strategies that presets have settings for


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run of the main job, as plain values. The same settings rerun the same run."""

    preset: str = "paper"
    strategy: str = "single-level"
    variant: str = "paper"
    nodes: int = 3
    cells: int = 4
    channels: int = 64
    budget: int = 0  # weights of the trained network: its width is chosen to fit; 0: as wide as the supernet
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

    @staticmethod
    def resolve(preset: str = "paper", file: str | Path | None = None, **overrides: Any) -> Settings:
        """A preset, changed by a file, changed by overrides that are not None."""
        values: dict[str, Any] = {}
        if file is not None:
            values = read_settings(file)
            preset = str(values.pop("preset", preset))
        choose(preset, PRESETS, "preset")
        given = {name: value for name, value in overrides.items() if value is not None}
        chosen = str(given.get("strategy", values.get("strategy", Settings.strategy)))
        base = dict(_PRESETS[preset])
        if not chosen.startswith(GRADIENT):
            base.pop("strategy_settings", None)
        return Settings(preset=preset).changed(base).changed(values).changed(given)

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """A copy with other values, each brought to the type of its field."""
        kinds = {f.name: getattr(Settings(), f.name) for f in dataclasses.fields(Settings)}
        clean = {}
        for name, value in values.items():
            choose(name, kinds, "setting")
            clean[name] = _converted(name, value, kinds[name])
        return dataclasses.replace(self, **clean)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a YAML file."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}


_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # Minutes on a CPU: a smaller network, fewer epochs, one seed.
    "fast": {
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
    # More than the paper's recipe: warm-up and cosine, decoupled weight decay, averaged weights.
    "strong": {
        "seeds": (41, 95, 12, 35),
        "epochs": 300,
        "train_settings": {
            "schedule": "cosine",
            "warmup": 5,
            "optimizer": "adamw",
            "weight_decay": 1e-4,
            "ema": 0.999,
            "clip": 5.0,
        },
    },
}


def read_settings(path: str | Path) -> dict[str, Any]:
    """Settings by name from a YAML file."""
    found = parse_yaml(read_text(path), str(path))
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected settings by name, such as 'cells: 4'")
    return found


def _converted(name: str, value: Any, like: Any) -> Any:
    try:
        if isinstance(like, tuple):
            items = value.replace(",", " ").split() if isinstance(value, str) else list(value)
            return tuple(int(item) for item in items) if name == "seeds" else tuple(str(item) for item in items)
        if isinstance(like, dict):
            return {str(key): _scalar(item) for key, item in dict(value).items()}
        if isinstance(like, bool):
            return str(value).lower() in ("1", "true", "yes")
        if isinstance(like, int) and float(value) != int(float(value)):
            raise ValueError
        return type(like)(float(value)) if isinstance(like, int) else type(like)(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"setting {name} is {value!r}; expected something like {like!r}") from None


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
