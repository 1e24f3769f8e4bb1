"""The same jobs on a real Ray cluster of several workers on this machine, one of them killed while it works."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from farm import Killer, Stopper, events, train_all, trained

import gnas.jobs
from gnas.errors import InputError
from gnas.jobs import Runner, on_ray, open_runner
from gnas.jobs.on_ray import RayTasks


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'gnas[cluster]'")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - else workers get nothing of a busy machine
    ray.init(address="local", num_cpus=3, num_gpus=1, include_dashboard=False, **quiet)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_is_replaced_and_results_arrive_at_a_url(tmp_path: Path, reference: Path) -> None:
    shared, here = tmp_path / "shared", tmp_path / "here"
    killer = Killer(here, seed=2, epoch=3)
    with Runner(here, RayTasks(gpus_per_job=0.5), sync=f"file://{shared}") as runner:  # Ray counts GPUs as it is told
        runner.push_seconds = 0.0
        with pytest.warns(UserWarning, match=r"WorkerCrashed.* try 2 of 4"):
            train_all(here, runner, on_epoch=killer)
    killer.check()
    assert len({e["about"]["pid"] for e in events(here) if e["event"] == "began"}) >= 3
    assert most_at_once(here) <= 2  # two halves of a GPU, though there are three cores
    assert trained(shared) == trained(here) == trained(reference)
    assert not [file for file in shared.rglob("*") if file.name.startswith(".") and file.name != ".lock"]
    assert not list(shared.glob("jobs/graphs-*"))


@pytest.mark.usefixtures("cluster")
def test_a_stopped_worker_is_replaced(tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself waits for it without end."""
    monkeypatch.setattr(on_ray, "SILENT_SECONDS", 8.0)
    stopper = Stopper(tmp_path)
    with Runner(tmp_path, RayTasks()) as runner, pytest.warns(UserWarning, match=r"no sign of life .* try 2 of 4"):
        train_all(tmp_path, runner, on_epoch=stopper)
    assert stopper.pid
    assert trained(tmp_path) == trained(reference)
    with pytest.raises(ProcessLookupError):
        os.kill(stopper.pid, 0)


@pytest.mark.usefixtures("cluster")
def test_the_pool_is_opened_by_its_name(tmp_path: Path) -> None:
    with open_runner(tmp_path, "ray") as runner:
        assert isinstance(runner.pool, RayTasks)


def most_at_once(folder: Path) -> int:
    """How many jobs were under way at the same time, at most."""
    steps = [{"began": 1}.get(e["event"], -1) for e in events(folder)]
    return max(itertools.accumulate(steps))


def test_without_ray_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gnas.jobs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"--on ray needs Ray; install it with: pip install 'gnas\[cluster\]'"):
        open_runner(tmp_path, "ray")
