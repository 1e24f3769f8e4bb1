"""The methods that pays.py compares: each gets one dataset, some seconds on one core, and returns figures of one network.

Validation selects everywhere; the test split is evaluated for what was selected. ``random`` and ``hand-made`` train networks to
the end, one after the other, until the time is over: each for a sixth of the time, at most 100 epochs. All train by the recipe of
the preset ``wide`` on the same input.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnas.arch.hand_made import HandMade
from gnas.data.benchmark import Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.errors import InputError, Interrupted
from gnas.run.leaderboard import Row
from gnas.run.settings import Settings
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.proposers import DROPOUTS, RATES, CandidateSpace
from gnas.strategies.single_level import SingleLevel, SingleLevelSearch
from gnas.training.meter import NotFinite
from gnas.training.sampling import open_store
from gnas.training.store import Store
from gnas.training.train import Trainer
from gnas.workflow import discover, train_config

WEIGHTS = 100_000  # of a network, at most
TRAININGS = 6  # the time of a training is this share of all
MEASURED = 0.01  # share of the time from which the speed of a network is known
LEFT_OUT = 20  # networks that are too slow for the rest of the time, until no more are looked for
SEARCH_SHARE = 0.4  # of the time that the single-level search has; the rest is for trainings of what it found
SEARCH_EPOCHS, SEARCH_RATE = 40, 0.01
LATE = 1.02  # a training that is still running after so many times the time is stopped, and its best epoch counts
ENSEMBLE = 5

Figures = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """What a method gets. The time counts from ``started``."""

    benchmark: Benchmark
    seconds: float
    seed: int
    started: float

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def settings(self) -> Settings:
        return Settings.resolve("wide")

    def problem(self, settings: Settings) -> SearchProblem:
        """The benchmark without its test split."""
        one, space = self.benchmark, settings.space
        return SearchProblem(one.train, one.val, one.task, space.search_space(), space.channels, space.cells)

    def space(self) -> CandidateSpace:
        """The space of the race."""
        settings, task = self.settings, self.benchmark.task
        return CandidateSpace(settings.space.search_space(), task, settings.space.cells, settings.training.lr, WEIGHTS)


def run_method(name: str, benchmark: Benchmark, seconds: float, seed: int) -> list[Figures]:
    """The rows of a method. Encodings are computed within its time."""
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ready = with_encodings(benchmark, Settings.resolve("wide").data.get("encodings"), None)
        rows = METHODS[name](Work(ready, seconds, seed, started))
    spent = time.monotonic() - started
    return [{"method": name, "metric": benchmark.task.metric, **row, "spent": spent} for row in rows]


# -- the race ---------------------------------------------------------------------------------------------------------


def race(work: Work) -> list[Figures]:
    """What ``gnas search DATA --time`` hands back, and the ensemble of what it trained."""
    changes = {
        "search": {"seed": work.seed, "max_seconds": work.seconds},
        "training": {"seeds": (41 + work.seed,), "ensemble": ENSEMBLE},
    }
    with tempfile.TemporaryDirectory(prefix="gnas-pays-") as folder:
        found = discover(work.benchmark, work.settings.changed(changes), Path(folder) / "run", started=work.started)
    history = found.search.history
    about = {"trainings": len({record["candidate_id"] for record in history}), "epochs": found.search.trained_epochs}
    higher = work.benchmark.task.higher_is_better
    single = [row for row in found.leaderboard.rows if not row.members]
    best = (max if higher else min)(single, key=lambda row: row.val)
    together = next(row for row in found.leaderboard.rows if row.members)
    return [
        {
            **_from_row(best),
            **about,
            "network": _describe_race(best, found.search.finalists),
            "history": [_shorten(record) for record in history],
        },
        {**_from_row(together), **about, "method": "race+ensemble", "network": f"{together.members} networks"},
    ]


def _shorten(record: Mapping[str, Any]) -> Figures:
    """A record of a race without its genotype."""
    names = (
        "candidate_id",
        "reached",
        "val_metric",
        "train_metric",
        "best_epoch",
        "num_weights",
        "own_seconds",
        "seconds",
    )
    raced = RaceCandidate.from_dict({**record["candidate"], "architecture": record["genotype"]})
    return {**{name: record.get(name) for name in names}, **raced.recipe(), "title": raced.title}


def _from_row(row: Row) -> Figures:
    return {"val": row.val, "test": row.mean, "weights": row.num_weights}


def _describe_race(best: Row, finalists: tuple[Mapping[str, Any], ...]) -> str:
    raced = [RaceCandidate.from_dict(one["candidate"]) for one in finalists]
    return next((one.title for one in raced if one.is_hand_made != best.found), best.name)


# -- whole trainings one after the other ---------------------------------------------------------------------------------


def random_search(work: Work) -> list[Figures]:
    """Random draws of the race's space."""
    space, rng = work.space(), np.random.default_rng(work.seed)
    return [train_in_turn(work, space, (space.sample(rng) for _ in count()), TRAININGS)]


def hand_made(work: Work) -> list[Figures]:
    """The hand-made networks in the order of the race, then the same with other rates, dropouts, depths and sizes."""
    space, rng = work.space(), np.random.default_rng(work.seed)

    def candidates() -> Iterator[RaceCandidate]:
        usual = space.hand_made()
        yield from usual
        for one in (usual[int(number)] for number in iter(lambda: rng.integers(len(usual)), -1)):
            assert isinstance(one.architecture, HandMade)
            chosen = {name: values[int(rng.integers(len(values)))] for name, values in space.choices().items()}
            depth = int(rng.choice(space.depths))
            yield replace(one, architecture=HandMade(one.architecture.name, depth), **chosen)

    return [train_in_turn(work, space, candidates(), TRAININGS)]


def single_level(work: Work) -> list[Figures]:
    """The gradient search in the space of the preset ``fast``, then trainings of what it found."""
    settings = Settings.resolve("fast")
    problem, space = work.problem(settings), work.space()
    limit = SEARCH_SHARE * work.seconds
    options = SingleLevel(1, batch_size=settings.training.batch_size, lr=SEARCH_RATE, alpha_lr=0.01)
    speed = time_epoch(SingleLevelSearch(options, problem, SearchContext(work.seed)), MEASURED * work.seconds)
    epochs = int(max(1, min(SEARCH_EPOCHS, (limit - work.elapsed()) / speed)))
    search = SingleLevelSearch(replace(options, epochs=epochs), problem, SearchContext(work.seed))
    genotype = search.search("single-level").genotype
    choices = product(DROPOUTS, sorted(RATES, key=lambda factor: factor != 1))
    usual = space.usual(genotype, "supernet")
    candidates = (replace(usual, lr=float(f"{space.lr * rate:.2g}"), dropout=dropout) for dropout, rate in choices)
    return [train_in_turn(work, space, candidates, len(RATES))]


def train_in_turn(work: Work, space: CandidateSpace, candidates: Iterator[RaceCandidate], trainings: int) -> Figures:
    """Train candidates to the end while there is time; the figures of the best one by validation.

    Each has the same share of the time and as many epochs as fit into it. One that would not end in time is left out.
    """
    splits = {name: open_store(graphs, torch.device("cpu")) for name, graphs in work.benchmark.splits().items()}
    sign = 1 if work.benchmark.task.higher_is_better else -1
    best: tuple[Trainer, RaceCandidate] | None = None
    history: list[Figures] = []
    left_out = 0
    for candidate in (fitted for one in candidates if (fitted := space.fit_width(one)) is not None):
        speed = time_epoch(make_trainer(work, candidate, splits, 1), MEASURED * work.seconds)
        left = work.seconds - work.elapsed()
        epochs = int(max(1, min(work.seconds / (trainings * speed), work.settings.training.epochs)))
        if (best is not None and epochs * speed > left) or left <= 0:
            left_out += 1
            if left_out == LEFT_OUT or left < work.seconds / trainings / 4:
                break
            continue
        begin = work.elapsed()
        trainer = make_trainer(work, candidate, splits, epochs, lambda: work.elapsed() > LATE * work.seconds)
        with contextlib.suppress(Interrupted, NotFinite):
            for _ in trainer.steps():
                pass
        if not trainer.best:
            continue
        history.append(_describe_training(candidate, trainer, work.elapsed() - begin))
        if best is None or sign * trainer.best_val > sign * best[0].best_val:
            best = trainer, candidate
    if best is None:
        raise InputError(f"no training of an epoch ended within {work.seconds:g} seconds")
    result = best[0].result()
    return {
        "val": result.val,
        "test": result.test,
        "weights": result.num_weights,
        "trainings": len(history),
        "epochs": sum(one["reached"] for one in history),
        "network": best[1].title,
        "history": history,
    }


def _describe_training(candidate: RaceCandidate, trainer: Trainer, seconds: float) -> Figures:
    figures = {"val_metric": trainer.best_val, "best_epoch": trainer.best_epoch, "reached": trainer.epoch}
    return {**figures, **candidate.recipe(), "title": candidate.title, "own_seconds": seconds}


def make_trainer(
    work: Work,
    candidate: RaceCandidate,
    splits: dict[str, Store],
    epochs: int,
    stop: Callable[[], bool] | None = None,
) -> Trainer:
    seed = 41 + work.seed
    torch.manual_seed(seed)
    config = replace(train_config(work.settings), epochs=epochs, lr=candidate.lr)
    model = candidate.build(work.benchmark.task)
    return Trainer(model, config, seed, torch.device("cpu"), dict(splits), should_stop=stop)


def time_epoch(loop: Trainer | SingleLevelSearch, limit: float) -> float:
    """Seconds of an epoch, from its first steps."""
    steps, done = loop.steps(), 0
    next(steps, None)  # the first one is slower
    begin = time.monotonic()
    while time.monotonic() - begin < limit and next(steps, steps) is None:
        done += 1
    return max(time.monotonic() - begin, 1e-6) / max(done, 1) * loop.meter.losses.numel()


METHODS: dict[str, Callable[[Work], list[Figures]]] = {
    "race": race,
    "random": random_search,
    "hand-made": hand_made,
    "single-level": single_level,
}
