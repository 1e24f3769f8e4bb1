"""Every row in exactly one split, the same for a seed, in the shares asked for."""

import numpy as np
import pytest
from builders import one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from gnas.data.splits import check_fractions, check_seed, random_split, scaffold_split, split_sizes, stratified_split

FRACTIONS = st.tuples(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.05, 1)).map(
    lambda f: tuple(v / sum(f) for v in f)
)
SEEDS = st.integers(0, 2**32 - 1)


def shares(codes: np.ndarray) -> np.ndarray:
    assert set(codes.tolist()) <= {0, 1, 2}
    return np.bincount(codes, minlength=3)


@given(st.integers(0, 500), FRACTIONS)
@settings(max_examples=50, deadline=None)
def test_sizes_sum_up_and_leave_none_empty(count, fractions):
    found = split_sizes(count, fractions)
    assert sum(found) == count
    assert min(found) >= (count >= 3)
    if count >= 60:
        assert np.abs(np.array(found) - count * np.array(fractions)).max() <= 1


@given(st.integers(0, 200), FRACTIONS, SEEDS)
@settings(max_examples=50, deadline=None)
def test_random_gives_every_row_one_split_and_a_seed_the_same(count, fractions, seed):
    codes = random_split(count, fractions, seed)
    assert len(codes) == count
    assert tuple(shares(codes)) == split_sizes(count, fractions)
    assert (codes == random_split(count, fractions, seed)).all()


def test_random_stream_is_fixed():
    assert random_split(10, (0.5, 0.3, 0.2), 7).tolist() == [0, 0, 0, 1, 2, 0, 2, 1, 0, 1]
    assert (random_split(100, seed=1) != random_split(100, seed=2)).any()


@given(st.lists(st.integers(0, 5), min_size=3, max_size=150), FRACTIONS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_stratified_keeps_the_share_of_every_class(classes, fractions, seed):
    classes = np.array(classes)
    codes = stratified_split(classes, fractions, seed)
    assert len(codes) == len(classes)
    shares(codes)
    for one in np.unique(classes):
        found, wanted = shares(codes[classes == one]), (classes == one).sum() * np.array(fractions)
        assert found[0] >= 1
        assert np.abs(found - wanted).max() <= 3
        if len(classes) > 40 and wanted.min() > 3:
            assert np.abs(found[1:] - wanted[1:]).max() <= 1
    assert (codes == stratified_split(classes, fractions, seed)).all()


def test_stratified_fills_val_and_test_from_few_rows():
    codes = stratified_split(np.array([0, 0, 0, 1, 1, 2]), (0.8, 0.1, 0.1))
    assert (shares(codes) > 0).all()


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d", "e"]), min_size=1, max_size=80), FRACTIONS, SEEDS)
@settings(max_examples=50, deadline=None)
def test_scaffolds_stay_together(scaffolds, fractions, seed):
    codes = scaffold_split(scaffolds, fractions, seed)
    assert len(codes) == len(scaffolds)
    shares(codes)
    assert len(set(codes.tolist())) == 3 or len(set(scaffolds)) < 3
    for one in set(scaffolds):
        assert len({c for c, s in zip(codes, scaffolds, strict=True) if s == one}) == 1
    assert (codes == scaffold_split(scaffolds, fractions, seed)).all()


def test_the_largest_scaffolds_go_to_train():
    codes = scaffold_split(["big"] * 8 + ["one"] + ["two"], (0.8, 0.1, 0.1))
    assert codes[:8].tolist() == [0] * 8
    assert sorted(codes[8:].tolist()) == [1, 2]


@pytest.mark.parametrize(
    "fractions", [(0.5, 0.5), (1, 0, 0), (0.5, 0.2, 0.2), ("a", "b", "c"), None, (np.nan, 0.5, 0.5)]
)
def test_fractions_that_are_none(fractions):
    with one_line("fractions"):
        check_fractions(fractions)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "0", True])
def test_seeds_that_are_none(seed):
    with one_line("seed", "whole number"):
        check_seed(seed)
