"""``gnas compare``: hand-made and found networks on equal terms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnas.cli import options as o
from gnas.cli.screen import Screen

if TYPE_CHECKING:
    from gnas.cli.prepare import PreparedRun
    from gnas.compare.networks import Candidate

EXAMPLES = (
    "gnas compare cluster-mini --baselines gcn,gin --seeds 41,95",
    "gnas compare zinc --baselines all --found runs/zinc-single-level-seed0 --found runs/zinc-random-seed0",
    "gnas compare zinc --baselines all --seeds 41,95,12,35 --on local:4",
    "gnas compare molecules.csv --target logP --baselines gcn,gin --folds 5",
    "gnas compare cluster-mini --strategies all --seeds 0,1,2 --budget-epochs 80",
)
STRATEGIES = "With --strategies"


def compare(
    context: typer.Context,
    dataset: o.Dataset,
    baselines: o.Baselines = None,
    found: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="A run folder or genotype file, or a name such as zinc-12, whose network takes part; repeatable.",
        ),
    ] = None,
    strategies: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Compare ways to search instead: single-level,darts,random,evolution,graphnas or all."
        ),
    ] = None,
    budget_epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Epochs that each strategy may train. Default: of a search, and of the networks derived from it.",
            rich_help_panel=STRATEGIES,
        ),
    ] = None,
    trial_epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Epochs of every network tried. Default: 10.", rich_help_panel=STRATEGIES
        ),
    ] = None,
    derivations: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Networks derived while a supernet is searched. Default: 4.",
            rich_help_panel=STRATEGIES,
        ),
    ] = None,
    preset: o.Preset = None,
    settings: o.SettingsFile = None,
    seeds: o.Seeds = None,
    cells: o.Cells = None,
    channels: o.Channels = None,
    epochs: o.Epochs = None,
    batch: o.Batch = None,
    budget: o.Budget = None,
    ensemble: o.Ensemble = None,
    change: o.Change = None,
    target: o.Target = None,
    data: o.DataOption = None,
    folds: o.Folds = None,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    on: o.On = None,
    gpus_per_job: o.GpusPerJob = None,
    sync: o.Sync = None,
    deterministic: o.Deterministic = False,
    out: o.Out = None,
    resume: o.Resume = False,
    force: o.Force = False,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Train networks by the same protocol, seeds and number of weights, and rank them; what is trained is collected.

    Hand-made networks are as deep and have as many weights as the first found one; without one, the benchmark's size.
    With --strategies, ways to search are compared instead: the best network so far against what it has cost.
    """
    with Screen(as_json, quiet).waiting("starting"):
        from gnas.cli import strategies as searches
        from gnas.cli.folds import with_folds
        from gnas.cli.networks import read_network
        from gnas.cli.prepare import prepare_run
        from gnas.cli.workers import open_workers

    for path in found or ():
        read_network(path)  # a wrong one is said before the data are loaded
    names = () if strategies is None else searches.strategy_names(strategies)
    asked = searches.Asked(names, budget_epochs, trial_epochs, derivations)
    if strategies is not None:
        searches.refuse_options(found=found, baselines=baselines, epochs=epochs, folds=folds, ensemble=ensemble)
    prepared = prepare_run("compare", with_folds(context.params), name=("strategies" if names else "compare",))
    asked = asked.with_saved(prepared.saved_options.get("strategies"))
    if not asked.names:
        searches.refuse_options(budget_epochs=budget_epochs, trial_epochs=trial_epochs, derivations=derivations)
    with open_workers(prepared, context.params) as prepared:
        if asked.names:
            searches.run_strategies(prepared, asked, usual_seeds=seeds is None and not prepared.saved_options)
        else:
            run_compare(prepared, found or [], layers=cells, data_root=data_root)


def collect_candidates(
    prepared: PreparedRun, found_in: list[Path], layers: int | None, collect: bool = True
) -> list[Candidate]:
    """The networks that take part, each with a remark where it differs from the first.

    ``collect`` uses trainings of the same data that the runs of found networks have.
    """
    from gnas.cli.networks import add_remark, collect_trainings, is_name, num_weights, read_network, run_settings
    from gnas.workflow import baseline_dropout, make_baseline_candidate, make_candidate, train_config

    settings, benchmark = prepared.settings, prepared.benchmark
    config = train_config(settings, benchmark.patience)
    entries: list[tuple[Candidate, Path | None]] = []
    names: list[str] = []
    for path in found_in:
        name = path.name  # of a shipped network
        if not is_name(path):
            name = (path.resolve().name if path.is_dir() else path.stem).removeprefix(f"{benchmark.name}-")
        name = f"{name}-{names.count(name) + 1}" if name in names else name
        names.append(name)
        entries.append((make_candidate(read_network(path), benchmark, run_settings(path, settings), name), path))
    budget = settings.training.budget or (num_weights(entries[0][0], benchmark) if entries else 0)
    deep = layers or (max(entries[0][0].depth, 1) if entries else settings.space.cells)
    rate = baseline_dropout(benchmark, settings)
    made = settings.training.baselines
    entries += [(make_baseline_candidate(name, benchmark, deep, budget or None, dropout=rate), None) for name in made]
    finished = []
    problems: dict[Path, str] = {}
    for entry, own in entries:
        remark = ""
        for run in (run for run in (found_in if own is None else [own]) if collect and run.is_dir()):
            there = "gnas" if own is not None else entry.name
            taken = collect_trainings(run, there, entry, config, settings.training.seeds, benchmark, prepared.folder)
            remark = "trained before" if taken.complete else remark
            problems |= {run: taken.problem} if taken.problem else {}
        finished.append(add_remark(entry, benchmark, budget or num_weights(entry, benchmark), remark))
    for run, problem in problems.items():
        text = f"{run}: its trainings {problem}; they are not used, the networks are trained anew"
        prepared.screen.pair("note", text)
    return finished


def run_compare(prepared: PreparedRun, found_in: list[Path], layers: int | None, data_root: Path | None) -> None:
    """Train or collect, rank, keep and print; on each fold if there are several."""
    from gnas.cli import show
    from gnas.cli.folds import run_compare_folds
    from gnas.cli.job import train_and_rank, training_run, write_report
    from gnas.errors import InputError
    from gnas.folds import count_folds

    screen = prepared.screen
    if not (found_in or prepared.settings.training.baselines):
        raise InputError("nothing to compare: name --baselines or --found")
    if count_folds(prepared.settings):
        run_compare_folds(prepared, data_root, collect_candidates(prepared, found_in, layers, collect=False))
        return
    prepared.lock_folder()
    with training_run(prepared, "compare") as run:
        board = train_and_rank(prepared, run, collect_candidates(prepared, found_in, layers))
    show.show_leaderboard(screen, board)
    report = write_report(prepared.folder)
    files = ", ".join(f"leaderboard.{kind}" for kind in ("csv", "json", "md"))
    screen.pair("tables", f"{prepared.folder}/ {files}")
    show.show_next_steps(screen, report)
    screen.result({"run": str(prepared.folder), **board.to_dict(), "report": report})
