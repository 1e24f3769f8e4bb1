"""The first steps of search, train, depth and compare: from the options of the command line to loaded data."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.cli.group import COMMAND, STARTED, quote_command
from gnas.cli.progress import count_progress
from gnas.cli.screen import Screen
from gnas.cli.settings import check_settings, data_options, resolve_settings, setting_options, usual_preset
from gnas.cost import warn_if_too_large
from gnas.data import NAMES, Benchmark, load
from gnas.data.describe import describe_benchmark
from gnas.errors import InputError
from gnas.files import check_inside, read_config, write_json
from gnas.jobs import Runner, check_on, open_runner
from gnas.jobs.storage import Storage
from gnas.printed import format_count
from gnas.run import layout
from gnas.run.folder import Reservation, check_data
from gnas.run.record import read_run_json
from gnas.run.settings import RACE_SECONDS, Settings, read_command, read_settings
from gnas.run.summary import summarise_run
from gnas.run.words import parse_duration
from gnas.training.engine import use_deterministic
from gnas.training.prediction import find_device
from gnas.use.tracking import find_trackers
from gnas.workflow import list_versions

TOGETHER = ("search", "train")  # the commands that several processes can share


@dataclass(frozen=True)
class PreparedRun:
    """Everything a command needs to start its job."""

    dataset: str  # as it was named
    screen: Screen
    place: RunFolder
    saved_options: Mapping[str, Any]  # options of the resumed run, or of the run passed with --settings
    settings: Settings
    device: torch.device
    benchmark: Benchmark
    trackers: Sequence[str]
    runner: Runner | None = None  # the workers of --on
    started: float = field(default_factory=time.monotonic)  # when the command began

    @property
    def folder(self) -> Path:
        return self.place.folder

    def lock_folder(self, **more: Any) -> None:
        """Reserve the folder for this run; it keeps the dataset, the settings and ``more`` options of the command."""
        options = {"dataset": self.dataset, "settings": self.settings.to_dict(), **more}
        distributed.from_first(
            lambda: self.place.begin(options, list_versions(self.device), self.benchmark.fingerprint)
        )


def prepare_run(
    job: str,
    options: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    name: Sequence[str] = (),
    recipe: Path | None = None,
) -> PreparedRun:
    """Resolve settings, folder and device, print them, and load the data. Nothing is written yet.

    Args:
        job: the command, such as ``search``.
        options: its options by name.
        given: the settings among them, for a command whose options have other names than the settings.
        name: words after the dataset in the folder's default name; ``{strategy}`` and ``{seed}`` are filled in.
        recipe: a file of settings, for a new run with neither ``--preset`` nor ``--settings``.
    """
    started = STARTED.get() or time.monotonic()  # torch is imported after the command began, which takes seconds
    check_workers(options)
    dataset, device = str(options["dataset"]), choose_device(options["device"], options["deterministic"])
    first = join_processes(job, device)
    screen = Screen(options["as_json"], options["quiet"]) if first else Screen(quiet=True)
    trackers = find_trackers(options["track"] if first else "none")
    given = setting_options(options) if given is None else given
    usual, why = usual_preset(job, dataset, device, given)
    given = {**given, "data": data_options(options["target"], options["data"], options.get("sample_neighbors")) or None}
    preset, file, changes = options["preset"], options["settings"], list(options["change"] or ())
    if options.get("searches") is not None:
        changes.append(f"search.searches={options['searches']}")
    if options.get("time_limit") is not None:
        changes.append(f"search.max_seconds={parse_duration(options['time_limit']):g}")
    if options.get("trials") is not None:
        changes.append(f"search.trials={options['trials']}")
    recipe = None if preset or file else recipe
    settings = resolve_settings(usual, preset, file or recipe, None, given, changes)
    words = [word.format(strategy=settings.search.strategy, seed=settings.search.seed) for word in name]
    folder = options["out"] or run_name(dataset, *words)
    fetch_run(options.get("sync"), Path(folder), options["resume"], options["force"])
    place = distributed.from_first(lambda: RunFolder(folder, job, options["resume"], options["force"]))
    saved = distributed.from_first(lambda: place.saved) if file is None else read_command(file)
    if saved and file is None:
        settings = resolve_settings(usual, preset, None, saved.get("settings"), given, changes)
    limited = settings if saved else settings.with_limit()
    unlimited, settings = limited != settings, limited
    if options.get("sync_bn"):
        settings = with_shared_norms(settings)
    check_settings(settings)
    named = preset or file or recipe or place.resumed
    screen.pair("run", f"{place.folder}{' (resumed)' if place.resumed else ''}")
    screen.pair("with", f"preset {settings.preset}{'' if named else f' ({why})'}, {describe_device(device)}")
    if unlimited:
        screen.pair(
            "time",
            f"{RACE_SECONDS / 60:g} minutes; --time 30m for another limit, --trials N for a number of networks",
        )
    if recipe and not place.resumed:
        screen.pair("recipe", f"{recipe.stem}, as in our results; --preset NAME for another")
    earlier = find_earlier_input(place.folder) if place.resumed else {}
    benchmark = load_data(screen, dataset, options["data_root"], {**earlier, **settings.data})
    settings = settings.for_data(benchmark.has_one_graph)
    if options.get("on") != "ray":  # whose workers are on other machines
        warn_if_too_large(benchmark, settings, device)
    return PreparedRun(dataset, screen, place, saved, settings, device, benchmark, trackers, started=started)


def saved_numbers(saved: Mapping[str, Any], names: Iterable[str]) -> dict[str, int]:
    """The options with these names that a run was started with and that are whole numbers."""
    return {name: int(text) for name in names if (text := str(saved.get(name))).isdigit()}


def find_earlier_input(folder: Path) -> dict[str, Any]:
    """Data options with which a resumed run of gnas 0.1 reads its molecules and builds its heads as it did."""
    try:
        facts = read_run_json(folder, "data")
    except InputError:
        return {}
    if not isinstance(facts, dict):
        return {}
    if facts.get("source") == "SMILES" and facts.get("columns", ["atom"]) == ["atom"]:
        return {"atoms": "tokens"}
    task, splits = facts.get("task"), facts.get("splits")
    if not isinstance(task, dict) or not isinstance(splits, dict) or not isinstance(splits.get("train"), dict):
        return {}
    one_graph = task.get("level") == "node" and splits["train"].get("graphs") == 1
    return {"head": "mlp"} if one_graph and "head" not in task else {}


def load_data(
    screen: Screen, dataset: str, data_root: Path | None, options: Mapping[str, Any], show: bool = True
) -> Benchmark:
    """Load a benchmark, with a bar if it takes long, and print a description."""
    with count_progress(screen, dataset) as on_progress:
        more: dict[str, Any] = {"on_progress": on_progress} if dataset in NAMES else {}
        benchmark = load(dataset, data_root=data_root, **options, **more)
    if show:
        screen.pairs("data", describe_benchmark(benchmark).lines)
    return benchmark


def choose_device(name: str | None, deterministic: bool = False) -> torch.device:
    """The requested device, or the GPU if there is one."""
    if deterministic:
        use_deterministic()
    if distributed.is_launched() and torch.cuda.is_available() and name in (None, "cuda"):
        return distributed.local_device()
    return find_device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def join_processes(job: str, device: torch.device) -> bool:
    """Join the other processes if ``torchrun`` started several; returns whether this one is the first."""
    if distributed.is_launched() and job not in TOGETHER:
        raise InputError(
            f"torchrun is for {' and '.join(TOGETHER)}; gnas {job} is many runs: start it without torchrun, see --on"
        )
    distributed.join_processes(device)
    if not distributed.is_first():
        warnings.simplefilter("ignore")  # the first process shows them
    return distributed.is_first()


def with_shared_norms(settings: Settings) -> Settings:
    """Batch norm over all processes, in training and in a search by gradients."""
    everywhere = {"training": {"sync_bn": True}}
    return settings.changed({**everywhere, "search": {"sync_bn": True}} if settings.search.is_gradient else everywhere)


def describe_device(device: torch.device) -> str:
    """The device by its name."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads, processes = format_count(torch.get_num_threads(), "thread"), distributed.num_processes()
    return f"{device} ({threads}{f', {processes} processes' if processes > 1 else ''})"


# -- workers ---------------------------------------------------------------------------------------------------------------


def check_workers(options: Mapping[str, Any]) -> None:
    """Refuse options that exclude each other, before anything is loaded."""
    on, share = options.get("on"), options.get("gpus_per_job")
    kind, _ = check_on(on, share)
    if kind != "here" and distributed.is_launched():
        raise InputError("--on is for many runs, torchrun for one large run: choose one of them")
    if share and options.get("device") == "cpu":
        raise InputError("--gpus-per-job cannot be used with --device cpu")


def fetch_run(url: str | None, folder: Path, resume: bool, force: bool) -> None:
    """Copy the run at the URL to ``folder``, which is older. Refuse to replace a run without ``--force``."""
    if url is not None:
        distributed.from_first(lambda: _fetch(Storage(url), folder, resume, force))


def _fetch(storage: Storage, folder: Path, resume: bool, force: bool) -> None:
    storage.claim()  # until the command ends
    storage.remove_shared()
    if not storage.holds(layout.CONFIG):
        return
    if force:
        for name in layout.OWN_NAMES:
            storage.remove(name)
    elif resume:
        storage.pull("", folder)
    else:
        storage.release()
        raise InputError(f"{storage.url} already holds a run; --resume resumes it, --force replaces it")


@contextlib.contextmanager
def open_workers(prepared: PreparedRun, options: Mapping[str, Any]) -> Iterator[PreparedRun]:
    """Inside, the command has a runner: the workers that ``--on`` names, by default this process."""
    on, share, sync = (options.get(name) for name in ("on", "gpus_per_job", "sync"))
    with prepared.screen.waiting("starting workers") if on not in (None, "here") else contextlib.nullcontext():
        runner = open_runner(prepared.folder, on, gpus_per_job=share, device=prepared.device, sync=sync)
    if description := getattr(runner.pool, "description", ""):
        prepared.screen.pair("ray", description)
    try:
        with runner:
            yield replace(prepared, runner=runner)
    finally:
        if prepared.folder.is_dir():
            runner.push_own_files()
        if runner.storage is not None:
            runner.storage.release()


# -- the folder -------------------------------------------------------------------------------------------------------


class RunFolder:
    """A run folder before the work begins."""

    def __init__(self, folder: Path, job: str, resume: bool, force: bool) -> None:
        self.folder, self.job, self.force = folder, job, force
        if resume and force:
            raise InputError("give --resume or --force, not both")
        known = layout.is_run(folder)
        if known:
            check_inside(folder)
        self.resumed = resume and known
        if folder.is_file():
            raise InputError(f"{folder} is a file; --out names a folder")
        if known and not (resume or force):
            raise self._refusal()
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        if not known and any(not name.startswith(".") and name not in layout.OWN_NAMES for name in names):
            raise InputError(f"{folder} is not empty and not a run folder; choose another with --out")
        found = summarise_run(folder).job if known else job
        if resume and found != job:
            raise InputError(f"{folder} holds the run of a gnas {found}; resume it with that command")
        if known and layout.is_locked(folder):
            raise InputError(f"{folder}: another process is working in this run folder")

    @property
    def saved(self) -> dict[str, Any]:
        """The options of the resumed command: its settings, those of the data among them."""
        file = self.folder / layout.COMMAND
        if not self.resumed:
            return {}
        if not file.exists():  # started from Python
            return {"settings": read_settings(self.folder / layout.CONFIG)} if self.job == "search" else {}
        try:
            return read_command(file)
        except InputError as error:
            raise InputError(f"{error}; remove it and name the settings with --settings") from None

    def begin(self, options: dict[str, Any], versions: dict[str, str], fingerprint: str | None = None) -> None:
        """Clear what is to be replaced, and save how the run was started and by which versions.

        A resumed run with another ``fingerprint`` of its data is refused before anything is written.
        """
        self.reservation = Reservation(self.folder)  # of two commands that start at once, one clears and writes
        if self.resumed:
            check_data(self.folder, read_config(self.folder / layout.CONFIG), fingerprint)
        elif not self.force and layout.is_run(self.folder):
            raise self._refusal()
        if self.force:  # what runs write into their folder, and nothing else
            for path in layout.own_paths(self.folder):
                layout.remove_path(path)
        for path in self.folder.rglob(".*"):  # what a killed process did not write to the end
            if layout.TEMPORARY.fullmatch(path.name) and path.is_file():
                path.unlink()
        layout.remove_shared(self.folder)
        if not self.resumed:
            words = {"command": quote_command(COMMAND.get()), "job": self.job, **options}
            write_json(self.folder / layout.COMMAND, words)
        write_json(self.folder / layout.VERSIONS, versions)

    def _refusal(self) -> InputError:
        return InputError(f"{self.folder} already holds a run; --resume resumes it, --force replaces it")


def run_name(dataset: str, *words: str) -> Path:
    """The default folder: the same for the same command."""
    name = Path(dataset).stem if Path(dataset).suffix else Path(dataset).name
    return Path("runs") / "-".join(re.sub(r"[^\w.]+", "-", word).strip("-.") or "data" for word in (name, *words))
