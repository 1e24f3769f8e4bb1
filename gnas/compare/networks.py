"""A comparison on equal terms: the same data, protocol and seeds for every network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gnas import distributed
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError, located
from gnas.jobs import Job, Runner, Work, unpack
from gnas.model.network import GraphModule
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.run.layout import WEIGHTS, training_folder
from gnas.run.leaderboard import Leaderboard, Row
from gnas.run.models import build_model, describe_model
from gnas.run.protocol import TrainConfig
from gnas.training.loop import Record, labelled
from gnas.training.train import TrainResult, train, train_seeds

TRAINED = ("test", "val", "num_weights", "seconds", "epochs")  # of a finished training's result


@dataclass(frozen=True)
class Candidate:
    """A network to compare: how to build it, its depth, and what is not equal about it, if anything."""

    name: str
    build: Callable[[], GraphModule]
    depth: int
    found: bool = False
    remark: str = ""
    describe: str = ""  # distinguishes settings of the same name, such as the genotype's id and width


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
    """Train what is missing, collect what is there, rank by the test metric.

    Each training is a run folder ``trained/NAME/seed-S``; a finished one with the same settings is not repeated, an
    unfinished one goes on. With a ``runner`` each is a job on its workers; ``folder`` lies below the runner's root.
    """
    if runner is not None:
        _check(seeds)
        jobs = [job for candidate in candidates for job in _jobs(benchmark, candidate, config, seeds, folder, runner)]
        runner.all(jobs, on_epoch=on_epoch, should_stop=should_stop)
    rows = []
    for candidate in candidates:
        results = train_candidate(
            benchmark, candidate, config, seeds, folder, device=device, on_epoch=on_epoch, should_stop=should_stop
        )
        rows.append(make_row(candidate, results))
    rows.sort(key=lambda row: row.mean, reverse=benchmark.task.higher_is_better)
    board = Leaderboard(benchmark.name, benchmark.task.metric, tuple(rows))
    distributed.from_first(lambda: board.save(folder))
    return board


def make_row(candidate: Candidate, results: Sequence[dict[str, Any]]) -> Row:
    """The candidate's line in the leaderboard."""
    name, depth, found, remark = candidate.name, candidate.depth, candidate.found, candidate.remark
    return Row.from_results(name, depth, results, found=found, remark=remark)


def train_candidate(
    benchmark: Benchmark,
    candidate: Candidate,
    config: TrainConfig,
    seeds: Sequence[int],
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[dict[str, Any]]:
    """Results of one candidate for these seeds, as stored in its run folders."""
    _check(seeds)
    with contextlib.ExitStack() as held:
        runs = {seed: held.enter_context(_training(benchmark, candidate, config, seed, folder)) for seed in seeds}
        missing = [seed for seed in seeds if runs[seed].read_json("result") is None]
        if missing:
            spread = train_seeds(
                candidate.build,
                benchmark,
                config,
                missing,
                device=device,
                runs=[runs[seed] for seed in missing],
                on_epoch=labelled(on_epoch, model=candidate.name),
                should_stop=should_stop,
            )
            for seed, result in zip(missing, spread.results, strict=True):
                keep_result(runs[seed], result, benchmark)
        return [runs[seed].read_json("result", TRAINED) for seed in seeds]


def _check(seeds: Sequence[int]) -> None:
    if not seeds:
        raise InputError("a comparison needs at least one seed")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"seeds {list(seeds)} name one of them twice")


def _training(benchmark: Benchmark, candidate: Candidate, config: TrainConfig, seed: int, folder: Path) -> Run:
    """The folder of one training, new or gone on with."""
    return Run(_place(folder, candidate, seed), _settings(benchmark, candidate, config, seed), resume=True)


def _place(folder: Path, candidate: Candidate, seed: int) -> Path:
    return training_folder(folder, candidate.name, seed)


def _settings(benchmark: Benchmark, candidate: Candidate, config: TrainConfig, seed: int) -> dict[str, Any]:
    return {
        "model": candidate.name,
        "describe": candidate.describe,
        "dataset": benchmark.name,
        "seed": seed,
        "training": asdict(config),
    }


def _jobs(
    benchmark: Benchmark,
    candidate: Candidate,
    config: TrainConfig,
    seeds: Sequence[int],
    folder: Path,
    runner: Runner,
) -> list[Job]:
    """The trainings of a candidate that are not finished, as jobs."""
    places = {seed: _place(folder, candidate, seed) for seed in seeds}
    missing = [seed for seed in places if not (places[seed] / "result.json").exists()]
    if not missing:
        return []
    model = describe_model(candidate.build(), benchmark)
    with located(f"{candidate.name} cannot be sent to workers"), torch.device("meta"):
        build_model(model)  # an error now, not in a worker
    shared = {"graphs": runner.share(benchmark), "model": model}
    for seed in missing:  # what was begun here goes on there
        runner.send(runner.name_of(places[seed]))
    return [
        Job(
            "gnas.compare.networks.training_job",
            runner.name_of(places[seed]),
            {**shared, "settings": _settings(benchmark, candidate, config, seed)},
        )
        for seed in missing
    ]


def training_job(work: Work, *, graphs: str, model: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """One training in a worker."""
    benchmark = unpack(work.file(graphs)).benchmark()
    with Run(work.folder, settings, resume=True) as run:
        if run.read_json("result") is None:
            result = train(
                lambda: build_model(model),
                benchmark,
                TrainConfig(**settings["training"]),
                settings["seed"],
                device=work.device,
                run=run,
                on_epoch=labelled(work.on_epoch, model=settings["model"]),
                should_stop=work.should_stop,
            )
            keep_result(run, result, benchmark)
        return run.read_json("result", TRAINED)


@distributed.by_first
def keep_result(run: Run, result: TrainResult, benchmark: Benchmark) -> None:
    """Write the weights as selected, what they are weights of, then the result: a run with a result is complete."""
    if result.model is not None:
        checkpoint.save(run.path / WEIGHTS, result.model.state_dict())
        run.write_json("model", describe_model(result.model, benchmark))
    run.write_json("result", result.to_dict())
