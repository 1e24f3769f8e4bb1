"""Strategies on equal terms: costs that add up, networks trained alike, folders that go on and are not repeated."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import SPACE, tiny

from gnas.arch.genotype import Genotype
from gnas.compare import strategies as module
from gnas.compare.strategies import SearchBudget, as_points, compare_strategies, find_moments, warm_up
from gnas.errors import InputError, Interrupted
from gnas.run.folder import Run
from gnas.run.strategy_curves import StrategyComparison
from gnas.strategies import GraphNAS, RandomSearch, SearchResult, SingleLevel, make_strategy
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.random import GenotypeTrials
from gnas.strategies.trial import train_briefly

BENCH = tiny()
BUDGET = SearchBudget(epochs=8, trial_epochs=2, derivations=2, batch_size=4)
SMALL = {"space": SPACE, "channels": 8, "num_cells": 2}
GRAPHNAS = GraphNAS(heads=(1,), widths=(4,), hidden=8)


def run(folder: Path, strategies: dict, seeds: tuple = (0,), **how) -> StrategyComparison:
    return compare_strategies(BENCH, strategies, BUDGET, seeds, folder, **{**SMALL, **how})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StrategyComparison]:
    """All five strategies, two seeds; the test split of ``tiny`` cannot be read."""
    folder = tmp_path_factory.mktemp("compared")
    names = ("single-level", "darts", "random", "evolution")
    return folder, run(folder, {**{name: make_strategy(name) for name in names}, "graphnas": GRAPHNAS}, (0, 1))


def test_all_spend_the_same_epochs_at_most(found: tuple) -> None:
    _, comparison = found
    assert comparison.strategies() == ("single-level", "darts", "random", "evolution", "graphnas")
    for name in comparison.strategies():
        for points in comparison.by_seed(name).values():
            epochs, seconds = [p.epochs for p in points], [p.seconds for p in points]
            assert epochs == sorted(epochs)
            assert seconds == sorted(seconds)
            assert epochs[-1] <= BUDGET.epochs
            values = [p.val_metric for p in points]
            assert [p.best for p in points] == [min(values[: n + 1]) for n in range(len(values))]
            if name in ("random", "evolution", "graphnas"):
                assert epochs == [2, 4, 6, 8]


def test_a_search_pays_for_its_epochs_and_for_every_network(found: tuple) -> None:
    folder, _ = found
    for name in ("single-level", "darts"):
        part = folder / "strategies" / name / "seed-0"
        search, derived = Run(part / "search").history(), Run(part / "derived").history()
        assert len(search) == BUDGET.search_epochs == 4
        points = json.loads((part / "result.json").read_text())["points"]
        assert len(points) == 2
        chosen = [Genotype.from_yaml(search[1]["genotype"]).id, Genotype.from_yaml(search[3]["genotype"]).id]
        assert [point["genotype"] for point in points] == chosen
        trained = len(set(chosen))
        assert [point["epochs"] for point in points] == [2 + 2, 4 + 2 * trained]
        assert points[1]["seconds"] == pytest.approx(search[3]["seconds"] + derived[-1]["seconds"], abs=2e-3)
        assert Run(part).genotype().id in chosen


def test_derived_networks_are_trained_as_trials_are(found: tuple) -> None:
    """The figure of the first derived network, computed again by hand."""
    folder, comparison = found
    record = Run(folder / "strategies" / "single-level" / "seed-1" / "derived").history()[0]
    problem = SearchProblem(BENCH.train, BENCH.val, BENCH.task, SPACE, 8, 2)
    settings = replace(BUDGET.trial_settings(), trials=2)
    trials = GenotypeTrials(settings, problem, SearchContext(seed=1))
    seed = int(np.random.default_rng(1).integers(2**31))
    import torch

    torch.manual_seed(seed)
    model = trials.build(Genotype.from_yaml(record["genotype"]))
    again = train_briefly(model, settings, SearchContext(seed=1), trials.stores, seed)
    assert again["val_metric"] == record["val_metric"] == comparison.by_seed("single-level")[1][0].val_metric


def test_what_is_finished_is_not_repeated(found: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, comparison = found
    monkeypatch.setattr(module, "run_strategy", None)
    again = run(folder, {"single-level": SingleLevel(), "random": RandomSearch()}, (0, 1))
    assert again.points == tuple(
        p for s in (0, 1) for p in comparison.points if p.seed == s and p.strategy in again.strategies()
    )
    with pytest.raises(
        InputError, match=r"strategies/random/seed-0: cannot resume with another channels \(4; the run has 8\)"
    ):
        run(folder, {"random": RandomSearch()}, channels=4)


@pytest.mark.parametrize("calls", [2, 9, 14, 17])
def test_a_stopped_one_goes_on(tmp_path: Path, calls: int, found: tuple) -> None:
    """Within the search, within a derived network, and within a trial of the next strategy."""
    left = iter(range(calls))
    both = {"single-level": SingleLevel(), "random": RandomSearch()}
    with pytest.raises(Interrupted):
        run(tmp_path, both, should_stop=lambda: next(left, None) is None)
    resumed = run(tmp_path, both)
    wanted = [p for p in found[1].points if p.seed == 0 and p.strategy in both]
    assert [replace(p, seconds=0.0) for p in resumed.points] == [replace(p, seconds=0.0) for p in wanted]


class Told:
    """A strategy from outside that keeps no history: only its last network is known."""

    name = "told"

    def search(self, problem, context):
        genotype = problem.space.sample(np.random.default_rng(context.seed), problem.num_cells)
        return SearchResult(genotype, [], 1.5, self.name, trained_epochs=3, seed=context.seed)


def test_a_strategy_of_any_kind_is_judged_by_its_last_network(tmp_path: Path) -> None:
    heard: list[dict] = []
    (point,) = run(tmp_path, {"told": Told()}, on_epoch=heard.append).points
    assert point.epochs == 3 + 2
    assert point.seconds > 1.5
    assert [(record["stage"], record["epoch"]) for record in heard] == [("told-seed-0", 1)]


def test_moments_are_spread_and_end_with_the_result() -> None:
    genotypes = [SPACE.sample(np.random.default_rng(n), 2) for n in range(10)]
    history = [{"epoch": n + 1, "seconds": float(n), "genotype": g.to_yaml()} for n, g in enumerate(genotypes)]
    result = SearchResult(genotypes[-2], history, 12.0, "x", trained_epochs=10)  # as where it stopped on collapse
    assert [(m.epochs, m.seconds) for m in find_moments(result, 4)] == [(2, 1.0), (5, 4.0), (8, 7.0), (10, 12.0)]
    assert [m.architecture for m in find_moments(result, 4)] == [genotypes[n] for n in (1, 4, 7, 8)]
    assert [m.epochs for m in find_moments(replace(result, history=history[:2]), 4)] == [1, 10]
    assert [m.epochs for m in find_moments(result, 1)] == [10]


def test_a_failed_network_costs_and_is_not_the_best() -> None:
    record = {"genotype_id": "g", "depth": 1, "num_weights": 3, "seconds": 1.0}
    told = [{**record, "trained_epochs": 2 * n, "val_metric": v} for n, v in enumerate((None, 3.0, None, 5.0), start=1)]
    assert [p.best for p in as_points("x", 0, told, higher_is_better=True)] == [None, 3.0, 3.0, 5.0]
    assert [p.best for p in as_points("x", 0, told, higher_is_better=False)] == [None, 3.0, 3.0, 3.0]


def test_warm_up_leaves_nothing_behind(tmp_path: Path) -> None:
    """On a GPU it compiles kernels; here it must run every strategy, briefly, without records."""
    heard: list[dict] = []
    asked = [
        BUDGET.given_to(one)
        for one in (SingleLevel(), make_strategy("evolution", inherit=True, supernet_epochs=2), GRAPHNAS)
    ]
    context = SearchContext(on_epoch=heard.append, run=Run(tmp_path, {}))
    warm_up([*asked, Told()], SearchProblem(BENCH.train, BENCH.val, BENCH.task, SPACE, 8, 2), context)
    assert heard == []
    assert not list(tmp_path.glob("*.jsonl"))


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    for strategies, seeds in (({}, (0,)), ({"random": RandomSearch()}, ()), ({"random": RandomSearch()}, (1, 1))):
        with pytest.raises(InputError, match="name at least one strategy and seed, each once"):
            run(tmp_path, strategies, seeds)
    assert list(tmp_path.iterdir()) == []
