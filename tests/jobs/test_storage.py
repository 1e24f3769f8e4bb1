"""Run folders at a URL: whole files, results last, what is dropped here is dropped there, nothing outside is written."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from farm import train_all, trained
from tiny import SPACE, tiny, untimed

from gnas.errors import InputError, Interrupted, RunError
from gnas.jobs import open_runner
from gnas.jobs.storage import Storage, explain_errors
from gnas.run.folder import Run
from gnas.strategies import RandomSearch, SearchResult, search


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> str:
    """A URL that lives in this process, as object stores live elsewhere."""
    return f"memory://{request.node.name.replace('[', '-').replace(']', '')}"


def write_run(folder: Path) -> Run:
    run = Run(folder, {"job": "train"}, resume=True)
    for number in range(4):
        run.append({"epoch": number + 1})
        run.save_state({"number": number})
    run.write_json("result", {"test": 1.0})
    return run


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_run_comes_back_as_it_was(tmp_path: Path, memory: str, kind: str) -> None:
    url = memory if kind == "memory" else f"file://{tmp_path}/there"
    with write_run(tmp_path / "here") as run:
        assert Storage(url).push(run.path, "one") == 5  # settings, history, two checkpoints, result
        assert Storage(url).pull("one", tmp_path / "again") == 5
    with Run(tmp_path / "again", {"job": "train"}, resume=True) as again:
        assert again.history() == run.history()
        assert again.load_state() == {"number": 3}
        assert again.read_json("result") == {"test": 1.0}


def test_only_what_changed_is_sent_and_old_checkpoints_go(tmp_path: Path, memory: str) -> None:
    storage = Storage(memory)
    with write_run(tmp_path / "here") as run:
        storage.push(run.path, "one")
        assert storage.push(run.path, "one") == 0
        run.save_state({"number": 4})
        assert storage.push(run.path, "one") == 1
    names = sorted(Path(str(file)).name for file in storage.fs.find(f"{storage.path}/one/checkpoints"))
    assert names == ["checkpoint-000003.safetensors", "checkpoint-000004.safetensors"]


def test_what_was_pulled_is_not_sent_back_and_siblings_stay(tmp_path: Path, memory: str) -> None:
    storage = Storage(memory)
    for name in ("seed-1", "seed-10"):
        with write_run(tmp_path / "here" / name) as run:
            storage.push(run.path, name)
    elsewhere = Storage(memory)
    for name in ("seed-10", "seed-1"):
        elsewhere.pull(name, tmp_path / "there" / name)
    assert elsewhere.push(tmp_path / "there" / "seed-1", "seed-1") == 0  # names that begin alike are no part of it
    assert elsewhere.holds("seed-10/result.json")
    old = min((tmp_path / "there" / "seed-1" / "checkpoints").iterdir())
    old.unlink()
    elsewhere.push(tmp_path / "there" / "seed-1", "seed-1")
    assert not elsewhere.holds(f"seed-1/checkpoints/{old.name}")


def test_the_history_comes_before_a_checkpoint_and_the_result_last(tmp_path: Path, memory: str) -> None:
    storage, sent = Storage(memory), list[str]()
    rename = storage._rename
    storage._rename = lambda half, target: (sent.append(Path(target).name), rename(half, target))  # type: ignore[method-assign, func-returns-value]
    with write_run(tmp_path / "here") as run:
        storage.push(run.path, "one")
    assert [sent[0], sent[1], sent[-1]] == ["config.yaml", "history.jsonl", "result.json"]


def test_a_half_written_file_is_not_pulled(tmp_path: Path, memory: str) -> None:
    storage = Storage(memory)
    with write_run(tmp_path / "here") as run:
        storage.push(run.path, "one")
    storage.fs.pipe_file(f"{storage.path}/one/.part-123", b"half")
    assert storage.pull("one", tmp_path / "again") == 5
    assert not list((tmp_path / "again").glob(".part*"))


def test_what_was_half_sent_is_swept(tmp_path: Path, memory: str) -> None:
    storage = Storage(memory)
    with write_run(tmp_path / "here") as run:
        storage.push(run.path, "one")
    for half in ("one/.part-123", "one/deep/.part-4", "other/.part-5"):
        storage.fs.pipe_file(f"{storage.path}/{half}", b"half")
    storage.sweep("one")
    storage.sweep("not there")
    left = [name.rsplit("/", 1)[-1] for name in storage.fs.find(storage.path) if ".part-" in name]
    assert left == [".part-5"]  # a folder that somebody else works in
    assert storage.pull("one", tmp_path / "again") == 5


def test_a_name_that_leads_outside_is_refused(tmp_path: Path, memory: str) -> None:
    storage = Storage(memory)
    storage.fs.find = lambda path: [f"{storage.path}/one/../../outside"]
    storage.fs.pipe_file(f"{storage.path}/one/config.yaml", b"job: train")
    try:
        with pytest.raises(InputError, match="lies outside"):
            storage.pull("one", tmp_path / "again")
    finally:
        del storage.fs.find
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("url", ["nowhere", "xyz://bucket/run"])
def test_a_url_that_cannot_be_is_an_error(url: str) -> None:
    with pytest.raises(InputError, match=f"storage '{url}'"):
        Storage(url)


def test_a_run_that_lost_its_machine_goes_on_from_the_url(tmp_path: Path, memory: str, reference: Path) -> None:
    asked = iter(range(40))
    with open_runner(tmp_path / "first", "here", sync=memory) as runner, pytest.raises(Interrupted):
        train_all(tmp_path / "first", runner, should_stop=lambda: next(asked, None) is None)
    heard: list[dict] = []
    with open_runner(
        tmp_path / "second", "here", sync=memory
    ) as runner:  # a new machine: nothing of the first is there
        train_all(tmp_path / "second", runner, on_epoch=heard.append)
    assert trained(tmp_path / "second") == trained(reference)
    assert 1 not in [record["epoch"] for record in heard if (record["model"], record["seed"]) == ("gnas", 1)]


def test_trials_that_were_taken_note_of_are_not_repeated_elsewhere(tmp_path: Path, memory: str) -> None:
    strategy, how = RandomSearch(trials=4, epochs=1), {"channels": 4, "num_cells": 1}

    def run_in(root: Path, **more: Any) -> SearchResult:
        with open_runner(root, "here", sync=memory) as runner, Run(root / "search", {}, resume=True) as run:
            return search(tiny(), SPACE, strategy, run=run, runner=runner, **how, **more)  # type: ignore[arg-type]

    with Run(tmp_path / "alone", {}) as run:
        alone = search(tiny(), SPACE, strategy, run=run, **how)  # type: ignore[arg-type]
    heard: list[dict] = []
    with pytest.raises(Interrupted):
        run_in(tmp_path / "first", on_epoch=heard.append, should_stop=lambda: len(heard) == 2)
    shutil.rmtree(tmp_path / "first")  # the machine is gone; what was pushed while it worked is there
    Storage(memory).pull("", tmp_path / "second")
    again: list[dict] = []
    found = run_in(tmp_path / "second", on_epoch=again.append)
    assert untimed(found.history) == untimed(alone.history)
    assert [record["trial"] for record in again] == [3, 4]


# -- a real server -----------------------------------------------------------------------------------------------------


@pytest.fixture
def ftp(tmp_path: Path) -> Iterator[str]:
    """The URL of a folder of an FTP server, which closes idle connections soon."""
    pytest.importorskip("pyftpdlib", reason="pyftpdlib is not installed: pip install -e '.[dev]'")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import ThreadedFTPServer

    (tmp_path / "served").mkdir()
    users = DummyAuthorizer()
    users.add_user("user", "secret", str(tmp_path / "served"), perm="elradfmwMT")
    handler = type(
        "Handler",
        (FTPHandler,),
        {"authorizer": users, "timeout": 2, "auth_failed_timeout": 0, "log": lambda *_, **__: None},
    )
    server = ThreadedFTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"ftp://user:secret@127.0.0.1:{server.address[1]}/deep/run"
    server.close_all()
    thread.join(10)


def test_a_server_holds_a_run(tmp_path: Path, ftp: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file was removed as a folder, and a connection that the server had closed said that there is nothing."""
    monkeypatch.setattr("gnas.jobs.storage.IDLE_SECONDS", 0.5)
    storage = Storage(ftp)
    assert storage.claim()
    with write_run(tmp_path / "here" / "one") as run:
        assert storage.push(run.path, "one") == 5
        time.sleep(3)
        assert storage.holds("one/result.json")
        assert storage.push(run.path, "one") == 0
        assert Storage(ftp).pull("one", tmp_path / "again") == 5
    with Run(tmp_path / "again", {"job": "train"}, resume=True) as again:
        assert again.load_state() == {"number": 3}
    storage.release()
    assert not storage.holds(".lease.json")
    storage.remove("one/result.json")
    assert storage.holds("one/config.yaml")
    assert not storage.holds("one/result.json")
    storage.remove("one")
    assert list((tmp_path / "served" / "deep" / "run").iterdir()) == []


def test_many_make_the_same_folders_of_a_server(tmp_path: Path, ftp: str) -> None:
    """FTP answers with an error if somebody else has made a folder in between."""
    storages = [Storage(ftp) for _ in range(4)]
    for number in range(5):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda one, n=number: one.write(f"a/{n}/b/{id(one)}", b"x"), storages))
    assert sum(file.is_file() for file in (tmp_path / "served").rglob("*")) == 20


def test_what_a_server_refuses_is_one_line(ftp: str) -> None:
    with pytest.raises(InputError, match=r"storage 'ftp://.*530 Authentication failed"):
        Storage(ftp.replace("secret", "guess"))
    storage = Storage(ftp)
    with pytest.raises(RunError, match=r"storage ftp://.*error_perm: 5\d\d"):
        explain_errors(lambda self: self.fs.ftp.sendcmd("SITE CHMOD 777 nothing"))(storage)
