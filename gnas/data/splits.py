"""Splits by seed: random, stratified by class, by scaffold. Every row gets one code: 0 train, 1 val, 2 test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnas.data.encoding import Array
from gnas.errors import InputError

Fractions = tuple[float, float, float]
DEFAULT_FRACTIONS: Fractions = (0.8, 0.1, 0.1)


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


def scaffold_split(scaffolds: Sequence[str], fractions: Fractions = DEFAULT_FRACTIONS, seed: int = 0) -> Array:
    """Molecules of one scaffold stay together: the largest groups fill train, then val, then test.

    The seed decides the order of groups of one size; with three groups or more no split is empty.
    """
    _, group, counts = np.unique(np.array(scaffolds, dtype=np.str_), return_inverse=True, return_counts=True)
    shuffled = _random(seed).permutation(len(counts))
    order = shuffled[np.argsort(-counts[shuffled], kind="stable")]
    code, room = np.empty(len(counts), np.int8), np.array(split_sizes(len(scaffolds), fractions))
    used: set[int] = set()
    for left, one in zip(range(len(order), 0, -1), order.tolist(), strict=True):
        empty = [k for k in range(3) if k not in used]
        fits = [k for k in range(3) if room[k] >= counts[one]]
        code[one] = empty[0] if left <= len(empty) else fits[0] if fits else room.argmax()
        room[code[one]] -= counts[one]
        used.add(int(code[one]))
    return code[group.reshape(-1)]


def check_seed(seed: int) -> int:
    """A seed that numpy accepts."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise InputError(f"seed {seed!r} must be a whole number from 0 to 2**32 - 1")
    return int(seed)


def _random(seed: int) -> np.random.RandomState:
    # RandomState's stream is frozen by numpy's policy: a seed gives the same split on every machine and version.
    return np.random.RandomState(check_seed(seed))
