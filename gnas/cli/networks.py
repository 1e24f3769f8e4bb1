"""Networks that a user names (a genotype file, a run folder, a formula), and the trainings that they already have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gnas.arch import shipped
from gnas.arch.architecture import Architecture, read_architecture
from gnas.arch.gap import genotype as from_formula
from gnas.arch.genotype import Genotype
from gnas.compare.networks import Candidate, Training, as_saved
from gnas.data import Benchmark
from gnas.errors import InputError
from gnas.run.folder import FINGERPRINT, Run, copy_training
from gnas.run.layout import is_finished, training_folder
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings, config_value


def read_network(path: Path) -> Architecture:
    """The architecture of a run folder, of a genotype file, or a shipped one by its name."""
    if path.is_dir():
        found = Run(path).architecture()
        if found is None:
            raise InputError(f"{path}: this run has no genotype (yet)")
        return found
    return read_architecture(shipped.find_genotype_file(path.name) if is_name(path) else path)


def is_name(path: Path) -> bool:
    """Whether this can only mean a shipped genotype: a plain word that names no file."""
    return not path.exists() and str(path) == path.stem


def find_recipe(genotype: Path, dataset: str) -> Path | None:
    """The settings that a shipped genotype was trained with on this very dataset; None for any other network."""
    same = is_name(genotype) and genotype.name.rpartition("-")[0] == dataset
    return shipped.find_recipe_file(genotype.name) if same else None


def read_formula(texts: Sequence[str], num_cells: int | None) -> Genotype:
    """One formula for all cells, or one for each."""
    return from_formula(list(texts) if len(texts) > 1 else texts[0], num_cells if len(texts) == 1 else None)


def run_settings(folder: Path, otherwise: Settings) -> Settings:
    """The settings that a run's network was built with. Those that its config.yaml lacks are those of ``otherwise``."""
    config = Run(folder).config if folder.is_dir() else {}
    values = {name: config_value(config, name) for name in ("space.channels", "training.dropout", "training.budget")}
    return otherwise.changed({name: value for name, value in values.items() if value is not None})


def count_weights(candidate: Candidate, benchmark: Benchmark) -> int:
    """Weights of the candidate's network for this benchmark."""
    return sum(weight.numel() for weight in candidate.build(benchmark.task).parameters())


def add_remark(candidate: Candidate, benchmark: Benchmark, weights: int, remark: str = "") -> Candidate:
    """The candidate with a remark on what is not equal: much fewer or more weights than ``weights``, and ``remark``."""
    own = count_weights(candidate, benchmark)
    size = "" if abs(own - weights) <= 0.1 * weights else f"{own / weights - 1:+.0%} weights"
    return replace(candidate, remark="; ".join(filter(None, (candidate.remark, size, remark))))


@dataclass(frozen=True)
class Collection:
    """Trainings of another run: whether those of all seeds were used, and what is wrong with the others."""

    complete: bool
    problem: str = ""


def collect_trainings(
    run: Path,
    network: str,
    candidate: Candidate,
    config: TrainConfig,
    seeds: Sequence[int],
    benchmark: Benchmark,
    folder: Path,
) -> Collection:
    """Copy finished trainings of the same network, protocol and data from another run.

    Args:
        run: The other run folder.
        network: The name of the network there.
        candidate: The network that is trained here.
        config: The protocol that is wanted here.
        seeds: The seeds that are wanted here.
        benchmark: The data; trainings on other data are not copied.
        folder: Where the trainings belong.
    """
    used, problem = 0, ""
    for seed in seeds:
        source, training = training_folder(run, network, seed), Training(benchmark, candidate, config, seed, folder)
        if not is_finished(source):
            continue
        saved, requested = Run(source).config, training.settings()
        # Settings that are newer than the run have their defaults.
        saved = {**saved, "training": {**as_saved(TrainConfig()), **saved.get("training", {})}}
        if saved.get(FINGERPRINT) != benchmark.fingerprint:
            problem = "are of other data" if FINGERPRINT in saved else "have no fingerprint of their data"
        elif {**saved, "model": candidate.name} == requested:
            used += 1
            if not training.folder.exists():
                copy_training(source, training.folder, requested)
    return Collection(used == len(seeds), problem)
