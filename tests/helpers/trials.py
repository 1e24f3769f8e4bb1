"""Jobs, faults, and what must hold after each: nothing finished is lost, a restart goes on to the same end or says why not.

The tests here try each a few times, benchmarks/faults.py many times.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from terminal import TINY, Nursery, fingerprint, write_graphs

from gnas.run import checkpoint
from gnas.tensors import read_digest

Words = list[object]
FORMULA = ("--formula", "[sum(dense) | mean(sparse)]", "--cells", "2", "--seeds", "41,95")
SIZES = ("--preset", "fast", "--channels", "4", "--epochs", "3", "--batch", "8", "--device", "cpu", "--track", "none")


@dataclass(frozen=True)
class Job:
    """A command under ``place`` that writes into ``place / name``, how it goes on, and what it leaves when it is done."""

    words: Callable[[Path, str], Words]
    again: Callable[[Path, str], Words]
    result: Callable[[Path], Any]
    kept: str = "**/result.json"  # files that are never written twice,
    until: str = ""  # nor removed before this one is there


@dataclass
class Tally:
    """What came of some trials."""

    trials: int = 0
    faults: int = 0
    went_on: int = 0
    said_why: int = 0
    lost: int = 0
    different: int = 0
    unclear: int = 0
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (self.lost or self.different or self.unclear)


def make_place(folder: Path, starter: Nursery) -> Path:
    """Graphs to search on, a finished run to report on, and raw images to prepare."""
    folder.mkdir(exist_ok=True)
    write_graphs(folder / "rings")
    starter.start("search", folder / "rings", *TINY, "--track", "none", "--out", folder / "finished")
    assert starter.wait() == 0, starter.said()
    images = folder / "raw" / "mnist"
    images.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", 80), ("t10k", 40)):
        pixels = rng.integers(0, 256, count * 784, dtype=np.uint8).tobytes()
        (images / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + pixels))
        (images / f"{name}-labels-idx1-ubyte").write_bytes(bytes(8) + bytes(n % 10 for n in range(count)))
    return folder


# -- jobs ----------------------------------------------------------------------------------------------------------


def _resumed(words: Callable[[Path, str], Words]) -> Callable[[Path, str], Words]:
    return lambda place, name: [*words(place, name), "--resume"]


def _search(place: Path, name: str) -> Words:
    return ["search", place / "rings", *TINY, "--track", "none", "--out", place / name]


def _train(place: Path, name: str) -> Words:
    return ["train", place / "rings", *FORMULA, *SIZES, "--out", place / name]


def _depth(place: Path, name: str) -> Words:
    sizes = (
        "--preset",
        "fast",
        "--channels",
        "4",
        "--epochs",
        "2",
        "--batch",
        "8",
        "--device",
        "cpu",
        "--track",
        "none",
    )
    return ["depth", place / "rings", *sizes, "--cells", "3", "--set", "nodes=2", "--out", place / name]


def _prepare(place: Path, name: str) -> Words:
    root = place / name
    if not (root / "mnist").exists():
        shutil.copytree(place / "raw", root)
    return ["data", "prepare", "mnist", "--data-root", root, "--workers", "1", "--quiet"]


def _draw(place: Path, name: str) -> Words:
    return ["data", "prepare", "pattern", "--data-root", place / name, "--seed", "3", "--quiet"]


def _pack(place: Path, name: str) -> Words:
    return ["data", "pack", place / "rings", "-o", place / name / "graphs.safetensors", "--quiet"]


def _report(place: Path, name: str) -> Words:
    if not (place / name).exists():
        shutil.copytree(place / "finished", place / name)
    return ["report", place / name, "--quiet"]


def _export(place: Path, name: str) -> Words:
    return ["export", place / "finished", "--out", place / name / "exported", "--quiet", "--force"]


def trained(folder: Path) -> dict[str, Any]:
    """What trainings computed, without their clock."""
    found = {}
    for file in sorted(folder.glob("trained/*/*/history.jsonl")):
        found[str(file.relative_to(folder))] = [_timeless(json.loads(line)) for line in file.read_text().splitlines()]
        weights = checkpoint.load(file.parent / "weights.safetensors")  # the file itself orders its header as it likes
        found[file.parent.name] = {name: value.numpy().tobytes() for name, value in weights.items()}
    return found


def _depth_result(folder: Path) -> Any:
    histories = [file.read_text().splitlines() for file in sorted(folder.glob("round-*/history.jsonl"))]
    return (folder / "genotype.yaml").read_text(), [[_timeless(json.loads(line)) for line in h] for h in histories]


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if not key.startswith("seconds")}


def _digest(pattern: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        (file,) = folder.glob(pattern)
        return read_digest(file)

    return read


def _page(folder: Path) -> Any:
    # Identifiers inside the pictures are derived from the run's name.
    return re.sub(r"\b[a-zA-Z][0-9a-f]{10}\b", "ID", (folder / "report.html").read_text().replace(folder.name, "RUN"))


def _exported(folder: Path) -> Any:
    return {file.name: file.read_bytes() for file in sorted((folder / "exported").iterdir())}


JOBS = {
    "search": Job(_search, _resumed(_search), fingerprint),
    "training": Job(_train, _resumed(_train), trained),
    "depth search": Job(_depth, _resumed(_depth), _depth_result),
    "data preparation": Job(
        _prepare, _prepare, _digest("mnist/mnist.safetensors"), "mnist/parts/*.safetensors", "mnist/mnist.safetensors"
    ),
    "data generation": Job(_draw, _draw, _digest("pattern/pattern-seed3.safetensors"), "nothing"),
    "packing": Job(_pack, _pack, _digest("graphs.safetensors"), "nothing"),
    "report": Job(_report, _report, _page, "**/result.json"),
    "export": Job(_export, _export, _exported, "nothing"),
}


def _race(place: Path, name: str) -> Words:
    sizes = (
        "--preset",
        "wide",
        "--channels",
        "4",
        "--epochs",
        "3",
        "--batch",
        "8",
        "--device",
        "cpu",
        "--track",
        "none",
    )
    return ["search", place / "rings", *sizes, "--trials", "4", "--baselines", "gcn", "--out", place / name]


def _ensemble(place: Path, name: str) -> Words:
    return [*_search(place, name), "--ensemble", "2"]


def _folds(place: Path, name: str) -> Words:
    return [*_search(place, name), "--folds", "2"]


def _explain(place: Path, name: str) -> Words:
    return [
        "explain",
        place / "finished",
        place / "rings",
        "--row",
        "3",
        "-o",
        place / name / "row.csv",
        "--quiet",
        "--force",
    ]


def _trainings(folder: Path) -> Any:
    """What every training below a folder computed."""
    found = {}
    for file in sorted(folder.rglob("trained/*/*/history.jsonl")):
        lines = file.read_text().splitlines()
        found[str(file.relative_to(folder))] = [_timeless(json.loads(line)) for line in lines]
    return found


# Newer commands; benchmarks/faults.py tries them.
MORE_JOBS = {
    "race": Job(_race, _resumed(_race), lambda folder: (folder / "genotype.yaml").read_text()),
    "ensemble": Job(_ensemble, _resumed(_ensemble), _trainings),
    "folds": Job(_folds, _resumed(_folds), _trainings),
    "explanation": Job(_explain, _explain, lambda folder: (folder / "row.csv").read_text(), "nothing"),
}


# -- trials --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """An uninterrupted job: its result, its writes, how long it took."""

    result: Any
    writes: int
    seconds: float


def undisturbed(place: Path, starter: Nursery, job: Job, name: str, among: str = "") -> Whole:
    started = time.monotonic()
    starter.start(*job.words(place, name), small=True, among=among)
    assert starter.wait() == 0, starter.said()
    return Whole(job.result(place / name), starter.writes(), time.monotonic() - started)


def kill_trial(
    place: Path,
    starter: Nursery,
    job: Job,
    whole: Whole,
    rng: random.Random,
    name: str,
    tally: Tally,
    among: str = "",
    most: int = 6,
) -> None:
    """Kill a job again and again, at a write or at a moment, until it ends; compare it with the undisturbed one."""
    started, kept, words, kills = time.monotonic(), dict[str, str](), job.words, 0
    tally.trials += 1
    while True:
        # Half of the kills at a write, half at a moment; most runs live through a part of the job, a few to its end.
        at_write = bool(among) or rng.random() < 0.5
        die_at = rng.randint(1, max(whole.writes, 1)) if at_write and kills < most else 0
        pid = starter.start(*words(place, name), die_at=die_at, small=True, among=among)
        if not at_write and kills < most:
            time.sleep(rng.uniform(0, 1.2 * whole.seconds))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = starter.wait()
        now = _kept(place / name, job.kept) if code != 0 else kept
        tally.lost += sum(kept.get(file) != digest for file, digest in now.items() if file in kept)
        if not (job.until and (place / name / job.until).exists()):
            tally.lost += sum(file not in now for file in kept)
        kept, words = now, job.again
        if code == 0:
            tally.went_on += bool(kills)
            tally.different += job.result(place / name) != whole.result
            break
        if code == -signal.SIGKILL:
            kills += 1
            continue
        tally.unclear += not _clear(starter.said())
        tally.reasons.append(starter.said().strip().splitlines()[-2][:200])
        tally.said_why += 1
        words = job.words
        shutil.rmtree(place / name, ignore_errors=True)
    tally.faults += kills
    tally.seconds += time.monotonic() - started
    shutil.rmtree(place / name, ignore_errors=True)


def full_trial(
    place: Path, starter: Nursery, job: Job, whole: Whole, rng: random.Random, name: str, tally: Tally
) -> None:
    """The disk is full from some write on: one line says so; with space again the job goes on to the same end."""
    started, kept = time.monotonic(), dict[str, str]()
    tally.trials += 1
    starter.start(*job.words(place, name), full_at=rng.randint(1, max(whole.writes, 1)), small=True)
    code = starter.wait()
    if code != 0:
        tally.faults += 1
        tally.unclear += not _clear(starter.said(), "No space left on device")
        kept = _kept(place / name, job.kept)
    _go_on(place, starter, job, whole, name, tally, kept)
    tally.seconds += time.monotonic() - started


def clock_trial(
    place: Path, starter: Nursery, job: Job, whole: Whole, rng: random.Random, name: str, tally: Tally
) -> None:
    """A clock set forth and back by days all the time changes nothing; durations stay as short as they are."""
    started = time.monotonic()
    tally.trials, tally.faults = tally.trials + 1, tally.faults + 1
    starter.start(*job.words(place, name), jumps=True, small=True, die_at=rng.choice((0, whole.writes // 2)))
    starter.wait()
    _go_on(place, starter, job, whole, name, tally, {}, remove=False, jumps=True)
    for file in (place / name).rglob("*.jsonl"):
        seconds = [json.loads(line).get("seconds", 0.0) for line in file.read_text().splitlines()]
        tally.different += not (seconds == sorted(seconds) and all(0 <= s < 3600 for s in seconds))
    shutil.rmtree(place / name, ignore_errors=True)
    tally.seconds += time.monotonic() - started


def _go_on(
    place: Path,
    starter: Nursery,
    job: Job,
    whole: Whole,
    name: str,
    tally: Tally,
    kept: dict[str, str],
    remove: bool = True,
    jumps: bool = False,
) -> None:
    starter.start(*job.again(place, name), small=True, jumps=jumps)
    if starter.wait() != 0:
        tally.said_why += 1
        tally.unclear += not _clear(starter.said())
        tally.reasons.append(starter.said().strip().splitlines()[-2][:200])
    else:
        tally.went_on += 1
        now = _kept(place / name, job.kept)
        tally.lost += sum(now.get(file, digest) != digest for file, digest in kept.items())
        tally.different += job.result(place / name) != whole.result
    if remove:
        shutil.rmtree(place / name, ignore_errors=True)


def _kept(folder: Path, pattern: str) -> dict[str, str]:
    """The finished parts of a job, by content."""
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob(pattern)}


def _clear(said: str, *words: str) -> bool:
    """The command ended with one line that begins with "error:", and without a traceback."""
    lines = [line for line in said.strip().splitlines() if not line.startswith("writes: ")]
    last = lines[-1] if lines else ""
    return (
        last.startswith("error: ")
        and "unexpected" not in last
        and "Traceback" not in said
        and all(w in last for w in words)
    )


# -- real file systems ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Callable[[str], None] | None]:
    """A file system of this size on ``folder``, and how to remount it with other options; None where one may not mount."""
    folder.mkdir(parents=True, exist_ok=True)

    def mount(options: str, *more: str) -> int:
        words = ["mount", *more, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(words, capture_output=True, check=False).returncode

    if shutil.which("mount") is None or mount(f"size={size}") != 0:
        yield None
        return
    try:
        yield lambda options: None if mount(f"remount,{options}") == 0 else _fail(options)
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def _fail(options: str) -> None:
    raise OSError(f"cannot remount with {options}")
