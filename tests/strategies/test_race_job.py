"""A brief training of a race: it goes on from its checkpoint, ends within an epoch when time is over, and may fail."""

from pathlib import Path

import pytest
import torch
from small import benchmark

from gnas.arch.hand_made import HandMade
from gnas.jobs import Work
from gnas.model.network import GraphModule
from gnas.run.protocol import TrainConfig
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.race_job import race_job
from gnas.strategies.trial import TrialData
from gnas.training.engine import take_turns
from gnas.training.loop import Record
from gnas.training.sampling import open_store
from gnas.training.train import Trainer

CANDIDATE = RaceCandidate(HandMade("gcn", 2, 8), 0.01, channels=8)
CONFIG = TrainConfig(epochs=9, batch_size=6, schedule="restarts")


def run_job(folder: Path, begin: int, end: int, **changes: object) -> Record:
    data = benchmark()
    work = Work(folder.parent, folder / CANDIDATE.id, torch.device("cpu"), None, None)
    arguments = {
        "candidates": [CANDIDATE],
        "begins": [begin],
        "ends": [end],
        "cosines": [()],
        "data": TrialData(data.train, data.val),
        "task": data.task,
        "config": CONFIG,
        "seed": 41,
        "operations": None,
    }
    (outcome,) = race_job(work, **{**arguments, **changes})  # type: ignore[arg-type]
    return outcome


def without_times(outcome: Record) -> Record:
    return {name: value for name, value in outcome.items() if name not in ("seconds", "epochs")}


def test_two_parts_are_the_training_at_once(tmp_path: Path) -> None:
    first = run_job(tmp_path / "parts", 0, 3)
    second = run_job(tmp_path / "parts", 3, 9)
    whole = run_job(tmp_path / "whole", 0, 9)
    assert (first["epochs"], second["epochs"], whole["epochs"]) == (3, 6, 9)
    assert without_times(second) == without_times(whole)
    assert first["best_epoch"] <= 3


def test_a_job_that_runs_again_trains_nothing_twice(tmp_path: Path) -> None:
    first = run_job(tmp_path / "run", 0, 9)
    assert without_times(run_job(tmp_path / "run", 0, 9)) == without_times(first)


def test_a_failed_training_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = RaceCandidate.build

    def build_broken(self: RaceCandidate, *args: object) -> GraphModule:
        model = build(self, *args)  # type: ignore[arg-type]
        with torch.no_grad():
            next(model.parameters()).fill_(float("nan"))
        return model

    monkeypatch.setattr(RaceCandidate, "build", build_broken)
    outcome = run_job(tmp_path / "run", 0, 9)
    assert (outcome["val_metric"], outcome["epochs"]) == (None, 9)
    assert len(outcome["failed"].splitlines()) == 1


def test_a_job_without_time_ends_within_its_first_epoch(tmp_path: Path) -> None:
    outcome = run_job(tmp_path / "run", 0, 9, left=(0.0, 0.0))
    assert outcome["stopped"]
    assert outcome["epochs"] == 1


def test_a_training_that_is_late_ends_within_its_epoch() -> None:
    data, calls = benchmark(), []

    def is_late() -> bool:
        calls.append(1)
        return len(calls) == 5

    task = data.task
    torch.manual_seed(41)
    model = RaceCandidate(HandMade("gcn", 2, 8), 0.01, channels=8).build(task)
    config = TrainConfig(epochs=9, batch_size=6, epoch_steps=4)
    stores = {name: open_store(split, torch.device("cpu")) for name, split in data.splits().items()}
    trainer = Trainer(model, config, 41, torch.device("cpu"), stores)
    trainer.is_late = is_late
    steps = len(trainer.plan())
    take_turns([trainer.steps()])
    assert trainer.done
    assert len(trainer.history) == 1 + (5 - 1) // steps
    assert ("part" in trainer.history[-1]) == (5 % steps != 0)
    assert trainer.result().epochs == len(trainer.history)
