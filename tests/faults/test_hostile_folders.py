"""A run folder from somebody else does not reach out of itself: no link is followed, no pipe or device is opened."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from folders import made_up_job
from terminal import Ended, gnas, one_line

from gnas.errors import InputError
from gnas.files import read_json, write_atomic
from gnas.run.folder import Run
from gnas.run.layout import list_networks, list_parts, remove_own

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_up_job(tmp_path / "runs" / "one")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder that belongs to nobody's run, with a run in it, too."""
    folder = tmp_path / "elsewhere"
    made_up_job(folder / "gcn" / "seed-41")
    (folder / "precious.txt").write_text("precious")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def linked(run: Path, name: str, target: Path) -> Path:
    place = run / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(target)
    return place


LINKS = ("trained", "search", "round-1", "round-1/trained", "trained/gcn", "checkpoints", "jobs", "strategies")
COMMANDS: dict[str, Callable[[Path], Ended]] = {
    "show": lambda run: gnas("runs", "show", run),
    "report": lambda run: gnas("report", run, "--force"),
    "predict": lambda run: gnas("predict", run, "cluster-mini", "-o", run.parent / "p.csv"),
    "resume": lambda run: gnas("search", "cluster-mini", "--out", run, "--resume"),
    "force": lambda run: gnas("depth", "cluster-mini", "--out", run, "--force"),
    "export": lambda run: gnas("export", run),
}


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("command", COMMANDS)
def test_links_to_folders_are_refused(run: Path, elsewhere: Path, name: str, command: str) -> None:
    place, before = linked(run, name, elsewhere), content(elsewhere)
    one_line(COMMANDS[command](run), 2, str(place), "a link in a run folder")
    assert content(elsewhere) == before


@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_deleted_through_a_link(run: Path, elsewhere: Path, name: str) -> None:
    linked(run, name, elsewhere)
    before = content(elsewhere)
    with pytest.raises(InputError, match="a link in a run folder"):
        Run(run, {"job": "search"}, force=True)
    assert all(elsewhere not in part.resolve().parents for part in list_parts(run))
    assert "gcn" not in list_networks(run) or name != "trained"
    assert gnas("runs", "delete", run, "--force").code == 0
    assert content(elsewhere) == before


def test_deletion_leaves_what_gnas_did_not_make(run: Path) -> None:
    for name in ("notes.txt", "round-table/plan.txt", "mine/config.yaml"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("mine")
    with Run(run, {"job": "search"}, force=True):
        pass
    assert (run / "mine" / "config.yaml").exists()
    ended = gnas("runs", "delete", run, "--force", "--json")
    assert {Path(path).name for path in ended.json["kept"]} == {"mine", "notes.txt", "round-table"}
    assert set(content(run)) == {"mine/config.yaml", "notes.txt", "round-table/plan.txt"}


def test_a_whole_run_is_deleted(run: Path) -> None:
    (run / ".lock").touch()
    (run / ".result.json.0123abcd").touch()
    gnas("draw", run)
    assert remove_own(run) == []
    assert not run.exists()


@pytest.mark.parametrize("name", [".lock", "history.jsonl"])
def test_a_linked_file_of_a_run_is_not_written(run: Path, tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    linked(run, name, precious)
    for options in ({"resume": True}, {"force": True}):
        with pytest.raises(InputError, match="a link in a run folder"):
            Run(run, {"job": "search"}, **options)
    assert precious.read_text() == "precious"


def test_a_lock_is_not_emptied(tmp_path: Path) -> None:
    """A hard link cannot be told from a file: the lock must not be opened for truncation."""
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (tmp_path / "run").mkdir()
    os.link(precious, tmp_path / "run" / ".lock")
    Run(tmp_path / "run", {"job": "search"}).close()
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("name", ["config.yaml", "result.json", "leaderboard.json", ".lock", "search/history.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device"])
def test_pipes_and_devices_are_not_opened(run: Path, name: str, kind: str) -> None:
    """``gnas runs list`` hung on a pipe and filled the memory from /dev/zero."""
    made_up_job(run.parent / "sound")
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    elif kind == "device" and os.geteuid() == 0:
        try:
            os.mknod(run / name, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero
        except OSError:
            pytest.skip("may not make devices")
    else:
        (run / name).symlink_to("/dev/zero")
    listed = gnas("runs", "list", run.parent, "--json").json["runs"]
    assert str(run.parent / "sound") in [one["folder"] for one in listed]
    for words in (("runs", "show", run), ("report", run, "--force"), ("search", "zinc", "--out", run, "--resume")):
        ended = gnas(*words)
        assert ended.code == 2, ended
        assert len(ended.err.strip().splitlines()) == 1


def test_a_pipe_is_no_json(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(InputError, match="not a regular file"):
        read_json(tmp_path / "a.json")


def test_the_folders_of_wandb_may_hold_links(run: Path, elsewhere: Path) -> None:
    linked(run, "wandb/latest-run", elsewhere)
    assert gnas("runs", "show", run).code == 0
    linked(run, "wandb", elsewhere)
    one_line(gnas("runs", "show", run), 2, "a link in a run folder")


def test_a_run_folder_may_itself_be_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").symlink_to(run.parent)
    assert gnas("runs", "show", tmp_path / "scratch" / "one").code == 0


@pytest.mark.parametrize("name", ["/dev/null", "/dev/stdout", "pipe"])
def test_devices_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("replaced"))
    with pytest.raises(InputError, match="does not replace; name a file"):
        write_atomic(name, "text")
    one_line(gnas("predict", "none", "none.csv", "-o", name, "--force"), 2, "a device or pipe")
