"""Every kind of fault once, on small commands; benchmarks/faults.py injects a thousand of them into all commands."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_kinds import FAULTS, OF_WORKERS, suffer
from terminal import Nursery, nursery
from trials import JOBS, Tally, Trial, computed, last_line, make_place, mounted, undisturbed, warming

SEED = int(os.environ.get("GNAS_FAULT_SEED", "0")) or random.randrange(1, 10**6)


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    folder = tmp_path_factory.mktemp("log")
    with nursery(folder / "log", warm=warming(folder / "warm")[:1]) as one:
        yield one


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, starter: Nursery) -> Path:
    return make_place(tmp_path_factory.mktemp("faults"), starter)


def suffered(place: Path, starter: Nursery, fault: str, job: str, among: str = "") -> Tally:
    """The tally of a trial, which is sound."""
    name, tally = f"{fault}-{job}-{among.strip('/')}".replace(" ", "-"), Tally()
    whole = undisturbed(place, starter, JOBS[job], f"whole-{name}", among)
    suffer(fault, Trial(place, starter, JOBS[job], whole, random.Random(SEED), name, tally, among))
    assert tally.sound, (SEED, fault, job, tally)
    return tally


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in OF_WORKERS])
def test_a_training_survives(place: Path, starter: Nursery, fault: str) -> None:
    assert suffered(place, starter, fault, "training").trials == 1


@pytest.mark.parametrize("fault", OF_WORKERS)
def test_a_comparison_survives_what_happens_to_its_workers(place: Path, starter: Nursery, fault: str) -> None:
    suffered(place, starter, fault, "comparison with workers")


# The search itself is killed in tests/cli/test_kill.py.
@pytest.mark.parametrize("job", ["depth search", "data preparation", "packing", "report", "export", "explanation"])
def test_a_killed_job_goes_on_to_the_same_end(place: Path, starter: Nursery, job: str) -> None:
    tally = suffered(place, starter, "KILL at a write", job)
    assert tally.faults == tally.went_on == 1


def test_killed_while_a_checkpoint_is_written(place: Path, starter: Nursery) -> None:
    assert undisturbed(place, starter, JOBS["training"], "counted", "/checkpoints/").writes >= 20
    assert suffered(place, starter, "KILL at a write", "training", "/checkpoints/").faults


def test_a_command_that_hangs_is_counted(place: Path, starter: Nursery) -> None:
    starter.start(*JOBS["training"].words(place, "killed"), die_at=60)
    assert starter.wait() == -signal.SIGKILL
    whole, tally = undisturbed(place, starter, JOBS["drawing"], "drawn"), Tally()
    trial = Trial(place, starter, JOBS["drawing"], whole, random.Random(SEED), "drawn", tally)
    starter.start("watch", place / "killed", "--until-finished", "--no-browser", "--quiet")
    trial.end(trial.wait(0.5), True, go_on=False)
    assert tally.hung == 1
    assert not tally.sound


def test_a_small_disk_that_fills_up(place: Path, starter: Nursery) -> None:
    """A real file system: too small at first, then larger."""
    whole = undisturbed(place, starter, JOBS["search"], "roomy")
    with mounted(place / "small", "100k") as remount:
        if remount is None:
            pytest.skip("mounting is not allowed here: the disk that fills up is simulated by the other tests")
        words = JOBS["search"].words(place, "small/run")
        starter.start(*words, pictures=False)
        assert starter.wait() == 1
        said = starter.said().strip().splitlines()[0]
        assert said.startswith(f"error: {place / 'small' / 'run'}")
        assert said.endswith("No space left on device; free some space, then continue with --resume")
        remount("size=20m")
        starter.start(*words, "--resume", pictures=False)
        assert starter.wait() == 0, starter.said()
        assert computed(place / "small" / "run") == whole.result


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
            said = last_line(starter.said())
            assert said.startswith("error: "), said
            assert "Read-only file system" in said, said
        assert sorted(str(path) for path in (place / "fixed").rglob("*")) == before
        starter.start("runs", "show", place / "fixed" / "run")  # looking is allowed
        assert starter.wait() == 0, starter.said()
        remount("rw")
        starter.start(*JOBS["search"].words(place, "fixed/run"), "--resume", pictures=False)
        assert starter.wait() == 0, starter.said()
        assert computed(place / "fixed" / "run") == computed(place / "finished")


@pytest.mark.parametrize("option", ["--resume", "--force", ""])
def test_a_second_process_refuses(place: Path, starter: Nursery, option: str) -> None:
    """While the first works and, without an option, while both are about to begin."""
    name, logs = f"shared{option}", (place / "log-1", place / "log-2")
    words = JOBS["search"].words(place, name)
    first = starter.start(*words, log=logs[0], pictures=False)
    while option and not (place / name / "config.yaml").exists():
        time.sleep(0.002)
    second = starter.start(*words, *([option] if option else []), log=logs[1], pictures=False)
    codes = (starter.wait(first), starter.wait(second))
    assert sorted(codes) == [0, 2], [log.read_text() for log in logs]
    said = logs[1 if codes[0] == 0 else 0].read_text().strip().splitlines()[0]
    assert said.startswith("error: ")
    assert "another process" in said or "already holds a run" in said, said
    assert computed(place / name) == computed(place / "finished")
