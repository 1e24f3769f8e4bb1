"""Jobs as values, whoever does them: searches, trials, depths and comparisons give the same on every pool."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from farm import BENCH, EPOCHS, candidates, count, train_all, trained
from small import transductive
from tiny import SPACE, tiny, untimed

from gnas.compare.networks import Candidate, compare
from gnas.compare.strategies import SearchBudget, compare_strategies
from gnas.data.benchmark import Benchmark
from gnas.data.storage import write_graphs
from gnas.errors import InputError, Interrupted
from gnas.jobs import Job, JobsFailed, Runner, check_on, open_runner
from gnas.jobs.codec import Files, decode, encode, list_classes
from gnas.jobs.job import FUNCTIONS, find_function
from gnas.jobs.perform import load_arguments
from gnas.model.network import GraphModule
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies import Darts, Evolution, GraphNAS, RandomSearch, SearchStrategy, SingleLevel, search
from gnas.strategies.depth import search_depth
from gnas.strategies.trial import TrialData
from gnas.tensors import read_digest

STRATEGIES = (
    SingleLevel(epochs=2),
    Darts(epochs=2, order=2),
    RandomSearch(trials=4, epochs=1),
    RandomSearch(trials=4, epochs=1, max_epochs=3),
    Evolution(trials=5, epochs=1, population=3, sample=2),
    Evolution(trials=2, epochs=1, population=2, sample=1, inherit=True, supernet_epochs=1),
    GraphNAS(trials=2, epochs=1),
)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Runner]]:
    """A folder, and two processes that work below it: to start one takes longer than a search here."""
    root = tmp_path_factory.mktemp("workers")
    with open_runner(root, "local:2") as runner:
        yield root, runner


def test_trainings_are_the_same_and_finished_ones_are_not_repeated(tmp_path: Path, reference: Path) -> None:
    with open_runner(tmp_path) as runner:
        heard: list[dict] = []
        first = train_all(tmp_path, runner, on_epoch=heard.append)
        again = train_all(tmp_path, runner)
    assert trained(tmp_path) == trained(reference)
    assert again == first
    assert not (tmp_path / "jobs").exists()  # nothing is copied or logged
    assert len(heard) == 4 * EPOCHS  # of the first call alone
    assert {(r["model"], r["seed"]) for r in heard} == {(m, s) for m in ("gnas", "mlp") for s in (1, 2)}
    here, there = (folder / "trained/gnas/seed-1" for folder in (tmp_path, reference))
    assert read_digest(here / "weights.safetensors") == read_digest(there / "weights.safetensors")
    assert (here / "model.json").read_bytes() == (there / "model.json").read_bytes()


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: f"{one.name}-{getattr(one, 'trials', '')}")
def test_searches_are_the_same(tmp_path: Path, workers: tuple[Path, Runner], strategy: SearchStrategy) -> None:
    folder, runner = workers[0] / tmp_path.name, workers[1]
    how = {"channels": 4, "num_cells": 2, "seed": 3}
    with Run(tmp_path / "alone", {"job": "search"}) as run:
        alone = search(tiny(), SPACE, strategy, run=run, **how)  # type: ignore[arg-type]
    heard: list[dict] = []
    with Run(folder / "search", {"job": "search"}) as run:
        # The benchmark guards its test split: neither a search nor its jobs may read it.
        found = search(tiny(), SPACE, strategy, run=run, runner=runner, on_epoch=heard.append, **how)  # type: ignore[arg-type]
    assert (found.genotype, untimed(found.history)) == (alone.genotype, untimed(alone.history))
    assert untimed(heard) == untimed(found.history)
    assert (found.trained_epochs, found.seed, found.strategy) == (alone.trained_epochs, alone.seed, alone.strategy)
    assert not list((folder / "search").glob("trials/*"))  # their outcomes are in the history


def test_the_best_of_several_searches_is_the_same(tmp_path: Path, workers: tuple[Path, Runner]) -> None:
    strategy, how = SingleLevel(epochs=2, searches=2, trial_epochs=1), {"channels": 4, "num_cells": 2, "seed": 3}
    alone = search(tiny(), SPACE, strategy, **how)  # type: ignore[arg-type]
    with Run(workers[0] / tmp_path.name, {"job": "search"}) as run:
        found = search(tiny(), SPACE, strategy, run=run, runner=workers[1], **how)  # type: ignore[arg-type]
    assert (found.genotype, found.searches) == (alone.genotype, alone.searches)
    assert untimed(found.history) == untimed(alone.history)


@pytest.mark.parametrize("strategy", STRATEGIES[2:5:2], ids=lambda one: one.name)
def test_trials_that_were_stopped_go_on(tmp_path: Path, strategy: SearchStrategy) -> None:
    how = {"channels": 4, "num_cells": 2, "seed": 3}
    with Run(tmp_path / "alone", {"job": "search"}) as run:
        alone = search(tiny(), SPACE, strategy, run=run, **how)  # type: ignore[arg-type]
    for most in itertools.count(2, 2):
        asked = iter(range(most))
        try:
            with open_runner(tmp_path) as runner, Run(tmp_path / "search", {"job": "search"}, resume=True) as run:
                found = search(
                    *(tiny(), SPACE, strategy),  # type: ignore[arg-type]
                    run=run,
                    runner=runner,
                    should_stop=lambda asked=asked: next(asked, None) is None,
                    **how,  # type: ignore[arg-type]
                )
            break
        except Interrupted:
            assert most < 200
    assert most > 5  # it was stopped at several moments
    assert (found.genotype, untimed(found.history)) == (alone.genotype, untimed(alone.history))


def test_depths_are_the_same(tmp_path: Path) -> None:
    how = {"start": 2, "channels": 4, "max_rounds": 2}
    alone = search_depth(tiny(), SPACE, SingleLevel(epochs=2), **how)  # type: ignore[arg-type]
    with open_runner(tmp_path) as runner:
        found = search_depth(tiny(), SPACE, SingleLevel(epochs=2), folder=tmp_path, runner=runner, **how)  # type: ignore[arg-type]
    assert found.trajectory == alone.trajectory
    assert found.genotype == alone.genotype
    assert {path.name for path in tmp_path.glob("round-*")} == {f"round-{n + 1}" for n in range(len(found.rounds))}


def test_comparisons_of_strategies_are_the_same(tmp_path: Path, workers: tuple[Path, Runner]) -> None:
    folder, runner = workers[0] / tmp_path.name, workers[1]
    strategies = {"single-level": SingleLevel(), "random": RandomSearch()}
    budget, how = SearchBudget(4, 1, 2, 12, 1e-2), {"space": SPACE, "channels": 4, "num_cells": 1}
    alone = compare_strategies(BENCH, strategies, budget, (0, 1), tmp_path / "alone", **how)  # type: ignore[arg-type]
    found = compare_strategies(BENCH, strategies, budget, (0, 1), folder, runner=runner, **how)  # type: ignore[arg-type]
    assert len([job for job in count(workers[0], "result") if job.startswith(folder.name)]) == 4
    assert [replace(p, seconds=0) for p in found.points] == [replace(p, seconds=0) for p in alone.points]


@pytest.mark.parametrize("benchmark", [BENCH, transductive()], ids=lambda one: one.name)
def test_graphs_come_out_as_they_were_packed(tmp_path: Path, benchmark: Benchmark) -> None:
    again = decode(json.loads(json.dumps(encode(benchmark, files_in(tmp_path)))), lambda name: tmp_path / name)
    assert (again.name, again.task, again.source, again.notes) == (
        *(benchmark.name, benchmark.task),
        *(benchmark.source, benchmark.notes),
    )
    for name, split in benchmark.splits().items():
        for field in fields(split):
            one, other = getattr(split, field.name), getattr(again.splits()[name], field.name)
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    assert write_graphs(benchmark.train, tmp_path) == write_graphs(benchmark.train, tmp_path)  # named by its content
    assert again.fingerprint == benchmark.fingerprint


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: one.name)
def test_a_strategy_comes_out_of_its_values(strategy: SearchStrategy) -> None:
    assert decode(json.loads(json.dumps(encode(strategy)))) == strategy


def files_in(folder: Path) -> Files:
    return Files(lambda graphs: write_graphs(graphs, folder).name, lambda model: pytest.fail("no network is sent"))


def test_some_jobs_fail_and_the_others_are_kept(tmp_path: Path) -> None:
    Run(tmp_path / "trained/mlp/seed-2", {"model": "another"}).close()
    with open_runner(tmp_path, "local:1") as runner:
        wanted = "1 of 4 jobs failed, the others are saved: trained/mlp/seed-2: .*cannot resume with another"
        with pytest.raises(JobsFailed, match=wanted):
            train_all(tmp_path, runner, epochs=1)
    assert len(count(tmp_path, "result")) == 3


def test_a_network_of_ones_own_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    class Own(GraphModule):
        def __init__(self) -> None:
            super().__init__()
            self.task = BENCH.task

    with (
        open_runner(tmp_path, "local:1") as runner,
        pytest.raises(
            InputError, match=r"trained/own/seed-1: .*Own, a class or function of your own, cannot be sent to"
        ),
    ):
        compare(
            BENCH,
            [*candidates(), Candidate("own", own=Own, own_depth=1)],
            TrainConfig(epochs=1),
            (1,),
            tmp_path,
            runner=runner,
        )
    assert not (tmp_path / "trained").exists()


@pytest.mark.parametrize("on", ["spark", "local", "local:", "local:0", "local:x", "local:-1", "ray:3", "here:2", ""])
def test_other_places_are_refused(on: str) -> None:
    if on == "":
        assert check_on(on) == ("here", 1)
        return
    with pytest.raises(InputError, match=r"choose one of: here .*local:N.*ray"):
        check_on(on)


@pytest.mark.parametrize("share", [1.5, -1.0])
def test_other_shares_of_gpus_are_refused(share: float) -> None:
    with pytest.raises(InputError, match="such as 0"):
        check_on("local:2", share)
    with pytest.raises(InputError, match=r"add --on local:N or --on ray"):
        check_on(None, 0.5)


@pytest.mark.parametrize("folder", ["", "/tmp/x", "../x", "a/../../b"])
def test_a_job_stays_below_its_root(folder: str) -> None:
    with pytest.raises(InputError, match="below the run folder"):
        Job("gnas.compare.networks.training_job", folder)


def test_a_job_holds_plain_values_and_calls_a_few_functions_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="below the run folder"):
        Job("gnas.compare.networks.training_job", "one", also=("../two",))
    for name in (
        "os.system",
        "gnas.jobs.perform.perform_order",
        "gnas.compare.networks.compare",
        "gnas.__main__.main",
        "gnas",
        "",
    ):
        with pytest.raises(InputError, match=f"cannot call '{name}'; it can call: gnas.compare.networks.training_job"):
            Job(name, "one")
    assert all(find_function(name).__name__.endswith("_job") or name.endswith(".run_job") for name in FUNCTIONS)


def test_values_of_other_classes_are_not_sent(tmp_path: Path) -> None:
    job = Job("gnas.compare.networks.training_job", "one", {"x": torch.zeros(1)})
    with open_runner(tmp_path, "local:1") as runner:
        with pytest.raises(InputError, match="one: a Tensor, which is not a part of gnas, cannot be sent to workers"):
            runner.run([job])
        with pytest.raises(InputError, match="unknown class of a job's value 'Popen'; choose one of: SearchSpace"):
            decode({"$class": ["Popen", {"args": "ls"}]})
    for name, module in list_classes().items():
        assert find_function(f"{module}.{name}").__name__ == name


def test_values_come_out_as_they_were() -> None:
    values = {"a": (1, [2.5, None]), "b": {3: "x"}, "c": {"$d": True}, "e": float("inf"), "f": SPACE}
    assert decode(json.loads(json.dumps(encode(values)))) == values


def test_jobs_that_use_the_same_folder_run_one_after_another() -> None:
    name = "gnas.compare.networks.training_job"
    one, two, three = Job(name, "a", also=("b",)), Job(name, "c", reads=("b",)), Job(name, "d", reads=("b",))
    assert one.conflicts(two)
    assert two.conflicts(one)
    assert not two.conflicts(three)
    assert one.conflicts(one)


def test_jobs_in_a_row_share_their_data(tmp_path: Path) -> None:
    device, find = torch.device("cpu"), lambda name: tmp_path / name
    first, other = (TrialData(one.train, one.val) for one in (tiny(), tiny("classification")))
    orders = [encode({"data": data, "seed": 1}, files_in(tmp_path)) for data in (first, first, other, first)]
    loaded = [load_arguments(order, find)["data"] for order in orders]
    assert loaded[1] is loaded[0]  # with what is on the device
    assert loaded[1].open_stores(device)["train"] is loaded[0].open_stores(device)["train"]
    assert not torch.equal(loaded[2].train.y, loaded[0].train.y)
    assert loaded[3] is not loaded[0]  # only the data of the last job is kept
    assert "data" not in load_arguments({"seed": 1}, find)
