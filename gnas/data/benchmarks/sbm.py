"""PATTERN and CLUSTER: stochastic block models, drawn graph by graph; a seed gives the same bytes everywhere.

Published PATTERN drew its 100 patterns once, with 5 to 34 nodes each, and their mean size came out as 21.4. (Patterns of
20 nodes, as sometimes quoted, would give graphs of at least 45 nodes and 5,891 edges on average; published are 44 and
6,099.) So few sizes have a mean that varies by 0.9 between draws, which would change the number of edges by 2 %: our draw
is repeated until their mean is 21.4 +- 0.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gnas.data.benchmark import SPLIT_NAMES
from gnas.data.benchmarks.compact import Compact, Splits
from gnas.data.benchmarks.sources import (
    Dataset,
    Facts,
    Progress,
    Request,
    Source,
    download_splits,
    ignore_progress,
    node_task,
)
from gnas.data.encoding import Array
from gnas.graph import GraphSet


class Draws:
    """Random integers of one (seed, stream), the same on every machine and in every version of numpy.

    Philox is counter-based: a key of two numbers (seed, stream) names an endless sequence of 64-bit words, so any graph of
    a dataset can be drawn alone, in any order, by any number of workers. Only the raw words are taken from numpy, whose
    distributions may change between versions; ranges, coins and orders are made from them with integer operations.
    """

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
        """Uniform 16-bit levels, four to a word, to be compared with thresholds from ``coin_threshold``."""
        words = self.words(-(-count // 4)).astype("<u8", copy=False)
        return words.view("<u2")[:count]

    def order(self, count: int) -> Array:
        """A uniform permutation of 0 .. count - 1."""
        return np.argsort(self.words(count), kind="stable")


def coin_threshold(probability: float) -> int:
    """The threshold that a 16-bit level stays below with this probability (to within 1 / 2^17)."""
    return round(probability * 2**16)


DENSITY, JOINED = 0.5, 0.5  # of edges within a pattern, and between it and the other nodes
SIGNALS = 3
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
        table = np.full((self.communities + 1,) * 2, coin_threshold(self.across), np.int32)
        np.fill_diagonal(table, coin_threshold(self.inside))
        table[-1] = table[:, -1] = coin_threshold(joined)
        return table


@dataclass(frozen=True)
class Pattern:
    """A small graph with a signal on its nodes, planted into many block models."""

    adjacency: Array
    signal: Array


def draw_pattern(draws: Draws, size: int) -> Pattern:
    """A pattern of so many nodes."""
    adjacency = _symmetric(draws.levels(size * size).reshape(size, size) < coin_threshold(DENSITY))
    return Pattern(adjacency, draws.below(SIGNALS, size))


@dataclass(frozen=True)
class PatternModel:
    """Block models with one of ``patterns`` small graphs planted in each; the label marks its nodes."""

    blocks: Blocks
    patterns: int
    pattern_sizes: tuple[int, int]
    mean_size: float | None = None  # of the patterns; draws are repeated until it is met to 0.1

    def draw_patterns(self, seed: int) -> list[Pattern]:
        """The patterns that train, val and test share."""
        low, high = self.pattern_sizes
        draws = Draws(seed, _stream(3, 0))
        while True:
            sizes = low + draws.below(high - low + 1, self.patterns)
            off = 0 if self.mean_size is None else int(sizes.sum()) - round(self.patterns * self.mean_size)
            if 10 * abs(off) <= self.patterns:
                return [draw_pattern(draws, int(size)) for size in sizes]

    def draw(self, draws: Draws, pattern: Pattern) -> Graph:
        """One graph. Levels are independent, so they are drawn in the final node order instead of being shuffled."""
        group = self.blocks.draw(draws, extra=pattern.signal.size)
        adjacency = _edges(draws, group, self.blocks.thresholds(JOINED))
        planted = np.flatnonzero(group == self.blocks.communities)
        adjacency[np.ix_(planted, planted)] = pattern.adjacency
        signal = draws.below(SIGNALS, group.size)
        signal[planted] = pattern.signal
        return adjacency, signal, group == self.blocks.communities

    def split(self, split: str, count: int, seed: int, tick: Callable[[int], None]) -> Compact:
        """``count`` graphs, each pattern equally often, in random order."""
        patterns, part = self.draw_patterns(seed), SPLIT_NAMES.index(split)
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
        part = SPLIT_NAMES.index(split)
        return _pack(count, lambda i: self.draw(Draws(seed, _stream(part, i))), tick)


Model = PatternModel | ClusterModel


def generate_splits(
    model: Model, counts: tuple[int, ...], seed: int = 0, on_progress: Progress = ignore_progress
) -> Splits:
    """Train, val and test of a model."""
    splits: Splits = {}
    for split, count in zip(SPLIT_NAMES, counts, strict=True):
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


MODELS: dict[str, Model] = {
    "pattern": PatternModel(Blocks(5, (5, 34), 0.5, 0.35), 100, (5, 34), mean_size=21.4),
    "cluster": ClusterModel(Blocks(6, (5, 34), 0.55, 0.25)),
}


def read_pyg(request: Request) -> Splits:
    """The published graphs as PyG downloads them, signals back from one-hot rows to numbers."""
    splits: Splits = {}
    for split, one in download_splits(request.name, "node").items():
        signal = one.x.argmax(1) if one.x.size(1) > 1 else one.x[:, 0]
        columns = {"signal": signal.numpy().astype(np.uint8), "label": one.y.numpy().astype(np.uint8)}
        splits[split] = Compact.from_graphs(one, columns)
    return splits


def draw_splits(request: Request) -> Splits:
    """The graphs of a seed."""
    return generate_splits(MODELS[request.name], request.facts.graphs, request.seed, request.on_progress)


def graph_set(split: Compact, edge_attr: bool = False) -> GraphSet:
    """Signals as categories, a label for each node."""
    signal, label = (torch.from_numpy(split.columns[key]).long() for key in ("signal", "label"))
    return split.graph_set(signal[:, None], label, "node")


def _dataset(name: str, what: str, classes: int, val: int, figures: tuple[int, int, int, int]) -> Dataset:
    facts = Facts(
        f"stochastic block model, {what}",
        node_task(classes, classes + 1),
        (10_000, val, val),
        *figures,
        symmetric=True,
        tolerance=0.01,
        slack=20,
        patience=5,
    )
    sources = (
        Source.of_download(f"GNNBenchmarkDataset of PyG, {name.upper()}", read_pyg, only_seed=0),
        Source("generator", "drawn from the seed", lambda request: True, draw_splits),
    )
    return Dataset(facts, graph_set, sources)


# The data is a random draw: another draw agrees with the published one in its means only. The largest of 14,000 random
# graphs varies by a dozen nodes between draws.
DATASETS = {
    "pattern": _dataset("pattern", "find the planted pattern", 2, 2_000, (1_664_491, 44, 188, 6_099)),
    "cluster": _dataset("cluster", "find the communities", 6, 1_000, (1_406_436, 41, 190, 4_304)),
}
