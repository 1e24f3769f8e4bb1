"""Networks a user names: a genotype file, a run folder, a formula, a baseline; and trainings they already have."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnas.arch import shipped
from gnas.arch.architecture import Architecture, read_architecture
from gnas.arch.gap import genotype as from_formula
from gnas.arch.genotype import Genotype
from gnas.compare.networks import Candidate, Training
from gnas.data import Benchmark
from gnas.errors import InputError
from gnas.files import dump_config, write_atomic
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings, config_value


def read_network(path: Path) -> Architecture:
    """The architecture of a run folder, of a genotype file, or a shipped one by its name."""
    if path.is_dir():
        found = Run(path).architecture()
        if found is None:
            raise InputError(f"{path}: this run has no genotype (yet)")
        return found
    return read_architecture(shipped.genotype_file(path.name) if is_name(path) else path)


def is_name(path: Path) -> bool:
    """Whether this can only mean a shipped genotype: a plain word that names no file."""
    return not path.exists() and str(path) == path.stem


def recipe_for(genotype: Path, dataset: str) -> Path | None:
    """The settings that a shipped genotype was trained with on this very dataset; None for any other network."""
    same = is_name(genotype) and genotype.name.rpartition("-")[0] == dataset
    return shipped.recipe(genotype.name) if same else None


def read_formula(texts: Sequence[str], num_cells: int | None) -> Genotype:
    """One formula for all cells, or one for each."""
    return from_formula(list(texts) if len(texts) > 1 else texts[0], num_cells if len(texts) == 1 else None)


def run_settings(folder: Path, otherwise: Settings) -> Settings:
    """The settings a run's network was built with, as far as its config.yaml tells them."""
    config = Run(folder).config if folder.is_dir() else {}
    values = {name: config_value(config, name) for name in ("space.channels", "training.dropout", "training.budget")}
    return otherwise.changed({name: value for name, value in values.items() if value is not None})


def num_weights(candidate: Candidate, benchmark: Benchmark) -> int:
    """Weights of the candidate's network for this benchmark."""
    return sum(weight.numel() for weight in candidate.build(benchmark.task).parameters())


def remarked(candidate: Candidate, benchmark: Benchmark, weights: int, remark: str = "") -> Candidate:
    """The candidate with a remark on what is not equal: much fewer or more weights than ``weights``, and ``remark``."""
    own = num_weights(candidate, benchmark)
    size = "" if abs(own - weights) <= 0.1 * weights else f"{own / weights - 1:+.0%} weights"
    return dataclasses.replace(candidate, remark="; ".join(filter(None, (candidate.remark, size, remark))))


def collect(
    run: Path,
    there: str,
    candidate: Candidate,
    config: TrainConfig,
    seeds: Sequence[int],
    benchmark: Benchmark,
    folder: Path,
) -> bool:
    """Copy finished trainings of the same network under the same protocol from another run; whether all were there."""
    taken = 0
    for seed in seeds:
        training = Training(benchmark, candidate, config, seed, folder)
        source = run / "trained" / there / f"seed-{seed}"
        if not (source / "result.json").exists():
            continue
        saved = Run(source).config
        wanted = training.settings(saved)
        if _without_model(saved) != _without_model(wanted):
            continue
        taken += 1
        if not training.folder.exists():
            _copy(source, training.folder, wanted)
    return taken == len(seeds)


def _without_model(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "model"}


def _copy(source: Path, target: Path, config: dict[str, Any]) -> None:
    """Copy a training; the target appears at once and whole."""
    half = target.with_name(f".{target.name}")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    for file in source.iterdir():  # history, result, weights; checkpoints stay where they are
        if file.is_file() and not file.name.startswith("."):
            shutil.copyfile(file, half / file.name)
    write_atomic(half / "config.yaml", dump_config(config))
    half.rename(target)
