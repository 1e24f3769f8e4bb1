"""The first steps that search, train, depth and compare share, from the words of the command line to loaded data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gnas.cli.load import data_options, load_data
from gnas.cli.place import Place, run_name
from gnas.cli.screen import Screen
from gnas.cli.settings import check, pick_device, resolve, usual_preset
from gnas.datasets import Benchmark
from gnas.settings import Settings
from gnas.tracking import wanted
from gnas.workflow import versions

SETTINGS = ("strategy", "seed", "cells", "channels", "search_epochs", "epochs", "batch", "seeds", "budget", "baselines")


@dataclass(frozen=True)
class Begun:
    """Everything a job needs to start."""

    dataset: str  # as it was named
    data: dict[str, Any]
    screen: Screen
    place: Place
    settings: Settings
    device: torch.device
    benchmark: Benchmark
    track: Sequence[str]

    @property
    def folder(self) -> Path:
        return self.place.folder

    def claim(self, **more: Any) -> None:
        """From here on the folder is this run's; ``more`` is kept of the command beside dataset and settings."""
        told = {"dataset": self.dataset, "data": self.data, "settings": self.settings.to_dict(), **more}
        self.place.begin(told, versions(self.device))


def begin(
    job: str, options: Mapping[str, Any], given: Mapping[str, Any] | None = None, name: Sequence[str] = ()
) -> Begun:
    """Settle settings, folder and device, say so, and load the data. Nothing is written yet.

    ``options`` are the command's, by name; ``given`` are the settings among them, where a command names them otherwise.
    ``name`` are the words after the dataset in the folder's default name, ``{strategy}`` and ``{seed}`` among them.
    """
    screen, dataset = Screen(options["as_json"], options["quiet"]), str(options["dataset"])
    device = pick_device(options["device"], options["deterministic"])
    track = wanted(options["track"])
    usual, why = usual_preset(dataset, device)
    given = {key: options.get(key) for key in SETTINGS} if given is None else given
    preset, file, changes = options["preset"], options["settings"], options["change"] or ()
    settings = resolve(usual, preset, file, None, given, changes)
    words = [word.format(strategy=settings.strategy, seed=settings.seed) for word in name]
    place = Place(options["out"] or run_name(dataset, *words), job, options["resume"], options["force"])
    saved = place.saved
    if saved and file is None:
        settings = resolve(usual, preset, None, saved.get("settings"), given, changes)
    check(settings, dataset)
    data = data_options(options["target"], options["data"]) or saved.get("data") or {}
    named = preset or file or place.resumed
    screen.pair("run", f"{place.folder}{' (going on)' if place.resumed else ''}")
    screen.pair("with", f"preset {settings.preset}{'' if named else f' ({why})'}, {describe_device(device)}")
    benchmark = load_data(screen, dataset, options["data_root"], data)
    return Begun(dataset, data, screen, place, settings, device, benchmark, track)


def describe_device(device: torch.device) -> str:
    """The device by its name."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    return f"{device} ({threads} thread{'s' * (threads != 1)})"
