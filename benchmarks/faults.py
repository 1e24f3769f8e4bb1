"""What do faults cost? Jobs killed at random points, a full disk, a read-only one, two processes, a clock that jumps.

    python benchmarks/faults.py [--trials 10] [--minutes 60] [--seed 0] [--signals]

Each trial is a whole job, which is disturbed and started again until it is finished. Its result must equal that of an undisturbed
job, bit for bit, and work that was finished before a fault must not be lost. One row per fault and job is written to
results/faults.csv. ``--signals`` sends signals to old and new commands instead, and writes results/faults_signals.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from rows import RESULTS, append, today

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "helpers"))
from terminal import Nursery, fingerprint, nursery  # noqa: E402
from trials import (  # noqa: E402
    JOBS,
    MORE_JOBS,
    Job,
    Tally,
    Whole,
    clock_trial,
    full_trial,
    kill_trial,
    make_place,
    mounted,
    undisturbed,
)

NUMBERS = [one.name for one in fields(Tally) if one.name != "reasons"]
CHECKPOINTS = "/checkpoints/"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signals", action="store_true")
    options = parser.parse_args()
    rng, end = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    found: dict[tuple[str, str], Tally] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        nursery(Path(name) / "log") as one,
        nursery(Path(name) / "log-2") as two,
    ):
        place = make_place(Path(name) / "place", one)
        todo = planned_signals(place, one, rng, found) if options.signals else planned(place, one, two, rng, found)
        file = RESULTS / ("faults_signals.csv" if options.signals else "faults.csv")
        for round_ in range(options.trials):
            for number, trial in enumerate(todo):
                if time.monotonic() < end:
                    trial(f"trial-{round_}-{number}")
                    write(found, file)
    for (fault, job), tally in found.items():
        print(fault, job, tally)


def planned(
    place: Path, one: Nursery, two: Nursery, rng: random.Random, found: dict[tuple[str, str], Tally]
) -> list[Callable[[str], None]]:
    """One of each trial, to be called as often as requested."""
    todo: list[Callable[[str], None]] = []
    for name, job in JOBS.items():
        whole = undisturbed(place, one, job, f"whole-of-{name}")
        killed, full = (found.setdefault((fault, name), Tally()) for fault in ("killed", "full disk"))
        todo.append(lambda n, j=job, w=whole, t=killed: kill_trial(place, one, j, w, rng, n, t))
        todo.append(lambda n, j=job, w=whole, t=full: full_trial(place, one, j, w, rng, n, t))
        if name in ("search", "training", "depth search"):
            clock = found.setdefault(("clock jumps", name), Tally())
            todo.append(lambda n, j=job, w=whole, t=clock: clock_trial(place, one, j, w, rng, n, t))
    job, among = JOBS["training"], found.setdefault(("killed in a checkpoint", "training"), Tally())
    whole = undisturbed(place, one, job, "whole-of-checkpoints", CHECKPOINTS)
    todo.append(lambda n: kill_trial(place, one, job, whole, rng, n, among, CHECKPOINTS))
    shared = found.setdefault(("two processes", "search"), Tally())
    todo.append(lambda n: two_processes(place, one, two, rng, n, shared))
    small, fixed = (found.setdefault((fault, "search"), Tally()) for fault in ("small file system", "read-only"))
    todo.append(lambda n: small_disk(place, one, rng, n, small))
    todo.append(lambda n: read_only(place, one, rng, n, fixed))
    return todo


def planned_signals(
    place: Path, one: Nursery, rng: random.Random, found: dict[tuple[str, str], Tally]
) -> list[Callable[[str], None]]:
    """Signals at random moments of the old commands and the new ones, and kills of the new ones."""
    todo: list[Callable[[str], None]] = []
    for name, job in {**MORE_JOBS, "search": JOBS["search"], "training": JOBS["training"]}.items():
        whole = undisturbed(place, one, job, f"signals-of-{name}")
        if name in MORE_JOBS:
            killed, full = (found.setdefault((fault, name), Tally()) for fault in ("killed", "full disk"))
            todo.append(lambda n, j=job, w=whole, t=killed: kill_trial(place, one, j, w, rng, n, t, most=2))
            todo.append(lambda n, j=job, w=whole, t=full: full_trial(place, one, j, w, rng, n, t))
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGSTOP):
            tally = found.setdefault((number.name.replace("SIGSTOP", "SIGSTOP, SIGCONT"), name), Tally())
            todo.append(lambda n, j=job, w=whole, s=number, t=tally: signal_trial(place, one, j, w, rng, n, t, s))
    return todo


def signal_trial(
    place: Path,
    one: Nursery,
    job: Job,
    whole: Whole,
    rng: random.Random,
    name: str,
    tally: Tally,
    number: signal.Signals,
) -> None:
    """A signal at a random moment: the job ends as it would have, or is resumed to the same result."""
    started = time.monotonic()
    tally.trials += 1
    pid = one.start(*job.words(place, name), small=True)
    time.sleep(rng.uniform(0, 1.1 * whole.seconds))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        tally.faults += 1
        if number == signal.SIGSTOP:
            time.sleep(0.3)
            os.kill(pid, signal.SIGCONT)
    code = one.wait()
    if code != 0:
        # 130 and the bare signal are how a stopped command ends, 1 with one line if it was about to end anyway.
        tally.unclear += code not in (130, 1, -number) or any(
            word in one.said() for word in ("Traceback", "unexpected")
        )
        one.start(*job.again(place, name), small=True)
        code = one.wait()
        tally.went_on += code == 0
        tally.unclear += code != 0
        tally.reasons += one.said().strip().splitlines()[-2:] if code else []
    tally.different += code == 0 and job.result(place / name) != whole.result
    tally.seconds += time.monotonic() - started
    shutil.rmtree(place / name, ignore_errors=True)


def two_processes(place: Path, one: Nursery, two: Nursery, rng: random.Random, name: str, tally: Tally) -> None:
    """Two start within a second, the second with or without --resume or --force: one ends the job, the other says why not."""
    started = time.monotonic()
    words = JOBS["search"].words(place, name)
    one.start(*words)
    time.sleep(rng.uniform(0, 1))
    two.start(*words, *rng.choice(((), ("--resume",), ("--force",))))
    codes = one.wait(), two.wait()
    tally.trials, tally.faults = tally.trials + 1, tally.faults + 1
    said = [line for said in (one.said(), two.said()) for line in said.splitlines() if line.startswith("error: ")]
    refused = [line for line in said if "another process" in line or "already holds a run" in line]
    tally.said_why += len(refused)
    tally.unclear += sorted(codes) not in ([0, 2], [0, 0]) or len(said) != len(refused)
    tally.different += fingerprint(place / name) != fingerprint(place / "finished")
    tally.seconds += time.monotonic() - started
    tally.reasons += [*said, str(codes)]
    shutil.rmtree(place / name)


def small_disk(place: Path, one: Nursery, rng: random.Random, name: str, tally: Tally) -> None:
    """A file system too small for the run; made larger, the run is resumed."""
    started = time.monotonic()
    with mounted(place / name, f"{rng.randint(40, 400)}k") as remount:
        if remount is None:
            return
        words = JOBS["search"].words(place, f"{name}/run")
        one.start(*words)
        tally.trials += 1
        if one.wait() != 0:
            tally.faults += 1
            tally.unclear += "No space left on device; free some space" not in one.said()
        remount("size=20m")
        one.start(*words, "--resume")
        tally.went_on += one.wait() == 0
        tally.different += fingerprint(place / name / "run") != fingerprint(place / "finished")
    tally.seconds += time.monotonic() - started


def read_only(place: Path, one: Nursery, rng: random.Random, name: str, tally: Tally) -> None:
    """A run is killed, its file system becomes read-only and writable again."""
    started = time.monotonic()
    with mounted(place / name, "20m") as remount:
        if remount is None:
            return
        words = JOBS["search"].words(place, f"{name}/run")
        one.start(*words, die_at=rng.randint(8, 80))
        one.wait()
        remount("ro")
        tally.trials, tally.faults = tally.trials + 1, tally.faults + 1
        one.start(*words, "--resume")
        refused = one.wait() != 0 and "Read-only file system" in one.said()
        tally.said_why, tally.unclear = tally.said_why + refused, tally.unclear + (not refused)
        remount("rw")
        one.start(*words, "--resume")
        tally.went_on += one.wait() == 0
        tally.different += fingerprint(place / name / "run") != fingerprint(place / "finished")
    tally.seconds += time.monotonic() - started


def write(found: dict[tuple[str, str], Tally], file: Path) -> None:
    new = [
        {**today(), "fault": fault, "job": job, **{name: round(getattr(tally, name), 1) for name in NUMBERS}}
        for (fault, job), tally in found.items()
    ]
    file.unlink(missing_ok=True)
    append(file, list(new[0]), new)


if __name__ == "__main__":
    main()
