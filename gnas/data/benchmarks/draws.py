"""Random integers that are the same on every machine and in every version of numpy.

Philox is counter-based: a key of two numbers (seed, stream) names an endless sequence of 64-bit words, so any graph of a
dataset can be drawn alone, in any order, by any number of workers. Only the raw words are taken from numpy, whose
distributions may change between versions; ranges, coins and orders are made from them with integer operations.
"""

from __future__ import annotations

import numpy as np

from gnas.data.cache import Array


class Draws:
    """The sequence of one (seed, stream)."""

    def __init__(self, seed: int, stream: int) -> None:
        key = np.array([seed % 2**64, stream % 2**64], np.uint64)
        self._bits = np.random.Philox(key=key)

    def words(self, count: int) -> Array:
        """Uniform 64-bit words."""
        return self._bits.random_raw(count)

    def below(self, bound: int | Array, count: int) -> Array:
        """Uniform integers in 0 .. bound - 1 (uneven by at most bound / 2^32)."""
        return ((self.words(count) >> np.uint64(32)) * np.asarray(bound, np.uint64) >> np.uint64(32)).astype(np.int64)

    def levels(self, count: int) -> Array:
        """Uniform 16-bit levels, four to a word, to be compared with thresholds from ``level``."""
        words = self.words(-(-count // 4)).astype("<u8", copy=False)
        return words.view("<u2")[:count]

    def order(self, count: int) -> Array:
        """A uniform permutation of 0 .. count - 1."""
        return np.argsort(self.words(count), kind="stable")


def level(probability: float) -> int:
    """The threshold a 16-bit level stays below with this probability (to within 1 / 2^17)."""
    return round(probability * 2**16)
