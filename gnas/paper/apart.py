"""The runs of a reproduction on workers: those that need nothing of each other at the same time."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gnas import jobs as work_on
from gnas.data import Benchmark
from gnas.errors import Interrupted
from gnas.jobs import Lazy, Runner, Work
from gnas.paper.archive import copy_run
from gnas.paper.carry_out import Outcome, _Data, keep_job
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
    data = _Data(load)
    shared = {job.source: Lazy(functools.partial(data, job.source)) for job in left}
    told = {"kept": [str(place.resolve()) for place in results.places[1:]], "about": about or {}}
    orders = []
    for job in left:
        if runner.storage is not None:
            bring_kept(job, out, results)
        arguments = {**told, "benchmark": shared[job.source], "job": to_values(job)}
        reads = others(job) if isinstance(job, TrainJob) else ()
        also = () if isinstance(job, TrainJob) else others(job)
        orders.append(work_on.Job("gnas.paper.apart.run_job", job.folder, arguments, also, reads))
    try:
        for outcome in runner.run(orders, should_stop=should_stop):
            job = left[outcome.number]
            if outcome.error is not None:
                failed[job.key] = reason(outcome.exception) if outcome.exception else outcome.error
            else:
                done.append(job.key)
                if keep is not None:
                    keep_job(job, out, keep)
            for place in places:
                note_failed(place, failed, done)
            if on_epoch is not None:
                on_epoch({"stage": "runs", "epoch": len(done) + len(failed)})
            if runner.in_process and should_stop is not None and should_stop():
                stopped = True
                break
    except Interrupted:
        stopped = True
    known = [note_failed(place, failed, [*before, *done]) for place in places]
    return Outcome(tuple(done), known[0], stopped)


def others(job: Job) -> tuple[str, ...]:
    """The folders of other runs that a run reads or writes: what it trains, or the searches that Algorithm 1 may make."""
    if isinstance(job, TrainJob) and job.of is not None and job.of.folder != job.folder:
        return (job.of.folder,)
    if isinstance(job, DepthJob):
        return tuple(job.search(cells).folder for cells in range(1, max(job.start, *GRID) + 1))
    return ()


def bring_kept(job: Job, out: Path, results: Results) -> None:
    """What a run needs of places that its worker may not see is copied to where it works."""
    for name in (job.folder, *others(job)):
        for folder in results.run_folders(name):
            if not (out / name).exists():
                copy_run(folder, out / name)


def run_job(
    work: Work, *, job: dict[str, Any], benchmark: Benchmark, kept: Sequence[str], about: dict[str, Any]
) -> dict[str, Any]:
    """One run in a worker."""
    assert work.root is not None
    results = Results([work.root, *map(Path, kept)])
    one = from_values(job)
    if not results.is_done(one):
        Worker(work.root, results, work.device, work.on_epoch, work.should_stop, about).do(one, benchmark)
    return {"run": one.key}


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
