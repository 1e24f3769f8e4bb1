"""The missing runs as jobs of a runner. A failed run does not stop the others; a stopped one resumes later."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from gnas.compare.networks import compare
from gnas.compare.strategies import compare_strategies
from gnas.data import Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.errors import InputError, Interrupted
from gnas.files import read_json, write_json
from gnas.jobs import Job, Lazy, Outcome, Runner, Work
from gnas.paper.archive import add_runs, copy_run
from gnas.paper.results import FinishedSearch, Results
from gnas.paper.runs import GRID, DataRun, DepthRun, PaperRun, SearchRun, Source, StrategiesRun, TrainRun
from gnas.run import layout
from gnas.run.folder import Locked, Run
from gnas.strategies import SearchProblem, SearchResult
from gnas.strategies.base import SearchContext
from gnas.strategies.depth import search_depth
from gnas.training.loop import Record
from gnas.workflow import (
    list_versions,
    make_baseline_candidate,
    make_candidate,
    search_part,
    strategy_from_settings,
    summarise_data,
    train_config,
    with_chosen_output,
)

FAILURES = "failed.json"  # reasons by the key of a run, until the run succeeds


@dataclass(frozen=True)
class Summary:
    """How the runs ended: those done now, all that failed with the reason, and whether they were stopped."""

    done: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    stopped: bool = False


def perform_runs(
    runs: Iterable[PaperRun],
    results: Results,
    runner: Runner,
    *,
    load: Callable[[Source], Benchmark],
    archive: Path | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    on_run: Callable[[PaperRun], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Summary:
    """Do every run that is not finished.

    Args:
        runs: The runs, each after those that it needs.
        results: What is finished; its first place is the root of the runner.
        runner: Where the runs are done.
        load: Loads a dataset. If that fails, the runs on it fail.
        archive: A folder of archives to which finished runs are added.
        on_epoch: Gets every record of every run, with its key as ``run``.
        on_run: Called when a run has ended.
        should_stop: Once it returns True, runs save their state and no other starts.
        about: Written to each run folder as ``command.json``.
    """
    runs = list(runs)
    missing = [run for run in runs if not results.is_done(run)]
    progress = _Progress(results, [place for place in (results.places[0], archive) if place is not None])
    is_stopped = should_stop or (lambda: False)
    stopped = bool(missing) and is_stopped()
    jobs = [] if stopped else make_jobs(missing, results, runner, load, about or {})
    try:
        for outcome in runner.run(jobs, on_epoch=on_epoch, should_stop=should_stop):
            run = missing[outcome.number]
            progress.note(run, outcome)
            if archive is not None and outcome.error is None:
                add_runs(archive, results.places[0], list_written_folders(run, results))
            if on_run is not None:
                on_run(run)
            _free_memory(runner)
            if runner.in_process and outcome.number + 1 < len(missing) and is_stopped():
                stopped = True
                break
    except Interrupted:
        stopped = True
    finished = [run.key for run in runs if run not in missing]
    return Summary(tuple(progress.done), progress.save(finished), stopped)


def make_jobs(
    runs: Sequence[PaperRun],
    results: Results,
    runner: Runner,
    load: Callable[[Source], Benchmark],
    about: Mapping[str, Any],
) -> list[Job]:
    """The runs as jobs. A job waits for earlier ones that write a folder it uses, such as a training for its search."""
    data = _LastDataset(load)
    benchmarks = {run.source: Lazy(partial(data, run.source)) for run in runs}
    out, *places = results.places
    jobs = []
    for run in runs:
        reads, also = list_read_folders(run), list_other_folders(run)
        if runner.storage is not None:  # its worker sees nothing but its own folders
            for name in (run.folder, *reads, *also):
                for folder in results.run_folders(name):
                    if not (out / name).exists():
                        copy_run(folder, out / name)
        arguments = {
            "run": run,
            "benchmark": benchmarks[run.source],
            "places": [str(place.resolve()) for place in places],
            "about": dict(about),
        }
        jobs.append(Job("gnas.paper.schedule.run_job", run.folder, arguments, also, reads, {"run": run.key}))
    return jobs


def run_job(work: Work, *, run: PaperRun, benchmark: Benchmark, places: Sequence[str], about: dict[str, Any]) -> None:
    """Do one run in a worker or in this process."""
    assert work.root is not None
    results = open_results(work.root, tuple(places))
    if not results.is_done(run):
        Worker(work.root, results, work.device, work.on_epoch, work.should_stop, about).do(run, benchmark)


@lru_cache(maxsize=4)  # a worker does many runs: archives are read once
def open_results(root: Path, places: tuple[str, ...]) -> Results:
    return Results([root, *map(Path, places)])


def list_read_folders(run: PaperRun) -> tuple[str, ...]:
    """Folders of other runs that a run reads: the search whose result it trains."""
    is_other = isinstance(run, TrainRun) and run.of is not None and run.of.folder != run.folder
    return (run.of.folder,) if is_other else ()  # type: ignore[union-attr]


def list_other_folders(run: PaperRun) -> tuple[str, ...]:
    """Folders that a run writes besides its own: the searches that Algorithm 1 can make."""
    if not isinstance(run, DepthRun):
        return ()
    return tuple(run.search(cells).folder for cells in range(1, max(run.start, *GRID) + 1))


def list_written_folders(run: PaperRun, results: Results) -> list[str]:
    """Folders that a finished run has written in the output folder."""
    end = results.find_search(run) if isinstance(run, DepthRun) else None
    rounds = () if end is None else end.rounds
    searches = [run.search(one.initial).folder for one in rounds if isinstance(run, DepthRun) and one.initial]
    return [name for name in dict.fromkeys((run.folder, *searches)) if (results.places[0] / name).is_dir()]


# -- what failed -----------------------------------------------------------------------------------------------------


class _Progress:
    """The runs that are done and those that failed. The failures are saved after every run."""

    def __init__(self, results: Results, places: Sequence[Path]) -> None:
        self.results, self.places = results, places
        self.done: list[str] = []
        self.failed: dict[str, str] = {}

    def note(self, run: PaperRun, outcome: Outcome) -> None:
        if outcome.error is None:
            self.done.append(run.key)
        elif isinstance(run, TrainRun) and run.of is not None and self.results.find_search(run.of) is None:
            if run.of.key in self.failed:  # else another process does the search
                self.failed[run.key] = f"its search failed ({run.of.key})"
        elif not isinstance(outcome.exception, Locked):  # else another process does this run
            self.failed[run.key] = outcome.error
        self.save()

    def save(self, finished: Collection[str] = ()) -> dict[str, str]:
        """Add the failures to those saved in each place, without runs that are done; returns those of the output folder."""
        known: dict[str, str] = {}
        for place in reversed(self.places):
            saved = {**read_failures([place]), **self.failed}
            known = {key: saved[key] for key in sorted(saved) if key not in {*finished, *self.done}}
            if known:
                write_json(place / FAILURES, known)
            else:
                (place / FAILURES).unlink(missing_ok=True)
        return known


def read_failures(places: Sequence[Path]) -> dict[str, str]:
    """Failed runs with their reasons, from all places."""
    found: dict[str, str] = {}
    for file in (place / FAILURES for place in places if (place / FAILURES).exists()):
        try:
            values = read_json(file)
        except InputError:
            values = None
        if not isinstance(values, dict):
            raise InputError(f"{file}: not a list of failed runs; remove it")
        found |= {str(key): str(reason) for key, reason in values.items() if key not in found}
    return found


# -- data and memory -------------------------------------------------------------------------------------------------


class _LastDataset:
    """Loads datasets and remembers the last one: the next run is mostly on the same. A failed one is not tried again."""

    def __init__(self, load: Callable[[Source], Benchmark]) -> None:
        self.load = load
        self.last: dict[Source, Benchmark] = {}
        self.errors: dict[Source, Exception] = {}

    def __call__(self, source: Source) -> Benchmark:
        if source in self.errors:
            raise self.errors[source]
        if source not in self.last:
            self.last.clear()  # before the next is loaded: memory may not hold both
            try:
                self.last[source] = self.load(source)
            except Exception as error:
                self.errors[source] = error
                raise
        return self.last[source]


def _free_memory(runner: Runner) -> None:
    """Recorded steps and their tensors refer to each other, so that only a collection frees the memory of a GPU."""
    if runner.in_process and torch.device(runner.device).type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


# -- one run, by the functions of ``gnas search``, ``train``, ``compare`` and ``depth`` -------------------------------

OnEpoch = Callable[[Record], None] | None


@dataclass(frozen=True)
class Worker:
    """Where and how runs are done. ``about`` is written to each folder: the command and the date."""

    out: Path
    results: Results
    device: torch.device | str = "cpu"
    on_epoch: OnEpoch = None
    should_stop: Callable[[], bool] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def do(self, paper_run: PaperRun, benchmark: Benchmark) -> None:
        """Do one run to its end. If ``should_stop`` returns True, it saves its state and raises ``Interrupted``."""
        if not isinstance(paper_run, DataRun | StrategiesRun):
            data = paper_run.changes.values.get("data", {})
            benchmark = with_encodings(benchmark, data.get("encodings"), data.get("structure"))
        if isinstance(paper_run, DataRun):
            with self._open(paper_run.folder, "data", benchmark) as run:
                run.write_json("result", summarise_data(benchmark))
        elif isinstance(paper_run, SearchRun):
            self.search(paper_run, benchmark, self.on_epoch)
        elif isinstance(paper_run, DepthRun):
            self._depth(paper_run, benchmark)
        elif isinstance(paper_run, StrategiesRun):
            self._strategies(paper_run, benchmark)
        else:
            self._train(paper_run, benchmark)

    def search(self, paper_run: SearchRun, benchmark: Benchmark, on_epoch: OnEpoch) -> SearchResult:
        """The result of a finished search, or of this one."""
        known = self.results.find_search(paper_run)
        if known is not None:
            return known.to_result()
        settings, device = paper_run.settings(), torch.device(self.device)
        context = SearchContext(settings.search.seed, device, on_epoch=on_epoch, should_stop=self.should_stop)
        with self._open(paper_run.folder, "search", benchmark, settings=settings.to_dict()) as run:
            result = search_part(run, benchmark, settings, context)
            run.write_genotype(result.genotype)
            run.write_json("result", {"search": result.to_dict()})
        return result

    def _depth(self, paper_run: DepthRun, benchmark: Benchmark) -> None:
        folder, space = self.out / paper_run.folder, paper_run.search(paper_run.start).settings().space
        search_depth(
            benchmark,
            space.search_space(),
            _SharedSearches(self, paper_run, benchmark),
            start=paper_run.start,
            limit=max(paper_run.start, *GRID),
            folder=folder,
            resume=layout.is_run(folder),
            channels=space.channels,
            seed=paper_run.seed,
            **self._how(),
        )
        self._describe(Run(folder), benchmark)

    def _strategies(self, paper_run: StrategiesRun, benchmark: Benchmark) -> None:
        settings, budget = paper_run.settings(), paper_run.budget()
        names, seeds = list(paper_run.strategies), list(paper_run.seeds)
        facts = {"strategies": names, "seeds": seeds, "budget": asdict(budget)}
        with self._open(paper_run.folder, "compare", benchmark, **facts) as run:
            result = compare_strategies(
                benchmark,
                {name: strategy_from_settings(settings, name) for name in names},
                budget,
                paper_run.seeds,
                run.path,
                space=settings.space.search_space(),
                channels=settings.space.channels,
                num_cells=paper_run.cells,
                **self._how(),
            )
            run.write_json("result", {"strategies": result.to_dict()["rows"]})

    def _train(self, paper_run: TrainRun, benchmark: Benchmark) -> None:
        of, folder, settings = paper_run.of, self.out / paper_run.folder, paper_run.settings()
        source = None
        if of is None:
            candidate = make_baseline_candidate(paper_run.model, benchmark, paper_run.layers, paper_run.budget or None)
        else:
            source = self.results.find_search(of)
            if source is None:
                raise InputError(f"{of.key}: this search is not finished, and the network needs its result")
            if paper_run.folder == of.folder:
                self._copy_search(of, source, benchmark)
            candidate = make_candidate(source.architecture, benchmark, settings, paper_run.model)
        if of is None or paper_run.folder != of.folder:
            facts = {"network": f"{paper_run.model}: {candidate.title}", "settings": settings.protocol_dict()}
            with self._open(paper_run.folder, "train", benchmark, **facts) as run:
                if source is not None:
                    run.write_genotype(with_chosen_output(source.architecture, settings))
        known, here = self.results.find_trainings(paper_run), layout.list_trainings(folder, paper_run.model)
        # Seeds that are finished in another place are left out; those finished here are only collected.
        seeds = [s for s in paper_run.seeds if s not in known or (s in here and layout.is_finished(here[s]))]
        if not seeds:  # another process has just trained the same network for another line
            return
        protocol = train_config(settings, benchmark.patience)
        board = compare(benchmark, [candidate], protocol, seeds, folder, **self._how())
        # In the folder of Algorithm 1 the result is that of Algorithm 1.
        if not isinstance(of, DepthRun) or paper_run.folder != of.folder:
            search = {} if source is None else {"search": source.result}
            Run(folder).write_json("result", {**search, "leaderboard": board.to_dict()})

    def _copy_search(self, of: SearchRun | DepthRun, source: FinishedSearch, benchmark: Benchmark) -> None:
        """Copy a search of another place here, so that the folder of its training is complete."""
        folder = self.out / of.folder
        home = source.folder.parent if isinstance(of, SearchRun) else source.folder
        if home.resolve() == folder.resolve():
            return
        copy_run(home, folder, trained=False)
        if not layout.is_run(folder):  # the search was not part of a run
            with self._open(of.folder, "search", benchmark):
                pass
        Run(folder).write_genotype(source.architecture)

    def _how(self) -> dict[str, Any]:
        return {"device": self.device, "on_epoch": self.on_epoch, "should_stop": self.should_stop}

    @contextlib.contextmanager
    def _open(self, folder: str, job: str, benchmark: Benchmark, **facts: Any) -> Iterator[Run]:
        """A run, new or resumed, with the files that say how it was made."""
        with Run(self.out / folder, {"job": job, **benchmark.identity, **facts}, resume=True) as run:
            self._describe(run, None if job == "data" else benchmark)
            yield run

    def _describe(self, run: Run, benchmark: Benchmark | None) -> None:
        if benchmark is not None:
            run.write_json("data", summarise_data(benchmark))
        run.write_json("versions", list_versions(self.device))
        if self.about:
            run.write_json("command", self.about)


class _SharedSearches:
    """A strategy for Algorithm 1 whose searches are runs of their own, so that none is done twice."""

    name = "single-level"

    def __init__(self, worker: Worker, depth_run: DepthRun, benchmark: Benchmark) -> None:
        self.worker, self.depth_run, self.benchmark = worker, depth_run, benchmark

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        report = context.on_epoch
        on_epoch = None if report is None else lambda record: report({k: v for k, v in record.items() if k != "stage"})
        return self.worker.search(self.depth_run.search(problem.num_cells), self.benchmark, on_epoch)
