"""Stochastic block models, drawn graph by graph: communities, with a planted pattern or with one marked node in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gnas.data.benchmarks.catalogue import SPLITS
from gnas.data.benchmarks.draws import Draws, level
from gnas.data.cache import Array
from gnas.data.compact import Compact, Splits
from gnas.data.sources import Progress, no_progress

Graph = tuple[Array, Array, Array]  # adjacency [n, n] bool, signal [n], label [n]


@dataclass(frozen=True)
class Blocks:
    """Communities of random sizes; an edge inside one has probability ``inside``, between two ``across``."""

    communities: int
    sizes: tuple[int, int]
    inside: float
    across: float

    def draw(self, draws: Draws, extra: int = 0) -> Array:
        """The community of each node, nodes in random order; ``extra`` nodes belong to one more group."""
        low, high = self.sizes
        sizes = low + draws.below(high - low + 1, self.communities)
        groups = np.repeat(np.arange(self.communities + 1), [*sizes, extra])
        return groups[draws.order(groups.size)]

    def thresholds(self, joined: float = 0.0) -> Array:
        """Edge levels between groups; the last group is joined to all with probability ``joined``."""
        table = np.full((self.communities + 1,) * 2, level(self.across), np.int32)
        np.fill_diagonal(table, level(self.inside))
        table[-1] = table[:, -1] = level(joined)
        return table


@dataclass(frozen=True)
class Pattern:
    """A small graph with a signal on its nodes, planted into many block models."""

    adjacency: Array
    signal: Array


@dataclass(frozen=True)
class PatternModel:
    """Block models with one of ``patterns`` small graphs planted in each; the label marks its nodes."""

    blocks: Blocks
    patterns: int
    pattern_sizes: tuple[int, int]
    mean_size: float | None = None  # of the patterns; draws are repeated until it is met to 0.1
    density: float = 0.5
    joined: float = 0.5
    signals: int = 3

    def draw_patterns(self, seed: int) -> list[Pattern]:
        """The patterns that train, val and test share."""
        low, high = self.pattern_sizes
        draws = Draws(seed, _stream(3, 0))
        while True:
            sizes = low + draws.below(high - low + 1, self.patterns)
            if (
                self.mean_size is None
                or abs(int(sizes.sum()) - round(self.patterns * self.mean_size)) * 10 <= self.patterns
            ):
                return [self._pattern(draws, int(size)) for size in sizes]

    def _pattern(self, draws: Draws, size: int) -> Pattern:
        adjacency = _symmetric(draws.levels(size * size).reshape(size, size) < level(self.density))
        return Pattern(adjacency, draws.below(self.signals, size))

    def draw(self, draws: Draws, pattern: Pattern) -> Graph:
        """One graph: levels are independent, so drawing them in the final node order is as good as shuffling after."""
        group = self.blocks.draw(draws, extra=pattern.signal.size)
        adjacency = _edges(draws, group, self.blocks.thresholds(self.joined))
        planted = np.flatnonzero(group == self.blocks.communities)
        adjacency[np.ix_(planted, planted)] = pattern.adjacency
        signal = draws.below(self.signals, group.size)
        signal[planted] = pattern.signal
        return adjacency, signal, group == self.blocks.communities

    def split(self, split: str, count: int, seed: int, tick: Callable[[int], None]) -> Compact:
        """``count`` graphs, each pattern equally often, in random order."""
        patterns, part = self.draw_patterns(seed), SPLITS.index(split)
        chosen = Draws(seed, _stream(4, part)).order(count) % self.patterns
        return _pack(count, lambda i: self.draw(Draws(seed, _stream(part, i)), patterns[chosen[i]]), tick)


@dataclass(frozen=True)
class ClusterModel:
    """Block models in which one node of each community carries the community's number; the label is the community."""

    blocks: Blocks

    def draw(self, draws: Draws) -> Graph:
        group = self.blocks.draw(draws)
        adjacency = _edges(draws, group, self.blocks.thresholds())
        signal = np.zeros(group.size, np.int64)
        for community in range(self.blocks.communities):
            members = np.flatnonzero(group == community)
            signal[members[draws.below(members.size, 1)]] = community + 1
        return adjacency, signal, group

    def split(self, split: str, count: int, seed: int, tick: Callable[[int], None]) -> Compact:
        """``count`` independent graphs."""
        part = SPLITS.index(split)
        return _pack(count, lambda i: self.draw(Draws(seed, _stream(part, i))), tick)


Model = PatternModel | ClusterModel


def generate(model: Model, counts: tuple[int, ...], seed: int = 0, on_progress: Progress = no_progress) -> Splits:
    """Train, val and test of a model."""
    splits: Splits = {}
    for split, count in zip(SPLITS, counts, strict=True):
        done = sum(len(s) for s in splits.values())

        def tick(i: int, done: int = done) -> None:
            on_progress("graphs", done + i, sum(counts))

        splits[split] = model.split(split, count, seed, tick)
    return splits


def _stream(part: int, index: int) -> int:
    return part << 32 | index


def _edges(draws: Draws, group: Array, thresholds: Array) -> Array:
    levels = draws.levels(group.size**2).reshape(group.size, group.size)
    return _symmetric(levels < thresholds[np.ix_(group, group)])


def _symmetric(coins: Array) -> Array:
    upper = np.triu(coins, 1)
    return upper | upper.T


def _pack(count: int, draw: Callable[[int], Graph], tick: Callable[[int], None]) -> Compact:
    nodes, degrees, sources, signals, labels = [], [], [], [], []
    for i in range(count):
        adjacency, signal, label = draw(i)
        nodes.append(signal.size)
        degrees.append(adjacency.sum(1, dtype=np.uint8))
        sources.append(np.nonzero(adjacency)[1].astype(np.uint8))
        signals.append(signal.astype(np.uint8))
        labels.append(label.astype(np.uint8))
        if i % 100 == 0:
            tick(i)
    tick(count)
    columns = {"signal": np.concatenate(signals), "label": np.concatenate(labels)}
    return Compact(np.array(nodes, np.int32), np.concatenate(degrees), np.concatenate(sources), columns)
