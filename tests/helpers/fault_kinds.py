"""The faults that a trial can suffer. Each is a function of a trial; what must hold afterwards is in trials.py."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial

from terminal import HUNG
from trials import DEADLINE, JOBS, Trial, children, is_alive, is_clear, last_line, mounted

Fault = Callable[[Trial], None]


def _send(pid: int, number: int, group: bool = False) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number) if group else os.kill(pid, number)


def _signal(trial: Trial, number: signal.Signals, group: bool = False) -> None:
    """A signal at a random moment, to the process or its group."""
    pid = trial.start()
    hit = trial.wait_for_moment(pid)
    _send(pid, number, group)
    trial.end(trial.wait(), hit, killed_by=(number,))


def _pause(trial: Trial) -> None:
    """SIGSTOP, and SIGCONT a moment later."""
    pid = trial.start()
    hit = trial.wait_for_moment(pid)
    _send(pid, signal.SIGSTOP, group=True)
    time.sleep(trial.rng.uniform(0.05, 0.3))
    _send(pid, signal.SIGCONT, group=True)
    trial.end(trial.wait(), hit)


def _at_write(trial: Trial) -> None:
    """KILL right before or after a flush or a rename."""
    if trial.whole.writes:
        trial.start(die_at=trial.rng.randint(1, trial.whole.writes))
        code = trial.wait()
        trial.end(code, code == -signal.SIGKILL, killed_by=(signal.SIGKILL,))


def _everything(trial: Trial) -> None:
    """KILL of a command and all its workers at once, as the end of a container does."""
    pid = trial.start()
    hit = trial.wait_for_moment(pid)
    for one in (pid, *children(pid)):
        _send(one, signal.SIGKILL)
    trial.end(trial.wait(), hit, killed_by=(signal.SIGKILL,))


def _worker(trial: Trial, number: signal.Signals) -> None:
    """A signal to a worker: another one does its job. A stopped one is replaced."""
    pid = trial.start()
    until, found = time.monotonic() + DEADLINE, list[int]()
    while not found and is_alive(pid) and time.monotonic() < until:
        found = children(pid)
        time.sleep(0.01)
    time.sleep(trial.rng.uniform(0, 0.8 * trial.whole.seconds))
    there = [one for one in children(pid) if is_alive(one)]
    if there:
        _send(trial.rng.choice(there), number)
    trial.end(trial.wait(), bool(there))


def _failing(trial: Trial, kind: str, error: int) -> None:
    """The n-th write, rename, flush or new file fails; alone, or with all that follow."""
    count = trial.whole.calls.get(kind, 0)
    if count:
        calls = {"within": str(trial.place), "kind": kind, "at": trial.rng.randint(1, count), "error": error}
        trial.start(calls={**calls, "once": trial.rng.random() < 0.5})
        code = trial.wait()
        trial.end(code, bool(trial.starter.counted().get("failed")) or code != 0)


def _limited(trial: Trial, name: str, low: float, high: float) -> None:
    """A limit of the system, drawn evenly on a logarithmic scale."""
    value = low * (high / low) ** trial.rng.random()
    trial.start(limits={name: int(value)})
    code = trial.wait()
    trial.end(code, code != 0)


def _clock(trial: Trial) -> None:
    """A clock set forth and back by days; half of the time with a kill."""
    trial.start(jumps=True, die_at=trial.rng.choice((0, trial.whole.writes // 2)))
    trial.end(trial.wait(), True, killed_by=(signal.SIGKILL,))
    for file in trial.folder.rglob("history.jsonl"):
        seconds = [json.loads(line).get("seconds", 0.0) for line in file.read_text().splitlines()]
        trial.tally.different += not (seconds == sorted(seconds) and all(0 <= one < 3600 for one in seconds))


def _full(trial: Trial, what: str) -> None:
    """A real file system with too little space, or too few inodes; made larger, the job goes on."""
    with mounted(trial.folder, "256m") as remount:
        if remount is None:
            return
        trial.job.words(trial.place, trial.name)  # copies what it reads
        share, about = trial.rng.uniform(0.03, 0.95), os.statvfs(trial.folder)
        blocks = about.f_blocks - about.f_bfree + int(share * trial.whole.blocks) + 1
        inodes = about.f_files - about.f_ffree + int(share * trial.whole.inodes) + 1
        remount(f"size={4 * blocks}k" if what == "size" else f"nr_inodes={inodes}")
        trial.start()
        code = trial.wait()
        full = "No space left" in trial.starter.said()
        remount("size=256m" if what == "size" else "nr_inodes=100000")
        trial.end(code, code != 0 or full, *(["No space left"] if code else []))


def _read_only(trial: Trial) -> None:
    """Killed; then its file system is read-only for a while."""
    with mounted(trial.folder, "256m") as remount:
        if remount is None:
            return
        trial.start(die_at=trial.rng.randint(1, max(trial.whole.writes, 1)))
        trial.wait()
        kept = trial.kept()
        remount("ro")
        trial.start(again=True)
        code = trial.wait()
        if code not in (0, HUNG):
            trial.judge_words(code)
        trial.tally.faults += 1
        trial.tally.hung += code == HUNG
        remount("rw")
        trial.go_on(kept)


def _removed(trial: Trial) -> None:
    """Somebody deletes the folder in which a command works; the command ends, and a new one starts over."""
    trial.job.words(trial.place, trial.name)
    pid = trial.start()
    if not trial.wait_for_moment(pid):
        trial.end(trial.wait(), False)
        return
    gone = trial.folder.with_name(f"{trial.name}-removed")
    with contextlib.suppress(OSError):
        trial.folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    code = trial.wait()
    if code == 0 and not trial.folder.exists():
        trial.tally.faults += 1  # it had finished, or had read all it needed, and has not made half a folder
        trial.tally.unharmed += 1
        return
    trial.end(code, True, go_on=False)
    trial.remove()
    if code != 0:
        trial.go_on({})


def _damaged(trial: Trial) -> None:
    """Killed; then the newest checkpoint is found cut off."""
    trial.start(die_at=trial.rng.randint(1, max(trial.whole.writes, 1)))
    trial.wait()
    files = sorted(trial.folder.rglob("checkpoints/*.safetensors"), key=lambda file: file.stat().st_mtime_ns)
    kept = trial.kept()
    if files:
        data = files[-1].read_bytes()
        files[-1].write_bytes(data[: trial.rng.randrange(len(data))])
    trial.tally.faults += bool(files)
    trial.go_on(kept)


EIGHT = 8


def _eight(trial: Trial) -> None:
    """Eight processes start in one folder: each ends with the result, or says that another one works there."""
    logs = [trial.place / f"{trial.name}-{number}.log" for number in range(EIGHT)]
    options: list[tuple[str, ...]] = [(), ("--resume",), ("--force",)] if trial.job.resumes else [()]
    started = []
    for log in logs:
        started.append(trial.start(words=trial.rng.choice(options), log=log))
        time.sleep(trial.rng.uniform(0, 0.15 * trial.whole.seconds))
    codes = [trial.starter.wait(pid, DEADLINE) for pid in started]
    trial.tally.faults += 1
    for code, log in zip(codes, logs, strict=True):
        said = log.read_text(errors="replace")
        trial.tally.hung += code == HUNG
        if code not in (0, HUNG):
            clear = code == 2 and is_clear(said)
            trial.tally.said_why += clear
            trial.tally.unclear += not clear
            trial.tally.reasons.append(f"{'said' if clear else 'UNCLEAR'}: {last_line(said)}")
        log.unlink()
    trial.starter.log.write_text("")
    if 0 in codes:
        trial._compare("unharmed")
    else:
        trial.tally.unclear += 1
        trial.tally.reasons.append(f"UNCLEAR: none of eight ended well: {codes}")


FAULTS: dict[str, Fault] = {
    "KILL": partial(_signal, number=signal.SIGKILL),
    "KILL at a write": _at_write,
    "TERM": partial(_signal, number=signal.SIGTERM),
    "HUP": partial(_signal, number=signal.SIGHUP),
    "INT": partial(_signal, number=signal.SIGINT),
    "STOP, CONT": _pause,
    "KILL of the process group": partial(_signal, number=signal.SIGKILL, group=True),
    "TERM of the process group": partial(_signal, number=signal.SIGTERM, group=True),
    "KILL of a command and its workers": _everything,
    "KILL of a worker": partial(_worker, number=signal.SIGKILL),
    "TERM of a worker": partial(_worker, number=signal.SIGTERM),
    "STOP of a worker": partial(_worker, number=signal.SIGSTOP),
    "full disk": partial(_full, what="size"),
    "no inodes": partial(_full, what="inodes"),
    "read-only file system": _read_only,
    "error on write": partial(_failing, kind="write", error=errno.EIO),
    "error on rename": partial(_failing, kind="rename", error=errno.EIO),
    "error on fsync": partial(_failing, kind="fsync", error=errno.EIO),
    "error on a new file": partial(_failing, kind="create", error=errno.EROFS),
    "limit on file size": partial(_limited, name="size", low=3000, high=60_000),
    "limit on open files": partial(_limited, name="files", low=1, high=8),
    "limit on memory": partial(_limited, name="memory", low=100, high=3_000),
    "clock jumps": _clock,
    "folder removed": _removed,
    "cut checkpoint": _damaged,
    "eight processes": _eight,
}
OF_WORKERS = ("KILL of a command and its workers", "KILL of a worker", "TERM of a worker", "STOP of a worker")
READERS = ("evaluation", "list of runs", "watch")


def fits(fault: str, name: str) -> bool:
    """Whether a fault means something for a job."""
    job = JOBS[name]
    if fault in OF_WORKERS:
        return job.workers
    if name in READERS:
        return fault in ("KILL", "TERM", "HUP", "INT", "STOP, CONT", "folder removed") or "limit" in fault
    if fault in ("full disk", "no inodes", "read-only file system"):
        # What two of them read lies there, too; a third one writes into the folder of the user then.
        return name not in ("data preparation", "report", "data generation")
    if fault == "folder removed":
        return name not in ("data preparation", "report")
    if fault == "eight processes":
        return not job.workers and name != "data preparation"
    return job.resumes or fault not in ("cut checkpoint", "clock jumps")


def suffer(fault: str, trial: Trial) -> None:
    """One trial of a fault."""
    began = time.monotonic()
    trial.tally.trials += 1
    FAULTS[fault](trial)
    trial.tally.seconds += time.monotonic() - began
    trial.remove()
