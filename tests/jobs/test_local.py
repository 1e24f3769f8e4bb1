"""Jobs in processes of this machine: the same results, also when a worker or the driver is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from farm import SEEDS, Killer, count, events, train_all, trained

from gnas.errors import InputError
from gnas.jobs import JobsFailed, open_runner
from gnas.jobs.local import LocalProcesses, available_cores, share_gpus, worker_environment


def test_a_killed_worker_is_replaced_and_its_job_goes_on(tmp_path: Path, reference: Path) -> None:
    killer = Killer(tmp_path, seed=2, epoch=3)
    with open_runner(tmp_path, "local:2") as runner, pytest.warns(UserWarning, match=r"killed by SIGKILL.* try 2 of 4"):
        board = train_all(tmp_path, runner, on_epoch=killer)
    killer.check()
    assert len({e["about"]["pid"] for e in events(tmp_path) if e["event"] == "began"}) == 3  # two, and one in its place
    assert trained(tmp_path) == trained(reference)
    assert [row.name for row in board.rows] == [row.name for row in train_all(reference).rows]
    assert not list((tmp_path / "jobs").glob("graphs-*"))  # the copy of the data is gone


DRIVER = """
import sys
from pathlib import Path
from farm import train_all
from gnas.jobs import JobsFailed, open_runner
folder = Path(sys.argv[1])
with open_runner(folder, "local:2") as runner:
    train_all(folder, runner)
"""


def test_a_killed_driver_is_started_again_and_repeats_nothing(tmp_path: Path, reference: Path) -> None:
    helpers = Path(__file__).parents[1] / "helpers"
    environment = {**os.environ, "PYTHONPATH": str(helpers)}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], env=environment)
    until = time.monotonic() + 60
    while not count(tmp_path, "result"):
        assert driver.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    finished = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.glob("trained/*/*/result.json")}
    assert 1 <= len(finished) < 2 * len(SEEDS)
    with open_runner(tmp_path, "local:2") as runner:  # at once: the old workers may still be saving
        train_all(tmp_path, runner)
    began = count(tmp_path, "began")
    assert all(began[job] == 1 for job in finished)
    assert set(began) == set(trained(reference))
    assert trained(tmp_path) == trained(reference)
    for pid in {e["about"]["pid"] for e in events(tmp_path) if e["event"] == "began"}:
        assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_that_died_too_often_is_reported_and_the_others_are_finished(tmp_path: Path, reference: Path) -> None:
    killer = Killer(tmp_path, seed=1, epoch=3)
    with open_runner(tmp_path, "local:1") as runner:
        runner.retries = 0
        wanted = r"1 of 4 jobs failed, the others are saved: trained/gnas/seed-1: its worker died 1 times.*SIGKILL"
        with pytest.raises(JobsFailed, match=wanted):
            train_all(tmp_path, runner, on_epoch=killer)
        assert len(list(tmp_path.glob("trained/*/*/result.json"))) == 3
        train_all(tmp_path, runner, on_epoch=killer)
    assert killer.epochs().count(1) == 1
    assert trained(tmp_path) == trained(reference)


def test_cores_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert LocalProcesses(1).threads == available_cores()
    assert LocalProcesses(10 * available_cores()).threads == 1
    assert worker_environment(3, ())["OMP_NUM_THREADS"] == "3"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert LocalProcesses(1).threads == 1  # not more than was asked for
    assert worker_environment(3, ("1",))["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize(
    ("count", "each", "wanted"),
    [
        (3, None, [("a",), ("b",), ("a",)]),
        (4, 0.5, [("a",), ("a",), ("b",), ("b",)]),
        (8, 0.25, [("a",)] * 4 + [("b",)] * 4),
        (5, 0.3, [("a",)] * 3 + [("b",)] * 2),
        (2, 1, [("a",), ("b",)]),
        (1, 2, [("a", "b")]),
        (2, 0, [(), ()]),
    ],
)
def test_gpus_are_shared(count: int, each: float | None, wanted: list) -> None:
    assert share_gpus(count, each, ["a", "b"]) == wanted


def test_more_gpus_than_there_are_is_an_error() -> None:
    with pytest.raises(InputError, match=r"3 jobs at a time with 1 GPUs each need 3; this machine has 2 GPUs"):
        share_gpus(3, 1, ["a", "b"])
    with pytest.raises(InputError, match="need 1; this machine has 0 GPUs"):
        share_gpus(2, 0.5, [])


def test_workers_import_nothing_from_the_current_folder(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for name in ("yaml", "json", "numpy", "torch"):
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(place)
    with open_runner(tmp_path / "run", "local:1") as runner:
        train_all(tmp_path / "run", runner)
    assert not (tmp_path / "ran").exists()
    assert trained(tmp_path / "run") == trained(reference)
