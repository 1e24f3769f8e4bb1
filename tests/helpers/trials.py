"""Jobs, and what must hold after each fault: nothing finished is lost, nothing hangs, a restart ends as if nothing had happened.

fault_kinds.py has the faults. The tests try each a few times, benchmarks/faults.py many times.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from terminal import HUNG, Nursery, write_graphs

from gnas.run import checkpoint
from gnas.tensors import read_digest

Words = list[object]
SMALL = ("--batch", "16", "--device", "cpu", "--quiet")
RUN = ("--channels", "4", "--epochs", "2", "--track", "none", *SMALL)
SEARCH = ("--preset", "fast", "--cells", "1", "--search-epochs", "3", "--baselines", "gcn", "--set", "nodes=1", *RUN)
DEADLINE = 240.0  # seconds; after them a command hangs
LEFT = 20.0  # seconds for the processes that a killed command leaves to end
# What a run computes. Everything else says when and how, or can be made of it again.
COMPUTED = ("genotype.yaml", "history.jsonl", "result.json", "leaderboard.json", "strategies.json", "split.csv")
COMPUTED += ("predictions.csv", "weights.safetensors", "data.json")


@dataclass(frozen=True)
class Job:
    """A command under ``place`` that writes into ``place / name``, how it goes on, and what it leaves when it is done."""

    words: Callable[[Path, str], Words]
    again: Callable[[Path, str], Words]
    result: Callable[[Path], Any]
    kept: str = "**/result.json"  # files that are written once
    workers: bool = False  # it has processes of its own
    resumes: bool = False  # it works in a run folder


@dataclass
class Tally:
    """What came of some trials."""

    trials: int = 0
    faults: int = 0  # that took effect
    unharmed: int = 0  # commands that ended with the right result nevertheless
    said_why: int = 0  # that ended with one clear line
    went_on: int = 0  # restarts that ended with the right result
    lost: int = 0
    different: int = 0
    unclear: int = 0
    hung: int = 0
    left: int = 0  # processes that did not end
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (self.lost or self.different or self.unclear or self.hung or self.left)


def make_place(folder: Path, starter: Nursery) -> Path:
    """Graphs to search on, a finished run to report on, and raw images to prepare."""
    folder.mkdir(exist_ok=True)
    write_graphs(folder / "rings", 20)
    write_graphs(folder / "more", 40)
    starter.start("search", folder / "rings", *SEARCH, "--out", folder / "finished", pictures=False)
    assert starter.wait() == 0, starter.said()
    images = folder / "raw" / "mnist"
    images.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", 40), ("t10k", 20)):
        pixels = rng.integers(0, 256, count * 784, dtype=np.uint8).tobytes()
        (images / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + pixels))
        (images / f"{name}-labels-idx1-ubyte").write_bytes(bytes(8) + bytes(n % 10 for n in range(count)))
    return folder


def warming(folder: Path) -> list[Words]:
    """Commands after which a process has imported what these jobs need."""
    folder.mkdir()
    write_graphs(folder / "rings", 20)
    run, rings = folder / "run", folder / "rings"
    race = [rings if word == "DATA" else word for word in _RACE]
    return [
        ["search", rings, *SEARCH, "--ensemble", "2", "--out", run],
        [*race, *RUN, "--out", folder / "race"],
        ["predict", run, rings, "-o", folder / "predicted.csv"],
        ["explain", run, rings, "--network", "gcn", "-o", folder / "row.csv"],
        ["evaluate", run, rings],
        ["export", run, "--out", folder / "exported"],
        ["draw", run],
        ["data", "pack", rings, "-o", folder / "graphs.safetensors"],
        ["runs", "list", folder],
        ["watch", run, "--until-finished", "--no-browser"],
    ]


# -- jobs ----------------------------------------------------------------------------------------------------------


def computed(folder: Path) -> dict[str, Any]:
    """Everything a run computed, without its clock."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        if file.name not in COMPUTED or "checkpoints" in file.parts:
            continue
        name = str(file.relative_to(folder))
        if file.name == "weights.safetensors":  # the file itself orders its header as it likes
            found[name] = {key: value.numpy().tobytes() for key, value in checkpoint.load(file).items()}
        elif file.suffix == ".jsonl":
            found[name] = [_timeless(json.loads(line)) for line in file.read_text().splitlines()]
        else:
            found[name] = _timeless(json.loads(file.read_text())) if file.suffix == ".json" else file.read_text()
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if "seconds" not in key}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def run_of(*words: object, data: str = "rings", workers: bool = False) -> Job:
    """A command that works in a run folder: ``words`` with ``DATA`` where its data is named."""

    def first(place: Path, name: str) -> Words:
        named = [place / data if word == "DATA" else place / "finished" if word == "RUN" else word for word in words]
        return [*named, "--out", place / name]

    def again(place: Path, name: str) -> Words:
        return [*first(place, name), "--resume"]

    return Job(first, again, computed, workers=workers, resumes=True)


def file_of(file: str, *words: object, force: bool = True, option: str = "-o", result: Any = None) -> Job:
    """A command that writes one file, or a folder, with a finished run as its input."""

    def first(place: Path, name: str) -> Words:
        (place / name).mkdir(exist_ok=True)
        inputs = {"RUN": place / "finished", "DATA": place / "rings"}
        named = [inputs.get(word, word) if isinstance(word, str) else word for word in words]
        return [*named, *([option, place / name / file] if option else []), *(["--force"] if force else []), "--quiet"]

    return Job(first, first, result or (lambda folder: (folder / file).read_bytes()), "nothing")


def _prepare(place: Path, name: str) -> Words:
    root = place / name
    if not (root / "mnist").exists():
        shutil.copytree(place / "raw", root, dirs_exist_ok=True)
    return ["data", "prepare", "mnist", "--data-root", root, "--workers", "1", "--quiet"]


def _draw(place: Path, name: str) -> Words:
    return ["data", "prepare", "pattern", "--data-root", place / name, "--seed", "3", "--quiet"]


def _report(place: Path, name: str) -> Words:
    if not (place / name / "config.yaml").exists():
        shutil.copytree(place / "finished", place / name, dirs_exist_ok=True)
    return ["report", place / name, "--quiet"]


def _read(*words: object) -> Job:
    """A command that writes nothing: the finished run must stay as it is."""

    def first(place: Path, name: str) -> Words:
        if not (place / name / "config.yaml").exists():
            shutil.copytree(place / "finished", place / name, dirs_exist_ok=True)
        return [place / name if word == "RUN" else place / "rings" if word == "DATA" else word for word in words]

    return Job(first, first, computed)


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


_RACE = (
    "search",
    "DATA",
    "--preset",
    "wide",
    "--cells",
    "1",
    "--set",
    "nodes=1",
    "--trials",
    "3",
    "--baselines",
    "gcn",
)
_FORMULA = ("--formula", "[sum(dense) | mean(sparse)]", "--cells", "1", "--seeds", "41,95")
_SIZES = ("--preset", "fast", "--cells", "1")
_STRATEGIES = ("--strategies", "random,single-level", "--seeds", "0", "--budget-epochs", "8", "--trial-epochs", "2")
_SEARCHES = ("--channels", "4", "--track", "none", "--derivations", "1", "--set", "nodes=1", *SMALL)

JOBS = {
    "search": run_of("search", "DATA", *SEARCH),
    "race": run_of(*_RACE, "--set", "search.supernets=0", *RUN),
    "ensemble": run_of("search", "DATA", *SEARCH, "--ensemble", "2"),
    "folds": run_of("search", "DATA", *SEARCH, "--folds", "2"),
    "training": run_of("train", "DATA", *_FORMULA, "--preset", "fast", *RUN, "--epochs", "3"),
    "comparison": run_of("compare", "DATA", "--baselines", "gcn,gin", *_SIZES, *RUN),
    "comparison of strategies": run_of("compare", "DATA", *_STRATEGIES, *_SIZES, *_SEARCHES),
    "depth search": run_of("depth", "DATA", "--preset", "fast", "--cells", "2", "--set", "nodes=1", *RUN),
    "search with workers": run_of("search", "DATA", *SEARCH, "--on", "local:2", workers=True),
    "comparison with workers": run_of(
        "compare", "DATA", "--baselines", "gcn,gin", *_SIZES, *RUN, "--on", "local:2", workers=True
    ),
    "data preparation": Job(_prepare, _prepare, _digest("mnist/mnist.safetensors"), "mnist/parts/*.safetensors"),
    "data generation": Job(_draw, _draw, _digest("pattern/pattern-seed3.safetensors"), "nothing"),
    "packing": file_of(
        "graphs.safetensors",
        "data",
        "pack",
        "DATA",
        force=False,
        result=lambda f: read_digest(f / "graphs.safetensors"),
    ),
    "prediction": file_of("predicted.csv", "predict", "RUN", "DATA"),
    "explanation": file_of("row.csv", "explain", "RUN", "DATA", "--row", "3"),
    "export": file_of("exported", "export", "RUN", option="--out", result=_exported),
    "drawing": file_of("cells.svg", "draw", "RUN"),
    "report": Job(_report, _report, _page, "**/result.json"),
    "evaluation": _read("evaluate", "RUN", "DATA", "--quiet"),
    "list of runs": _read("runs", "list", "RUN", "--quiet"),
    "watch": _read("watch", "RUN", "--until-finished", "--no-browser", "--quiet"),
}


# -- trials --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """An uninterrupted job: its result, its writes and calls, its processor time and time by the clock, what it stores."""

    result: Any
    writes: int
    calls: dict[str, int]
    processor: float
    seconds: float
    kept: frozenset[str]  # its finished parts that are still there at the end
    blocks: int  # of 4 KiB
    inodes: int


def undisturbed(place: Path, starter: Nursery, job: Job, name: str, among: str = "") -> Whole:
    words = job.words(place, name)
    before, began = used(place / name), time.monotonic()
    starter.start(
        *words, small=True, pictures=False, among=among, calls={"within": str(place)}, forked_workers=job.workers
    )
    assert starter.wait(seconds=DEADLINE) == 0, starter.said()
    counted, seconds, after = starter.counted(), time.monotonic() - began, used(place / name)
    result, kept = job.result(place / name), frozenset(finished_parts(place / name, job.kept))
    return Whole(
        result,
        *(counted["writes"], counted["calls"], counted["seconds"], seconds, kept),
        *(max(now - then, 1) for now, then in zip(after, before, strict=True)),
    )


def used(folder: Path) -> tuple[int, int]:
    """Blocks and inodes below a folder."""
    files = [path.lstat() for path in folder.rglob("*")]
    return sum(-(-one.st_size // 4096) for one in files), len(files)


@dataclass
class Trial:
    """A job that is disturbed once and then started again until it is finished."""

    place: Path
    starter: Nursery
    job: Job
    whole: Whole
    rng: random.Random
    name: str
    tally: Tally
    among: str = ""

    @property
    def folder(self) -> Path:
        return self.place / self.name

    def start(self, again: bool = False, words: tuple[str, ...] = (), **faults: Any) -> int:
        command = self.job.again if again else self.job.words
        faults = {"small": True, "pictures": False, "forked_workers": self.job.workers, "among": self.among, **faults}
        return self.starter.start(*command(self.place, self.name), *words, **faults)

    def wait_for_moment(self, pid: int) -> bool:
        """Wait for a random moment of the job; whether it has not ended by then."""
        if self.job.workers or self.whole.processor < 0.3 * self.whole.seconds / 4:  # it waits for others
            until = time.monotonic() + self.rng.uniform(0, self.whole.seconds)
            while time.monotonic() < until and is_alive(pid):
                time.sleep(0.005)
            return is_alive(pid)
        moment = self.rng.uniform(0, self.whole.processor)
        while is_alive(pid) and processor_time(pid) < moment:
            time.sleep(0.002)
        return is_alive(pid)

    def wait(self, seconds: float = DEADLINE) -> int:
        code = self.starter.wait(seconds=seconds)
        if self.job.workers or code == HUNG:
            self.tally.left += self.starter.left(LEFT)
        return code

    def end(self, code: int, effective: bool, *words: str, killed_by: tuple[int, ...] = (), go_on: bool = True) -> None:
        """Judge how the disturbed command ended, then finish the job."""
        self.tally.faults += effective
        kept = self.kept()
        if code == 0:
            self._compare("unharmed")
        elif code == HUNG:
            self.tally.hung += 1
            self._note("hung", self.starter.said()[-300:])
        elif -code not in killed_by or code > 0:
            self.judge_words(code, *words)
        if code != 0 and go_on:
            self.go_on(kept)

    def judge_words(self, code: int, *words: str, said: str | None = None) -> None:
        said = self.starter.said() if said is None else said
        clear = is_clear(said, *words) if code in (1, 2) else code == 130 and is_clear(said, begin="stopped")
        self.tally.said_why += clear
        self.tally.unclear += not clear
        self._note("said" if clear else f"UNCLEAR ({code})", said[-600:] if not clear else last_line(said))

    def go_on(self, kept: dict[str, str]) -> None:
        """Start the job again, undisturbed: it ends with the result, and what was finished is not made again."""
        self.start(again=True)
        code = self.wait()
        if code == HUNG:
            self.tally.hung += 1
            self._note("hung on --resume", self.starter.said()[-300:])
            return
        if code != 0 and "exists" not in last_line(self.starter.said()):  # a complete file is not overwritten
            self.tally.unclear += 1
            self._note(f"NOT RESUMED ({code})", self.starter.said()[-600:])
            return
        now = self.kept()
        missing = [file for file in kept if file not in now and file in self.whole.kept]
        lost = [file for file, digest in kept.items() if now.get(file, digest) != digest] + list(missing)
        self.tally.lost += len(lost)
        if lost:
            self._note("LOST", str(lost))
        self._compare("went_on")

    def kept(self) -> dict[str, str]:
        """The finished parts of the job, by content."""
        return finished_parts(self.folder, self.job.kept)

    def _compare(self, count: str) -> None:
        try:
            result = self.job.result(self.folder)
        except (OSError, ValueError) as error:
            result = f"{type(error).__name__}: {error}"
        same = result == self.whole.result
        setattr(self.tally, count, getattr(self.tally, count) + same)
        self.tally.different += not same
        if not same:
            self._note("DIFFERENT", describe_difference(self.whole.result, result) + self.starter.said()[-300:])

    def _note(self, what: str, text: str) -> None:
        self.tally.reasons.append(f"{what}: {text}")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def finished_parts(folder: Path, pattern: str) -> dict[str, str]:
    """The files of finished parts by name, with a digest of their content."""
    # A race keeps the leaders so far as trainings, and replaces them.
    files = [one for one in folder.glob(pattern) if not _says(one.with_name("config.yaml"), "so_far")]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _says(file: Path, word: str) -> bool:
    return file.is_file() and word in file.read_text()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processor_time(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return 0.0


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def last_line(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if line.strip() and not line.startswith("ended: ")]
    return lines[-1] if lines else ""


def is_clear(said: str, *words: str, begin: str = "error: ") -> bool:
    """The command ended with one line that begins with "error:", and without a traceback."""
    last = last_line(said)
    whole = last.startswith((begin, "error: ")) and "unexpected" not in last and "Traceback" not in said
    return whole and all(word in last for word in words)


def describe_difference(wanted: Any, found: Any) -> str:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted({*wanted, *found}, key=str):
            if wanted.get(key) != found.get(key):
                return f"{key}: {describe_difference(wanted.get(key), found.get(key))}"
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return next((describe_difference(a, b) for a, b in zip(wanted, found, strict=True) if a != b), "")
    return f"{str(wanted)[:150]!r} is now {str(found)[:300]!r} "


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
