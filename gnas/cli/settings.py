"""Settings of a command: a preset or a file, what the run folder keeps, and what the command line says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gnas.baselines import BASELINES
from gnas.datasets.benchmarks import BENCHMARKS
from gnas.errors import InputError, choose
from gnas.settings import PRESETS, Settings, read_settings
from gnas.strategies import SearchStrategy, strategy
from gnas.workflow import train_config

NOT_SETTINGS = ("job", "dataset", "network")  # what else a run's config.yaml tells
NESTED = ("strategy_settings", "train_settings")


def pick_device(name: str | None, deterministic: bool = False) -> torch.device:
    """The device asked for, or the GPU if there is one."""
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}; choose cpu, cuda, or one GPU such as cuda:1") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"device {name!r} cannot be used: torch sees no GPU ('gnas doctor' says why); use --device cpu"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"there is no {name!r}: the machine has {torch.cuda.device_count()} GPUs, counted from 0")
    return device


def usual_preset(dataset: str, device: torch.device) -> tuple[str, str]:
    """The preset where none is named, and why it is this one."""
    if dataset not in BENCHMARKS:
        return "fast", "the default here; --preset paper for the paper's protocol"
    if device.type == "cuda":
        return "paper", "one of the paper's datasets, on a GPU"
    return "fast", "no GPU; --preset paper for the paper's protocol"


def resolve(
    usual: str,
    preset: str | None,
    file: Path | None,
    saved: Mapping[str, Any] | None,
    given: Mapping[str, Any],
    changes: Sequence[str] = (),
) -> Settings:
    """The settings that hold: preset, then file (or those saved in the folder), then the command line."""
    values: dict[str, Any] = dict(saved or {})
    if file is not None:
        values = read_settings(file)
        values = dict(values["settings"]) if isinstance(values.get("settings"), Mapping) else values
    values = {name: value for name, value in values.items() if name not in NOT_SETTINGS}
    kept = values.pop("preset", None)
    if preset is not None and kept not in (None, preset) and file is None:
        raise InputError(
            f"cannot resume with the preset {preset!r}: the run has {kept!r}; leave --preset away, or --force"
        )
    chosen = choose(str(preset or kept or usual), PRESETS, "preset")
    told = {name: value for name, value in given.items() if value is not None}
    if "baselines" in told:
        told["baselines"] = baseline_names(str(told["baselines"]))
    base = Settings.resolve(chosen, strategy=told.get("strategy") or values.get("strategy"))
    return with_changes(base.changed(values).changed(told), changes)


def baseline_names(text: str) -> tuple[str, ...]:
    """``all``, ``none`` or names, each known."""
    if text.strip() in ("all", "none", ""):
        return tuple(BASELINES) if text.strip() == "all" else ()
    names = dict.fromkeys(text.replace(",", " ").split())
    return tuple(choose(name, BASELINES, "baseline") for name in names)


def with_changes(settings: Settings, changes: Sequence[str]) -> Settings:
    """Settings changed by ``name=value`` or, inside a group, ``train_settings.name=value``."""
    for change in changes:
        name, value = assignment(change, "--set")
        group, _, inner = name.partition(".")
        if inner and group in NESTED:
            settings = settings.changed({group: {**getattr(settings, group), inner: value}})
        else:
            settings = settings.changed({name: value})
    return settings


def assignment(text: str, option: str) -> tuple[str, str]:
    """``key=value`` in two parts."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {text!r}: write it as KEY=VALUE")
    return name.strip().replace("-", "_"), value.strip()


def chosen_strategy(settings: Settings) -> SearchStrategy:
    """The strategy these settings ask for."""
    return strategy(
        settings.strategy, epochs=settings.search_epochs, batch_size=settings.search_batch, **settings.strategy_settings
    )


def check(settings: Settings, dataset: str) -> None:
    """An error for what would fail only later: after loading the data, or after the search."""
    chosen_strategy(settings)
    train_config(settings, dataset)
    for name in settings.baselines:
        choose(name, BASELINES, "baseline")
    for name, least in (("cells", 1), ("channels", 1), ("nodes", 1), ("seed", 0), ("budget", 0)):
        if getattr(settings, name) < least:
            raise InputError(f"setting {name} is {getattr(settings, name)}; it must be at least {least}")
    if not settings.seeds or len(set(settings.seeds)) < len(settings.seeds):
        raise InputError(f"setting seeds is {list(settings.seeds)}; name at least one, each once")
