"""Processes killed, disks full or read-only, two processes in one folder, a clock that jumps."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import Nursery, fingerprint, nursery
from trials import JOBS, Tally, clock_trial, full_trial, kill_trial, make_place, mounted, undisturbed

SEED = int(os.environ.get("GNAS_FAULT_SEED", "0")) or random.randrange(1, 10**6)


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with nursery(tmp_path_factory.mktemp("log") / "log") as one:
        yield one


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, starter: Nursery) -> Path:
    return make_place(tmp_path_factory.mktemp("faults"), starter)


# The search itself is killed in tests/cli/test_kill.py.
@pytest.mark.parametrize("name", [name for name in JOBS if name != "search"])
def test_a_killed_job_goes_on_to_the_same_end(place: Path, starter: Nursery, name: str) -> None:
    rng, tally, whole = random.Random(SEED), Tally(), undisturbed(place, starter, JOBS[name], f"whole-of-{name}")
    most = 2 if name in ("training", "depth search") else 1
    kill_trial(place, starter, JOBS[name], whole, rng, f"killed-{name}", tally, most=most)
    assert tally.sound, (SEED, tally)
    assert all("exists" in reason for reason in tally.reasons)  # it was killed after the file was there


def test_killed_while_a_checkpoint_is_written(place: Path, starter: Nursery) -> None:
    job, tally = JOBS["training"], Tally()
    whole = undisturbed(place, starter, job, "checkpoint-whole", "/checkpoints/")
    assert whole.writes >= 20  # two seeds, three epochs each, a flush and a rename counted twice
    kill_trial(place, starter, job, whole, random.Random(SEED), "killed-checkpoint", tally, "/checkpoints/", 3)
    assert tally.sound, (SEED, tally)
    assert tally.faults


@pytest.mark.parametrize("name", ["search", "data preparation"])
def test_a_full_disk_is_one_line_and_then_it_goes_on(place: Path, starter: Nursery, name: str) -> None:
    tally, whole = Tally(), undisturbed(place, starter, JOBS[name], f"roomy-{name}")
    full_trial(place, starter, JOBS[name], whole, random.Random(SEED), f"full-{name}", tally)
    assert tally.sound, (SEED, tally)
    assert tally.went_on == 1, tally.reasons


def test_a_clock_that_jumps_changes_nothing(place: Path, starter: Nursery) -> None:
    tally, whole = Tally(), undisturbed(place, starter, JOBS["training"], "steady")
    clock_trial(place, starter, JOBS["training"], whole, random.Random(SEED), "jumps", tally)
    assert tally.sound, (SEED, tally)
    assert tally.went_on == 1, tally.reasons


def test_a_small_disk_that_fills_up(place: Path, starter: Nursery) -> None:
    """A real file system: too small at first, then larger."""
    wanted = fingerprint(place / "finished")
    with mounted(place / "small", "200k") as remount:
        if remount is None:
            pytest.skip("mounting is not allowed here: the disk that fills up is simulated by the other tests")
        words = JOBS["search"].words(place, "small/run")
        starter.start(*words)
        assert starter.wait() == 1
        said = starter.said().strip().splitlines()[-2]
        assert said.startswith("error: ")
        assert said.endswith("No space left on device; free some space, then continue with --resume")
        remount("size=20m")
        starter.start(*words, "--resume")
        assert starter.wait() == 0, starter.said()
        assert fingerprint(place / "small" / "run") == wanted


def test_a_read_only_folder(place: Path, starter: Nursery) -> None:
    with mounted(place / "fixed", "20m") as remount:
        if remount is None:
            pytest.skip("mounting is not allowed here")
        starter.start(*JOBS["search"].words(place, "fixed/run"), die_at=40)
        starter.wait()
        before = sorted(str(path) for path in (place / "fixed").rglob("*"))
        remount("ro")
        for words in (
            (*JOBS["search"].words(place, "fixed/run"), "--resume"),
            JOBS["search"].words(place, "fixed/other"),
            ["data", "pack", place / "rings", "-o", place / "fixed" / "graphs.safetensors"],
            ["export", place / "finished", "--out", place / "fixed" / "exported"],
        ):
            starter.start(*words)
            assert starter.wait() in (1, 2), starter.said()
            said = starter.said().strip().splitlines()[-2]
            assert said.startswith("error: "), said
            assert "Read-only file system" in said, said
        assert sorted(str(path) for path in (place / "fixed").rglob("*")) == before
        starter.start("runs", "show", place / "fixed" / "run")  # looking is allowed
        assert starter.wait() == 0, starter.said()
        remount("rw")
        starter.start(*JOBS["search"].words(place, "fixed/run"), "--resume")
        assert starter.wait() == 0, starter.said()
        assert fingerprint(place / "fixed" / "run") == fingerprint(place / "finished")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """A second starter, ready."""
    with nursery(tmp_path_factory.mktemp("other") / "log") as one:
        one.start("--version")
        assert one.wait() == 0
        yield one


@pytest.mark.parametrize("option", ["--resume", "--force", ""])
def test_a_second_process_refuses(place: Path, starter: Nursery, other: Nursery, option: str) -> None:
    """While the first works and, without an option, while both are about to begin."""
    name = f"shared{option}"
    starter.start(*JOBS["search"].words(place, name))
    while option and not (place / name / "config.yaml").exists():
        time.sleep(0.002)
    other.start(*JOBS["search"].words(place, name), *([option] if option else []))
    codes = (starter.wait(), other.wait())
    assert sorted(codes) == [0, 2], (starter.said(), other.said())
    said = (other if codes[0] == 0 else starter).said().strip().splitlines()[-2]
    assert said.startswith("error: ")
    assert "another process" in said or "already holds a run" in said, said
    assert fingerprint(place / name) == fingerprint(place / "finished")
