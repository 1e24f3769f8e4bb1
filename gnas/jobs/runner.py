"""Gives jobs to workers, again if a worker dies, and passes on each result when it arrives."""

from __future__ import annotations

import json
import shutil
import time
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

import gnas
from gnas import distributed
from gnas.data.storage import write_graphs
from gnas.errors import Interrupted, name_place
from gnas.graph import GraphSet
from gnas.jobs.codec import Files, decode, encode
from gnas.jobs.job import Job, JobsFailed, Lazy, Outcome, Record
from gnas.jobs.messages import Beat, Died, Epoch, Failed, Finished, Message, Order, Started, Stopped, Warned
from gnas.jobs.perform import PUSH_SECONDS, Place, describe_error, perform_here
from gnas.jobs.storage import Storage
from gnas.model.network import GraphModule
from gnas.run import checkpoint
from gnas.run.layout import JOBS
from gnas.training.loop import add_labels

RETRIES = 3
MOVES = 20  # machines that a job may lose
PAUSE = 0.2  # seconds between two checks whether to stop
SHARED = JOBS  # the sub-folder of a run for graphs that jobs share, and for the log
WEIGHTS = "start.safetensors"  # the weights a network has when it is sent to a worker

OnEpoch = Callable[[Record], None] | None
StopCheck = Callable[[], bool] | None


class Runner:
    """One way to do many runs: a list of jobs on a pool of workers.

    Use it in a ``with``: at the end the workers are released. A job whose worker dies is tried again ``retries`` times.

    Args:
        root: The folder above all folders of the jobs; None if nothing is to be written, which only works in this process.
        pool: The workers; by default this process.
        device: The device of each job.
        sync: The fsspec URL of the root, for workers that do not see it.
    """

    def __init__(
        self,
        root: Path | None,
        pool: Pool | None = None,
        device: torch.device | str = "cpu",
        sync: str | Storage | None = None,
        retries: int = RETRIES,
    ) -> None:
        self.root, self.pool, self.device, self.retries = root, pool or InProcess(), str(device), retries
        self.push_seconds = PUSH_SECONDS
        self.storage = Storage(sync) if isinstance(sync, str) else sync
        self._graphs: dict[int, tuple[Callable[[], GraphSet | None], str]] = {}
        self._lazy: dict[int, tuple[Lazy, Any]] = {}
        self._shared: set[str] = set()
        self._claimed = False  # whether this runner keeps others out of the URL
        self._folders: set[str] = set()  # those that jobs have written

    @property
    def in_process(self) -> bool:
        """Whether jobs run here, with live objects as arguments."""
        return self.pool.in_process

    @property
    def place(self) -> Place:
        """Where jobs work."""
        return Place(
            self.root, self.device, None if self.storage is None else self.storage.url, push_seconds=self.push_seconds
        )

    def run(self, jobs: Sequence[Job], *, on_epoch: OnEpoch = None, should_stop: StopCheck = None) -> Iterator[Outcome]:
        """Do the jobs and yield how each ended, as they end.

        A job waits for all earlier jobs of the list that write a folder it uses. If one fails, the others still run.

        Args:
            jobs: The jobs, in the order in which they are started.
            on_epoch: Gets every record of every job.
            should_stop: Once it returns True, the jobs save their state and ``Interrupted`` is raised.
        """
        if not self._folders:
            self.push_folder("")  # settings first: if this process is killed, the URL shows which run it was
        self._folders |= {folder for job in jobs for folder in job.written}
        for folder in (folder for job in jobs for folder in (*job.written, *job.reads)):
            self.push_folder(folder)
        return _Round(self, jobs, on_epoch, should_stop).outcomes()

    def results(
        self, jobs: Sequence[Job], *, on_epoch: OnEpoch = None, should_stop: StopCheck = None
    ) -> Generator[Any, None, None]:
        """Yield the results in the order of the jobs, each as soon as it and those before it are there.

        An error in this process is raised at once. If jobs of workers fail, the others end first; then ``JobsFailed``
        is raised.
        """
        ended: dict[int, Outcome] = {}
        given = 0
        for outcome in self.run(jobs, on_epoch=on_epoch, should_stop=should_stop):
            if outcome.exception is not None:
                raise outcome.exception
            ended[outcome.number] = outcome
            while given in ended and ended[given].error is None:
                given += 1
                yield ended[given - 1].result
        failed = [outcome for outcome in ended.values() if outcome.error is not None]
        if failed:
            errors = "; ".join(f"{outcome.job.folder}: {outcome.error}" for outcome in failed[:3])
            more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
            raise JobsFailed(f"{len(failed)} of {len(jobs)} jobs failed, the others are saved: {errors}{more}")

    # -- folders and files -----------------------------------------------------------------------------------------------

    def name_folder(self, folder: Path) -> str:
        """The name of a folder below the root, for a job."""
        root = folder if self.root is None else self.root
        return folder.resolve().relative_to(root.resolve()).as_posix()

    def push_folder(self, name: str) -> None:
        """Push what this process knows of a job's folder to the URL; files that are there already are newer, and stay."""
        if self.storage is not None and self.root is not None:
            self.storage.push(self.root / name, name, skip=self.storage.holds)

    def push_own_files(self, folder: Path | None = None) -> None:
        """Push what this process wrote below ``folder`` to the URL; workers push the folders of their jobs themselves."""
        if self.storage is not None and self.root is not None:
            name = "" if folder is None else self.name_folder(folder)
            of_jobs = tuple(f"{job}/" for job in self._folders)
            self.storage.push(folder or self.root, name, skip=lambda file: file.startswith(of_jobs))

    def remove_folder(self, name: str) -> None:
        """Remove the folder of a job whose result is saved elsewhere."""
        if self.root is not None:
            folder = self.root / name
            distributed.from_first(lambda: shutil.rmtree(folder, ignore_errors=True))
        if self.storage is not None:
            self.storage.remove(name)

    def write_order(self, job: Job) -> Order:
        """The job as a worker gets it; an error if an argument cannot be sent."""
        if self.root is None:
            raise ValueError("a runner with workers needs a root folder")
        files = Files(self._share_graphs, lambda model: self._write_weights(model, job.folder))
        with name_place(job.folder):
            arguments = {name: self._encode(value, files) for name, value in job.arguments.items()}
        place = self.place
        return Order(
            *(job.function, job.folder, list(job.also), list(job.reads), arguments),
            *(str(self.root.resolve()), place.sync, place.push_seconds, place.device),
            deterministic=torch.are_deterministic_algorithms_enabled(),
            version=gnas.__version__,
        )

    def _encode(self, value: Any, files: Files) -> Any:
        if not isinstance(value, Lazy):
            return encode(value, files)
        if id(value) not in self._lazy:
            self._lazy[id(value)] = value, encode(value.load(), files)
        return self._lazy[id(value)][1]

    def _share_graphs(self, graphs: GraphSet) -> str:
        """Put graphs where every worker can read them, once."""
        assert self.root is not None
        known, name = self._graphs.get(id(graphs), (lambda: None, ""))
        if known() is not graphs:  # an id can be used again once its object is gone
            file = write_graphs(graphs, self.root / SHARED)
            name = f"{SHARED}/{file.name}"
            if self.storage is not None:
                self.storage.push_file(file, name)
            self._graphs[id(graphs)] = weakref.ref(graphs), name
            self._shared.add(name)
        return name

    def _write_weights(self, model: GraphModule, folder: str) -> str:
        assert self.root is not None
        file, name = self.root / folder / WEIGHTS, f"{folder}/{WEIGHTS}"
        if not file.exists():
            checkpoint.save(file, model.state_dict())
        if self.storage is not None and not self.storage.holds(name):
            self.storage.push_file(file, name)
        return name

    def __enter__(self) -> Runner:
        self._claimed = self.storage is not None and distributed.is_first() and self.storage.claim()
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.close()
        if self.root is not None:  # no worker reads its copy of the graphs any more
            for name in self._shared:
                (self.root / name).unlink(missing_ok=True)
                if self.storage is not None:
                    self.storage.remove(name)
        if self._claimed and self.storage is not None:
            self.storage.release()


class _Round:
    """One call of ``run``: which jobs wait, which run, how often each was tried."""

    def __init__(self, runner: Runner, jobs: Sequence[Job], on_epoch: OnEpoch, should_stop: StopCheck) -> None:
        self.runner, self.pool, self.jobs = runner, runner.pool, list(jobs)
        self.on_epoch, self.should_stop = on_epoch, should_stop
        here = runner.in_process
        # An argument that cannot be sent is an error before anything starts.
        self.orders = {key: runner.write_order(job) for key, job in enumerate(jobs) if not (here or job.is_lazy)}
        self.waiting = list(range(len(jobs)))
        self.running: set[int] = set()
        self.tries: Counter[int] = Counter()
        self.moves: Counter[int] = Counter()  # tries that ended with their machine, and do not count
        self.ended: deque[Outcome] = deque()

    def outcomes(self) -> Iterator[Outcome]:
        try:
            while self.waiting or self.running:
                if not self.pool.in_process and self.should_stop is not None and self.should_stop():
                    raise Interrupted(f"stopped with {len(self.waiting) + len(self.running)} jobs to do")
                self._start_jobs()
                self.pool.wait(PAUSE, self._receive)
                while self.ended:
                    yield self.ended.popleft()
        finally:
            if self.running:
                self.pool.stop()

    def _start_jobs(self) -> None:
        """Start the jobs that can run now: no job before them uses a folder that they write, or writes one they use."""
        before = [self.jobs[key] for key in self.running]
        for key in list(self.waiting):
            if len(self.running) >= self.pool.slots:
                return
            job = self.jobs[key]
            if not any(job.conflicts(other) for other in before):
                self._start(key, job)
            before.append(job)

    def _start(self, key: int, job: Job) -> None:
        self.waiting.remove(key)
        self.running.add(key)
        self.tries[key] += 1
        if key not in self.orders and not self.pool.in_process:
            try:
                self.orders[key] = self.runner.write_order(job)
            except Exception as error:  # an argument cannot be loaded
                self._end(key, error=describe_error(error))
                return
        on_epoch = add_labels(self.on_epoch, **job.labels)
        self.pool.start(Task(key, job, self.runner.place, self.orders.get(key), on_epoch, self.should_stop))

    def _receive(self, key: int, message: Message) -> None:
        name = self.jobs[key].folder
        if isinstance(message, Beat):
            return
        if isinstance(message, Epoch):
            if self.on_epoch is not None:
                self.on_epoch({**self.jobs[key].labels, **message.record})
        elif isinstance(message, Warned):
            warnings.warn(f"{name}: {message.text}")
        else:
            self._log(key, message)
            self._change_state(key, message)

    def _change_state(self, key: int, message: Started | Finished | Stopped | Failed | Died) -> None:
        if isinstance(message, Stopped) and self.should_stop is not None and self.should_stop():
            raise Interrupted(message.text)
        if isinstance(message, Stopped | Died):  # a worker that somebody else stopped is as good as dead
            self._try_again(key, message.text, isinstance(message, Stopped) or message.counts)
        elif isinstance(message, Failed):
            self._end(key, error=message.text, exception=message.exception)
        elif isinstance(message, Finished):
            self._end(key, message.result if self.pool.in_process else decode(message.result))

    def _try_again(self, key: int, reason: str, counts: bool) -> None:
        self.moves[key] += not counts
        name, tries, most = self.jobs[key].folder, self.tries[key] - self.moves[key], self.runner.retries + 1
        if tries >= most or self.moves[key] > MOVES:
            times = max(tries, self.moves[key])
            self._end(key, error=f"its {'worker' if counts else 'machine'} died {times} times, the last time: {reason}")
            return
        who = "its worker died" if counts else "its machine has gone"
        warnings.warn(f"{name}: {who} ({reason}); resuming from its checkpoint, try {tries + 1} of {most}")
        self.running.remove(key)
        self.waiting.insert(0, key)

    def _end(self, key: int, result: Any = None, error: str | None = None, exception: Exception | None = None) -> None:
        self.running.remove(key)
        job, storage, root = self.jobs[key], self.runner.storage, self.runner.root
        if storage is not None and root is not None and error is None:
            for folder in reversed(job.written):
                storage.pull(folder, root / folder)
        self.ended.append(Outcome(job, key, result, error, self.tries[key], exception))

    def _log(self, key: int, message: Started | Finished | Stopped | Failed | Died) -> None:
        """One line per event of a job, in jobs/log.jsonl of the run folder. Jobs in this process need none."""
        root = self.runner.root
        if self.pool.in_process or root is None:
            return
        line = {"time": round(time.time(), 3), "job": self.jobs[key].folder, "try": self.tries[key]}
        line["event"] = message.kind
        if isinstance(message, Started):
            line["about"] = asdict(message)
        elif not isinstance(message, Finished):  # whose result lies in the job's folder
            line["about"] = message.text
        (root / SHARED).mkdir(parents=True, exist_ok=True)
        with open(root / SHARED / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")


Receive = Callable[[int, Message], None]  # the key of a job, and a message about it


@dataclass(frozen=True)
class Task:
    """A job to start: the job itself for this process, its ``order`` for a worker."""

    key: int
    job: Job
    place: Place
    order: Order | None
    on_epoch: Callable[[Record], None] | None
    should_stop: Callable[[], bool] | None


class Pool(Protocol):
    """Workers. ``wait`` passes on what they send."""

    @property
    def in_process(self) -> bool:
        """Whether jobs run in this process, so that nothing is serialised."""
        ...

    @property
    def slots(self) -> int:
        """Jobs that may be started before one of them has ended."""
        ...

    @property
    def width(self) -> int:
        """Jobs that run at the same time."""
        ...

    def start(self, task: Task) -> None:
        """Give a job to a worker."""
        ...

    def wait(self, seconds: float, receive: Receive) -> None:
        """Pass on messages; wait at most ``seconds`` for the first."""
        ...

    def stop(self) -> None:
        """End all jobs soon; those that can save their state do so."""
        ...

    def close(self) -> None:
        """Release the workers."""
        ...


class InProcess:
    """One job after the other in this process. Each gets its live arguments and checks itself whether to stop."""

    in_process = True
    slots = width = 1

    def __init__(self) -> None:
        self._next: Task | None = None

    def start(self, task: Task) -> None:
        self._next = task

    def wait(self, seconds: float, receive: Receive) -> None:
        if self._next is not None:
            task, self._next = self._next, None
            send = lambda message: receive(task.key, message)  # noqa: E731
            perform_here(task.job, task.place, send, task.on_epoch, task.should_stop)

    def stop(self) -> None:
        self._next = None

    def close(self) -> None:
        pass
