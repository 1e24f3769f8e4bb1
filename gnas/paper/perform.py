"""Doing one run, by the same functions as ``gnas search``, ``train``, ``compare`` and ``depth``. A stopped run resumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from gnas.compare.networks import compare
from gnas.compare.strategies import compare_strategies
from gnas.data import Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.errors import InputError
from gnas.paper.archive import copy_run
from gnas.paper.results import FinishedSearch, Results
from gnas.paper.runs import DataRun, DepthRun, PaperRun, SearchRun, StrategiesRun, TrainRun
from gnas.paper.scale import GRID
from gnas.run import layout
from gnas.run.folder import Run
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
            self._count(paper_run, benchmark)
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
        settings = paper_run.settings()
        config = self._config("search", benchmark, {"settings": settings.to_dict()})
        with Run(self.out / paper_run.folder, config, resume=True) as run:
            self._describe(run, benchmark)
            context = SearchContext(
                settings.search.seed, torch.device(self.device), on_epoch=on_epoch, should_stop=self.should_stop
            )
            result = search_part(run, benchmark, settings, context)
            run.write_genotype(result.genotype)
            run.write_json("result", {"search": result.to_dict()})
        return result

    def _count(self, paper_run: DataRun, benchmark: Benchmark) -> None:
        with Run(self.out / paper_run.folder, self._config("data", benchmark, {}), resume=True) as run:
            self._describe(run)
            run.write_json("result", summarise_data(benchmark))

    def _depth(self, paper_run: DepthRun, benchmark: Benchmark) -> None:
        folder, settings = self.out / paper_run.folder, paper_run.search(paper_run.start).settings()
        search_depth(
            benchmark,
            settings.space.search_space(),
            _SharedSearches(self, paper_run, benchmark),
            start=paper_run.start,
            limit=max(paper_run.start, *GRID),
            folder=folder,
            resume=layout.is_run(folder),
            channels=settings.space.channels,
            seed=paper_run.seed,
            device=self.device,
            on_epoch=self.on_epoch,
            should_stop=self.should_stop,
        )
        self._describe(Run(folder), benchmark)

    def _strategies(self, paper_run: StrategiesRun, benchmark: Benchmark) -> None:
        settings, budget = paper_run.settings(), paper_run.budget()
        comparison = {
            "strategies": list(paper_run.strategies),
            "seeds": list(paper_run.seeds),
            "budget": asdict(budget),
        }
        with Run(self.out / paper_run.folder, self._config("compare", benchmark, comparison), resume=True) as run:
            self._describe(run, benchmark)
            result = compare_strategies(
                benchmark,
                {name: strategy_from_settings(settings, name) for name in paper_run.strategies},
                budget,
                paper_run.seeds,
                run.path,
                space=settings.space.search_space(),
                channels=settings.space.channels,
                num_cells=paper_run.cells,
                device=self.device,
                on_epoch=self.on_epoch,
                should_stop=self.should_stop,
            )
            run.write_json("result", {"strategies": result.to_dict()["rows"]})

    def _train(self, paper_run: TrainRun, benchmark: Benchmark) -> None:
        folder, settings = self.out / paper_run.folder, paper_run.settings()
        source = None
        if paper_run.of is None:
            candidate = make_baseline_candidate(paper_run.model, benchmark, paper_run.layers, paper_run.budget or None)
        else:
            source = self._read_search(paper_run.of)
            self._copy_search(paper_run, source, benchmark)
            candidate = make_candidate(source.architecture, benchmark, settings, paper_run.model)
        if paper_run.of is None or paper_run.folder != paper_run.of.folder:
            network = {"network": f"{paper_run.model}: {candidate.title}", "settings": settings.protocol_dict()}
            with Run(folder, self._config("train", benchmark, network), resume=True) as run:
                self._describe(run, benchmark)
                if source is not None:
                    run.write_genotype(with_chosen_output(source.architecture, settings))
        known, here = self.results.find_trainings(paper_run), layout.list_trainings(folder, paper_run.model)
        seeds = [s for s in paper_run.seeds if s not in known or (s in here and layout.is_finished(here[s]))]
        if not seeds:  # another process has just trained the same network for another line
            return
        board = compare(
            benchmark,
            [candidate],
            train_config(settings, benchmark.patience),
            seeds,  # without those that are finished in another place; those finished here are only collected
            folder,
            device=self.device,
            on_epoch=self.on_epoch,
            should_stop=self.should_stop,
        )
        result = {} if source is None else {"search": source.result}
        if (
            not isinstance(paper_run.of, DepthRun) or paper_run.folder != paper_run.of.folder
        ):  # there it is the result of Algorithm 1
            Run(folder).write_json("result", {**result, "leaderboard": board.to_dict()})

    def _read_search(self, of: SearchRun | DepthRun) -> FinishedSearch:
        source = self.results.find_search(of)
        if source is None:
            raise InputError(f"{of.key}: this search is not finished, and the network needs its result")
        return source

    def _copy_search(self, paper_run: TrainRun, source: FinishedSearch, benchmark: Benchmark) -> None:
        """Copy a search of another place here, so that the folder of its training is complete."""
        folder = self.out / paper_run.folder
        home = source.folder.parent if isinstance(paper_run.of, SearchRun) else source.folder
        if paper_run.of is not None and paper_run.folder == paper_run.of.folder and home.resolve() != folder.resolve():
            copy_run(home, folder, trained=False)
            if not layout.is_run(folder):  # the search was not part of a run
                with Run(folder, self._config("search", benchmark, {})) as run:
                    self._describe(run, benchmark)
            Run(folder).write_genotype(source.architecture)

    def _config(self, job: str, benchmark: Benchmark, more: dict[str, Any]) -> dict[str, Any]:
        return {"job": job, **benchmark.identity, **more}

    def _describe(self, run: Run, benchmark: Benchmark | None = None) -> None:
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
