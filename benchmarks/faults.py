"""What do faults cost? Every command suffers signals, full disks, failing calls, low limits and removed folders.

    python benchmarks/faults.py [--each 40] [--minutes 60] [--seed 0] [--faults KILL ...] [--jobs race ...]

One process imports everything and forks each command, which works on tiny data. A trial disturbs a command once, at a random
moment or call, and then starts it again until it is finished. Its result must equal that of an undisturbed one, bit for bit;
work that was finished before the fault must not be lost; the command must end in time, with the right result or one clear
line, and leave no process. The next trial is always one of the fault that took effect least often, and of the job that
suffered it least often, until each fault took effect ``--each`` times. Counts are added to results/faults.csv, one row per
day, commit, fault and job; a run that was stopped goes on from them. A failure is printed.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import functools
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import fields
from pathlib import Path

from rows import RESULTS, append, today

HELPERS = Path(__file__).parents[1] / "tests" / "helpers"
sys.path.append(str(HELPERS))
from fault_kinds import FAULTS, fits, suffer  # noqa: E402
from terminal import nursery  # noqa: E402
from trials import JOBS, Tally, Trial, Whole, make_place, undisturbed, warming  # noqa: E402

OF_RAY, ON_RAY = ("KILL of a Ray worker", "STOP of a Ray worker", "KILL of a Ray node"), "comparison on Ray"
ORDER = ([*FAULTS, *OF_RAY], [*JOBS, ON_RAY])
NUMBERS = [one.name for one in fields(Tally) if one.name not in ("reasons", "seconds")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--each", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--jobs", nargs="*", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--file", type=Path, default=RESULTS / "faults.csv")
    parser.add_argument("--ray", type=int, default=0, metavar="N", help="only N faults of workers and nodes of Ray")
    parser.add_argument("--verbose", action="store_true", help="print what commands said, too")
    parser.add_argument("--table", action="store_true", help="only print the rows as the table of docs/reliability.md")
    options = parser.parse_args()
    if options.table:
        print_table(read_rows(options.file))
        return
    print("commit", read_commit(), flush=True)
    for number in (signal.SIGHUP, signal.SIGINT):  # nohup, and a shell that starts this in the background, ignore them
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if options.ray:
        suffer_on_ray(options)
        return
    rng, end = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    total: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as name,
        nursery(Path(name) / "log", warm=warming(Path(name) / "warm")) as starter,
    ):
        place = make_place(Path(name) / "place", starter)
        wholes = dict[str, Whole]()
        counts = {(fault, job): Counter[str]() for fault in options.faults for job in options.jobs if fits(fault, job)}
        for row in read_rows(options.file):
            if (row["fault"], row["job"]) in counts and row["date"] == today()["date"]:
                counts[row["fault"], row["job"]].update({name: int(row[name]) for name in NUMBERS})
        for number in itertools.count():
            pair = choose(counts, options.each, rng)
            if pair is None or time.monotonic() > end:
                break
            fault, job = pair
            if job not in wholes:
                wholes[job] = undisturbed(place, starter, JOBS[job], f"whole-{job.replace(' ', '-')}")
            tally = Tally()
            suffer(fault, Trial(place, starter, JOBS[job], wholes[job], rng, f"t{number}", tally))
            report(fault, job, tally, options.verbose)
            add_to_file(options.file, fault, job, tally)
            counts[pair].update(found := {name: getattr(tally, name) for name in NUMBERS})
            total.update(found)
    print(dict(total))


def choose(counts: dict[tuple[str, str], Counter[str]], each: int, rng: random.Random) -> tuple[str, str] | None:
    """The fault that took effect least often, and the job that suffered it least often; None if all have had enough."""
    totals: dict[str, Counter[str]] = {}
    for (fault, _), count in counts.items():
        totals.setdefault(fault, Counter()).update(count)
    # What does not take effect here, as a file system where one may not mount, is given up.
    left = [fault for fault, total in totals.items() if total["faults"] < each and total["trials"] < 8 * each]
    if not left:
        return None
    fault = min(left, key=lambda name: (totals[name]["faults"], rng.random()))
    # A job that hardly feels a fault, as one that needs no memory, is tried less often.
    tried = {pair: 4 * count["trials"] - 3 * count["faults"] for pair, count in counts.items() if pair[0] == fault}
    return min(tried, key=lambda pair: (tried[pair], rng.random()))


def read_rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.open())) if file.exists() else []


@functools.cache
def read_commit() -> str:
    """The commit of the code that is tried: that of the first call."""
    words = ["git", "-C", str(HELPERS), "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def suffer_on_ray(options: argparse.Namespace) -> None:
    """The same for a comparison on a Ray cluster of this machine, which is started once."""
    with tempfile.TemporaryDirectory() as name:
        words = [sys.executable, str(HELPERS / "ray_faults.py"), name, str(options.ray), str(options.seed)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HELPERS)}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        for line in filter(lambda line: line.startswith("{"), process.stdout):
            said = json.loads(line)
            tally = Tally(1, said["hit"], said["hit"] and said["same"] and not said["moved"])
            tally.went_on, tally.different = said["same"] and said["moved"] > 0, not said["same"]
            tally.reasons += [] if said["same"] else [f"DIFFERENT: {said['error']}"]
            tally.seconds = said["seconds"]
            report(said["fault"], ON_RAY, tally, options.verbose)
            add_to_file(options.file, said["fault"], ON_RAY, tally)
        if process.wait() != 0:
            raise SystemExit("the trials on Ray did not end well")


def print_table(rows: list[dict[str, str]]) -> None:
    """A line per fault, and how many faults each job suffered."""
    print(
        "| fault | commands | trials | faults | right result nevertheless | ended with one clear line | restarts with the same "
        "result | lost, different, unclear, hung, left |\n|---|---|---|---|---|---|---|---|"
    )
    for fault in (*ORDER[0], "all"):
        of = [row for row in rows if fault in (row["fault"], "all") and row["faults"] != "0"]
        counted = [row for row in rows if fault in (row["fault"], "all")]
        total = {name: sum(int(row[name]) for row in counted) for name in NUMBERS}
        bad = sum(total[name] for name in ("lost", "different", "unclear", "hung", "left"))
        good = (total[name] for name in ("trials", "faults", "unharmed", "said_why", "went_on"))
        words = [fault, len({row["job"] for row in of}), *good, bad]
        print("|", " | ".join(f"{word:,}" if isinstance(word, int) else word for word in words), "|")
    jobs = {job: sum(int(row["faults"]) for row in rows if row["job"] == job) for job in ORDER[1]}
    print(f"\nFaults by command: {', '.join(f'{job} {count}' for job, count in jobs.items())}.")


def report(fault: str, job: str, tally: Tally, verbose: bool) -> None:
    for reason in tally.reasons:
        if verbose or not reason.startswith("said"):
            print(f"{fault}, {job}: {reason}", flush=True)


def add_to_file(file: Path, fault: str, job: str, tally: Tally) -> None:
    """Add the counts of a trial to the row of today, its fault and its job. Several processes may share the file."""
    numbers = {**{name: getattr(tally, name) for name in NUMBERS}, "seconds": round(tally.seconds, 1)}
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = read_rows(file)
        key = {**today(), "commit": read_commit(), "fault": fault, "job": job}
        same = [row for row in rows if row | key == row]
        if not same:
            rows.append({**key, **dict.fromkeys(numbers, 0)})
        row = same[0] if same else rows[-1]
        row |= {
            name: round(float(row[name]) + value, 1 if name == "seconds" else None) for name, value in numbers.items()
        }
        rows.sort(key=lambda one: (one["date"], ORDER[0].index(one["fault"]), ORDER[1].index(one["job"])))
        new = file.with_suffix(".new")
        append(new, list(row), rows)
        new.replace(file)


if __name__ == "__main__":
    main()
