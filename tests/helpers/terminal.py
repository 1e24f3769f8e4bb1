"""A terminal for tests: run a command here, or in a process of its own that can be killed; and tiny data to run it on."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gnas.cli import app
from gnas.report import axes

# A search of six epochs and trainings of three, a fraction of a second each.
TINY = (
    *("--preset", "fast", "--cells", "2", "--channels", "4", "--search-epochs", "6", "--epochs", "3"),
    *("--baselines", "gcn", "--set", "nodes=2", "--set", "search_batch=8", "--batch", "8", "--device", "cpu"),
)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def gnas(*words: object, typed: str | None = None) -> Ended:
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=typed, catch_exceptions=False)
    return Ended(result.exit_code, result.stdout, result.stderr)


def leave_out_plots(patch: pytest.MonkeyPatch) -> None:
    """Reports have empty plots: drawing takes most of a tiny run. tests/report and tests marked ``plots`` draw them."""
    patch.setattr(axes, "_svg", lambda *_, **__: '<svg viewBox="0 0 1 1"></svg>')


def one_line(ended: Ended, code: int, *words: str) -> None:
    """The command failed with this code and one line that says these words."""
    assert ended.code == code, ended
    line = ended.err.strip().splitlines()[-1]
    assert line.startswith("error: "), ended.err
    assert "Traceback" not in ended.err
    for word in words:
        assert word in line, line


def stopped_by_ctrl_c(words: list[str], history: Path, epochs: int = 2) -> str:
    """Run a command in a process of its own and send it Ctrl-C once its history has so many epochs; what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gnas", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    limit = time.monotonic() + 60
    while not history.exists() or history.read_text().count("\n") < epochs:
        if time.monotonic() > limit or process.poll() is not None:
            process.kill()
            raise AssertionError(f"no {epochs} epochs: {process.communicate()[1]}")
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    return said


def write_graphs(folder: Path, count: int = 40) -> Path:
    """Rings of 3 to 6 nodes as tables; the target is the share of the first of two kinds of nodes."""
    folder.mkdir()
    splits = ["train"] * 6 + ["val", "test"] * 2
    kinds = [[(g * 7 + n * n) % 3 for n in range(3 + g % 4)] for g in range(count)]
    rows = [(g, sum(k == 0 for k in kinds[g]) / len(kinds[g]), splits[g % len(splits)]) for g in range(count)]
    _write(folder / "graphs.csv", ("graph_id", "y", "split"), rows)
    _write(
        folder / "nodes.csv",
        ("graph_id", "node_id", "kind"),
        [(g, n, k) for g in range(count) for n, k in enumerate(kinds[g])],
    )
    ends = [(g, n, (n + 1) % len(kinds[g])) for g in range(count) for n in range(len(kinds[g]))]
    _write(folder / "edges.csv", ("graph_id", "source", "target"), ends + [(g, b, a) for g, a, b in ends])
    return folder


def write_molecules(file: Path, factor: float = 1.0) -> Path:
    """16 molecules with two targets, ``logP`` and ``tpsa``; ``factor`` changes the first."""
    smiles = [f"{'C' * (n // 4 + 1)}{'ONSF'[n % 4]}" for n in range(16)]
    file.parent.mkdir(exist_ok=True)
    _write(file, ("smiles", "logP", "tpsa"), [(text, factor * n, n * 7 % 16 / 3) for n, text in enumerate(smiles)])
    return file


def _write(path: Path, header: tuple[str, ...], rows: list[Any]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def fingerprint(folder: Path) -> dict[str, Any]:
    """Everything a run computed, without its clock and its files' layout."""
    found: dict[str, Any] = {"genotype": (folder / "genotype.yaml").read_text()}
    for file in sorted(folder.rglob("history.jsonl")):
        lines = file.read_text().splitlines()
        found[str(file.relative_to(folder))] = [_untimed(json.loads(line)) for line in lines]
    for name in ("result.json", "leaderboard.json"):
        found[name] = _untimed(json.loads((folder / name).read_text()))
    return found


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _untimed(item) for name, item in value.items() if not name.startswith("seconds")}
    return [_untimed(item) for item in value] if isinstance(value, list) else value


HUNG = 1000  # the exit code of a command that did not end in time
DEADLINE = 300.0  # seconds


class Nursery:
    """Starts commands in processes of their own that have everything imported already."""

    def __init__(self, log: Path, fresh: bool = False, warm: Sequence[Sequence[object]] = ()) -> None:
        self.log, self.pid = log, 0
        words = ["--fresh"] if fresh else []
        words += ["--warm", *("\t".join(map(str, command)) for command in warm)] if warm else []
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("nursery.py")), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Nothing is read from the cache of the user, or written there.
            env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(log.parent / "cache")},
        )

    def start(
        self,
        *words: object,
        log: Path | None = None,
        die_at: int = 0,
        full_at: int = 0,
        among: str = "",
        jumps: bool = False,
        small: bool = False,
        pictures: bool = True,
        calls: dict[str, Any] | None = None,
        limits: dict[str, int] | None = None,
        forked_workers: bool = False,
    ) -> int:
        """The process id of a command that runs now.

        It kills itself at its ``die_at``-th write (of a file with ``among`` in its path), or finds the disk full from its
        ``full_at``-th on; its clock ``jumps``; the paper's datasets are ``small``; reports have no ``pictures``; ``calls`` of
        the system fail; ``limits`` are low; workers are forks.
        """
        task = {
            "argv": [str(word) for word in words],
            "log": str(log or self.log),
            "die_at": die_at,
            "full_at": full_at,
        }
        task |= {"among": among, "jumps": jumps, "small": small, "pictures": pictures, "calls": calls or {}}
        task |= {"limits": limits or {}, "forked_workers": forked_workers}
        self.pid = self._ask(task)
        return self.pid

    def wait(self, pid: int | None = None, seconds: float = DEADLINE) -> int:
        """The exit code of a command, by default of the last one; minus the signal that killed it; ``HUNG``."""
        return self._ask({"wait": self.pid if pid is None else pid, "seconds": seconds})

    def left(self, seconds: float) -> int:
        """How many processes of commands that have ended are still there after so many seconds."""
        return self._ask({"left": seconds})

    def _ask(self, request: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def said(self) -> str:
        """What the last command printed, and at the end what it counted."""
        return self.log.read_text(errors="replace")

    def counted(self) -> dict[str, Any]:
        """What the last command counted, if it ended by itself: writes, calls, processor time."""
        found = re.findall(r"^ended: (.+)$", self.said(), re.MULTILINE)
        return dict(json.loads(found[-1])) if found else {}

    def writes(self) -> int:
        """How many writes the last command made, if it ended by itself."""
        return int(self.counted().get("writes", 0))


@contextmanager
def nursery(log: Path, fresh: bool = False, warm: Sequence[Sequence[object]] = ()) -> Iterator[Nursery]:
    """A nursery that is gone afterwards; ``fresh``: its processes were never forked, as a GPU wants it."""
    one = Nursery(log, fresh, warm)
    try:
        yield one
    finally:
        one.process.stdin.close()  # type: ignore[union-attr]
        one.process.wait(30)
