"""Doing one run, by the same functions as ``gnas search``, ``train``, ``compare`` and ``depth``. A stopped one goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from gnas.compare.networks import compare
from gnas.compare.strategies import compare_strategies
from gnas.data import Benchmark
from gnas.data.benchmark import with_structure
from gnas.errors import InputError
from gnas.paper.archive import copy_run
from gnas.paper.jobs import DataJob, DepthJob, Job, SearchJob, StrategiesJob, TrainJob
from gnas.paper.results import FinishedSearch, Results
from gnas.paper.scale import GRID
from gnas.run.folder import Run
from gnas.strategies import SearchProblem, SearchResult
from gnas.strategies.base import SearchContext
from gnas.strategies.depth import search_depth
from gnas.training.loop import Record
from gnas.workflow import as_built, chosen_strategy, found, hand_made, search_part, summarise, train_config, versions

OnEpoch = Callable[[Record], None] | None


@dataclass(frozen=True)
class Worker:
    """Where and how runs are done. ``about`` is written into each folder: the command, the date."""

    out: Path
    results: Results
    device: torch.device | str = "cpu"
    on_epoch: OnEpoch = None
    should_stop: Callable[[], bool] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def do(self, job: Job, benchmark: Benchmark) -> None:
        """Do one run to its end; raises ``Interrupted`` where it was told to stop, and the run can go on later."""
        if not isinstance(job, DataJob | StrategiesJob):
            benchmark = with_structure(benchmark, job.changes.values.get("data", {}).get("structure"))
        if isinstance(job, DataJob):
            self._count(job, benchmark)
        elif isinstance(job, SearchJob):
            self.search(job, benchmark, self.on_epoch)
        elif isinstance(job, DepthJob):
            self._depth(job, benchmark)
        elif isinstance(job, StrategiesJob):
            self._strategies(job, benchmark)
        else:
            self._train(job, benchmark)

    def search(self, job: SearchJob, benchmark: Benchmark, on_epoch: OnEpoch) -> SearchResult:
        """The result of a search: of a finished one if there is one, of this one otherwise."""
        known = self.results.find_search(job)
        if known is not None:
            return known.to_result()
        settings = job.settings()
        config = self._config("search", benchmark, {"settings": settings.to_dict()})
        with Run(self.out / job.folder, config, resume=True) as run:
            self._describe(run, benchmark)
            result = search_part(run, benchmark, settings, self.device, "auto", False, on_epoch, self.should_stop)
            run.write_genotype(result.genotype)
            run.write_json("result", {"search": result.to_dict()})
        return result

    def _count(self, job: DataJob, benchmark: Benchmark) -> None:
        with Run(self.out / job.folder, self._config("data", benchmark, {}), resume=True) as run:
            self._describe(run)
            run.write_json("result", summarise(benchmark))

    def _depth(self, job: DepthJob, benchmark: Benchmark) -> None:
        folder, settings = self.out / job.folder, job.search(job.start).settings()
        search_depth(
            benchmark,
            settings.space.search_space(),
            _Shared(self, job, benchmark),
            start=job.start,
            limit=max(job.start, *GRID),
            folder=folder,
            resume=(folder / "config.yaml").exists(),
            channels=settings.space.channels,
            seed=job.seed,
            device=self.device,
            on_epoch=self.on_epoch,
            should_stop=self.should_stop,
        )
        self._describe(Run(folder), benchmark)

    def _strategies(self, job: StrategiesJob, benchmark: Benchmark) -> None:
        settings, budget = job.settings(), job.budget()
        told = {"strategies": list(job.strategies), "seeds": list(job.seeds), "budget": asdict(budget)}
        with Run(self.out / job.folder, self._config("compare", benchmark, told), resume=True) as run:
            self._describe(run, benchmark)
            result = compare_strategies(
                benchmark,
                {name: chosen_strategy(settings, name) for name in job.strategies},
                budget,
                job.seeds,
                run.path,
                space=settings.space.search_space(),
                channels=settings.space.channels,
                num_cells=job.cells,
                device=self.device,
                on_epoch=self.on_epoch,
                should_stop=self.should_stop,
            )
            run.write_json("result", {"strategies": result.to_dict()["rows"]})

    def _train(self, job: TrainJob, benchmark: Benchmark) -> None:
        folder, settings = self.out / job.folder, job.settings()
        source = None
        if job.of is None:
            candidate = hand_made(job.model, benchmark, job.layers, job.budget or None)
        else:
            source = self._found(job.of)
            self._bring(job, source, benchmark)
            candidate = found(source.architecture, benchmark, settings, job.model)
        if job.of is None or job.folder != job.of.folder:
            told = {"network": f"{job.model}: {candidate.title}", "settings": settings.protocol_dict()}
            with Run(folder, self._config("train", benchmark, told), resume=True) as run:
                self._describe(run, benchmark)
                if source is not None:
                    run.write_genotype(as_built(source.architecture, settings))
        known, here = self.results.find_trainings(job), folder / "trained" / job.model
        seeds = [seed for seed in job.seeds if seed not in known or (here / f"seed-{seed}" / "result.json").exists()]
        if not seeds:  # another process has just trained the same network for another line
            return
        board = compare(
            benchmark,
            [candidate],
            train_config(settings, benchmark.patience),
            seeds,  # less those that are kept elsewhere; those finished here are only collected
            folder,
            device=self.device,
            on_epoch=self.on_epoch,
            should_stop=self.should_stop,
        )
        result = {} if source is None else {"search": source.result}
        if not isinstance(job.of, DepthJob) or job.folder != job.of.folder:  # there it is the result of Algorithm 1
            Run(folder).write_json("result", {**result, "leaderboard": board.to_dict()})

    def _found(self, of: SearchJob | DepthJob) -> FinishedSearch:
        source = self.results.find_search(of)
        if source is None:
            raise InputError(f"{of.title}: not finished, and this network needs it")
        return source

    def _bring(self, job: TrainJob, source: FinishedSearch, benchmark: Benchmark) -> None:
        """A search that is kept elsewhere is copied here, so that the folder of its training is whole."""
        folder = self.out / job.folder
        home = source.folder.parent if isinstance(job.of, SearchJob) else source.folder
        if job.of is not None and job.folder == job.of.folder and home.resolve() != folder.resolve():
            copy_run(home, folder, trained=False)
            if not (folder / "config.yaml").exists():  # of a search that stood alone
                with Run(folder, self._config("search", benchmark, {})) as run:
                    self._describe(run, benchmark)
            Run(folder).write_genotype(source.architecture)

    def _config(self, job: str, benchmark: Benchmark, told: dict[str, Any]) -> dict[str, Any]:
        return {"job": job, "dataset": benchmark.name, **told}

    def _describe(self, run: Run, benchmark: Benchmark | None = None) -> None:
        if benchmark is not None:
            run.write_json("data", summarise(benchmark))
        run.write_json("versions", versions(self.device))
        if self.about:
            run.write_json("command", self.about)


class _Shared:
    """A strategy for Algorithm 1 whose searches are jobs of their own: none is repeated that any table or figure had."""

    name = "single-level"

    def __init__(self, worker: Worker, job: DepthJob, benchmark: Benchmark) -> None:
        self.worker, self.job, self.benchmark = worker, job, benchmark

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        note = context.on_epoch
        plain = None if note is None else lambda record: note({k: v for k, v in record.items() if k != "stage"})
        return self.worker.search(self.job.search(problem.num_cells), self.benchmark, plain)
