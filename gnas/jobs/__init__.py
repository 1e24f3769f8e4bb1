"""One way to do many runs: the same jobs in this process, in several processes of this machine, or on a Ray cluster.

Every caller makes a list of :class:`Job` and gives it to a :class:`Runner`. Without a runner, ``Runner(folder)`` does the jobs
in this process, where arguments are live objects: networks and operations of your own work.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from gnas.errors import InputError
from gnas.jobs.job import Job, JobsFailed, Lazy, Outcome, Work
from gnas.jobs.runner import InProcess, Pool, Runner
from gnas.jobs.storage import Storage

__all__ = ["Job", "JobsFailed", "Lazy", "Outcome", "Runner", "Storage", "Work", "check_on", "open_runner"]


def open_runner(
    root: str | Path,
    on: str | None = None,
    *,
    gpus_per_job: float | None = None,
    device: torch.device | str = "cpu",
    sync: str | Storage | None = None,
) -> Runner:
    """Open a runner for jobs in folders below ``root``; use it in a ``with``.

    Args:
        root: The folder above the folders of all jobs.
        on: ``here`` (this process), ``local:N`` (N processes on this machine) or ``ray``.
        gpus_per_job: A number of GPUs, or a share of one. By default every job on a ``cuda`` device gets a whole GPU on
            Ray, and the workers of this machine take the GPUs in turn.
        device: The device of each job.
        sync: The fsspec URL of the run folder, if not all workers see ``root``.

    >>> with open_runner("runs/many", "local:2") as runner:  # doctest: +SKIP
    ...     compare(benchmark, candidates, config, seeds, Path("runs/many"), runner=runner)
    """
    kind, count = check_on(on, gpus_per_job)
    requested = "cuda" if gpus_per_job and str(device) == "cpu" else str(device)
    pool = _open_pool(kind, count, gpus_per_job, requested)
    # A worker sees only its own GPU, which is number 0 for it.
    return Runner(Path(root), pool, requested if kind == "here" else requested.split(":")[0], sync)


def check_on(on: str | None, gpus_per_job: float | None = None) -> tuple[str, int]:
    """The kind of workers and their number; an error that lists the choices if ``on`` is not one of them."""
    kind, _, count = (on or "here").partition(":")
    wrong = kind not in ("here", "local", "ray") or (kind != "local" and count != "") or (kind == "local" and not count)
    if wrong or (kind == "local" and not (count.isdigit() and 1 <= int(count) <= 1024)):
        raise InputError(
            f"--on {on!r} is unknown; choose one of: here (this process), local:N (N processes on this machine, "
            "such as local:4), ray (a Ray cluster)"
        )
    if kind == "ray" and importlib.util.find_spec("ray") is None:
        raise InputError("--on ray needs Ray; install it with: pip install 'gnas[cluster]'")
    if gpus_per_job is not None and not (0 <= gpus_per_job < 1 or gpus_per_job == int(gpus_per_job) >= 1):
        raise InputError(
            f"--gpus-per-job is {gpus_per_job:g}; it must be a share below 1, such as 0.25, or a whole number"
        )
    if gpus_per_job is not None and kind == "here":
        raise InputError("--gpus-per-job needs worker processes: add --on local:N or --on ray")
    return kind, int(count or 1)


def _open_pool(kind: str, count: int, gpus_per_job: float | None, device: str) -> Pool:
    if kind == "local":
        from gnas.jobs.local import LocalProcesses

        return LocalProcesses(count, gpus_per_job, device)
    if kind == "ray":
        from gnas.jobs.on_ray import RayTasks

        return RayTasks(gpus_per_job, device)
    return InProcess()
