"""The finalists of a race as entries of a comparison, and their trainings in the run folder.

A race trains its candidates as a comparison would, so their trainings are taken over and not repeated. While it runs, the best
found network and the best hand-made one so far are kept as trained networks: whoever stops a race can use them.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.compare.networks import Candidate, Training, make_row
from gnas.data.benchmark import Benchmark
from gnas.errors import Interrupted
from gnas.run.checkpoint import explain_state
from gnas.run.folder import Run, copy_training
from gnas.run.layout import TRAINED, list_networks, list_trainings, search_folder
from gnas.run.leaderboard import Leaderboard
from gnas.run.models import describe_model
from gnas.run.protocol import TrainConfig
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.trials import TRIALS
from gnas.training.evaluation import evaluate
from gnas.training.loop import Record

SO_FAR = "so_far"  # a setting of trainings that a race has not finished: the epochs they have
PAUSE = 10.0  # seconds between two times that the leaders are kept, at least
SHARE = 0.02  # of the time, at most, goes into keeping them


@dataclass(frozen=True)
class Finalist:
    """A candidate of a race as an entry of a comparison, and the folder of its training in the race."""

    entry: Candidate
    key: str
    epochs: int
    val_metric: float

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Finalist:
        """Read one of ``SearchResult.finalists``."""
        raced = RaceCandidate.from_dict(record["candidate"])
        ends = tuple(map(int, record.get("training", {}).get("ends", ())))  # races of earlier versions have none
        entry = replace(as_entry(raced), ends=ends)
        return Finalist(entry, str(record["id"]), int(record["epochs"]), float(record["val_metric"]))

    def as_trained(self) -> Finalist:
        """The same, as a training that ends at the epoch it has reached, because the time was over."""
        ends = self.entry.ends
        if not ends or self.epochs >= ends[-1]:
            return self
        remark = f"{self.entry.remark}; stopped by the time limit after {self.epochs} of {ends[-1]} epochs"
        reached = tuple(end for end in ends if end < self.epochs)
        return replace(self, entry=replace(self.entry, ends=(*reached, self.epochs), remark=remark))


def as_entry(raced: RaceCandidate) -> Candidate:
    """A candidate of a race as an entry of a comparison; a hand-made one has its own name."""
    made = raced.architecture
    recipe = f"rate {raced.lr:g}, dropout {raced.dropout:g}" + (f", {raced.readout}" if raced.readout else "")
    return Candidate(made.name, made, raced.channels, raced.dropout, recipe, lr=raced.lr, readout=raced.readout or None)


def pick_finalists(records: Sequence[Mapping[str, Any]]) -> list[Finalist]:
    """The best found candidate and the best hand-made one. ``records`` are in order, the best first."""
    found: dict[bool, Finalist] = {}
    for record in records:
        one = Finalist.from_record(record)
        found.setdefault(one.entry.found, one)
    return list(found.values())


def find_best_hand_made(history: Sequence[Record], name: str, higher_is_better: bool) -> Candidate | None:
    """The best candidate of a race that is the hand-made network of this name."""
    known: list[tuple[float, Candidate]] = []
    for record in history:
        if record["val_metric"] is not None and record["depth"] and name in record["genotype"]:
            raced = RaceCandidate.from_dict({**record["candidate"], "architecture": record["genotype"]})
            if raced.is_hand_made and raced.architecture.name == name:
                known.append((record["val_metric"], as_entry(raced)))
    pick = max if higher_is_better else min
    return pick(known, key=lambda one: one[0])[1] if known else None


@distributed.by_first
def take_over(finalist: Finalist, training: Training, search: Path) -> None:
    """Make the training of a race the training of a comparison, unless that is there already.

    What is missing of it, the test metric at least, the comparison adds.
    """
    source, target = search / TRIALS / finalist.key, training.folder
    if target.is_dir() and SO_FAR not in Run(target).config:
        return
    if not source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        return
    copy_training(source, target, training.settings(), checkpoints=True)


class LeaderKeeper:
    """Keeps the leaders of a race as trained networks in a run folder, at most every few seconds.

    The test split is evaluated for the table only. The race does not see it.
    """

    def __init__(self, run: Run, benchmark: Benchmark, seed: int, device: torch.device | str) -> None:
        self.run, self.benchmark, self.seed, self.device = run, benchmark, seed, device
        self.latest: tuple[Sequence[Record], TrainConfig] | None = None
        self.kept: list[tuple[str, int]] = []
        self.due = 0.0

    def __call__(self, leaders: Sequence[Record], config: TrainConfig) -> None:
        self.latest = leaders, config
        begin = time.monotonic()
        if begin >= self.due:
            self.keep()
            now = time.monotonic()
            self.due = now + max(PAUSE, (now - begin) / SHARE)

    @distributed.by_first
    def keep(self) -> None:
        """Write the latest leaders, if they are not written yet."""
        if self.latest is None:
            return
        finalists, config = pick_finalists(self.latest[0]), self.latest[1]
        now = [(one.key, one.epochs) for one in finalists]
        if now == self.kept:
            return
        rows = [make_row(one.entry, [self._keep_one(one, config)]) for one in finalists]
        names = {one.entry.name for one in finalists}
        for name in list_networks(self.run.path):
            if name not in names:
                remove_so_far(self.run.path, name)
        best = next((one.entry.architecture for one in finalists if one.entry.found), None)
        if best is not None:
            self.run.write_genotype(best)
        task = self.benchmark.task
        rows.sort(key=lambda row: row.mean, reverse=task.higher_is_better)
        Leaderboard(self.benchmark.name, task.metric, tuple(rows)).save(self.run.path)
        self.kept = now

    @contextlib.contextmanager
    def kept_on_stop(self) -> Iterator[None]:
        """Inside, a search runs. If it is stopped, the latest leaders are written, and the error says that they can be used."""
        try:
            yield
        except Interrupted as error:
            self.keep()
            usable = "; the best networks so far can be used: gnas predict, gnas report" if self.kept else ""
            raise Interrupted(f"{error}{usable}") from None

    def _keep_one(self, one: Finalist, config: TrainConfig) -> Record:
        """Write the best weights so far of an unfinished training, and its figures; returns the figures."""
        training = Training(self.benchmark, one.entry, config, self.seed, self.run.path)
        raced = Run(search_folder(self.run.path) / TRIALS / one.key)
        state, history = raced.load_state(), raced.history()
        assert state is not None
        model = one.entry.build(self.benchmark.task).to(self.device)
        with explain_state(raced.path):
            model.load_state_dict(state["own"]["best"])
            batch, best = config.batch_size, state["own"]["numbers"]
        test = evaluate(model, self.benchmark.test, batch, self.device)
        result: Record = {
            "seed": self.seed,
            "test": test["metric"],
            "val": best[0],
            "train": history[best[1] - 1]["train_metric"],  # of its batches: to evaluate all graphs would take longer
            "test_per_batch": test["metric_per_batch"],
            "best_epoch": best[1],
            "epochs": one.epochs,
            "seconds": round(state["position"]["seconds"], 3),
            "num_weights": model.num_weights(),
            "metric": self.benchmark.task.metric,
        }
        with Run(training.folder, {**training.settings(), SO_FAR: one.epochs}, force=True) as run:
            run.write_network(model.cpu().state_dict(), describe_model(model, self.benchmark))
            run.write_json("result", result)
        return result


@distributed.by_first
def remove_so_far(folder: Path, name: str) -> None:
    """Remove the trainings of a network that a race has kept and that no longer lead."""
    for training in list_trainings(folder, name).values():
        if SO_FAR in Run(training).config:
            shutil.rmtree(training)
    place = folder / TRAINED / name
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
