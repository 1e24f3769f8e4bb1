"""A candidate of a race as a value: its id, its text, its features."""

from dataclasses import replace
from itertools import combinations

import pytest
from tiny import tiny

from gnas.arch.gap import genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.stack import Stack
from gnas.errors import InputError
from gnas.strategies.candidate import RaceCandidate

FOUND = replace(genotype("[identity | sum(edge) | max(gated)]", 3, "bare"), stack=Stack(ffn=True, edges="updated"))


@pytest.mark.parametrize("architecture", [FOUND, HandMade("gat", 2, options={"heads": 4})])
def test_a_candidate_is_read_from_its_plain_values(architecture: object) -> None:
    one = RaceCandidate(architecture, 0.003, 0.1, "max", 0.3, 24, "mutation")  # type: ignore[arg-type]
    found = RaceCandidate.from_dict(one.to_dict())
    assert (found, found.origin, found.id) == (one, "mutation", one.id)


@pytest.mark.parametrize("changes", [{"lr": 0.5}, {"dropout": 0.5}, {"readout": "sum"}, {"size": 0.5}])
def test_every_choice_changes_the_id_and_the_width_does_not(changes: dict) -> None:
    one = RaceCandidate(FOUND, 0.003)
    assert replace(one, **changes).id != one.id
    assert replace(one, channels=99, origin="predictor").id == one.id


def test_options_of_a_hand_made_network_are_part_of_its_id() -> None:
    ids = {RaceCandidate(HandMade("gat", 2, options={"heads": heads}), 0.1).id for heads in (2, 4, 8)}
    assert len(ids) == 3


@pytest.mark.parametrize("values", [{}, {"architecture": "x"}, {"architecture": 3, "lr": 1}, {"lr": 1}])
def test_what_is_no_candidate_is_refused_in_one_line(values: dict) -> None:
    with pytest.raises(InputError) as error:
        RaceCandidate.from_dict(values)
    assert len(str(error.value).splitlines()) == 1


def test_the_readout_of_a_candidate_replaces_that_of_the_task() -> None:
    task = tiny().task
    assert RaceCandidate(FOUND, 0.1, readout="max").task_of(task).readout == "max"
    assert RaceCandidate(FOUND, 0.1).task_of(task) == task


def test_features_are_choices_pairs_and_shares_of_the_cells() -> None:
    found = RaceCandidate(FOUND, 0.003, 0.1, "max").features()
    single = [
        "kind=cells",
        "layers=3",
        "lr=0.003",
        "dropout=0.1",
        "readout=max",
        "size=1.0",
        "ffn=True",
        "edges=updated",
    ]
    assert all(found[name] == 1.0 for name in single)
    assert all(found[f"{a}&{b}"] == 1.0 for a, b in combinations(single, 2))
    used = {name: value for name, value in found.items() if "=" not in name}
    assert used == {
        "uses sum(edge)": 1.0,
        "uses max(gated)": 1.0,
        "aggregator sum": 1.0,
        "aggregator max": 1.0,
        "message edge": 1.0,
        "message gated": 1.0,
        "aggregations 2": 1.0,
    }
    assert all(0 <= value <= 1 for value in RaceCandidate(genotype("[dense(mean) | max]", 2), 0.1).features().values())


def test_a_network_that_is_no_genotype_has_its_name_as_feature() -> None:
    features = RaceCandidate(HandMade("gat", 2), 0.1).features()
    assert {"kind=gat", "layers=2", "kind=gat&layers=2"} <= set(features)
    assert not any(name.startswith("uses") for name in features)
