"""Many runs on existing engines: the same jobs in this process, in several processes here, or on a Ray cluster."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from gnas.errors import InputError
from gnas.jobs.data import unpack
from gnas.jobs.job import Job, JobsFailed, Outcome, Work
from gnas.jobs.pools import InProcess, Pool
from gnas.jobs.runner import Runner
from gnas.jobs.storage import Storage

__all__ = ["Job", "JobsFailed", "Outcome", "Runner", "Storage", "Work", "check_on", "open_runner", "unpack"]


def open_runner(
    root: str | Path,
    on: str | None = None,
    *,
    gpus_per_job: float | None = None,
    device: torch.device | str = "cpu",
    sync: str | Storage | None = None,
) -> Runner:
    """Workers for jobs in folders below ``root``: ``here``, ``local:N`` or ``ray``; use it in a ``with``.

    ``gpus_per_job`` is a number of GPUs or a share of one; without it every job of a ``cuda`` device has a whole one on
    Ray, and the workers here take the GPUs by turns. ``sync`` is the fsspec URL of the run folder, where it is not one
    that all workers see.
    """
    kind, count = check_on(on, gpus_per_job)
    asked = "cuda" if gpus_per_job and str(device) == "cpu" else str(device)
    pool = _pool(kind, count, gpus_per_job, asked)
    return Runner(
        Path(root), pool, asked if kind == "here" else asked.split(":")[0], sync
    )  # a worker sees its own GPU alone


def check_on(on: str | None, gpus_per_job: float | None = None) -> tuple[str, int]:
    """The kind of workers and their number; an error that lists the choices for anything else."""
    kind, _, count = (on or "here").partition(":")
    wrong = kind not in ("here", "local", "ray") or (kind != "local" and count != "") or (kind == "local" and not count)
    if wrong or (kind == "local" and not (count.isdigit() and 1 <= int(count) <= 1024)):
        raise InputError(
            f"--on {on!r} is not known; choose one of: here (this process), local:N (N processes on this machine, "
            "such as local:4), ray (a Ray cluster)"
        )
    if kind == "ray" and importlib.util.find_spec("ray") is None:
        raise InputError("--on ray needs Ray; install it with: pip install 'gnas[cluster]'")
    if gpus_per_job is not None and not (0 <= gpus_per_job < 1 or gpus_per_job == int(gpus_per_job) >= 1):
        raise InputError(
            f"--gpus-per-job is {gpus_per_job:g}; it must be a share below 1, such as 0.25, or a whole number"
        )
    if gpus_per_job is not None and kind == "here":
        raise InputError("--gpus-per-job needs workers of their own: add --on local:N or --on ray")
    return kind, int(count or 1)


def _pool(kind: str, count: int, gpus_per_job: float | None, device: str) -> Pool:
    if kind == "local":
        from gnas.jobs.local import LocalProcesses

        return LocalProcesses(count, gpus_per_job, device)
    if kind == "ray":
        from gnas.jobs.on_ray import RayTasks

        return RayTasks(gpus_per_job, device)
    return InProcess()
