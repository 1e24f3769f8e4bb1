"""Giving jobs to workers, again where a worker died, and handing on their results as they come."""

from __future__ import annotations

import json
import shutil
import time
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from gnas.data.benchmark import Benchmark
from gnas.errors import InputError, Interrupted
from gnas.jobs.data import SPLITS, pack
from gnas.jobs.job import Job, JobsFailed, Outcome, Record
from gnas.jobs.perform import PUSH_SECONDS, order
from gnas.jobs.pools import Pool
from gnas.jobs.storage import Storage

RETRIES = 3
PAUSE = 0.2  # seconds between two looks at whether to stop
SHARED = "jobs"  # the part of a run folder for what jobs share, and for their log


class Runner:
    """Workers and how jobs are done on them: ``root`` of their folders, ``device`` of each, ``sync`` the root's URL.

    A job whose worker dies is tried again, ``retries`` times. It is a context: at its end the workers are let go.
    """

    def __init__(
        self, root: Path, pool: Pool, device: str = "cpu", sync: str | Storage | None = None, retries: int = RETRIES
    ) -> None:
        self.root, self.pool, self.device, self.retries = root, pool, device, retries
        self.push_seconds = PUSH_SECONDS
        self.storage = Storage(sync) if isinstance(sync, str) else sync
        self._packed: dict[tuple[int, tuple[str, ...]], tuple[Callable[[], Benchmark | None], str]] = {}
        self._shared: set[str] = set()
        self._jobs: set[str] = set()  # the folders of those that were started

    def each(
        self,
        jobs: Sequence[Job],
        *,
        on_epoch: Callable[[Record], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Iterator[Outcome]:
        """Outcomes as jobs end, in whatever order that is."""
        names = Counter(job.folder for job in jobs)
        if len(names) < len(jobs):
            raise InputError(f"two jobs would work in the same folder: {names.most_common(1)[0][0]}")
        if not self._jobs:
            self.send("")  # settings first: should this process be killed, the run can be told from what is at the URL
        self._jobs |= {folder for job in jobs for folder in job.folders}
        return _Round(self, jobs, on_epoch, should_stop).outcomes()

    def in_order(
        self,
        jobs: Sequence[Job],
        *,
        on_epoch: Callable[[Record], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Generator[Any, None, None]:
        """Results in the order of the jobs, each as soon as it and those before it are there.

        If some jobs fail, the others are finished first.
        """
        ended: dict[str, Outcome] = {}
        given = 0
        for outcome in self.each(jobs, on_epoch=on_epoch, should_stop=should_stop):
            ended[outcome.job.folder] = outcome
            while given < len(jobs) and jobs[given].folder in ended and ended[jobs[given].folder].error is None:
                given += 1
                yield ended[jobs[given - 1].folder].result
        failed = [outcome for outcome in ended.values() if outcome.error is not None]
        if failed:
            told = "; ".join(f"{outcome.job.folder}: {outcome.error}" for outcome in failed[:3])
            more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
            raise JobsFailed(f"{len(failed)} of {len(jobs)} jobs failed, the others are kept: {told}{more}")

    def all(
        self,
        jobs: Sequence[Job],
        *,
        on_epoch: Callable[[Record], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Any]:
        """All results, in the order of the jobs."""
        return list(self.in_order(jobs, on_epoch=on_epoch, should_stop=should_stop))

    def share(self, benchmark: Benchmark, splits: Sequence[str] = SPLITS) -> str:
        """Put graphs where every worker can read them; the name to give to a job, for its ``work.file``."""
        key = id(benchmark), tuple(splits)
        known, name = self._packed.get(key, (lambda: None, ""))
        if known() is not benchmark:  # an id is given again once its owner is gone
            file = pack(benchmark, self.root / SHARED, splits)
            name = f"{SHARED}/{file.name}"
            if self.storage is not None:
                self.storage.push_file(file, name)
            self._packed[key] = weakref.ref(benchmark), name
            self._shared.add(name)
        return name

    def send(self, folder: str) -> None:
        """Make what lies in a job's folder known to its worker; what is at the URL already is newer, and stays."""
        if self.storage is not None:
            self.storage.push(self.root / folder, folder, skip=self.storage.holds)

    def keep(self, folder: Path | None = None) -> None:
        """Bring what this process wrote below ``folder`` to the URL; the folders of jobs are their workers' affair."""
        if self.storage is not None:
            name = "" if folder is None else self.name_of(folder)
            self.storage.push(
                folder or self.root, name, skip=lambda file: any(file.startswith(f"{job}/") for job in self._jobs)
            )

    def forget(self, folder: str) -> None:
        """Remove the folder of a job whose result is kept elsewhere."""
        shutil.rmtree(self.root / folder, ignore_errors=True)
        if self.storage is not None:
            self.storage.remove(folder)

    def name_of(self, folder: Path) -> str:
        """A folder below the root, as a job names it."""
        return folder.resolve().relative_to(self.root.resolve()).as_posix()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.pool.close()
        if kind is None:  # the run is over: its copy of the graphs is of no use any more
            for name in self._shared:
                (self.root / name).unlink(missing_ok=True)
                if self.storage is not None:
                    self.storage.remove(name)


class _Round:
    """One call of ``each``: who waits, who is under way, how often each was tried."""

    def __init__(
        self,
        runner: Runner,
        jobs: Sequence[Job],
        on_epoch: Callable[[Record], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.runner, self.pool, self.root = runner, runner.pool, runner.root
        self.on_epoch, self.should_stop = on_epoch, should_stop or (lambda: False)
        self.waiting = deque(jobs)
        self.running: dict[str, Job] = {}
        self.tries: Counter[str] = Counter()
        self.ended: deque[Outcome] = deque()

    def outcomes(self) -> Iterator[Outcome]:
        try:
            while self.waiting or self.running:
                if self.should_stop():
                    raise Interrupted(f"stopped with {len(self.waiting) + len(self.running)} jobs to do")
                while self.waiting and len(self.running) < self.pool.slots:
                    self._start(self.waiting.popleft())
                self.pool.wait(PAUSE, self._hear)
                while self.ended:
                    yield self.ended.popleft()
        finally:
            if self.running:
                self.pool.stop()

    def _start(self, job: Job) -> None:
        self.running[job.folder] = job
        self.tries[job.folder] += 1
        sync = None if self.runner.storage is None else self.runner.storage.url
        told = order(job, self.root, sync, self.runner.device, self.runner.push_seconds)
        self.pool.start(job.folder, told, self.should_stop)

    def _hear(self, key: str, message: dict[str, Any]) -> None:
        ((kind, value),) = message.items()
        if kind == "record":
            if self.on_epoch is not None:
                self.on_epoch(value)
            return
        if kind == "warning":
            warnings.warn(f"{key}: {value}")
            return
        self._log(key, kind, value)
        if kind == "stopped" and self.should_stop():
            raise Interrupted(value)
        if kind in ("died", "stopped"):  # somebody else stopped the worker
            self._died(key, value)
        elif kind != "began":
            self._end(key, **{kind: value})

    def _died(self, key: str, reason: str) -> None:
        tries, most = self.tries[key], self.runner.retries + 1
        if tries >= most:
            self._end(key, error=f"its worker died {tries} times, the last time: {reason}")
            return
        warnings.warn(f"{key}: its worker died ({reason}); going on from its checkpoint, try {tries + 1} of {most}")
        self.waiting.appendleft(self.running.pop(key))

    def _end(self, key: str, result: Any = None, error: str | None = None) -> None:
        job = self.running.pop(key)
        if self.runner.storage is not None and error is None:
            for folder in reversed(job.folders):
                self.runner.storage.pull(folder, self.root / folder)
        self.ended.append(Outcome(job, result, error, self.tries[key]))

    def _log(self, key: str, kind: str, value: Any) -> None:
        """One line for each event of a job, in jobs/log.jsonl of the run folder."""
        line = {"time": round(time.time(), 3), "job": key, "try": self.tries[key], "event": kind}
        if kind != "result":  # which lies in the job's folder
            line["about"] = value
        (self.root / SHARED).mkdir(parents=True, exist_ok=True)
        with open(self.root / SHARED / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
