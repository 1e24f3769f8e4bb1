"""Proposers: candidates are of the space, new, within the weights, and repeat themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import SPACE, tiny

from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.recipes import RECIPES, as_genotype, as_hand_made, expand_recipe
from gnas.model.baselines import HAND_MADE
from gnas.run.settings import Settings
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.proposers import PROPOSERS, ZOO, CandidateSpace, Tried, propose_candidate

MOST = 3_000


def candidate_space(kind: str = "regression", **changes: object) -> CandidateSpace:
    return replace(CandidateSpace(SPACE, tiny(kind).task, 3, 1e-3, MOST), **changes)  # type: ignore[arg-type]


def is_member(space: CandidateSpace, one: RaceCandidate) -> bool:
    made = one.architecture
    right = made.name in ZOO if isinstance(made, HandMade) else made in SPACE or made in space.branches
    chosen = all(getattr(one, name) in values for name, values in space.choices().items())
    return right and chosen and len(made.formulas()) in space.depths


def test_every_hand_made_network_races() -> None:
    assert set(ZOO) == set(HAND_MADE)


@pytest.mark.parametrize("name", PROPOSERS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_proposals_are_of_the_space(name: str, seed: int) -> None:
    space, rng = candidate_space(), np.random.default_rng(seed)
    tried = [Tried(one, float(k)) for k, one in enumerate([*space.hand_made()[:2], space.sample(rng)])]
    assert is_member(space, PROPOSERS[name](space, tried, rng))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), hand_made=st.booleans())
def test_a_mutation_changes_one_choice(seed: int, hand_made: bool) -> None:
    space, rng = candidate_space(), np.random.default_rng(seed)
    parent = space.hand_made()[0] if hand_made else space.sample(rng)
    child = space.mutate(parent, rng)
    names = ("architecture", *space.choices())
    assert sum(getattr(parent, name) != getattr(child, name) for name in names) == 1
    assert child.id != parent.id


def test_a_race_begins_with_the_hand_made_networks_and_neighbours_of_the_best() -> None:
    space = wide_space()
    found = [propose_candidate(space, [], set(), number, 0) for number in range(40)]
    made = [one for one in found if one is not None and one.origin == "hand-made"]
    assert [one.origin for one in found[:6] if one is not None] == ["hand-made", "hand-made", "known"] * 2
    assert [one.architecture.name for one in made if isinstance(one.architecture, HandMade)] == list(ZOO)
    first = found[2]
    assert first is not None
    later = propose_candidate(space, [], {first.id}, 5, 0)
    assert first.architecture.formulas() == ("[identity | max(edge) | mean(edge)]",) * 3
    assert later is not None
    assert later.origin == "mutation"


def test_a_space_without_the_cell_that_is_good_on_many_datasets_does_not_begin_with_it() -> None:
    cells = Settings.resolve("wide").space.search_space()
    narrow = candidate_space(space=replace(cells, aggregators=("mean", "sum")))
    assert [one.origin for one in wide_space().derive()] == ["known"]
    assert narrow.derive() == []


def test_every_third_candidate_is_of_a_supernet_while_there_is_one() -> None:
    rng = np.random.default_rng(0)
    derived = tuple(SPACE.sample(rng, 3) for _ in range(2))
    space, known = replace(wide_space(), derived=derived), set[str]()
    origins = []
    for number in range(9):
        one = propose_candidate(space, [], known, number, 0)
        assert one is not None
        known.add(one.id)
        origins.append(one.origin)
    assert [origins[number] for number in (2, 5, 8)] == ["known", "supernet", "supernet"]


def wide_space() -> CandidateSpace:
    """Relations, stacks, and data with two encodings."""
    task = replace(tiny("regression").task, walks=4, edge_walks=4)
    return candidate_space(space=Settings.resolve("wide").space.search_space(), task=task)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), name=st.sampled_from(sorted(RECIPES)))
def test_recipes_have_neighbours_in_the_space(seed: int, name: str) -> None:
    space, rng = wide_space(), np.random.default_rng(seed)
    child = space.mutate(space.usual(HandMade(name, 3), "hand-made"), rng)
    genotype = as_genotype(child.architecture)
    assert genotype is not None
    assert genotype in space.branches
    assert isinstance(child.architecture, HandMade) == (as_hand_made(genotype) != genotype)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_neighbour_is_a_found_network_with_the_choices_of_the_best(seed: int) -> None:
    space, rng = wide_space(), np.random.default_rng(seed)
    best = replace(space.usual(HandMade("gatedgcn+", 3), "hand-made"), lr=0.003, dropout=0.1)
    tried = [Tried(best, 0.9), Tried(space.usual(HandMade("gin+", 3), "hand-made"), 0.8)]
    child = PROPOSERS["neighbor"](space, tried, rng)
    parent = as_genotype(best.architecture)
    assert isinstance(child.architecture, Genotype)
    assert child.architecture in space.branches
    assert (child.lr, child.dropout, child.size) == (0.003, 0.1, best.size)
    assert parent is not None
    assert (child.architecture.stack == parent.stack) != (child.architecture.cells == parent.cells)


def test_the_neighbour_of_a_network_that_has_none_is_that_of_the_next() -> None:
    space, rng = wide_space(), np.random.default_rng(0)
    tried = [
        Tried(space.usual(HandMade("mlp", 3), "hand-made"), 0.9),
        Tried(space.usual(HandMade("gin+", 3), "hand-made"), 0.8),
    ]
    child = PROPOSERS["neighbor"](space, tried, rng)
    assert isinstance(child.architecture, Genotype)
    assert space.vary(tried[0].candidate, rng) is None


def test_encodings_race() -> None:
    space, rng = wide_space(), np.random.default_rng(0)
    drawn = [space.sample(rng).architecture for _ in range(60)]
    stacks = {one.stack.encodings for one in drawn if isinstance(one, Genotype)}
    assert {None, (), ("walks",), ("edge_walks",)} <= stacks


def test_recipes_and_their_neighbours_share_features() -> None:
    space = wide_space()
    recipe_features = space.usual(HandMade("gin+", 3), "hand-made").features()
    other = replace(expand_recipe("gin+", 3), stack=replace(expand_recipe("gin+", 3).stack, mlp=1))
    shared = set(recipe_features) & set(space.usual(other, "mutation").features())
    assert {"uses sum(edge)", "message edge", "ffn=True", "kind=cells"} <= shared


def test_candidates_have_at_most_so_many_weights() -> None:
    space = candidate_space()
    for number in range(6):
        one = propose_candidate(space, [], set(), number, 3)
        assert one is not None
        assert 0 < one.build(space.task).num_weights() <= one.size * MOST


def test_proposals_repeat_themselves_and_are_new() -> None:
    space = candidate_space()
    first = propose_candidate(space, [], set(), 1, 0)
    assert first is not None
    assert propose_candidate(space, [], set(), 1, 0) == first
    other = propose_candidate(space, [], {first.id}, 1, 0)
    assert other is not None
    assert other.id != first.id


def test_no_width_fits() -> None:
    space = candidate_space(max_weights=10)
    assert propose_candidate(space, [], set(), 0, 0) is None


def test_nodes_have_no_read_out() -> None:
    assert candidate_space("classification").choices()["readout"] == ("",)


def test_the_predictor_finds_what_pays() -> None:
    """Scores that one choice decides: the next proposal makes it."""
    space, rng = candidate_space(), np.random.default_rng(0)
    drawn = [space.sample(rng) for _ in range(25)]
    tried = [Tried(one, 1.0 if one.readout == "sum" else 0.0) for one in drawn]
    assert PROPOSERS["predictor"](space, tried, rng).readout == "sum"


def test_a_candidate_as_plain_values() -> None:
    for one in (candidate_space().hand_made()[0], candidate_space().sample(np.random.default_rng(0))):
        assert RaceCandidate.from_dict(one.to_dict()) == one
