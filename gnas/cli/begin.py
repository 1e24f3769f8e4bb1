"""The first steps that search, train, depth and compare share, from the words of the command line to loaded data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.cli.load import data_options, load_data
from gnas.cli.place import Place, run_name
from gnas.cli.screen import Screen
from gnas.cli.settings import check, pick_device, resolve, setting_options, usual_preset
from gnas.cli.workers import check_workers, fetch
from gnas.data import Benchmark
from gnas.errors import InputError
from gnas.jobs import Runner
from gnas.run.settings import Settings, read_command
from gnas.use.tracking import wanted
from gnas.workflow import versions

PATHS = ("out", "settings", "data_root")  # plain strings where Typer converts them after it fills its context

TOGETHER = ("search", "train")  # the jobs of several processes at one run


@dataclass(frozen=True)
class Begun:
    """Everything a job needs to start."""

    dataset: str  # as it was named
    screen: Screen
    place: Place
    told: Mapping[str, Any]  # what the run gone on with, or the file of settings, tells of its command
    settings: Settings
    device: torch.device
    benchmark: Benchmark
    track: Sequence[str]
    runner: Runner | None = None  # workers, where others do the runs

    @property
    def folder(self) -> Path:
        return self.place.folder

    def claim(self, **more: Any) -> None:
        """From here on the folder is this run's; ``more`` is kept of the command beside dataset and settings."""
        told = {"dataset": self.dataset, "settings": self.settings.to_dict(), **more}
        distributed.from_first(lambda: self.place.begin(told, versions(self.device), self.benchmark.fingerprint))


def begin(
    job: str,
    options: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    name: Sequence[str] = (),
    recipe: Path | None = None,
) -> Begun:
    """Settle settings, folder and device, say so, and load the data. Nothing is written yet.

    ``options`` are the command's, by name; ``given`` are the settings among them, where a command names them otherwise.
    ``name`` are the words after the dataset in the folder's default name, ``{strategy}`` and ``{seed}`` among them.
    ``recipe`` is a file of settings for a run that names no preset, no file, and is not gone on with.
    """
    options = {key: Path(value) if key in PATHS and value else value for key, value in options.items()}
    check_workers(options)
    dataset, device = str(options["dataset"]), pick_device(options["device"], options["deterministic"])
    first = join(job, device)
    screen = Screen(options["as_json"], options["quiet"]) if first else Screen(quiet=True)
    track = wanted(options["track"] if first else "none")
    usual, why = usual_preset(dataset, device)
    given = setting_options(options) if given is None else given
    given = {**given, "data": data_options(options["target"], options["data"], options.get("sample_neighbors")) or None}
    preset, file, changes = options["preset"], options["settings"], list(options["change"] or ())
    if options.get("searches") is not None:
        changes.append(f"search.searches={options['searches']}")
    recipe = None if preset or file else recipe
    settings = resolve(usual, preset, file or recipe, None, given, changes)
    words = [word.format(strategy=settings.search.strategy, seed=settings.search.seed) for word in name]
    folder = options["out"] or run_name(dataset, *words)
    fetch(options.get("sync"), Path(folder), options["resume"], options["force"])
    place = distributed.from_first(lambda: Place(folder, job, options["resume"], options["force"]))
    told = distributed.from_first(lambda: place.saved) if file is None else read_command(file)
    if told and file is None:
        settings = resolve(usual, preset, None, told.get("settings"), given, changes)
    if options.get("sync_bn"):
        settings = sharing_norms(settings)
    check(settings, dataset)
    named = preset or file or recipe or place.resumed
    screen.pair("run", f"{place.folder}{' (going on)' if place.resumed else ''}")
    screen.pair("with", f"preset {settings.preset}{'' if named else f' ({why})'}, {describe_device(device)}")
    if recipe and not place.resumed:
        screen.pair("recipe", f"{recipe.stem}, as in our results; --preset NAME for another")
    benchmark = load_data(screen, dataset, options["data_root"], settings.data)
    return Begun(dataset, screen, place, told, settings, device, benchmark, track)


def join(job: str, device: torch.device) -> bool:
    """Work together with the other processes, if ``torchrun`` started several; whether this one is the first of them."""
    if distributed.launched() and job not in TOGETHER:
        raise InputError(
            f"torchrun serves {' and '.join(TOGETHER)}; gnas {job} is many runs: start it by itself, see --on"
        )
    distributed.start(device)
    if not distributed.is_first():
        warnings.simplefilter("ignore")  # the first one says it
    return distributed.is_first()


def sharing_norms(settings: Settings) -> Settings:
    """Batch norm over all processes, in training and, where it goes by gradients, in the search."""
    everywhere = {"training": {"sync_bn": True}}
    return settings.changed({**everywhere, "search": {"sync_bn": True}} if settings.search.is_gradient else everywhere)


def describe_device(device: torch.device) -> str:
    """The device by its name."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    together = f", {distributed.size()} processes" if distributed.size() > 1 else ""
    return f"{device} ({threads} thread{'s' * (threads != 1)}{together})"
