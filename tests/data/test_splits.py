"""Every row in exactly one split, the same for a seed, in the shares asked for."""

import numpy as np
import pytest
from builders import one_line
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, StratifiedKFold

from gnas.data.splits import (
    SplitRule,
    check_fractions,
    check_seed,
    find_quantile_bins,
    fold_split,
    group_split,
    random_split,
    split_sizes,
    stratified_split,
)

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
    codes = group_split(scaffolds, fractions, seed)
    assert len(codes) == len(scaffolds)
    shares(codes)
    assert len(set(codes.tolist())) == 3 or len(set(scaffolds)) < 3
    for one in set(scaffolds):
        assert len({c for c, s in zip(codes, scaffolds, strict=True) if s == one}) == 1
    assert (codes == group_split(scaffolds, fractions, seed)).all()


def test_the_largest_scaffolds_go_to_train():
    codes = group_split(["big"] * 8 + ["one"] + ["two"], (0.8, 0.1, 0.1))
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


def test_rules_are_read_as_users_write_them():
    assert SplitRule.parse("group: site a") == SplitRule("group", "site a")
    assert SplitRule.parse("column:time:utc") == SplitRule("column", "time:utc")
    with one_line("split 'grup:site'", "group:COLUMN"):
        SplitRule.parse("grup:site")


def test_quantile_bins_have_about_the_same_size_and_keep_the_order():
    values = np.random.RandomState(0).lognormal(size=503)
    bins = find_quantile_bins(values)
    assert np.bincount(bins).min() >= 50
    assert len(np.bincount(bins)) == 10
    order = np.argsort(values)
    assert (np.diff(bins[order]) >= 0).all()
    assert set(find_quantile_bins(np.array([0.0] * 90 + [1.0] * 10)).tolist()) == {0, 1}
    assert find_quantile_bins(np.array([1.0, 2.0, np.nan])).tolist() == [0, 0, 0]


# -- folds ---------------------------------------------------------------------------------------------------------


def all_folds(count, folds, seed, **more):
    return [fold_split(count, folds, fold, seed=seed, **more) for fold in range(1, folds + 1)]


@given(st.integers(12, 120), st.integers(2, 6), SEEDS)
@settings(max_examples=40, deadline=None)
def test_every_row_is_tested_once_and_no_split_is_empty(count, folds, seed):
    found = np.stack(all_folds(count, folds, seed))
    assert ((found == 2).sum(0) == 1).all()
    for codes in found:
        assert (shares(codes) > 0).all()
    sizes = (found == 2).sum(1)
    assert sizes.max() - sizes.min() <= 1
    assert (found == np.stack(all_folds(count, folds, seed))).all()


@given(st.lists(st.integers(0, 3), min_size=30, max_size=120), st.integers(2, 5), SEEDS)
@settings(max_examples=40, deadline=None)
def test_stratified_folds_are_as_even_as_those_of_scikit_learn(classes, folds, seed):
    classes = np.array(classes)
    found = all_folds(len(classes), folds, seed, strata=classes)
    for one in np.unique(classes):
        counts = [int((codes[classes == one] == 2).sum()) for codes in found]
        assert max(counts) - min(counts) <= 1
    if np.bincount(classes)[np.unique(classes)].min() >= folds:
        theirs = StratifiedKFold(folds, shuffle=True, random_state=0).split(classes, classes)
        assert sorted(len(test) for _, test in theirs) == sorted(int((codes == 2).sum()) for codes in found)


@given(st.lists(st.integers(0, 14), min_size=40, max_size=120), st.integers(2, 4), SEEDS)
@settings(max_examples=40, deadline=None)
def test_no_group_is_in_two_splits_and_sizes_are_those_of_scikit_learn(groups, folds, seed):
    groups = np.array(groups)
    if len(np.unique(groups)) < folds + 2:
        return
    found = all_folds(len(groups), folds, seed, groups=groups)
    for codes in found:
        assert (shares(codes) > 0).all()
        for one in np.unique(groups):
            assert len(set(codes[groups == one].tolist())) == 1
    theirs = [len(test) for _, test in GroupKFold(folds).split(groups, groups=groups)]
    assert sorted(theirs) == sorted(int((codes == 2).sum()) for codes in found)


def test_validation_has_its_share_of_the_other_folds():
    codes = fold_split(1000, 5, 2, (0.8, 0.1, 0.1))
    assert shares(codes).tolist() == [711, 89, 200]
    with one_line("5 folds need at least 5 groups; there are 2"):
        fold_split(100, 5, 1, groups=np.arange(100) % 2)
    with one_line("too little to train on"):
        fold_split(10, 2, 1, groups=np.arange(10) % 2)
