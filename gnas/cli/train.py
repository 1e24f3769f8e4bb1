"""``gnas train``: one network, given as a genotype, a formula or a baseline's name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnas.cli import options as o
from gnas.cli.screen import Screen
from gnas.errors import InputError

if TYPE_CHECKING:
    from gnas.arch.architecture import Architecture
    from gnas.cli.prepare import PreparedRun

EXAMPLES = (
    "gnas train cluster-mini --baseline gin --cells 4",
    "gnas train zinc --genotype runs/zinc-single-level-seed0 --seeds 41,95,12,35",
    "gnas train zinc --genotype zinc-12 --seeds 41",
    r"gnas train molecules.csv --formula '\[identity | dense(sum(dense))]' --cells 3",
)
GENOTYPE = (
    "A genotype file, a run folder, or one that comes with gnas, such as zinc-12, trained as it was for our results."
)
TrainSeed = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Of the training, where it is one.", rich_help_panel=o.NETWORK)
]


def train(
    context: typer.Context,
    dataset: o.Dataset,
    genotype: Annotated[Path | None, typer.Option(metavar="FILE|NAME", help=GENOTYPE)] = None,
    formula: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A formula for all cells; repeated, one for each.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A hand-made network: mlp, gcn, gin, graphsage, gat, gatedgcn, monet, or that of a plugin.",
        ),
    ] = None,
    preset: o.Preset = None,
    settings: o.SettingsFile = None,
    seed: TrainSeed = None,
    seeds: o.Seeds = None,
    cells: o.Cells = None,
    channels: o.Channels = None,
    epochs: o.Epochs = None,
    batch: o.Batch = None,
    budget: o.Budget = None,
    change: o.Change = None,
    target: o.Target = None,
    data: o.DataOption = None,
    sample_neighbors: o.SampleNeighbors = None,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    on: o.On = None,
    gpus_per_job: o.GpusPerJob = None,
    sync: o.Sync = None,
    sync_bn: o.SyncNorm = False,
    deterministic: o.Deterministic = False,
    out: o.Out = None,
    resume: o.Resume = False,
    force: o.Force = False,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Train one network by the benchmark's protocol and report its test metric."""
    if sum(bool(given) for given in (genotype, formula, baseline)) != 1:
        raise InputError("name one network: --genotype FILE or NAME, --formula TEXT or --baseline NAME")
    if seed is not None and seeds is not None:
        raise InputError("give --seed or --seeds, not both")
    with Screen(as_json, quiet).waiting("starting"):
        from gnas.cli.networks import read_formula, read_network, recipe_for
        from gnas.cli.prepare import prepare_run
        from gnas.cli.settings import baseline_names
        from gnas.cli.workers import open_workers

    architecture, recipe = None, None
    if genotype is not None:
        architecture = read_network(genotype)
        recipe = recipe_for(genotype, dataset)
        if cells not in (None, len(architecture.formulas())):
            raise InputError(f"{genotype} has {len(architecture.formulas())} cells; --cells does not go with it")
    elif formula:
        architecture = read_formula(formula, cells or (4 if len(formula) == 1 else None))
    name = "gnas" if architecture is not None else baseline_names(baseline or "")[0]
    given = {
        "seeds": seeds if seed is None else str(seed),
        "cells": cells if architecture is None else len(architecture.formulas()),
        "channels": channels,
        "epochs": epochs,
        "batch": batch,
        "budget": budget,
    }
    words = [name if architecture is None else architecture.id]
    with open_workers(prepare_run("train", context.params, given, words, recipe), context.params) as prepared:
        run_train(prepared, name, architecture, channels)


def run_train(prepared: PreparedRun, name: str, architecture: Architecture | None, channels: int | None) -> None:
    """Train the network from all seeds, keep and print the result."""
    from gnas import distributed
    from gnas.cli import show
    from gnas.cli.job import train_and_rank, training_run, write_report
    from gnas.workflow import baseline_dropout, make_baseline_candidate, make_candidate, with_chosen_output

    screen, settings, benchmark = prepared.screen, prepared.settings, prepared.benchmark
    if architecture is None:
        budget = None if channels else settings.training.budget or None
        rate = baseline_dropout(benchmark, settings)
        candidate = make_baseline_candidate(name, benchmark, settings.space.cells, budget, channels, rate)
    else:
        architecture = with_chosen_output(architecture, settings)
        candidate = make_candidate(architecture, benchmark, settings)
        show.show_network(screen, architecture, "network")
    prepared.lock_folder()
    network = f"{name}: {candidate.title}"
    with training_run(prepared, "train", network=network) as run:
        if architecture is not None:
            run.write_genotype(architecture)
        board = train_and_rank(prepared, run, [candidate])
    if not distributed.leave_processes():
        return
    show.show_leaderboard(screen, board)
    report = write_report(prepared.folder)
    show.show_next_steps(screen, report, *show.list_next_steps(str(prepared.folder)))
    screen.result(
        {
            "run": str(prepared.folder),
            "dataset": benchmark.name,
            "network": network,
            "device": str(prepared.device),
            "leaderboard": board.to_dict(),
            "report": report,
        }
    )
