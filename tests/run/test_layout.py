"""Where things lie in a run folder, and what belongs to gnas there."""

import os
from pathlib import Path

import pytest

from gnas.run import layout
from gnas.run.folder import Run


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / layout.CONFIG).write_text("job: x\n")


def test_trainings_rounds_and_folds_are_listed_by_number(tmp_path: Path) -> None:
    make(tmp_path, "trained/gin/seed-41", "trained/gin/seed-5", "trained/gcn/seed--1", "round-2", "round-10", "fold-1")
    (tmp_path / "trained/gin/seed-7").mkdir()  # no run was started there
    (tmp_path / "round-x").mkdir()
    assert list(layout.list_trainings(tmp_path, "gin")) == [5, 41]
    assert list(layout.list_trainings(tmp_path, "gcn")) == [-1]
    assert list(layout.list_rounds(tmp_path)) == [2, 10]
    assert list(layout.list_folds(tmp_path)) == [1]
    assert layout.list_networks(tmp_path) == ["gcn", "gin"]
    assert layout.training_folder(tmp_path, "gin", 41) == layout.list_trainings(tmp_path, "gin")[41]
    parts = {str(path.relative_to(tmp_path)) for path in layout.list_parts(tmp_path)}
    assert parts == {
        "trained/gin/seed-41",
        "trained/gin/seed-5",
        "trained/gcn/seed--1",
        "round-2",
        "round-10",
        "fold-1",
    }


def test_links_out_of_a_run_folder_are_not_listed(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    make(other, "seed-1")
    make(run, "trained/gin/seed-2")
    (run / "trained/gin/seed-1").symlink_to(other / "seed-1")
    (run / "trained/gcn").symlink_to(other)
    assert list(layout.list_trainings(run, "gin")) == [2]
    assert layout.list_networks(run) == ["gin"]


def test_only_what_gnas_made_is_removed(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    make(run, "search", "trained/gin/seed-1", "round-3")
    make(other, "seed-1")
    (run / "mine.txt").write_text("a user's own")
    (run / "round-4").symlink_to(other)
    (run / ".result.json.abcdefgh").write_text("half a file")
    assert layout.remove_own(run) == [run / "mine.txt"]
    assert (other / "seed-1" / layout.CONFIG).is_file()
    (run / "mine.txt").unlink()
    assert layout.remove_own(run) == []
    assert not run.exists()


def test_the_state_of_a_run(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {}) as run:
        assert layout.run_state(run.path) == "running"
    assert layout.run_state(tmp_path / "run") == "stopped"
    (tmp_path / "run" / layout.RESULT).write_text("{}")
    assert layout.run_state(tmp_path / "run") == "finished"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_place_of_the_lock_does_not_hang(tmp_path: Path) -> None:
    make(tmp_path, "run")
    os.mkfifo(tmp_path / "run" / layout.LOCK)
    assert layout.run_state(tmp_path / "run") == "stopped"
