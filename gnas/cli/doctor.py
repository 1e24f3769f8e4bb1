"""``gnas doctor``: versions, devices, what would be used, common problems with what helps, and what a run would cost.

gnas and torch are imported where they are used: the installation may be what is wrong.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from gnas.cli.options import Options
from gnas.cli.screen import Screen
from gnas.distributed import available_cores
from gnas.printed import format_count

EXTRAS = {
    "rdkit": "for SMILES: pip install rdkit",
    "skimage": "for superpixels from images: pip install scikit-image",
    "networkx": "for NetworkX graphs: pip install networkx",
    "tensorboard": "for --track tensorboard: pip install tensorboard",
    "mlflow": "for --track mlflow: pip install mlflow",
    "wandb": "for --track wandb: pip install wandb",
}


@dataclass(frozen=True)
class Finding:
    """One line: what was checked, what was found, and what helps if it is a problem."""

    what: str
    found: str
    problem: str = ""


def doctor(options: Options, screen: Screen) -> None:
    """Look at the installation, or estimate a run on a dataset."""
    if options.dataset is not None:
        screen.result(show_forecast(screen, options))
        return
    with screen.waiting("looking"):
        found = [finding for look in LOOKS for finding in _safely(look, options.data_root)]
    for finding in found:
        mark = "!" if finding.problem else "✓"
        screen.say(f"{mark} {finding.what:<16} {finding.found}", style="yellow" if finding.problem else "")
        if finding.problem:
            screen.say(f"  {'':<16} → {finding.problem}", style="yellow")
    problems = [finding for finding in found if finding.problem]
    screen.say(f"\n{format_count(len(problems), 'problem')} found" if problems else "\nall is well")
    screen.result({"ok": not problems, "findings": [asdict(finding) for finding in found]})
    raise typer.Exit(1 if problems else 0)


def show_forecast(screen: Screen, options: Options) -> dict[str, Any]:
    """Print how long a search and its trainings would take on a dataset, and the memory; returns it as plain values."""
    with screen.waiting("starting"):
        import torch

        from gnas.cli.prepare import load_data
        from gnas.cli.settings import check_settings, data_options, resolve_settings, setting_options, usual_preset
        from gnas.cost import Workload, estimate_cost
        from gnas.data.benchmarks import PUBLISHED
        from gnas.run.words import duration, megabytes
        from gnas.training.prediction import find_device

    dataset = options.dataset
    # A GPU that this machine lacks is fine: nothing is computed on it.
    device = find_device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"), needed=False)
    chosen = setting_options(options)
    usual, _ = usual_preset("search", dataset, device, chosen)
    settings = resolve_settings(usual, options.preset, None, None, chosen)
    check_settings(settings)
    if dataset in PUBLISHED:
        work, source = Workload.from_facts(dataset), "published figures"
    else:
        given = data_options(options.target, options.data)
        work, source = Workload.of(load_data(screen, dataset, options.data_root, given, show=False)), "the data"
    found = estimate_cost(work, settings, device, dataset)
    where = found.measured_on if found.same_hardware else f"{found.measured_on}, not this machine"
    seeds = len(settings.training.seeds)
    size = f"{work.graphs:,} graphs of {work.nodes:.0f} nodes and {work.edges:,.0f} edges"
    screen.pair("data", f"{dataset}: {size} ({source})")
    space = settings.space
    screen.pair("with", f"preset {settings.preset}, {space.cells} cells, {space.channels} channels, {device}")
    epochs = f"about {found.train_epochs} epochs each"
    lines = [
        ("search", f"{duration(found.search_seconds)}, {megabytes(found.search_mb)}; {settings.search.epochs} epochs"),
        (format_count(seeds, "seed"), f"{duration(found.train_seconds)}, {megabytes(found.train_mb)}; {epochs}"),
        ("in all", f"{duration(found.seconds)}, {megabytes(found.peak_mb)} at most; without baselines"),
    ]
    screen.pairs("estimate", lines)
    screen.pair("from", f"steps measured on {where}; on sizes left out they were off by {found.off:.0%} (median)")
    if settings.search.strategy != "single-level":
        screen.pair("note", f"the search is estimated as single-level; {settings.search.strategy} was not measured")
    return {"dataset": dataset, "device": str(device), "settings": settings.to_dict(), **asdict(found)}


def _safely(look: Callable[[Path | None], Iterator[Finding]], root: Path | None) -> list[Finding]:
    try:
        return list(look(root))
    except Exception as error:
        name = look.__name__.strip("_").replace("_", " ")
        return [Finding(name, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", "this should not fail")]


def _versions(_: Path | None) -> Iterator[Finding]:
    old = sys.version_info < (3, 10)
    yield Finding(
        "python", f"{platform.python_version()} ({sys.executable})", "use Python 3.10 or later" if old else ""
    )
    for name, least in (("gnas", (0,)), ("torch", (2, 11)), ("torch-geometric", (2, 8)), ("numpy", (1, 26))):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(name, "not installed", f"pip install {name}")
            continue
        number = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
        wanted = ".".join(map(str, least))
        yield Finding(name, version, f"at least {wanted} is needed: pip install -U {name}" if number < least else "")


def _devices(_: Path | None) -> Iterator[Finding]:
    import torch

    driver = _nvidia()
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            name = torch.cuda.get_device_name(index)
            yield Finding(f"cuda:{index}", f"{name}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free")
    elif driver and torch.version.cuda is None:
        help_ = "reinstall torch with CUDA: see pytorch.org/get-started"
        yield Finding("gpu", f"{driver}, but torch {torch.__version__} was built without CUDA", help_)
    elif driver:
        help_ = f"torch was built for CUDA {torch.version.cuda}: update the driver, or check CUDA_VISIBLE_DEVICES"
        yield Finding("gpu", f"{driver}, but torch cannot use it", help_)
    else:
        yield Finding("gpu", "none; the CPU is used")
    cores, threads = available_cores(), torch.get_num_threads()
    many = f"set OMP_NUM_THREADS={cores}" if threads > cores else ""
    yield Finding("threads", f"{threads} of {cores} cores", many)


def _nvidia() -> str:
    """What nvidia-smi calls the first GPU, or nothing."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        command = [program, "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def _kernels(_: Path | None) -> Iterator[Finding]:
    import torch

    from gnas.kernels.choice import IMPLEMENTATIONS, choose_implementation

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for variable in IMPLEMENTATIONS:
        chosen, forced = choose_implementation(variable, device), os.environ.get(variable)
        slow = device.type == "cuda" and chosen != "triton"
        help_ = f"unset {variable}" if forced else "pip install triton: the GPU kernels need it"
        found = f"{chosen} on {device}{f' (forced by {variable})' if forced else ''}"
        yield Finding(variable.removeprefix("GNAS_").lower(), found, help_ if slow else "")


def _trial(_: Path | None) -> Iterator[Finding]:
    """A small network, forward and backward, on the device that would be used."""
    import torch

    from gnas.arch.gap import approximate
    from gnas.model.network import Network
    from gnas.model.task import Task

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    started = time.perf_counter()
    network = Network(approximate("gatedgcn", 2), Task("graph", "regression", 1, categories=(4,)), 8).to(device)
    x, edges = torch.tensor([[0], [1], [2], [3]]), torch.tensor([[0, 1, 2, 3, 1, 2], [1, 0, 3, 2, 2, 1]])
    loss = network(x.to(device), edges.to(device)).square().sum()
    loss.backward()
    good = bool(torch.isfinite(loss))
    took = f"a small network runs on {device}, {1000 * (time.perf_counter() - started):.0f} ms"
    yield Finding("trial", took, "" if good else "its output is not finite")


def _data(root: Path | None) -> Iterator[Finding]:
    from gnas.data.benchmarks import list_benchmarks
    from gnas.data.benchmarks.sources import find_data_root, is_writable
    from gnas.data.cache import user_cache

    folder = find_data_root(root)
    state = "" if folder.is_dir() else " (not there yet)"
    writable = is_writable(folder) or is_writable(user_cache())
    help_ = "" if writable else "neither it nor the cache can be written: set GNAS_DATA"
    yield Finding("data root", f"{folder}{state}", help_)
    for row in list_benchmarks(root):
        yield Finding(f"  {row.name}", "not there" if row.source == "none" else row.source)


def _disk(_: Path | None) -> Iterator[Finding]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield Finding(
        "disk", f"{free:.1f} GiB free here", "runs need about 0.1 GiB each; free some space" if free < 0.5 else ""
    )


def _extras(_: Path | None) -> Iterator[Finding]:
    have = [name for name in EXTRAS if importlib.util.find_spec(name)]
    yield Finding("extras", ", ".join(have) or "none")
    for name in [name for name in EXTRAS if name not in have]:
        yield Finding(f"  {name}", f"not installed; {EXTRAS[name]}")
    if "rdkit" in have:
        try:
            importlib.import_module("rdkit.Chem.Draw.rdMolDraw2D")
        except ImportError as error:
            yield Finding("  rdkit", f"cannot draw molecules ({error}): install libxrender1, libxext6 and libexpat1")


LOOKS = (_versions, _devices, _kernels, _trial, _data, _disk, _extras)
