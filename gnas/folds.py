"""Search or comparison over k folds: each fold is a run of its own, and the result is the mean and spread over the folds.

Nothing is shared between folds. Each one is searched, trained and compared with its own validation rows, so no choice has
seen the test rows of its fold. The figures estimate how well the whole procedure does on data of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gnas.arch.architecture import Architecture
from gnas.compare.networks import Candidate
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.jobs import Job, Lazy, Runner, Work
from gnas.run import layout
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.models import choose_fold, choose_network
from gnas.run.record import read_leaderboard
from gnas.run.settings import Settings
from gnas.training.loop import Record
from gnas.workflow import discover, list_versions, summarise_data, train_and_rank, write_data

LoadFold = Callable[[int], Benchmark]  # the benchmark of a fold, counted from 1


@dataclass(frozen=True)
class FoldsResult:
    """The leaderboard over all folds, and that of each fold. ``best`` is the fold whose network ``gnas predict`` uses.

    It is the fold with the best validation result of the found network; 0 if there is none.
    """

    folder: Path
    leaderboard: Leaderboard
    folds: tuple[Leaderboard, ...]
    best: int = 0
    genotype: Architecture | None = None


def count_folds(settings: Settings) -> int:
    """The number of folds that a job with these settings runs over; 0: it has one split, or one fold is named."""
    folds = settings.data.get("folds")
    return int(folds) if isinstance(folds, int) and "fold" not in settings.data else 0


def search_folds(
    load_fold: LoadFold,
    folds: int,
    settings: Settings,
    folder: str | Path,
    *,
    device: torch.device | str = "cpu",
    resume: bool = False,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    runner: Runner | None = None,
) -> FoldsResult:
    """Search, train and compare on each fold, in ``folder/fold-K``. Finished folds are not repeated on resume.

    Args:
        load_fold: Loads the data of a fold, counted from 1, such as ``lambda k: gnas.load(file, folds=5, fold=k)``.
        folds: The number of folds.
        settings: The settings of every fold.
        folder: The run folder.
        device: Where to compute.
        resume: Resume the run in the folder.
        on_epoch: Gets a record per epoch, with the number of the ``fold``.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.
        runner: Workers with ``folder`` as root. A fold is one job; by default folds run here, one after another.
    """
    first = load_fold(1)
    config = {"job": "search", **first.identity, "folds": folds, "settings": settings.to_dict()}
    with Run(folder, config, resume=resume) as run:
        run.write_json("data", summarise_data(first))  # the split of each fold lies in its own folder
        run.write_json("versions", list_versions(device))
        jobs = _make_jobs("gnas.folds.search_job", load_fold, folds, settings, {})
        boards = _run_folds(run, jobs, runner or Runner(run.path, device=device), on_epoch, should_stop)
        best = choose_fold(run.path, choose_network(run.path, found_only=True))
        found = Run(layout.fold_folder(run.path, best)).architecture()
        if found is not None:
            run.write_genotype(found)
        return _finish(run, boards, best, found)


def compare_folds(
    load_fold: LoadFold,
    folds: int,
    candidates: Sequence[Candidate],
    settings: Settings,
    folder: str | Path,
    *,
    device: torch.device | str = "cpu",
    resume: bool = False,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    runner: Runner | None = None,
) -> FoldsResult:
    """Train the same networks on each fold, in ``folder/fold-K``.

    Args:
        load_fold: Loads the data of a fold, counted from 1.
        folds: Number of folds.
        candidates: The networks to compare.
        settings: Of the trainings, with the seeds of each fold.
        folder: The run folder.
        device: Where to train.
        resume: Continue a run that was stopped.
        on_epoch: Receives the record of each epoch.
        should_stop: Stops after the current epoch when true.
        runner: Does the folds; by default one after the other in this process.
    """
    first = load_fold(1)
    config = {"job": "compare", **first.identity, "folds": folds, "settings": settings.training_dict()}
    with Run(folder, config, resume=resume) as run:
        run.write_json("data", summarise_data(first))
        jobs = _make_jobs("gnas.folds.compare_job", load_fold, folds, settings, {"candidates": list(candidates)})
        boards = _run_folds(run, jobs, runner or Runner(run.path, device=device), on_epoch, should_stop)
        return _finish(run, boards)


def _make_jobs(
    function: str, load_fold: LoadFold, folds: int, settings: Settings, more: dict[str, Any]
) -> dict[int, Job]:
    jobs = {}
    for fold in range(1, folds + 1):
        own = settings.changed({"data": {"folds": folds, "fold": fold}}).to_dict()
        arguments = {"benchmark": Lazy(partial(load_fold, fold)), "settings": own, **more}
        jobs[fold] = Job(function, layout.fold_folder(Path(), fold).as_posix(), arguments, labels={"fold": fold})
    return jobs


def _run_folds(
    run: Run,
    jobs: dict[int, Job],
    runner: Runner,
    on_epoch: Callable[[Record], None] | None,
    should_stop: Callable[[], bool] | None,
) -> list[Leaderboard]:
    # Of other settings there can be none: they would be those of another run, which is refused or cleared.
    missing = {fold: job for fold, job in jobs.items() if not layout.is_finished(run.path / job.folder)}
    for _ in runner.results(list(missing.values()), on_epoch=on_epoch, should_stop=should_stop):
        pass
    return [_read_board(run.path / job.folder) for job in jobs.values()]


def _read_board(folder: Path) -> Leaderboard:
    board = read_leaderboard(folder)
    if board is None:
        raise InputError(f"{folder}: it has no leaderboard; remove the folder and resume the run")
    return board


def _finish(
    run: Run, boards: Sequence[Leaderboard], best: int = 0, genotype: Architecture | None = None
) -> FoldsResult:
    """Write the leaderboard over all folds, then the result."""
    board = Leaderboard.over_folds(boards)
    board.save(run.path)
    rows = [
        {"fold": fold, "rows": [{"name": row.name, "test": row.mean, "val": row.val} for row in one.rows]}
        for fold, one in enumerate(boards, start=1)
    ]
    run.write_json("result", {"folds": rows, "best_fold": best, "leaderboard": board.to_dict()})
    return FoldsResult(run.path, board, tuple(boards), best, genotype)


def search_job(work: Work, *, benchmark: Benchmark, settings: dict[str, Any]) -> Record:
    """Search, train and compare on one fold; returns its leaderboard."""
    assert work.folder is not None
    found = discover(
        benchmark,
        Settings().changed(settings),
        work.folder,
        device=work.device,
        resume=True,
        on_epoch=work.on_epoch,
        should_stop=work.should_stop,
    )
    return found.leaderboard.to_dict()


def compare_job(
    work: Work, *, benchmark: Benchmark, settings: dict[str, Any], candidates: Sequence[Candidate]
) -> Record:
    """Train the networks on one fold; returns its leaderboard."""
    assert work.folder is not None
    known = Settings().changed(settings)
    config = {"job": "compare", **benchmark.identity, "settings": known.training_dict()}
    with Run(work.folder, config, resume=True) as run:
        write_data(run, benchmark)
        how: dict[str, Any] = {"device": work.device, "on_epoch": work.on_epoch, "should_stop": work.should_stop}
        board = train_and_rank(run, benchmark, known, candidates, **how)
        run.write_json("result", {"leaderboard": board.to_dict()})
    return board.to_dict()
