"""A comparison on equal terms: the same data, protocol and seeds for every network."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from gnas import distributed
from gnas.arch.architecture import Architecture
from gnas.arch.hand_made import HandMade
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.jobs import Job, Runner, Work
from gnas.model.build import build_network
from gnas.model.network import GraphModule
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.run.layout import PREDICTIONS, is_finished, seed_folder, training_folder
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.models import describe_model
from gnas.run.protocol import TrainConfig
from gnas.training.loop import Record
from gnas.training.prediction import predict_splits
from gnas.training.stages import show_progress, train_stages
from gnas.training.train import TrainResult, train_seeds


@dataclass(frozen=True)
class Candidate:
    """A network to compare: an architecture and its size, or a network of your own.

    Args:
        name: The name in the leaderboard and in the folder.
        architecture: What the network is; None for a network of your own.
        channels: The width, if the architecture does not fix it.
        dropout: The dropout rate.
        remark: What is not equal about it, if anything.
        lr: Its own learning rate; None: that of the protocol.
        readout: Its own read-out; None: that of the task.
        ends: The epochs after which its cosines end, of which the last is its last epoch; empty: those of the protocol.
        own: Builds a network of your own. It can be trained in this process only.
        own_depth: The depth of a network of your own, for the leaderboard.

    >>> from gnas.compare.networks import Candidate
    >>> Candidate("mine", genotype, channels=32).depth
    2
    """

    name: str
    architecture: Architecture | None = None
    channels: int = 64
    dropout: float = 0.0
    remark: str = ""
    own: Callable[[], GraphModule] | None = None
    own_depth: int = 0
    lr: float | None = None
    readout: str | None = None
    ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if (self.architecture is None) == (self.own is None):
            raise InputError(
                f"the candidate {self.name} needs an architecture or a function that builds it, one of both"
            )

    @property
    def found(self) -> bool:
        """Whether it is the result of a search and not made by hand."""
        return self.architecture is not None and self.architecture.kind != "baseline"

    @property
    def depth(self) -> int:
        return self.own_depth if self.architecture is None else self.architecture.depth()

    def build(self, task: Task) -> GraphModule:
        """The network, not trained."""
        if self.architecture is None:
            assert self.own is not None
            return self.own()
        task = task if self.readout is None else replace(task, readout=self.readout)
        return build_network(self.architecture, task, channels=self.channels, dropout=self.dropout)

    def protocol(self, config: TrainConfig) -> TrainConfig:
        """The protocol with its own learning rate and epochs."""
        config = config if self.lr is None else replace(config, lr=self.lr)
        return replace(config, epochs=self.ends[-1], ends=self.ends) if self.ends else config

    @property
    def title(self) -> str:
        """The network in words."""
        made = self.architecture
        if made is None:
            return "a network of your own"
        if isinstance(made, HandMade):
            width = f"channels {made.channels}" if made.channels else f"budget {made.budget}"
            return f"layers {made.num_layers}, {width}"
        return made.title if made.channels else f"{made.title}, channels {self.channels}, dropout {self.dropout}"

    def describe(self) -> Record:
        """The values that distinguish networks of the same name, for the settings of a training."""
        made = self.architecture
        if made is None:
            return {"kind": "own", "depth": self.own_depth}
        channels = made.channels or (self.channels if self.found else None)
        readout = {} if self.readout is None else {"readout": self.readout}
        return {"kind": made.kind, "id": made.id, "channels": channels, "dropout": self.dropout, **readout}


def compare(
    benchmark: Benchmark,
    candidates: Sequence[Candidate],
    config: TrainConfig,
    seeds: Sequence[int],
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    runner: Runner | None = None,
) -> Leaderboard:
    """Train the networks that are not trained yet, and rank all by the test metric.

    Each training is a run folder ``trained/NAME/seed-S``. A finished one with the same settings is not repeated, an
    unfinished one is resumed. The trainings are jobs: in this process the seeds of a network share one job, so that they
    share a GPU; workers get a job per seed.

    Args:
        benchmark: The data of all trainings.
        candidates: The networks.
        config: The training protocol.
        seeds: One training per seed and network.
        folder: The run folder of the comparison.
        device: Where to train.
        on_epoch: Gets a record per epoch, with the ``model`` and the ``seed``. Without it, a notebook shows the progress.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.
        runner: Workers with a root at or above ``folder``; by default this process.

    >>> entries = [make_baseline_candidate(name, benchmark, num_layers=4) for name in ("gcn", "gin")]  # doctest: +SKIP
    >>> compare(benchmark, entries, TrainConfig(), (41, 95), Path("runs/both"))  # doctest: +SKIP
    """
    _check_seeds(seeds)
    runner = runner or Runner(folder, device=device)
    trainings = [Training(benchmark, one, config, seed, folder) for one in candidates for seed in seeds]
    results = {(one.candidate.name, one.seed): one.read_result() for one in trainings}
    missing = [one for one in trainings if results[one.candidate.name, one.seed] is None]
    groups = [[one] for one in missing]
    if runner.in_process:
        groups = [list(group) for _, group in itertools.groupby(missing, lambda one: one.candidate.name)]
    jobs = [_make_job(group, runner) for group in groups]
    names = [one.name for one in candidates]
    with show_progress(
        on_epoch, lambda: train_stages(names, config.epochs, len(seeds)), benchmark.task.metric
    ) as on_epoch:
        for group, done in zip(groups, runner.results(jobs, on_epoch=on_epoch, should_stop=should_stop), strict=True):
            results |= {(one.candidate.name, one.seed): result for one, result in zip(group, done, strict=True)}
    rows = [make_row(one, [results[one.name, seed] or {} for seed in seeds]) for one in candidates]
    rows.sort(key=lambda row: row.mean, reverse=benchmark.task.higher_is_better)
    board = Leaderboard(benchmark.name, benchmark.task.metric, tuple(rows))
    distributed.from_first(lambda: board.save(folder))
    return board


def make_row(candidate: Candidate, results: Sequence[Record]) -> Row:
    """The candidate's row in the leaderboard."""
    name, depth, found, remark = candidate.name, candidate.depth, candidate.found, candidate.remark
    return Row.from_results(name, depth, results, found=found, remark=remark)


@dataclass(frozen=True)
class Training:
    """One candidate trained from one seed: a run folder and its settings."""

    benchmark: Benchmark
    candidate: Candidate
    config: TrainConfig
    seed: int
    root: Path

    @property
    def folder(self) -> Path:
        return training_folder(self.root, self.candidate.name, self.seed)

    def settings(self, saved: Record | None = None) -> Record:
        """What config.yaml holds. ``saved`` are settings to compare with: those of version 0.1 have the title only."""
        about = self.candidate.describe() if saved is None or "describe" not in saved else self.candidate.title
        return {
            "model": self.candidate.name,
            "architecture" if isinstance(about, dict) else "describe": about,
            **self.benchmark.identity,
            "seed": self.seed,
            "training": as_saved(self.candidate.protocol(self.config)),
        }

    def current_settings(self) -> Record:
        """The settings in the form that the folder has them in, if it holds a run."""
        try:
            return self.settings(Run(self.folder).config)
        except InputError:  # there is no run yet
            return self.settings()

    def read_result(self) -> Record | None:
        """The result, if this training is finished; an error if the folder holds one with other settings."""
        if not distributed.from_first(lambda: is_finished(self.folder)):
            return None
        with Run(self.folder, self.current_settings(), resume=True) as run:
            return run.read_training()


def _make_job(group: Sequence[Training], runner: Runner) -> Job:
    """A job for trainings of the same network. Those of one seed work in the folder of that seed."""
    first = group[0]
    own, *also = (runner.name_folder(one.folder) for one in group)
    arguments = {
        "benchmark": first.benchmark,
        "candidate": first.candidate,
        "config": first.config,
        "settings": [one.current_settings() for one in group],
    }
    labels = {"model": first.candidate.name}
    return Job("gnas.compare.networks.training_job", own, arguments, tuple(also), labels=labels)


def as_saved(config: TrainConfig) -> Record:
    """A protocol as it is read from a file: with lists, not tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}


def training_job(
    work: Work, *, benchmark: Benchmark, candidate: Candidate, config: TrainConfig, settings: Sequence[Record]
) -> list[Record]:
    """Train one network from one or several seeds; returns the stored result of each."""
    assert work.folder is not None
    with contextlib.ExitStack() as stack:
        folders = [seed_folder(work.folder.parent, one["seed"]) for one in settings]
        runs = [
            stack.enter_context(Run(folder, one, resume=True)) for folder, one in zip(folders, settings, strict=True)
        ]
        missing = [run for run in runs if run.read_training() is None]
        if missing:
            spread = train_seeds(
                lambda: candidate.build(benchmark.task),
                benchmark,
                candidate.protocol(config),
                [run.config["seed"] for run in missing],
                device=work.device,
                runs=missing,
                on_epoch=work.on_epoch,
                should_stop=work.should_stop,
            )
            for run, result in zip(missing, spread.results, strict=True):
                write_result(run, result, benchmark, work.device, config.batch_size)
        return [run.read_training() or {} for run in runs]


@distributed.by_first
def write_result(
    run: Run, result: TrainResult, benchmark: Benchmark, device: torch.device | str = "cpu", batch_size: int = 128
) -> None:
    """Write the selected weights, the description of their network and its predictions for validation and test.

    The result is written last: a run with a result is complete.
    """
    if result.network is not None:
        predictions = predict_splits(result.network, benchmark, device, batch_size)
        if predictions is not None:
            run.write_csv(PREDICTIONS, predictions)
        run.write_network(result.network.state_dict(), describe_model(result.network, benchmark))
    run.write_json("result", result.to_dict())


def _check_seeds(seeds: Sequence[int]) -> None:
    if not seeds:
        raise InputError("a comparison needs at least one seed")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"seeds {list(seeds)} name one of them twice")
