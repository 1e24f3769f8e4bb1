"""The runs of a reproduction on workers: those that need nothing of each other at the same time, wave after wave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gnas import jobs as work_on
from gnas.data import Benchmark
from gnas.errors import Interrupted
from gnas.jobs import Runner, Work, unpack
from gnas.paper.archive import copy_run
from gnas.paper.carry_out import Outcome, keep_job
from gnas.paper.failures import note_failed, reason
from gnas.paper.jobs import Changes, DataJob, DepthJob, Job, SearchJob, StrategiesJob, TrainJob
from gnas.paper.perform import Worker
from gnas.paper.results import Results
from gnas.paper.scale import GRID, Scale, Source
from gnas.training.loop import Record

KINDS: dict[str, Any] = {kind.kind: kind for kind in (DataJob, SearchJob, DepthJob, TrainJob, StrategiesJob)}


def carry_out_apart(
    jobs: Iterable[Job],
    out: Path,
    results: Results,
    runner: Runner,
    *,
    load: Callable[[Source], Benchmark],
    keep: Path | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    about: dict[str, Any] | None = None,
) -> Outcome:
    """Do every run that is not finished, like ``carry_out``. ``on_epoch`` hears of each run that ends, by its number."""
    places = [out] if keep is None else [out, keep]
    asked = list(jobs)
    left = [job for job in asked if not results.is_done(job)]
    before = [job.key for job in asked if job not in left]
    done: list[str] = []
    failed: dict[str, str] = {}
    stopped = False
    shared = _Shared(runner, load)
    told = {"kept": [str(place.resolve()) for place in results.places[1:]], "about": about or {}}
    while left and not stopped:
        wave, left = next_wave(left, results)
        sent: dict[str, Job] = {}
        orders = []
        for job in wave:
            try:
                arguments = {**told, "graphs": shared(job.source), "job": to_values(job)}
                if runner.storage is not None:
                    bring_kept(job, out, results, runner)
                orders.append(work_on.Job("gnas.paper.apart.run_job", job.folder, arguments, others(job)))
                sent[job.folder] = job
            except Exception as error:  # its data cannot be loaded
                failed[job.key] = reason(error)
        try:
            for outcome in runner.each(orders, should_stop=should_stop):
                job = sent[outcome.job.folder]
                if outcome.error is not None:
                    failed[job.key] = outcome.error
                else:
                    done.append(job.key)
                    if keep is not None:
                        keep_job(job, out, keep)
                for place in places:
                    note_failed(place, failed, done)
                if on_epoch is not None:
                    on_epoch({"stage": "runs", "epoch": len(done) + len(failed)})
        except Interrupted:
            stopped = True
    known = [note_failed(place, failed, [*before, *done]) for place in places]
    return Outcome(tuple(done), known[0], stopped)


def next_wave(left: Sequence[Job], results: Results) -> tuple[list[Job], list[Job]]:
    """The runs that can be done now and at the same time, and those that wait for them."""
    keys = {job.key for job in left}
    wave: list[Job] = []
    for job in left:
        needs = job.of if isinstance(job, TrainJob) else None
        waits = needs is not None and needs.key in keys and results.find_search(needs) is None
        if not waits and not any(clash(job, other) for other in wave):
            wave.append(job)
    return wave, [job for job in left if job not in wave]


def clash(one: Job, other: Job) -> bool:
    """Whether two runs would write in the same folder. Algorithm 1 makes searches that are runs of their own."""
    if one.folder == other.folder:
        return True
    searches = [job for job in (one, other) if isinstance(job, SearchJob | DepthJob)]
    if len(searches) < 2 or not any(isinstance(job, DepthJob) for job in searches):
        return False
    return (searches[0].source, searches[0].seed) == (searches[1].source, searches[1].seed)


def others(job: Job) -> tuple[str, ...]:
    """The folders of other runs that a run reads or writes: what it trains, or the searches that Algorithm 1 may make."""
    if isinstance(job, TrainJob) and job.of is not None and job.of.folder != job.folder:
        return (job.of.folder,)
    if isinstance(job, DepthJob):
        return tuple(job.search(cells).folder for cells in range(1, max(job.start, *GRID) + 1))
    return ()


def bring_kept(job: Job, out: Path, results: Results, runner: Runner) -> None:
    """What a run needs of places that its worker may not see is copied to where it works."""
    for name in (job.folder, *others(job)):
        for folder in results.run_folders(name):
            if not (out / name).exists():
                copy_run(folder, out / name)
                runner.send(name)


def run_job(
    work: Work, *, job: dict[str, Any], graphs: str, kept: Sequence[str], about: dict[str, Any]
) -> dict[str, Any]:
    """One run in a worker."""
    results = Results([work.root, *map(Path, kept)])
    one = from_values(job)
    if not results.is_done(one):
        benchmark = unpack(work.file(graphs)).benchmark()
        Worker(work.root, results, work.device, work.on_epoch, work.should_stop, about).do(one, benchmark)
    return {"run": one.key}


class _Shared:
    """Graphs of each dataset for the workers, loaded once. One that cannot be loaded is not tried again."""

    def __init__(self, runner: Runner, load: Callable[[Source], Benchmark]) -> None:
        self.runner, self.load = runner, load
        self.names: dict[Source, str] = {}
        self.missing: dict[Source, Exception] = {}

    def __call__(self, source: Source) -> str:
        if source in self.missing:
            raise self.missing[source]
        if source not in self.names:
            try:
                self.names[source] = self.runner.share(self.load(source))
            except Exception as error:
                self.missing[source] = error
                raise
        return self.names[source]


# -- runs as plain values, and back ----------------------------------------------------------------------------------


def to_values(job: Job) -> dict[str, Any]:
    """A run as JSON types."""
    found: dict[str, Any] = {"kind": job.kind}
    for field in fields(job):
        value = getattr(job, field.name)
        if isinstance(value, Scale):
            value = {**asdict(value), "depths": list(value.depths.items())}
        elif isinstance(value, Changes | Source):
            value = asdict(value)
        elif isinstance(value, SearchJob | DepthJob):
            value = to_values(value)
        found[field.name] = value
    return json.loads(json.dumps(found))


def from_values(values: dict[str, Any]) -> Job:
    """The run that ``to_values`` described."""
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    kind = KINDS[found.pop("kind")]
    found["source"] = Source(**found["source"])
    if "scale" in found:
        found["scale"] = _scale(found["scale"])
    if "changes" in found:
        found["changes"] = Changes(**found["changes"])
    if found.get("of") is not None:
        found["of"] = from_values(found["of"])
    return kind(**found)


def _scale(values: dict[str, Any]) -> Scale:
    sources = {name: Source(**source) for name, source in values["sources"].items()}
    numbers = {name: tuple(values[name]) for name in ("seeds", "grid")}
    return Scale(**{**values, "sources": sources, "depths": dict(map(tuple, values["depths"])), **numbers})
