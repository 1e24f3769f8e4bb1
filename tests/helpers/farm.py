"""Trainings as jobs, and how to kill the worker of one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from small import GENOTYPE, benchmark
from tiny import untimed

from gnas.compare.networks import Candidate, compare
from gnas.jobs import Runner
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.protocol import TrainConfig
from gnas.workflow import make_baseline_candidate

BENCH = benchmark()
SEEDS = (1, 2)
EPOCHS = 30  # so many that a worker can be killed in between


def candidates() -> list[Candidate]:
    """A found network and a hand-made one."""
    return [Candidate("gnas", GENOTYPE, 8), make_baseline_candidate("mlp", BENCH, 1, 500)]


def train_all(folder: Path, runner: Runner | None = None, epochs: int = EPOCHS, **how: Any) -> Leaderboard:
    config = TrainConfig(epochs=epochs, batch_size=12, patience=1000)
    return compare(BENCH, candidates(), config, SEEDS, folder, runner=runner, **how)


def trained(folder: Path) -> dict[str, Any]:
    """Everything that does not tell the time, of every training."""
    found = {}
    for place in sorted(folder.glob("trained/*/seed-*")):
        run = Run(place)
        result = {name: value for name, value in run.read_json("result").items() if name != "seconds"}
        found[place.relative_to(folder).as_posix()] = (result, untimed(run.history()), run.config)
    assert len(found) == len(candidates()) * len(SEEDS)
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    """What the jobs' log tells."""
    file = folder / "jobs" / "log.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def count(folder: Path, event: str) -> dict[str, int]:
    """How often each job had this event."""
    found: dict[str, int] = {}
    for line in events(folder):
        if line["event"] == event:
            found[line["job"]] = found.get(line["job"], 0) + 1
    return found


class Killer:
    """Listens to epochs, and kills the worker of one job, once, when it has come to an epoch."""

    def __init__(self, folder: Path, seed: int, epoch: int, model: str = "gnas") -> None:
        self.folder, self.seed, self.epoch, self.model = folder, seed, epoch, model
        self.killed: int | None = None
        self.heard: list[dict[str, Any]] = []

    @property
    def job(self) -> str:
        return f"trained/{self.model}/seed-{self.seed}"

    def __call__(self, record: dict[str, Any]) -> None:
        self.heard.append(record)
        here = (record["model"], record["seed"]) == (self.model, self.seed)
        if here and record["epoch"] >= self.epoch and self.killed is None:
            self.killed = [e for e in events(self.folder) if e["event"] == "began" and e["job"] == self.job][-1][
                "about"
            ]["pid"]
            os.kill(self.killed, signal.SIGKILL)

    def epochs(self) -> list[int]:
        """The epochs heard of the job whose worker was killed."""
        return [r["epoch"] for r in self.heard if (r["model"], r["seed"]) == (self.model, self.seed)]

    def check(self) -> None:
        """It was killed once, went on from its checkpoint, and only that job was begun twice."""
        assert self.killed is not None
        began = count(self.folder, "began")
        assert count(self.folder, "died") == {self.job: 1}
        assert {job for job, times in began.items() if times > 1} == {self.job}
        assert began[self.job] == 2
        assert self.epochs().count(1) == 1  # not from the beginning
        assert self.epochs()[-1] == max(self.epochs())


class Stopper:
    """Stops the worker that began last, as SIGSTOP does, at the third epoch it hears of."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pid = folder, 0

    def __call__(self, record: dict[str, Any]) -> None:
        if not self.pid and record["epoch"] >= 3:
            self.pid = [e for e in events(self.folder) if e["event"] == "began"][-1]["about"]["pid"]
            os.kill(self.pid, signal.SIGSTOP)
