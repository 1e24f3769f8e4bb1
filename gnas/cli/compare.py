"""``gnas compare``: hand-made and found networks on equal terms."""

from __future__ import annotations

from pathlib import Path

from gnas.cli import show
from gnas.cli import strategies as searches
from gnas.cli.folds import run_compare_folds, with_folds
from gnas.cli.job import finish_job, run_training, training_run
from gnas.cli.networks import add_remark, collect_trainings, count_weights, is_name, read_network, run_settings
from gnas.cli.options import Options
from gnas.cli.prepare import PreparedRun, open_workers, prepare_run
from gnas.cli.screen import Screen
from gnas.compare.networks import Candidate
from gnas.errors import InputError
from gnas.folds import count_folds
from gnas.workflow import baseline_dropout, make_baseline_candidate, make_candidate, train_config


def compare(options: Options, screen: Screen) -> None:
    """Compare networks, or strategies if some are named."""
    for path in options.found or ():
        read_network(path)  # an error before the data are loaded
    names = () if options.strategies is None else searches.strategy_names(options.strategies)
    requested = searches.StrategyOptions(names, options.budget_epochs, options.trial_epochs, options.derivations)
    if options.strategies is not None:
        searches.refuse_options(options, "found", "baselines", "epochs", "folds", "ensemble")
    prepared = prepare_run("compare", with_folds(options), name=("strategies" if names else "compare",))
    requested = requested.with_saved(prepared.saved_options.get("strategies"))
    if not requested.names:
        searches.refuse_options(options, *searches.OWN)
    with open_workers(prepared, options) as prepared:
        if requested.names:
            searches.run_strategies(
                prepared, requested, usual_seeds=options.seeds is None and not prepared.saved_options
            )
        else:
            run_compare(prepared, options.found or [], layers=options.cells, data_root=options.data_root)


def collect_candidates(
    prepared: PreparedRun, found_in: list[Path], layers: int | None, collect: bool = True
) -> list[Candidate]:
    """The networks that take part, each with a remark where it differs from the first.

    ``collect`` uses trainings of the same data that the runs of found networks have.
    """
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
    budget = settings.training.budget or (count_weights(entries[0][0], benchmark) if entries else 0)
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
        finished.append(add_remark(entry, benchmark, budget or count_weights(entry, benchmark), remark))
    for run, problem in problems.items():
        text = f"{run}: its trainings {problem}; they are not used, the networks are trained anew"
        prepared.screen.pair("note", text)
    return finished


def run_compare(prepared: PreparedRun, found_in: list[Path], layers: int | None, data_root: Path | None) -> None:
    """Train the networks, or reuse their trainings. Rank, save and print them; with folds, on each fold."""
    if not (found_in or prepared.settings.training.baselines):
        raise InputError("nothing to compare: name --baselines or --found")
    if count_folds(prepared.settings):
        run_compare_folds(prepared, data_root, collect_candidates(prepared, found_in, layers, collect=False))
        return
    prepared.lock_folder()
    with training_run(prepared, "compare") as run:
        board = run_training(prepared, run, collect_candidates(prepared, found_in, layers))
    show.show_leaderboard(prepared.screen, board)
    tables = ", ".join(f"leaderboard.{kind}" for kind in ("csv", "json", "md"))
    finish_job(prepared, board.to_dict(), tables=f"{prepared.folder}/ {tables}")
