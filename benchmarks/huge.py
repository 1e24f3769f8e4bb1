"""Does one graph of 1 million nodes and 10 million edges run in bounded memory, and does a network learn from it?

    python benchmarks/huge.py                    # 100,000 and 1,000,000 nodes sampled; 100,000 nodes whole, for comparison
    python benchmarks/huge.py --nodes 1000000    # one size; --whole: as one batch

A node's class is the most frequent category among its senders, so a network that reads no edges (the MLP) stays at chance, the
share of the largest class. Receivers are drawn unevenly: the first nodes have thousands of senders. Search, then training of
what was found, on 20,000 labelled nodes (5,000 to choose by, 10,000 to report on); each size is a process of its own, whose
peak memory is the process's. Rows are appended to results/huge.csv.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from rows import Rows, parser
from torch_geometric.data import Data

import gnas
from gnas.model.network import GraphModule
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.single_level import SingleLevelSearch
from gnas.training.sampling import open_store
from gnas.training.train import Trainer

COLUMNS = (
    *("nodes", "edges", "largest_degree", "sampling", "batch", "cells", "channels"),
    *("load_seconds", "data_gb", "peak_gb_loaded", "peak_gb_search", "peak_gb", "search_step_ms", "train_step_ms"),
    *("search_seconds", "train_seconds", "chance", "mlp_test", "val", "test", "genotype"),
)
CLASSES, DEGREE, CELLS, CHANNELS = 4, 10, 2, 16
CPU = torch.device("cpu")
SEARCH = gnas.SingleLevel(epochs=2, batch_size=256, lr=0.1, alpha_lr=1e-2)
TRAIN = gnas.TrainConfig(epochs=4, batch_size=256, lr=5e-3)


def main() -> None:
    words = parser(__doc__, "huge.csv")
    words.add_argument("--nodes", type=int, help="one size, sampled")
    words.add_argument("--whole", action="store_true", help="with --nodes: the graph as one batch")
    asked = words.parse_args()
    if asked.nodes:
        Rows(asked.out, CPU, COLUMNS).add(**measure(asked.nodes, asked.whole))
        return
    for nodes, more in ((100_000, []), (1_000_000, []), (100_000, ["--whole"])):
        command = [sys.executable, __file__, "--nodes", str(nodes), *more, "--out", str(asked.out)]
        subprocess.run(command, check=True)


def measure(nodes: int, whole: bool) -> dict[str, Any]:
    data = make_graph(nodes)
    degree = int(torch.bincount(data.edge_index[1]).max())
    started = time.perf_counter()
    bench = gnas.load(data, name="huge", sample_neighbors="none" if whole else "10,5")
    loaded, peak_loaded = time.perf_counter() - started, peak()
    del data
    problem = SearchProblem(bench.train, bench.val, bench.task, gnas.SearchSpace(), CHANNELS, CELLS)
    searching = SingleLevelSearch(SEARCH, problem, SearchContext())
    search_step, peak_searched = median_ms(searching.steps()), peak()
    genotype = searching.supernet.genotype()
    training = trainer(lambda: gnas.Network(genotype, bench.task, CHANNELS), bench)
    train_step = median_ms(training.steps())
    result, top = training.result(), peak()
    blind = trainer(lambda: gnas.model.baselines.build_baseline("mlp", bench.task, num_layers=CELLS), bench)
    median_ms(blind.steps())
    return {
        "nodes": nodes,
        "edges": bench.train.num_edges,
        "largest_degree": degree,
        "sampling": "whole graph" if whole else "10,5",
        "batch": nodes if whole else TRAIN.batch_size,
        "cells": CELLS,
        "channels": CHANNELS,
        "load_seconds": loaded,
        "data_gb": bench.train.nbytes() / 1e9,
        "peak_gb_loaded": peak_loaded,
        "peak_gb_search": peak_searched,
        "peak_gb": top,
        "search_step_ms": search_step,
        "train_step_ms": train_step,
        "search_seconds": searching.seconds,
        "train_seconds": training.seconds,
        "chance": 100 * float(torch.bincount(bench.test.y[bench.test.mask]).max() / bench.test.mask.sum()),
        "mlp_test": blind.result().test,
        "val": result.val,
        "test": result.test,
        "genotype": genotype.id,
    }


def trainer(build: Callable[[], GraphModule], bench: gnas.Benchmark) -> Trainer:
    torch.manual_seed(41)
    return Trainer(build(), TRAIN, 41, CPU, {name: open_store(split) for name, split in bench.splits().items()})


def median_ms(steps: Iterator[None]) -> float:
    """Run to the end; the median time of a step. The first step of an epoch waits for the evaluation before it."""
    times = []
    while True:
        started = time.perf_counter()
        if next(steps, True):
            return statistics.median(times)
        times.append(1e3 * (time.perf_counter() - started))
        if len(times) % 20 == 0:
            print(f"step {len(times)}: {times[-1]:.0f} ms, {peak():.2f} GB", file=sys.stderr, flush=True)


def make_graph(nodes: int, seed: int = 0) -> Data:
    """Random categories; each edge a uniform sender and an uneven receiver; the class is the senders' commonest category."""
    generator = torch.Generator().manual_seed(seed)
    edges = nodes * DEGREE
    x = torch.randint(CLASSES, (nodes,), generator=generator)
    source = torch.randint(nodes, (edges,), generator=generator)
    target = (nodes * torch.rand(edges, generator=generator, dtype=torch.float64).square()).long()
    counts = torch.bincount(target * CLASSES + x[source], minlength=nodes * CLASSES).view(nodes, CLASSES)
    order = torch.randperm(nodes, generator=generator)
    masks = {}
    for name, part in zip(("train", "val", "test"), order[:35_000].split((20_000, 5_000, 10_000)), strict=True):
        masks[f"{name}_mask"] = torch.zeros(nodes, dtype=torch.bool).index_fill(0, part, True)
    return Data(x=x[:, None], edge_index=torch.stack([source, target]), y=counts.argmax(1), **masks)


def peak() -> float:
    """Largest resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()
