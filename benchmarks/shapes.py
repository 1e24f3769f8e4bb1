"""Random graphs with the sizes of the paper's datasets: steps can be timed without any data.

Node counts, edges and degrees follow the published figures (gnas.data.benchmarks); features and targets mean nothing.
Molecules are chains with a few closed rings, superpixels have 8 senders per node, block models are dense.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

import gnas
from gnas.data.benchmark import Benchmark
from gnas.data.benchmarks import PUBLISHED, find_facts
from gnas.data.graph_encodings import with_encodings
from gnas.graph import GraphSet
from gnas.model.task import Task

SHAPES = PUBLISHED
FEATURES = Task("graph", "regression", 1, in_channels=16, loss="l1", metric="mae")
Edges = tuple[np.ndarray, np.ndarray]


def synthetic(shape: str, graphs: tuple[int, int, int] | None = None, seed: int = 0) -> Benchmark:
    """A benchmark of this dataset's shape; ``graphs`` in train, val and test (default: as many as published)."""
    facts, rng = find_facts(shape), np.random.default_rng(seed)
    mean = facts.nodes / sum(facts.graphs)
    splits = []
    for count in graphs or facts.graphs:
        nodes = node_counts(rng, count, mean, facts.smallest, facts.largest)
        if shape == "zinc":
            edges, counts = chains(rng, nodes, facts.edges / 2 - mean + 1)
        elif shape in ("mnist", "cifar10"):
            edges, counts = senders(rng, nodes, 8)
        else:
            edges, counts = blocks(rng, nodes, facts.edges)
        splits.append(graph_set(rng, nodes, edges, counts, facts.task))
    return Benchmark(f"{shape} shape", *splits, facts.task, "random graphs")


def with_columns(name: str, graphs: int, data_root: str | None = None, columns: bool = True) -> Benchmark:
    """A dataset, or random graphs of its sizes, with ``graphs`` graphs in train; ``columns``: bonds or distances, and walks."""
    encodings = "walks:20,edge_walks:20" if columns and name not in ("mnist", "cifar10") else None
    readout = "sum" if columns and name == "zinc" else "mean"
    if data_root is not None:
        edges = "yes" if columns else None
        found = gnas.load(name, data_root=data_root, edges=edges, encodings=encodings, readout=readout)
        return dataclasses.replace(found, train=found.train.select(torch.arange(graphs)))
    found = synthetic(name, (graphs, 64, 64))
    task = dataclasses.replace(found.task, readout=readout)
    splits = found.splits()
    if columns and name in ("zinc", "mnist", "cifar10"):
        categories = 4 if name == "zinc" else 0
        columns_of = {"edge_categories": (4,)} if categories else {"edge_channels": 1}
        task = dataclasses.replace(task, **columns_of)
        splits = {split: edge_columns(graphs, categories) for split, graphs in splits.items()}
    label = f"{name} (random graphs of this size)"
    return with_encodings(dataclasses.replace(found, name=label, task=task, **splits), encodings)


def edge_columns(graphs: GraphSet, categories: int) -> GraphSet:
    """Random columns of edges: one of categories, or one of numbers."""
    generator, rows = torch.Generator().manual_seed(0), (graphs.num_edges, 1)
    drawn = (
        torch.randint(categories, rows, generator=generator) if categories else torch.rand(rows, generator=generator)
    )
    return dataclasses.replace(graphs, edge_attr=drawn)


def regular(graphs: int, nodes: int, degree: int, seed: int = 0) -> Benchmark:
    """Graphs of one size; every node has ``degree`` senders."""
    rng = np.random.default_rng(seed)
    counts = np.full(graphs, nodes)
    one = graph_set(rng, counts, *senders(rng, counts, degree), FEATURES)
    return Benchmark("regular", one, one, one, FEATURES, "random graphs")


def node_counts(rng: np.random.Generator, count: int, mean: float, smallest: int, largest: int) -> np.ndarray:
    """Around ``mean``, between the extremes."""
    spread = min(mean - smallest, largest - mean) / 2.5
    return np.clip(np.rint(rng.normal(mean, spread, count)), smallest, largest).astype(np.int64)


def chains(rng: np.random.Generator, nodes: np.ndarray, rings: float) -> tuple[Edges, np.ndarray]:
    """A chain through every graph, and ``rings`` more bonds on average, both ways."""
    closed = np.minimum(np.floor(rings + rng.random(len(nodes))).astype(np.int64), (nodes - 1) // 5)
    bonds = nodes - 1
    first = within(bonds)
    start = within(closed) * 5
    one = merge(first, bonds, start, closed)
    other = merge(first + 1, bonds, start + 5, closed)
    counts = bonds + closed
    return (merge(one, counts, other, counts), merge(other, counts, one, counts)), 2 * counts


def senders(rng: np.random.Generator, nodes: np.ndarray, degree: int) -> tuple[Edges, np.ndarray]:
    """``degree`` different senders for each node (all others, in a smaller graph): those at random distances on a ring."""
    each = np.minimum(degree, nodes - 1)
    per_node = np.repeat(each, nodes)
    target = np.repeat(within(nodes), per_node)
    size = np.repeat(np.repeat(nodes, nodes), per_node)
    stride = np.repeat(
        rng.integers(1, np.maximum(np.repeat((nodes - 1) // np.maximum(each, 1), nodes), 1) + 1), per_node
    )
    source = (target + (within(per_node) + 1) * stride) % size
    return (source, target), nodes * each


def blocks(rng: np.random.Generator, nodes: np.ndarray, edges: float) -> tuple[Edges, np.ndarray]:
    """Each pair with the same probability, chosen so that graphs have ``edges`` on average; both ways."""
    share = edges / float(np.mean(nodes * (nodes - 1)))
    pairs = []
    for n in nodes.tolist():
        upper = np.triu(rng.random((n, n), dtype=np.float32) < share, 1)
        pairs.append(np.nonzero(upper | upper.T))
    counts = np.array([len(source) for source, _ in pairs])
    return (np.concatenate([s for s, _ in pairs]), np.concatenate([t for _, t in pairs])), counts


def graph_set(rng: np.random.Generator, nodes: np.ndarray, edges: Edges, counts: np.ndarray, task: Task) -> GraphSet:
    """Flat tensors with random features and targets."""
    total = int(nodes.sum())
    if task.categories:
        x = torch.from_numpy(rng.integers(0, task.categories[0], (total, 1)))
    else:
        x = torch.from_numpy(rng.random((total, task.in_channels), dtype=np.float32))
    rows = total if task.level == "node" else len(nodes)
    if task.kind == "classification":
        y = torch.from_numpy(rng.integers(0, task.num_outputs, rows))
    else:
        y = torch.from_numpy(rng.normal(size=rows).astype(np.float32))
    node_ptr, edge_ptr = (torch.from_numpy(np.concatenate([[0], np.cumsum(c)])) for c in (nodes, counts))
    return GraphSet.build(x, torch.from_numpy(np.stack(edges)), node_ptr, edge_ptr, y, task.level)


def within(counts: np.ndarray) -> np.ndarray:
    """0, 1, ..., count - 1 for each count, one after another."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)


def merge(one: np.ndarray, ones: np.ndarray, other: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Two lists of groups as one: the groups' members side by side."""
    out = np.empty(len(one) + len(other), dtype=np.int64)
    starts = np.cumsum(ones + others) - ones - others
    out[np.repeat(starts, ones) + within(ones)] = one
    out[np.repeat(starts + ones, others) + within(others)] = other
    return out
