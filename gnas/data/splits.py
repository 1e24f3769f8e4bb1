"""Splits by seed: random, stratified, by group, and k folds. Every row gets one code: 0 train, 1 val, 2 test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnas.data.encoding import Array
from gnas.errors import InputError, choose

Fractions = tuple[float, float, float]
DEFAULT_FRACTIONS: Fractions = (0.8, 0.1, 0.1)
METHODS = ("given", "random", "stratified", "scaffold")
WITH_COLUMN = ("group", "column")  # written with the name of a column, such as group:site
MOST_BINS, BIN_ROWS = 10, 20  # quantile bins of a regression target, and how many rows each should have
MOST_FOLDS = 100


@dataclass(frozen=True)
class SplitRule:
    """How to split: a method and, for ``group`` and ``column``, the name of a column."""

    method: str
    column: str = ""

    @staticmethod
    def parse(text: str) -> SplitRule:
        """Read a rule as users write it.

        >>> SplitRule.parse("scaffold"), SplitRule.parse("group:site").column
        (SplitRule(method='scaffold', column=''), 'site')
        """
        method, colon, column = str(text).partition(":")
        if method in WITH_COLUMN and column.strip():
            return SplitRule(method, column.strip())
        if colon or method not in METHODS:
            choose(text, (*METHODS, *(f"{name}:COLUMN" for name in WITH_COLUMN)), "split")
        return SplitRule(method)


def check_fractions(fractions: Sequence[float]) -> Fractions:
    """Three positive shares that sum to one."""
    try:
        train, val, test = (float(f) for f in fractions)
    except (TypeError, ValueError):
        raise InputError(f"fractions must be three numbers (train, val, test), not {fractions!r}") from None
    if not (min(train, val, test) > 0 and abs(train + val + test - 1) < 1e-6):
        raise InputError(f"fractions {(train, val, test)} must be positive and sum to 1")
    return train, val, test


def split_sizes(count: int, fractions: Fractions) -> tuple[int, int, int]:
    """Sizes of the three splits; from three rows on, none is empty."""
    val, test = (round(count * f) for f in fractions[1:])
    if count >= 3:
        val, test = max(val, 1), max(test, 1)
        while val + test > count - 1:
            val, test = (val - 1, test) if val >= test else (val, test - 1)
    return count - val - test, val, test


def random_split(count: int, fractions: Fractions = DEFAULT_FRACTIONS, seed: int = 0) -> Array:
    """Every row in one split, at random."""
    codes = np.empty(count, np.int8)
    codes[_random(seed).permutation(count)] = np.repeat(np.arange(3), split_sizes(count, fractions))
    return codes


def stratified_split(classes: Array, fractions: Fractions = DEFAULT_FRACTIONS, seed: int = 0) -> Array:
    """Every class in the same shares, as near as whole rows allow; each class has at least one row in train."""
    random = _random(seed)
    _, inverse, counts = np.unique(classes, return_inverse=True, return_counts=True)
    shares = _apportion(counts, fractions)
    codes = np.empty(len(classes), np.int8)
    by_class = np.argsort(inverse.reshape(-1), kind="stable")
    for rows, share in zip(np.split(by_class, counts.cumsum()[:-1]), shares, strict=True):
        codes[random.permutation(rows)] = np.repeat(np.arange(3), share)
    return codes


def _apportion(counts: Array, fractions: Fractions) -> Array:
    """How many rows of each class go to each split.

    Quotas are rounded on the running total, so that the rounding of one class is corrected by the next.
    """
    total = np.concatenate([[0], counts.cumsum()])
    val, test = (np.diff(np.floor(total * f + 0.5).astype(np.int64)) for f in fractions[1:])
    over = np.maximum(val + test - (counts - 1), 0)  # train has at least one row of every class
    from_test = np.minimum(over, test)
    val, test = val - (over - from_test), test - from_test
    for part in (val, test):
        train = counts - val - test
        if len(train) and not part.any() and train.max() > 1:
            part[train.argmax()] += 1
    return np.stack([counts - val - test, val, test], axis=1)


def find_quantile_bins(values: Array) -> Array:
    """The quantile bin of each number: at most ten bins of about the same size. Rows without a number share the last bin."""
    bins = min(max(len(values) // BIN_ROWS, 1), MOST_BINS)
    distinct = np.unique(values[~np.isnan(values)])
    if len(distinct) <= bins:
        return np.searchsorted(distinct, values)
    edges = np.nanquantile(values, np.arange(1, bins) / bins)
    return np.searchsorted(np.unique(edges), values, side="right")


def group_split(groups: Sequence[str] | Array, fractions: Fractions = DEFAULT_FRACTIONS, seed: int = 0) -> Array:
    """Rows of one group stay together: the largest groups fill train, then val, then test.

    The seed decides the order of groups of one size; with three groups or more no split is empty.
    """
    group, counts, order = _largest_first(groups, _random(seed))
    code, room = np.empty(len(counts), np.int8), np.array(split_sizes(len(group), fractions))
    used: set[int] = set()
    for left, one in zip(range(len(order), 0, -1), order.tolist(), strict=True):
        empty = [k for k in range(3) if k not in used]
        fits = [k for k in range(3) if room[k] >= counts[one]]
        code[one] = empty[0] if left <= len(empty) else fits[0] if fits else room.argmax()
        room[code[one]] -= counts[one]
        used.add(int(code[one]))
    return code[group]


def _largest_first(groups: Sequence[str] | Array, random: np.random.RandomState) -> tuple[Array, Array, Array]:
    """The group of each row as a number, their sizes, and the groups from the largest; equal ones in random order."""
    _, group, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    shuffled = random.permutation(len(counts))
    return group.reshape(-1), counts, shuffled[np.argsort(-counts[shuffled], kind="stable")]


# -- k folds -------------------------------------------------------------------------------------------------------


def fold_split(
    count: int,
    folds: int,
    fold: int,
    fractions: Fractions = DEFAULT_FRACTIONS,
    seed: int = 0,
    *,
    strata: Array | None = None,
    groups: Array | None = None,
) -> Array:
    """Fold number ``fold`` (from 1) of ``folds`` is the test split. Validation is drawn from the other folds.

    Validation gets the share of them that ``fractions`` gives it of train and val together. For one seed, every row is in
    the test split of exactly one fold.

    Args:
        count: The number of rows.
        folds: The number of folds.
        fold: The fold to test on, counted from 1.
        fractions: The shares of train, val and test; only those of train and val count.
        seed: The seed of the folds and of the validation rows.
        strata: A class per row. Each fold gets about the same share of every class.
        groups: A group per row. No group is in two splits.
    """
    number = assign_folds(count, folds, _random(seed), strata, groups)
    rest = np.flatnonzero(number != fold - 1)
    share = fractions[1] / (fractions[0] + fractions[1])
    inside = [None if values is None else values[rest] for values in (strata, groups)]
    parts = min(max(round(1 / share), 2), len(rest) if groups is None else len(np.unique(groups[rest])))
    if parts < 2:
        raise InputError(f"{folds} folds leave too little to train on: validation needs a part of the other folds")
    part = assign_folds(len(rest), parts, _random(seed, fold), *inside)
    sizes = np.bincount(part, minlength=parts)
    codes = np.where(number == fold - 1, 2, 0).astype(np.int8)
    codes[rest[part == np.abs(sizes - share * len(rest)).argmin()]] = 1
    return codes


def assign_folds(
    count: int, folds: int, random: np.random.RandomState, strata: Array | None = None, groups: Array | None = None
) -> Array:
    """A fold number from 0 for each row. Folds have about the same size."""
    units = count if groups is None else len(np.unique(groups))
    if units < folds:
        raise InputError(
            f"{folds} folds need at least {folds} {'rows' if groups is None else 'groups'}; there are {units}"
        )
    if groups is not None:  # the largest group first, each to the fold with the fewest rows
        group, counts, largest_first = _largest_first(groups, random)
        size, fold_of = np.zeros(folds, np.int64), np.empty(len(counts), np.int64)
        for one in largest_first.tolist():
            fold_of[one] = size.argmin()
            size[fold_of[one]] += counts[one]
        return fold_of[group]
    order = random.permutation(count)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    number = np.empty(count, np.int64)
    number[order] = np.arange(count) % folds
    return number


def check_folds(folds: int | None, fold: int) -> None:
    """An error unless ``fold`` is one of at least two ``folds``, or there are none."""
    if folds is None and fold == 1:
        return
    if not _is_whole(folds, 2, MOST_FOLDS):
        raise InputError(f"folds is {folds!r}; it must be a whole number from 2 to {MOST_FOLDS}")
    if not _is_whole(fold, 1, folds or 0):
        raise InputError(f"fold is {fold!r}; it must be a whole number from 1 to {folds}")


def check_seed(seed: int) -> int:
    """A seed that numpy accepts."""
    if not _is_whole(seed, 0, 2**32 - 1):
        raise InputError(f"seed {seed!r} must be a whole number from 0 to 2**32 - 1")
    return int(seed)


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def _random(seed: int, *more: int) -> np.random.RandomState:
    # RandomState's stream is frozen by numpy's policy: a seed gives the same split on every machine and version.
    return np.random.RandomState([check_seed(seed), *more] if more else check_seed(seed))
