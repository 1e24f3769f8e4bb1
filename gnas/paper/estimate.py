"""How long a run will take: by the cost model, corrected by finished runs of the same kind on the same kind of device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from gnas.cost import Workload, find_machine, usual_epochs
from gnas.data.benchmarks import find_facts
from gnas.errors import InputError
from gnas.paper.results import Results
from gnas.paper.runs import DataRun, DepthRun, PaperRun, SearchRun, Source, StrategiesRun, TrainRun

TRIALS = 100  # of GraphNAS
LOADING = 5.0  # seconds to load and count a dataset


@dataclass(frozen=True)
class RunTime:
    """Seconds of a run, and whether finished runs of the same kind confirm them."""

    seconds: float
    recorded: bool


class Estimator:
    """Estimates the time of runs on one device, ``cuda`` or ``cpu``."""

    def __init__(self, results: Results, device: str, runs: Iterable[PaperRun]) -> None:
        self.results, self.device = results, device
        try:
            self.machine = find_machine(torch.device(device))[0]
        except InputError:  # no such device was measured
            self.machine = find_machine(torch.device("cpu"))[0]
        self.ratios = self._measure_ratios(runs)

    def __call__(self, run: PaperRun) -> RunTime:
        """The time by the cost model, times its error for finished runs of the same kind."""
        ratio = self.ratios.get(_kind(run))
        return RunTime(self.predict(run) * (1.0 if ratio is None else ratio), ratio is not None)

    def predict(self, run: PaperRun) -> float:
        """Seconds by the cost model alone."""
        if isinstance(run, DataRun):
            return LOADING
        search = run.search(run.start) if isinstance(run, DepthRun) else run  # Algorithm 1: its first round at least
        settings = search.settings()
        channels, batch = settings.space.channels, settings.training.batch_size
        if isinstance(search, TrainRun):
            each = self._epoch("training", run.source, batch, search.layers, 64, len(search.seeds))
            return usual_epochs(settings, run.source.name) * each
        if isinstance(search, StrategiesRun):
            each = self._epoch("training", run.source, batch, search.cells, channels)
            return search.budget().epochs * len(search.seeds) * len(search.strategies) * each
        kind = "training" if search.strategy == "graphnas" else "search"
        trials = int(settings.search.options.get("trials", TRIALS)) if kind == "training" else 1
        each = self._epoch(kind, run.source, settings.search.batch_size, settings.space.cells, channels)
        return settings.search.epochs * trials * each

    def _epoch(self, kind: str, source: Source, batch: int, cells: int, channels: int, seeds: int = 1) -> float:
        size = find_facts(source.name)
        work = Workload(size.graphs[0], size.graphs[1], size.nodes / sum(size.graphs), size.edges)
        return self.machine.epoch_seconds(kind, work, batch, max(cells, 1), channels, seeds)

    def _measure_ratios(self, runs: Iterable[PaperRun]) -> Mapping[tuple[str, str], float]:
        """Measured over predicted seconds, for each kind of run that is finished on a device of this type."""
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for run in runs:
            seconds = self._seconds(run)
            if seconds is not None:
                found.setdefault(_kind(run), []).append((seconds, self.predict(run)))
        return {kind: sum(s for s, _ in pairs) / sum(u for _, u in pairs) for kind, pairs in found.items()}

    def _seconds(self, run: PaperRun) -> float | None:
        if isinstance(run, SearchRun) and self._same(run):
            done = self.results.find_search(run)
            return None if done is None else float(done.result["seconds"])
        if isinstance(run, TrainRun) and self._same(run):
            spent = [result.seconds for result in self.results.find_trainings(run).values()]
            if len(spent) == len(run.seeds):  # a GPU trains all seeds at once
                return max(spent) if self.device == "cuda" else sum(spent)
        return None

    def _same(self, run: SearchRun | TrainRun) -> bool:
        folders = self.results.training_folders(run) if isinstance(run, TrainRun) else [run.folder]
        devices = [name for folder in folders for name in self.results.devices(folder)]
        return bool(devices) and all((name == "CPU") == (self.device == "cpu") for name in devices)


def _kind(run: PaperRun) -> tuple[str, str]:
    if isinstance(run, TrainRun):
        return run.source.folder, "found" if run.of is not None else "hand-made"
    if isinstance(run, DepthRun):
        return run.source.folder, "single-level"
    return run.source.folder, run.strategy if isinstance(run, SearchRun) else run.kind
