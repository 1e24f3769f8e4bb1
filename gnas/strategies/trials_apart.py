"""Trials on workers: each is a job that builds the candidate, takes over its first weights, and judges it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from gnas.arch.architecture import read_architecture
from gnas.arch.space import SearchSpace
from gnas.errors import InputError
from gnas.jobs import Job, Runner, Work, unpack
from gnas.model.build import build_network
from gnas.model.network import GraphModule
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.brief import TrialSettings, judge
from gnas.training.loop import Record
from gnas.training.optim import use_precision
from gnas.training.sampling import open_store

JUDGED = ("val_metric", "epochs", "seconds")  # what every outcome of a trial has
START = "start.safetensors"  # the weights a trial begins with: drawn from its seed, or inherited


@dataclass(frozen=True)
class Trial:
    """A candidate to judge, with its network as it is before training."""

    number: int
    candidate: Any
    seed: int
    model: GraphModule

    def folder(self, runner: Runner, run: Run) -> str:
        return f"{runner.name_of(run.path)}/trials/{self.number:04d}"


def train_apart(
    trials: Sequence[Trial],
    settings: TrialSettings,
    problem: SearchProblem,
    context: SearchContext,
    runner: Runner,
    run: Run,
) -> Generator[Record, None, None]:
    """The outcomes of trials, in their order, each as soon as it is there.

    A finished one is not repeated, an unfinished one goes on.
    """
    if problem.operations is not None:
        raise InputError("operations of your own cannot be sent to workers; search without --on")
    shared = {
        "graphs": context.graphs,
        "channels": problem.channels,
        "engine": context.engine,
        "settings": {f.name: getattr(settings, f.name) for f in fields(TrialSettings)},
    }
    jobs = [_job(trial, shared, runner, run) for trial in trials]
    return runner.in_order(jobs, should_stop=context.should_stop)


def _job(trial: Trial, shared: dict[str, Any], runner: Runner, run: Run) -> Job:
    config = {"trial": trial.number, "genotype": trial.candidate.id, "seed": trial.seed}
    name = trial.folder(runner, run)
    with run.continued(f"trials/{trial.number:04d}", config) as part:
        if not (part.path / START).exists():
            checkpoint.save(part.path / START, trial.model.state_dict())
    runner.send(name)
    arguments = {**shared, "config": config, "genotype": trial.candidate.to_yaml()}
    return Job("gnas.strategies.trials_apart.trial_job", name, arguments)


def trial_job(
    work: Work,
    *,
    graphs: str,
    channels: int,
    engine: str,
    settings: dict[str, Any],
    config: dict[str, Any],
    genotype: str,
) -> Record:
    """One trial in a worker; its outcome stays in its folder until the search has taken note of it."""
    given, trial = unpack(work.file(graphs)), TrialSettings(**settings)
    with Run(work.folder, config, resume=True) as run:
        done = run.read_json("result", JUDGED)
        if done is None:
            use_precision(trial.precision)
            problem = SearchProblem(given.splits["train"], given.splits["val"], given.task, SearchSpace(), channels)
            context = SearchContext(config["seed"], work.device, engine, should_stop=work.should_stop)
            stores = {name: open_store(given.splits[name], work.device) for name in ("train", "val")}
            model = _build(genotype, problem)
            model.load_state_dict(checkpoint.load(run.path / START))
            done = judge(model, trial, context, stores, config["seed"], run, work.on_epoch)
            run.write_json("result", done)
        return done


def _build(text: str, problem: SearchProblem) -> GraphModule:
    return build_network(read_architecture(text), problem.task, channels=problem.channels)
