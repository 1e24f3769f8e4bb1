"""Doing what is missing, run after run: a failed one does not stop the rest, a stop leaves all of them to go on later."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from gnas.data import Benchmark
from gnas.errors import InputError, Interrupted
from gnas.paper.archive import add_runs
from gnas.paper.failures import note_failed, reason
from gnas.paper.jobs import DepthJob, Job, TrainJob
from gnas.paper.perform import Worker
from gnas.paper.results import Results
from gnas.paper.scale import Source
from gnas.run.folder import Locked, Run
from gnas.training.loop import Record

Watch = Callable[[Job, Benchmark], contextlib.AbstractContextManager[Callable[[Record], None] | None]]


@dataclass(frozen=True)
class Outcome:
    """How it ended: runs done now, runs that failed with the reason, and whether it was stopped before the end."""

    done: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


def carry_out(
    jobs: Iterable[Job],
    out: Path,
    results: Results,
    *,
    load: Callable[[Source], Benchmark],
    device: torch.device | str = "cpu",
    keep: Path | None = None,
    watch: Watch | None = None,
    should_stop: Callable[[], bool] | None = None,
    about: dict[str, Any] | None = None,
) -> Outcome:
    """Do every run that is not finished, in order. ``watch`` gives each run its ``on_epoch``."""
    worker = Worker(out, results, device, None, should_stop, about or {})
    places, data = [out] if keep is None else [out, keep], _Data(load)
    done: list[str] = []
    before: list[str] = []
    failed: dict[str, str] = {}
    stopped = False
    for job in jobs:
        if results.is_done(job):
            before.append(job.key)
            continue
        stopped = should_stop is not None and should_stop()
        if stopped:
            break
        try:
            _check_needs(job, results, failed)
            benchmark = data(job.source)
            with (watch or _unwatched)(job, benchmark) as on_epoch:
                replace(worker, on_epoch=on_epoch).do(job, benchmark)
        except Interrupted:
            stopped = True
            break
        except Locked:  # another process is doing it
            continue
        except Exception as error:
            failed[job.key] = reason(error)
        else:
            done.append(job.key)
            if keep is not None:
                keep_job(job, out, keep)
        for place in places:
            note_failed(place, failed, done)
        if torch.device(device).type == "cuda":
            gc.collect()  # recorded steps and what they touch hold each other, and with them the memory of the device
            torch.cuda.empty_cache()
    known = [note_failed(place, failed, [*before, *done]) for place in places]
    return Outcome(tuple(done), known[0], stopped)


def keep_job(job: Job, out: Path, keep: Path) -> None:
    """Add a finished run to the archives in ``keep``, and with Algorithm 1 the searches that it made."""
    names = [job.folder]
    if isinstance(job, DepthJob):
        rounds = Run(out / job.folder).read_json("result", ("rounds",))["rounds"]
        searches = dict.fromkeys(job.search(one["initial"]).folder for one in rounds)
        names += [name for name in searches if (out / name).is_dir()]  # else an archive has it
    add_runs(keep, out, names)


def _check_needs(job: Job, results: Results, failed: dict[str, str]) -> None:
    """An error where the search that a training needs has failed, or is another process's and not finished yet."""
    if isinstance(job, TrainJob) and job.of is not None and results.find_search(job.of) is None:
        if job.of.key in failed:
            raise InputError(f"its search failed ({job.of.key})")
        raise Locked(f"{job.of.key} is not finished yet")


class _Data:
    """The dataset of the last run: the next one is mostly on the same. One that cannot be loaded is not tried again."""

    def __init__(self, load: Callable[[Source], Benchmark]) -> None:
        self.load = load
        self.source: Source | None = None
        self.benchmark: Benchmark | None = None
        self.missing: dict[Source, str] = {}

    def __call__(self, source: Source) -> Benchmark:
        if source in self.missing:
            raise InputError(self.missing[source])
        if self.benchmark is None or source != self.source:
            self.benchmark = None  # before the next is loaded: both may not fit
            try:
                self.benchmark, self.source = self.load(source), source
            except Exception as error:
                self.missing[source] = reason(error)
                raise
        return self.benchmark


@contextlib.contextmanager
def _unwatched(job: Job, benchmark: Benchmark):  # type: ignore[no-untyped-def]
    yield None
