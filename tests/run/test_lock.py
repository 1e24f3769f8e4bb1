"""Run folders on a file system without ``flock``: a lock file with an owner and a heartbeat, and one warning."""

from __future__ import annotations

import errno
import fcntl
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from terminal import TINY, gnas, one_line

from gnas.errors import InputError, RunError
from gnas.paper import archive
from gnas.run import folder, layout
from gnas.run.folder import Locked, Run

ERRORS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@pytest.fixture(params=[*ERRORS, None], ids=lambda number: errno.errorcode.get(number, "no fcntl"))
def without_flock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(request.param, "refused")

    if request.param is None:
        monkeypatch.setattr(folder, "fcntl", None)
        monkeypatch.setattr(archive, "fcntl", None)
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:
        monkeypatch.setattr(fcntl, "flock", refuse)
    folder._warn_of_lease.cache_clear()


@pytest.mark.usefixtures("without_flock")
def test_runs_work_and_exclude_each_other(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"has no flock: run folders are locked by a file \.lease\.json") as said:
        run = Run(tmp_path / "one", {"job": "search"})
    assert layout.is_locked(run.path)
    assert layout.run_state(run.path) == "running"
    with pytest.raises(Locked, match=r"one: process \d+ on .* is working here"):
        Run(run.path, {"job": "search"}, resume=True)
    run.append({"epoch": 1})
    with run.release_lock():
        assert not layout.is_locked(run.path)
    run.close()
    assert not layout.is_locked(run.path)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        with Run(run.path, {"job": "search"}, resume=True) as again:
            assert again.history() == [{"epoch": 1}]


@pytest.mark.usefixtures("without_flock")
@pytest.mark.filterwarnings("ignore:.*no flock")
def test_a_lease_that_was_lost_ends_the_run(tmp_path: Path) -> None:
    with Run(tmp_path, {"job": "search"}) as run:
        run._lock.lost = True  # type: ignore[union-attr]
        for write in (lambda: run.append({}), lambda: run.save_state({}), lambda: run.write_json("result", {})):
            with pytest.raises(RuntimeError, match="another process took over"):
                write()


@pytest.mark.usefixtures("without_flock")
def test_a_search_runs_and_says_so_once(tmp_path: Path) -> None:
    ended = gnas("search", "cluster-mini", *TINY, "--out", tmp_path / "run")
    assert ended.code == 0, ended
    assert ended.err.count("no flock") == 1
    assert not list((tmp_path / "run").rglob("*lease*"))


@pytest.mark.usefixtures("without_flock")
def test_archives_are_locked_too(tmp_path: Path) -> None:
    with archive._locked(tmp_path):
        assert layout.is_locked(tmp_path)
    assert not list(tmp_path.iterdir())


def test_who_has_flock_respects_the_lease_of_who_has_not(tmp_path: Path) -> None:
    code = (
        "import errno, fcntl, sys\n"
        "def refuse(*_): raise OSError(errno.ENOLCK, 'no locks')\n"
        "fcntl.flock = refuse\n"
        "from gnas.run.folder import Run\n"
        "run = Run(sys.argv[1], {'job': 'search'})\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdin is not None
    try:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(InputError, match="another process is working in this run folder"):
            Run(tmp_path, {"job": "search"}, resume=True)
        one_line(gnas("runs", "delete", tmp_path, "--force"), 2, "a process is working in this run folder")
    finally:
        other.kill()  # it cannot remove its lease
        other.wait()
        other.stdin.close()
        other.stdout.close()
    assert (tmp_path / layout.LEASE).exists()
    Run(tmp_path, {"job": "search"}, resume=True).close()


# -- other errors, and folders that go ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_another_error_is_not_taken_for_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Too many open files looked like a locked folder."""
    Run(tmp_path / "run", {"job": "search"}).close()

    def fail(*_: Any) -> None:
        raise OSError(number, "too many, or broken")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="too many, or broken"):
        Run(tmp_path / "run", {"job": "search"}, resume=True)
    with pytest.raises(OSError, match="too many, or broken"):
        layout.is_locked(tmp_path / "run")


def write_something(run: Run, how: str) -> None:
    if how == "append":
        run.append({"epoch": 2})
    elif how == "save_state":
        run.save_state({"epoch": 2})
    elif how == "write_json":
        run.write_json("result", {})
    else:
        run.part("search", {})


@pytest.mark.parametrize("how", ["append", "save_state", "write_json", "part"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_folder_that_was_removed_does_not_come_back_in_parts(tmp_path: Path, how: str, moved: bool) -> None:
    """The run wrote the rest of its files and ended as if all were there."""
    with Run(tmp_path / "run", {"job": "search"}) as run:
        write_something(run, how)
        shutil.move(run.path, tmp_path / "elsewhere")
        if not moved:
            shutil.rmtree(tmp_path / "elsewhere")
        with pytest.raises(
            RunError, match="run: the folder was removed or replaced while this run worked in it; start"
        ):
            write_something(run, how)
        assert not run.path.exists()


def test_a_folder_that_another_run_has_taken_is_left_alone(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {"job": "search"}) as run:
        shutil.rmtree(run.path)
        with Run(tmp_path / "run", {"job": "search", "seed": 1}) as other:
            with pytest.raises(RunError, match="removed or replaced"):
                run.append({"epoch": 1})
            other.append({"epoch": 5})
            assert other.history() == [{"epoch": 5}]
