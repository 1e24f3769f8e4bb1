"""Shared places: temporary folders of living workers stay, and one command at a time works at a URL."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from farm import train_all
from terminal import TINY, gnas, one_line

from gnas import leases
from gnas.errors import InputError, RunError
from gnas.jobs import open_runner, perform
from gnas.jobs.storage import _CLAIMS, Storage
from gnas.leases import Holder, Owner, this_machine, this_process

GONE = 4_194_304  # no process has this number: it is above the largest that Linux gives


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def folder_of(scratch: Path, owner: str, age: float = 0.0) -> Path:
    folder = scratch / f"gnas-job-{owner}-abc_def1"
    (folder / "trained").mkdir(parents=True)
    for path in (folder / "trained", folder):
        os.utime(path, (time.time() - age,) * 2)
    return folder


def test_the_sweep_leaves_what_belongs_to_living_workers(scratch: Path) -> None:
    machine, week = this_machine(), perform.QUIET_SECONDS
    own = perform.make_folder()
    keep = [
        own,
        folder_of(scratch, f"0123456789abcdef-{GONE}-55"),  # another container or machine, where it may live
        folder_of(scratch, f"{GONE}"),  # of gnas 0.1, anywhere
        folder_of(scratch, f"{machine}-{os.getppid()}-0"),
        folder_of(scratch, f"{machine}-1-0", 2 * week),  # alive, however old
        folder_of(scratch, "files"),
    ]
    remove = [
        folder_of(scratch, f"{machine}-{GONE}-55"),
        folder_of(scratch, f"{machine}-{os.getpid()}-1"),  # its number is in use again
        folder_of(scratch, f"0123456789abcdef-{GONE}-56", 1.1 * week),
        folder_of(scratch, f"{GONE + 1}", 1.1 * week),
    ]
    perform.remove_old_folders()
    assert [path.name for path in keep if not path.exists()] == []
    assert [path.name for path in remove if path.exists()] == []


def test_the_sweep_follows_no_link(scratch: Path) -> None:
    (scratch / "precious").mkdir()
    (scratch / f"gnas-job-{this_machine()}-{GONE}-5-abc").symlink_to(scratch / "precious")
    perform.remove_old_folders()
    assert (scratch / "precious").exists()


HOLDS = """
import sys
from gnas.jobs.storage import _CLAIMS, Storage
Storage(sys.argv[1]).claim()
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/shared"


@pytest.fixture
def other(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of another process at the URL."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"holds\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_command_at_a_url_gets_one_line(url: str, other: subprocess.Popen[bytes], tmp_path: Path) -> None:
    for words in (("search", "cluster-mini", *TINY), ("reproduce", "--quick", "--only", "table-zinc")):
        ended = gnas(*words, "--sync", url, "--out", tmp_path / "here", "--force" if words[0] == "search" else "-q")
        one_line(ended, 2, url, f"process {other.pid} on", "is working here", "one command at a time")
        assert not (tmp_path / "here").exists()
    with pytest.raises(InputError, match="one command at a time"), open_runner(tmp_path / "here", sync=url):
        pass


def test_a_url_is_free_after_its_command_ended_or_was_killed(
    url: str, other: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    other.kill()
    other.wait()
    assert (tmp_path / "shared" / ".lease.json").exists()
    with open_runner(tmp_path / "here", sync=url) as runner:
        train_all(tmp_path / "here", runner, epochs=1)
        assert Storage(url).claim() is False  # this process has it
    assert not list(tmp_path.rglob("*lease*"))
    ended = gnas("search", "cluster-mini", *TINY, "--sync", f"{url}-2", "--out", tmp_path / "there")
    assert ended.code == 0, ended
    assert not list(tmp_path.rglob("*lease*"))


def test_a_lease_is_not_pulled(url: str, tmp_path: Path) -> None:
    storage = Storage(url)
    storage.claim()
    try:
        assert storage.pull("", tmp_path / "here") == 0
    finally:
        storage.release()


def test_who_was_stopped_for_long_sends_nothing_more(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT", 0.05)
    storage, file = Storage(url), tmp_path / "result.json"
    storage.claim()
    file.write_text("{}")
    elsewhere: Owner = replace(this_process(), machine="another", host="another")
    until = time.monotonic() + 20
    try:
        while not _CLAIMS[url].lost and time.monotonic() < until:
            storage.write(".lease.json", Holder(elsewhere, "0123").to_bytes())
            time.sleep(0.1)
        with pytest.raises(RunError, match="another process took over"):
            storage.push_file(file, "result.json")
    finally:
        storage.release()
