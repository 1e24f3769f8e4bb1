"""How long a run will take: by finished runs of the same kind on the same kind of device, else by the cost model.

Where the cost model knows no such device, figures stated here serve: seconds on one NVIDIA H200 for ZINC, from the runs of
2026-11-15 in ``benchmarks/results``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from gnas.cost import Machine, Workload, machine, usual_epochs
from gnas.data.benchmarks import find_facts
from gnas.errors import InputError
from gnas.paper.jobs import DataJob, DepthJob, Job, SearchJob, StrategiesJob, TrainJob
from gnas.paper.results import Results
from gnas.paper.scale import Source

SEARCH = 24.7 / (50 * 4)  # an epoch and a cell of a search: 24.7 s for 50 epochs with 4 cells
TRAINING = 124 / (178 * 4)  # an epoch and a cell, four seeds at once: 124 s for about 178 epochs with 4 cells
GROWTH = 0.25  # exponent with which a step grows with the edges of a graph: a GPU is far from full on ZINC
TRIALS = 100  # of GraphNAS
LOADING = 5.0


@dataclass(frozen=True)
class Estimate:
    """Seconds, and whether they come from recorded runs."""

    seconds: float
    recorded: bool


class Estimator:
    """Estimates for one device, ``cuda`` or ``cpu``."""

    def __init__(self, results: Results, device: str, jobs: Iterable[Job]) -> None:
        self.results, self.device = results, device
        try:
            self.machine: Machine | None = machine(torch.device(device))[0]
        except InputError:  # no such device was measured
            self.machine = None
        self.ratios = self._recorded(jobs)

    def __call__(self, job: Job) -> Estimate:
        """The time a job takes by the cost model, corrected by how far off that was for finished jobs of its kind."""
        ratio = self.ratios.get(_kind(job))
        return Estimate(self.stated(job) * (1.0 if ratio is None else ratio), ratio is not None)

    def stated(self, job: Job) -> float:
        """Seconds without any record."""
        if isinstance(job, DataJob):
            return LOADING
        if isinstance(job, TrainJob):
            settings = job.settings()
            epochs = usual_epochs(settings, job.source.name)
            return epochs * self._epoch(
                "training", job.source, settings.training.batch_size, job.layers, 64, len(job.seeds)
            )
        if isinstance(job, StrategiesJob):
            budget, settings = job.budget(), job.settings()
            each = self._epoch("training", job.source, settings.training.batch_size, job.cells, settings.space.channels)
            return budget.epochs * len(job.seeds) * len(job.strategies) * each
        search = job.search(job.start) if isinstance(job, DepthJob) else job  # Algorithm 1: its first round at least
        settings = search.settings()
        kind = "training" if search.strategy == "graphnas" else "search"
        trials = int(settings.search.options.get("trials", TRIALS)) if kind == "training" else 1
        each = self._epoch(kind, job.source, settings.search.batch_size, settings.space.cells, settings.space.channels)
        return settings.search.epochs * trials * each

    def _epoch(self, kind: str, source: Source, batch: int, cells: int, channels: int, seeds: int = 1) -> float:
        size, zinc = find_facts(source.name), find_facts("zinc")
        if self.machine is None:
            times = sum(size.graphs) / sum(zinc.graphs) * (size.edges / zinc.edges) ** GROWTH
            return (SEARCH if kind == "search" else TRAINING) * max(cells, 1) * times
        total = sum(size.graphs)
        work = Workload(size.graphs[0], size.graphs[1], size.nodes / total, size.edges)
        return self.machine.epoch_seconds(kind, work, batch, max(cells, 1), channels, seeds)

    def _recorded(self, jobs: Iterable[Job]) -> Mapping[tuple[str, str], float]:
        """Seconds spent to seconds stated, of the kinds of which a run is finished on such a device."""
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for job in jobs:
            seconds = self._seconds(job)
            if seconds is not None:
                found.setdefault(_kind(job), []).append((seconds, self.stated(job)))
        return {kind: sum(s for s, _ in pairs) / sum(u for _, u in pairs) for kind, pairs in found.items()}

    def _seconds(self, job: Job) -> float | None:
        if isinstance(job, SearchJob) and self._same(job):
            done = self.results.find_search(job)
            return None if done is None else float(done.result["seconds"])
        if isinstance(job, TrainJob) and self._same(job):
            spent = [result.seconds for result in self.results.find_trainings(job).values()]
            if len(spent) == len(job.seeds):  # a GPU trains all seeds at once
                return max(spent) if self.device == "cuda" else sum(spent)
        return None

    def _same(self, job: SearchJob | TrainJob) -> bool:
        folders = self.results.training_folders(job) if isinstance(job, TrainJob) else [job.folder]
        devices = [name for folder in folders for name in self.results.devices(folder)]
        return bool(devices) and all((name == "CPU") == (self.device == "cpu") for name in devices)


def _kind(job: Job) -> tuple[str, str]:
    if isinstance(job, TrainJob):
        return job.source.folder, "found" if job.of is not None else "hand-made"
    if isinstance(job, DepthJob):
        return job.source.folder, "single-level"
    return job.source.folder, job.strategy if isinstance(job, SearchJob) else job.kind
