"""What is stopped, removed or left over: a worker, the current folder, graphs of a killed command, odd run folders."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from farm import Stopper, train_all, trained
from folders import made_up_job
from terminal import TINY, gnas, write_graphs

from gnas.files import dump_config
from gnas.jobs import local, open_runner
from gnas.jobs.local import LocalProcesses
from gnas.jobs.storage import Storage
from gnas.run.layout import SHARED_GRAPHS


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    train_all(folder)
    return folder


def test_a_stopped_worker_is_replaced(tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command waited for it without end."""
    monkeypatch.setattr(local, "SILENT_SECONDS", 8.0)
    stopper = Stopper(tmp_path)
    with (
        open_runner(tmp_path, "local:1") as runner,
        pytest.warns(
            UserWarning, match=r"worker 1 gave no sign of life for \d+ seconds\); resuming from its checkpoint"
        ),
    ):
        train_all(tmp_path, runner, on_epoch=stopper)
    assert stopper.pid
    assert trained(tmp_path) == trained(reference)


@pytest.mark.parametrize("step", [1.0, 20.0])
def test_workers_are_not_blamed_if_the_command_itself_was_stopped(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """A command that has little of a busy machine looks seldom, and still notices a silent worker."""
    pool, clock = LocalProcesses(1), [1000.0]
    monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Worker:
        number, ready, silent, ended = 1, True, 0.0, ""

        def end(self, fault: str) -> None:
            self.ended = fault

    worker = Worker()
    pool._workers, pool._looked = {0: worker}, 1000.0  # type: ignore[dict-item]
    clock[0] = 5000.0  # asleep for an hour
    pool._end_silent()
    assert not worker.ended
    worker.silent = 0.0  # what it has sent meanwhile is read now
    while not worker.ended and clock[0] < 5300:
        clock[0] += step
        pool._end_silent()
    assert worker.ended == f"worker 1 gave no sign of life for {61 if step == 1 else 65} seconds"


def test_a_worker_that_is_stopped_while_it_starts_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that starts may be silent for long, as on a slow disk; the command waited as long for a stopped one."""
    monkeypatch.setattr(local, "SILENT_SECONDS", 0.5)
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(local, "start_command", lambda module: sleeping)
    pool = LocalProcesses(1)
    worker = pool._workers[0] = local._Worker(1, dict(os.environ))
    pool._selector.register(worker.output, selectors.EVENT_READ, 0)
    worker.key, said = 7, list[tuple[int, Any]]()
    for _ in range(4):
        pool.wait(0.2, lambda key, message: said.append((key, message)))
    assert not said
    os.kill(worker.process.pid, signal.SIGSTOP)
    until = time.monotonic() + 20
    while not said and time.monotonic() < until:
        pool.wait(0.2, lambda key, message: said.append((key, message)))
    ((key, message),) = said
    assert key == 7
    assert message.text.startswith("worker 1 gave no sign of life for ")
    pool.close()


def left_over(folder: Path) -> list[Path]:
    return [path for pattern in SHARED_GRAPHS for path in folder.rglob(pattern)]


def test_graphs_of_a_killed_command_are_removed(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/shared"
    words = ("search", write_graphs(tmp_path / "rings"), *TINY, "--sync", url, "--out", tmp_path / "run")
    assert gnas(*words).code == 0
    for place in (tmp_path / "run", tmp_path / "shared"):
        (place / "jobs").mkdir(exist_ok=True)
        (place / "jobs" / "graphs-0123456789abcdef.safetensors").write_bytes(b"left")
    (tmp_path / "run" / "jobs" / ".graphs.safetensors").write_bytes(b"left")
    assert gnas(*words, "--resume").code == 0
    assert left_over(tmp_path) == []


def test_graphs_are_removed_after_an_error(tmp_path: Path) -> None:
    runner = open_runner(tmp_path, "local:1", sync=f"file://{tmp_path}/shared")
    with pytest.raises(ZeroDivisionError), runner:
        train_all(tmp_path, runner, epochs=50, on_epoch=lambda record: 1 / 0)
    assert left_over(tmp_path) == []
    assert not Storage(f"file://{tmp_path}/shared").holds(".lease.json")


@pytest.mark.parametrize("words", [("runs", "list"), ("search", "cluster-mini"), ("doctor",), ("--version",)])
def test_a_deleted_current_folder_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Libraries ended the process."""
    (tmp_path / "gone").mkdir()
    code = (
        "import os, shutil, sys\nos.chdir(sys.argv[1])\nshutil.rmtree(sys.argv[1])\n"
        "from gnas.cli import app\napp(sys.argv[2:])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "gone"), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == "error: the current folder has been deleted; change to another one with cd\n"


# -- odd run folders in a list -----------------------------------------------------------------------------------------

ODD: list[Any] = [
    None,
    5,
    -1.5,
    "text",
    True,
    [],
    [1, "a"],
    {},
    {"a": {"b": []}},
    float("nan"),
    10**400,
    "\x1b[2J",
    "x" * 9999,
]


@pytest.mark.parametrize("file", ["config.yaml", "result.json", "leaderboard.json"])
@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_values_in_one_folder_do_not_break_the_list(tmp_path: Path, file: str, number: int) -> None:
    made_up_job(tmp_path / "sound")
    odd = ODD[number]
    for where in ("whole", "inside"):
        run = made_up_job(tmp_path / where)
        names = ("job", "dataset", "settings", "search", "depth", "metric", "test", "rows", "strategy", "seed", "mean")
        value = (
            odd
            if where == "whole"
            else {**dict.fromkeys(names, odd), "rows": [{**dict.fromkeys(names, odd), "found": odd}]}
        )
        text = dump_config({"a": value})[3:] if file == "config.yaml" else json.dumps(value)
        if file == "config.yaml" and where == "inside":
            text = dump_config(value)
        (run / file).write_text(text)
    for words in (("runs", "list", tmp_path), ("runs", "list", tmp_path, "--json")):
        ended = gnas(*words)
        assert ended.code == 0, (ended, odd)
        assert "sound" in ended.out
    for where in ("whole", "inside"):
        ended = gnas("runs", "show", tmp_path / where)
        assert ended.code in (0, 2), ended
        assert "unexpected" not in ended.err, ended.err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_folders_that_may_not_be_read_are_left_out(tmp_path: Path) -> None:
    made_up_job(tmp_path / "sound")
    (tmp_path / "secret").mkdir(mode=0)
    assert "sound" in gnas("runs", "list", tmp_path).out


def test_a_folder_that_vanishes_does_not_break_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "deep/c"):
        made_up_job(tmp_path / name)
    before = Path.is_dir

    def vanish(path: Path, **how: Any) -> bool:
        known = before(path, **how)
        if path.name in ("a", "deep"):
            shutil.rmtree(path, ignore_errors=True)
        return known

    monkeypatch.setattr(Path, "is_dir", vanish)
    listed = gnas("runs", "list", tmp_path, "--json")
    assert [Path(run["folder"]).name for run in listed.json["runs"]] == ["b"]
