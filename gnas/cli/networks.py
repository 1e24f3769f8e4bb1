"""Networks that a user names: a genotype file, a run folder, a formula or a baseline; and ``gnas train``, which trains one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnas import distributed
from gnas.arch import shipped
from gnas.arch.architecture import Architecture, read_architecture
from gnas.arch.gap import genotype as from_formula
from gnas.arch.genotype import Genotype
from gnas.cli import job
from gnas.cli.options import Options
from gnas.cli.prepare import PreparedRun, open_workers, prepare_run
from gnas.cli.screen import Screen
from gnas.cli.settings import baseline_names
from gnas.errors import InputError
from gnas.run.folder import Run
from gnas.workflow import baseline_dropout, make_baseline_candidate, make_candidate, with_chosen_output


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


def train(options: Options, screen: Screen) -> None:
    """Read the network that is named, and train it."""
    genotype, formula, baseline = options.genotype, options.formula, options.baseline
    if sum(bool(given) for given in (genotype, formula, baseline)) != 1:
        raise InputError("name one network: --genotype FILE or NAME, --formula TEXT or --baseline NAME")
    if options.seed is not None and options.seeds is not None:
        raise InputError("give --seed or --seeds, not both")
    cells, channels = options.cells, options.channels
    architecture, recipe = None, None
    if genotype is not None:
        architecture = read_network(genotype)
        recipe = find_recipe(genotype, options.dataset)
        if cells not in (None, len(architecture.formulas())):
            raise InputError(f"{genotype} has {len(architecture.formulas())} cells; --cells does not go with it")
    elif formula:
        architecture = read_formula(formula, cells or (4 if len(formula) == 1 else None))
    name = "gnas" if architecture is not None else baseline_names(baseline or "")[0]
    given = {
        "seeds": options.seeds if options.seed is None else str(options.seed),
        "cells": cells if architecture is None else len(architecture.formulas()),
        "channels": channels,
        **{key: options[key] for key in ("epochs", "batch", "budget")},
    }
    words = [name if architecture is None else architecture.id]
    with open_workers(prepare_run("train", options, given, words, recipe), options) as prepared:
        run_train(prepared, name, architecture, channels)


def run_train(prepared: PreparedRun, name: str, architecture: Architecture | None, channels: int | None) -> None:
    """Train the network from all seeds, keep and print the result."""
    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    if architecture is None:
        budget = None if channels else settings.training.budget or None
        rate = baseline_dropout(benchmark, settings)
        candidate = make_baseline_candidate(name, benchmark, settings.space.cells, budget, channels, rate)
    else:
        architecture = with_chosen_output(architecture, settings)
        candidate = make_candidate(architecture, benchmark, settings)
        job.show_network(screen, architecture, "network")
    prepared.lock_folder()
    network = f"{name}: {candidate.title}"
    with job.training_run(prepared, "train", network=network) as run:
        if architecture is not None:
            run.write_genotype(architecture)
        board = job.run_training(prepared, run, [candidate])
    if not distributed.leave_processes():
        return
    job.show_leaderboard(screen, board)
    facts: dict[str, Any] = {"dataset": benchmark.name, "network": network, "device": str(prepared.device)}
    facts |= {"leaderboard": board.to_dict()}
    job.finish_job(prepared, facts, *job.list_next_steps(str(prepared.folder)))
