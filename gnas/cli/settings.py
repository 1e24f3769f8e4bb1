"""The settings of a command: from a preset or a file, the resumed run, and the options of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.data.benchmarks import PUBLISHED
from gnas.errors import InputError
from gnas.model.baselines import HAND_MADE, check_baseline
from gnas.model.operations import OPERATIONS
from gnas.plugins import check_plugin
from gnas.run.settings import Settings, default_preset, is_setting, read_settings
from gnas.workflow import strategy_from_settings, train_config


def usual_preset(job: str, dataset: str, device: torch.device, given: Mapping[str, Any]) -> tuple[str, str]:
    """The preset of a command that names none, and the reason. ``given``: its options that are settings.

    A search is a race, unless it names another strategy or the epochs of one, or ``torchrun`` started it.
    """
    strategy = given.get("strategy")
    alone = strategy == "race" or not distributed.is_launched()
    usual = default_preset(given) if job == "search" and alone else "fast"
    if dataset not in PUBLISHED:
        if strategy is None and given.get("search_epochs") is not None and job == "search":
            return usual, "--search-epochs is not for a race; --strategy race --epochs N for one"
        return usual, "the default here; --preset paper for the paper's protocol"
    if device.type == "cuda" and strategy != "race":
        return "paper", "one of the paper's datasets, on a GPU"
    return usual, "no GPU; --preset paper for the paper's protocol" if device.type != "cuda" else "for races"


def resolve_settings(
    usual: str,
    preset: str | None,
    file: Path | None,
    saved: Mapping[str, Any] | None,
    given: Mapping[str, Any],
    changes: Sequence[str] = (),
) -> Settings:
    """The settings of a command.

    Args:
        usual: the default preset.
        preset: that of ``--preset``.
        file: that of ``--settings``, or a recipe.
        saved: the settings of the run that is resumed.
        given: the options of the command that are settings; None: not given.
        changes: the texts of ``--set``.
    """
    values = dict(saved or {}) if file is None else read_settings(file)
    before = values.pop("preset", None)
    if preset is not None and before not in (None, preset) and file is None:
        raise InputError(
            f"cannot resume with the preset {preset!r}: the run has {before!r}; omit --preset, or start over with --force"
        )
    over = {name: value for name, value in given.items() if value is not None}
    if "baselines" in over:
        over["baselines"] = baseline_names(str(over["baselines"]))
    settings = Settings.from_values(str(preset or before or usual), values, over, str(file or ""))
    data = values.get("data") or {}
    if saved is not None and settings.data != Settings().changed({"data": data}).data:
        raise InputError(
            f"cannot resume with other data options: the run has {dict(data)}; omit them, or start over with --force"
        )
    return with_changes(settings, changes)


def setting_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command that are settings, such as ``--cells``."""
    return {name: value for name, value in options.items() if is_setting(name) and name not in ("preset", "data")}


def split_names(text: str | None) -> tuple[str, ...]:
    """The names in a text, between commas or blanks, each once."""
    return tuple(dict.fromkeys((text or "").replace(",", " ").split()))


def baseline_names(text: str) -> tuple[str, ...]:
    """The baselines in a text: ``all``, ``none`` or names, which are checked."""
    if text.strip() in ("all", "none"):
        return tuple(HAND_MADE) if text.strip() == "all" else ()
    return tuple(map(check_baseline, split_names(text)))


def with_changes(settings: Settings, changes: Sequence[str]) -> Settings:
    """Settings changed by texts such as ``training.clip=1.0``."""
    for change in changes:
        name, value = parse_assignment(change, "--set")
        settings = settings.changed({name: value})
    return settings


def parse_assignment(text: str, option: str) -> tuple[str, str]:
    """``key=value`` in two parts."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {text!r}: write it as KEY=VALUE")
    return name.strip().replace("-", "_"), value.strip()


def data_options(
    target: Sequence[str] | None, texts: Sequence[str] | None, sample_neighbors: str | None = None
) -> dict[str, Any]:
    """``--target`` and ``--data key=value`` by name; values stay texts.

    >>> data_options(["logP"], ["split=scaffold", "seed=3"])
    {'split': 'scaffold', 'seed': '3', 'target': ['logP']}
    """
    options: dict[str, Any] = dict(parse_assignment(text, "--data") for text in texts or ())
    if sample_neighbors is not None:
        options["sample_neighbors"] = sample_neighbors
    return {**options, "target": list(target)} if target else options


def check_settings(settings: Settings) -> None:
    """Raise an error for settings that would fail only later: after the data are loaded, or after the search."""
    strategy_from_settings(settings)
    train_config(settings)
    for name in settings.training.baselines:
        check_baseline(name)
    settings.space.search_space()
    for name in (*settings.space.filters, *settings.space.aggregators):
        if name != "zero":
            check_plugin(name, OPERATIONS, "gnas.operations", "operation")
