"""One contract for every strategy: what it gives, that it repeats itself, stops and goes on, and never sees the test."""

import functools
import json
from pathlib import Path

import pytest
import torch
from searches import CASES, SETTINGS, run
from small import stop_after
from tiny import SPACE, untimed

from gnas.arch.genotype import Genotype
from gnas.arch.graphnas import GraphNASArchitecture
from gnas.cli.prepare import choose_device
from gnas.errors import InputError, Interrupted
from gnas.run.folder import Run
from gnas.strategies import STRATEGIES, SearchResult, make_strategy


@functools.cache
def whole(case: int) -> SearchResult:
    """A search that nobody interrupts."""
    return run(*CASES[case].values)


def test_every_strategy_is_covered() -> None:
    assert set(SETTINGS) == set(STRATEGIES)


@pytest.mark.parametrize(("name", "settings"), [case for case in CASES if "searches" not in case.values[1]])
def test_result(name: str, settings: dict) -> None:
    heard: list[dict] = []
    result = run(name, settings, "classification", on_epoch=heard.append)
    assert isinstance(result, SearchResult)
    if name == "graphnas":
        assert isinstance(result.genotype, GraphNASArchitecture)
        assert result.genotype == GraphNASArchitecture.from_yaml(result.genotype.to_yaml())
    else:
        assert result.genotype in SPACE
        assert len(result.genotype) == 2 or name == "race"  # in which the depth races too
        assert result.genotype == Genotype.from_yaml(result.genotype.to_yaml())
    assert heard == result.history
    assert [record["epoch"] for record in result.history] == list(range(1, len(heard) + 1))
    assert all(0 <= record["val_metric"] <= 100 and record["genotype"] for record in heard)
    seconds = [record["seconds"] for record in heard]
    assert seconds == sorted(seconds)
    assert result.seconds == pytest.approx(seconds[-1], abs=1e-3)
    assert result.trained_epochs == heard[-1].get("trained_epochs", len(heard))
    assert json.loads(json.dumps(result.to_dict()))["depth"] == result.genotype.depth()


@pytest.mark.parametrize("case", range(len(CASES)), ids=[case.id for case in CASES])
def test_same_seed_same_search(case: int) -> None:
    first, again, other = whole(case), run(*CASES[case].values), run(*CASES[case].values, seed=1)
    assert first.genotype == again.genotype
    assert untimed(first.history) == untimed(again.history)
    assert untimed(first.history) != untimed(other.history)


@pytest.mark.gpu
@pytest.mark.parametrize("case", range(len(CASES)), ids=[case.id for case in CASES])
def test_same_seed_same_search_on_a_gpu(case: int) -> None:
    """What ``--deterministic`` asks of torch, and the same bits twice."""
    choose_device("cuda", deterministic=True)
    try:
        first, again = (run(*CASES[case].values, device="cuda") for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert first.genotype == again.genotype
    assert untimed(first.history) == untimed(again.history)


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("case", range(len(CASES)), ids=[case.id for case in CASES])
def test_stops_and_goes_on(case: int, count: int, tmp_path: Path) -> None:
    """After 1 question, within the first trial, within a later one; the gradient strategies ask 4 to 6 times in all."""
    config = {"case": case}
    folder = Run(tmp_path / "run", config)
    try:
        run(*CASES[case].values, run=folder, should_stop=stop_after(count))
        assert count == 10, "nobody asked whether to stop"
    except Interrupted:
        assert folder.read_json("result") is None
    folder.close()
    folder = Run(tmp_path / "run", config, resume=True)
    result, wanted = run(*CASES[case].values, run=folder), whole(case)
    assert result.genotype == wanted.genotype
    assert untimed(result.history) == untimed(folder.history()) == untimed(wanted.history)
    assert result.trained_epochs == wanted.trained_epochs
    assert folder.read_json("result")["genotype"] == wanted.genotype.id
    folder.close()


@pytest.mark.parametrize("name", STRATEGIES)
def test_unknown_settings_are_named(name: str) -> None:
    with pytest.raises(InputError, match=f"unknown setting of the strategy {name} 'epoch'.*did you mean 'epochs'"):
        make_strategy(name, epoch=3)


def test_unknown_strategies_are_named() -> None:
    with pytest.raises(InputError, match=r"unknown strategy 'evolutoin'.*did you mean 'evolution'"):
        make_strategy("evolutoin")


@pytest.mark.parametrize("name", ["random", "evolution", "graphnas", "race"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"precision": "half"}, "unknown precision 'half'"),
        ({"precise_norms": -1}, "precise_norms is -1"),
        ({"epochs": 5, "max_epochs": 4}, "not enough for one trial"),
        ({"max_seconds": 0}, "max_seconds is 0"),
    ],
)
def test_bad_budgets_are_refused(name: str, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_strategy(name, **settings)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("darts", {"order": 3}, "order is 3; choose one of: 1, 2"),
        ("evolution", {"sample": 20}, "1 <= sample <= population"),
        ("evolution", {"supernet_epochs": 0}, "supernet_epochs is 0"),
        ("evolution", {"inherit": True, "max_epochs": 15}, "not enough for the supernet"),
        ("graphnas", {"attentions": ("gta",)}, "unknown attentions 'gta'"),
        ("graphnas", {"heads": ()}, "at least one option"),
        ("graphnas", {"widths": (4, 4)}, "none twice"),
        ("graphnas", {"widths": (0,)}, "whole numbers above 0"),
        ("graphnas", {"baseline_decay": 1.0}, "baseline_decay is 1.0"),
        ("graphnas", {"max_weights": 0}, "max_weights is 0"),
    ],
)
def test_bad_settings_are_refused(name: str, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_strategy(name, **settings)
