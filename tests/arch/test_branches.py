"""Cells of branches: draws and mutations stay in the space, cells and branches are inverses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.arch import gap
from gnas.arch.branches import BranchSpace, branch_cell, read_branches
from gnas.arch.recipes import RECIPES, expand_recipe
from gnas.arch.space import SearchSpace
from gnas.arch.stack import StackSpace

MESSAGES = ("plain", "edge", "gated", "attention", "pair")
SPACE = SearchSpace(
    aggregators=("identity", "mean", "sum", "max", "symmetric", "std"),
    variant="bare",
    messages=MESSAGES,
    stack=StackSpace(ffn=(True, False), mlp=(1, 2), edges=("updated", "kept")),
)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), depth=st.integers(1, 5))
def test_draws_and_mutations_are_of_the_space(seed: int, depth: int) -> None:
    space, rng = BranchSpace(SPACE), np.random.default_rng(seed)
    parent = space.sample(rng, depth)
    child = space.mutate(parent, rng)
    assert parent in space
    assert child in space
    assert child != parent
    assert len(child) == depth


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_branches_of_a_cell_are_read_back(seed: int) -> None:
    cell = BranchSpace(SPACE).sample(np.random.default_rng(seed), 1)[0]
    branches = read_branches(cell)
    assert branches is not None
    assert branch_cell(branches) == cell


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_of_the_space(name: str) -> None:
    assert expand_recipe(name, 3) in BranchSpace(SPACE)


def test_a_formula_gives_the_same_cell() -> None:
    cell = branch_cell({("sum(edge)",), ("dense", "max")})
    assert cell == gap.genotype("[identity | sum(edge) | max(dense)]")[0]


@pytest.mark.parametrize("formula", ["dense", "sum", "[identity | dense(sum)]", "[identity | dense]"])
def test_other_cells_have_no_branches(formula: str) -> None:
    assert read_branches(gap.genotype(formula)[0]) is None


def test_a_space_with_one_branch_has_no_other() -> None:
    single = BranchSpace(SearchSpace(filters=("identity",), aggregators=("sum",)))
    found = single.sample(np.random.default_rng(0), 2)
    assert single.mutate(found, np.random.default_rng(0)) == found
