"""Settings of a command: a preset or a file, what the run folder keeps, and what the command line says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.data.benchmarks import PUBLISHED
from gnas.errors import InputError
from gnas.model.baselines import BASELINES, check_name
from gnas.model.operations import OPERATIONS
from gnas.plugins import check_plugin
from gnas.run.settings import Settings, is_setting, read_settings
from gnas.training.engine import use_deterministic
from gnas.workflow import chosen_strategy, train_config


def pick_device(name: str | None, deterministic: bool = False) -> torch.device:
    """The device asked for, or the GPU if there is one."""
    if deterministic:
        use_deterministic()
    if distributed.launched() and torch.cuda.is_available() and name in (None, "cuda"):
        return distributed.local_device()
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
    if dataset not in PUBLISHED:
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
    values = dict(saved or {}) if file is None else read_settings(file)
    kept = values.pop("preset", None)
    if preset is not None and kept not in (None, preset) and file is None:
        raise InputError(
            f"cannot resume with the preset {preset!r}: the run has {kept!r}; leave --preset away, or --force"
        )
    told = {name: value for name, value in given.items() if value is not None}
    if "baselines" in told:
        told["baselines"] = baseline_names(str(told["baselines"]))
    found = Settings.from_values(str(preset or kept or usual), values, told, str(file or ""))
    before = values.get("data")
    if saved is not None and found.data != Settings().changed({"data": before or {}}).data:
        raise InputError(
            f"cannot resume with other data options: the run has {dict(before or {})}; leave them away, or --force"
        )
    return with_changes(found, changes)


def setting_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command that are settings, such as ``--cells``."""
    return {name: value for name, value in options.items() if is_setting(name) and name not in ("preset", "data")}


def baseline_names(text: str) -> tuple[str, ...]:
    """``all``, ``none`` or names, each known."""
    if text.strip() in ("all", "none", ""):
        return tuple(BASELINES) if text.strip() == "all" else ()
    names = dict.fromkeys(text.replace(",", " ").split())
    return tuple(map(check_name, names))


def with_changes(settings: Settings, changes: Sequence[str]) -> Settings:
    """Settings changed by texts such as ``training.clip=1.0``."""
    for change in changes:
        name, value = assignment(change, "--set")
        settings = settings.changed({name: value})
    return settings


def assignment(text: str, option: str) -> tuple[str, str]:
    """``key=value`` in two parts."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {text!r}: write it as KEY=VALUE")
    return name.strip().replace("-", "_"), value.strip()


def check(settings: Settings, dataset: str) -> None:
    """An error for what would fail only later: after loading the data, or after the search."""
    chosen_strategy(settings)
    train_config(settings)
    for name in settings.training.baselines:
        check_name(name)
    settings.space.search_space()
    for name in (*settings.space.filters, *settings.space.aggregators):
        if name != "zero":
            check_plugin(name, OPERATIONS, "gnas.operations", "operation")
