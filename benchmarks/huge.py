"""Do one graph of 1 million nodes and 10 million edges, and 1 million graphs, run in bounded memory, and is something learned?

    python benchmarks/huge.py                    # 100,000 and 1,000,000 nodes sampled; 100,000 nodes whole, for comparison
    python benchmarks/huge.py --nodes 1000000    # one size; --whole: as one batch
    python benchmarks/huge.py --graphs 1000000   # small graphs, through gnas search and gnas predict

A node's class is the most frequent category among its senders, so a network that reads no edges (the MLP) stays at chance, the
share of the largest class. Receivers are drawn unevenly: the first nodes have thousands of senders. Search, then training of
what was found, on 20,000 labelled nodes (5,000 to choose by, 10,000 to report on); each size is a process of its own, whose
peak memory is the process's. Rows are appended to results/huge.csv.

The small graphs are rings of 4 to 8 nodes with categories; the target is the share of the first category. They lie in one packed
file. ``gnas search`` searches, trains and tests on them, one epoch each, and ``gnas predict`` predicts as many others; the peak
memory is that of each command. Rows are appended to results/huge_graphs.csv.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rows import Rows, parser
from torch_geometric.data import Data

import gnas
from gnas.data.benchmark import Benchmark
from gnas.data.storage import save_benchmark
from gnas.graph import GraphSet
from gnas.model.network import GraphModule
from gnas.model.task import Task
from gnas.strategies.base import SearchContext, SearchProblem
from gnas.strategies.single_level import SingleLevelSearch
from gnas.training.prediction import infer
from gnas.training.sampling import open_store
from gnas.training.train import Trainer

COLUMNS = (
    *("nodes", "edges", "largest_degree", "sampling", "batch", "cells", "channels"),
    *("load_seconds", "data_gb", "peak_gb_loaded", "peak_gb_search", "peak_gb", "search_step_ms", "train_step_ms"),
    *("search_seconds", "train_seconds", "chance", "mlp_test", "val", "test", "genotype"),
    *("predict_seconds", "rows_predicted", "peak_gb_predict"),
)
CLASSES, DEGREE, CELLS, CHANNELS = 4, 10, 2, 16
CPU = torch.device("cpu")
OF_GRAPHS = (
    *("graphs", "nodes", "edges", "file_gb", "batch", "cells", "channels", "search_peak_gb", "search_seconds"),
    *("predict_peak_gb", "predict_seconds", "rows_predicted", "weights", "test_mae", "mean_mae", "genotype"),
)
KINDS, LEAST, MOST = 3, 4, 8
SEARCH = gnas.SingleLevel(epochs=2, batch_size=256, lr=0.1, alpha_lr=1e-2)
TRAIN = gnas.TrainConfig(epochs=4, batch_size=256, lr=5e-3)


def main() -> None:
    words = parser(__doc__, "huge.csv")
    words.add_argument("--nodes", type=int, help="one size, sampled")
    words.add_argument("--whole", action="store_true", help="with --nodes: the graph as one batch")
    words.add_argument("--graphs", type=int, help="so many small graphs")
    asked = words.parse_args()
    if asked.graphs:
        Rows(asked.out.with_name("huge_graphs.csv"), CPU, OF_GRAPHS).add(**measure_graphs(asked.graphs))
        return
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
    started = time.perf_counter()
    predicted = infer(training.model, bench.test, in_split=True)
    predict_seconds = time.perf_counter() - started
    after = peak()
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
        "predict_seconds": predict_seconds,
        "rows_predicted": len(predicted),
        "peak_gb_predict": after,
    }


def measure_graphs(count: int) -> dict[str, Any]:
    batch, cells, channels = 4096, 1, 8
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        about = write_rings(count, place / "rings.safetensors")
        search = [
            "search",
            place / "rings.safetensors",
            "--preset",
            "fast",
            "--strategy",
            "single-level",
            "--set",
            "nodes=1",
        ]
        search += ["--cells", cells, "--channels", channels, "--batch", batch, "--search-epochs", 1, "--epochs", 1]
        search += ["--baselines", "", "--seeds", 41, "--device", "cpu", "--quiet", "--out", place / "run"]
        searched = measure_command(*search)
        predicted = measure_command(
            "predict", place / "run", place / "rings.safetensors", "-o", place / "predicted.csv"
        )
        with open(place / "predicted.csv") as file:
            rows = sum(1 for _ in file) - 1
        file = next((place / "run").glob("trained/*/seed-*/result.json"))
        result = json.loads(file.read_text())
        return {
            **about,
            "file_gb": (place / "rings.safetensors").stat().st_size / 1e9,
            "batch": batch,
            "cells": cells,
            "channels": channels,
            "search_peak_gb": searched[0],
            "search_seconds": searched[1],
            "predict_peak_gb": predicted[0],
            "predict_seconds": predicted[1],
            "rows_predicted": rows,
            "weights": result["num_weights"],
            "test_mae": result["test"],
            "genotype": gnas.load_genotype(place / "run" / "genotype.yaml").id,
        }


def measure_command(*words: object) -> tuple[float, float]:
    """Largest resident memory of a gnas command in GB, and its seconds."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "gnas", *map(str, words)])
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"gnas {words[0]} failed")
    return used.ru_maxrss * 1024 / 1e9, time.perf_counter() - started


def write_rings(count: int, file: Path, shares: tuple[float, ...] = (0.8, 0.1, 0.1), seed: int = 0) -> dict[str, Any]:
    """Rings with categories, packed; how many nodes and edges, and the error of the mean as a prediction."""
    generator, splits, sizes = torch.Generator().manual_seed(seed), [], [0, 0]
    for share in shares:
        nodes = torch.randint(LEAST, MOST + 1, (round(share * count),), generator=generator)
        pointer = torch.cat([torch.zeros(1, dtype=torch.long), nodes.cumsum(0)])
        own = torch.arange(int(pointer[-1])) - pointer[:-1].repeat_interleave(nodes)
        size = nodes.repeat_interleave(nodes)
        x = torch.randint(KINDS, (own.numel(), 1), generator=generator)
        before, after = (own - 1) % size, (own + 1) % size
        source = torch.stack([torch.minimum(before, after), torch.maximum(before, after)], 1).flatten()
        y = torch.segment_reduce((x == 0).float(), "mean", lengths=nodes)
        splits.append(GraphSet(x, torch.stack([source, own.repeat_interleave(2)]), pointer, 2 * pointer, y))
        sizes = [sizes[0] + own.numel(), sizes[1] + source.numel()]
    task = Task("graph", "regression", 1, categories=(KINDS,))
    save_benchmark(Benchmark("rings", *splits, task, "benchmarks/huge.py"), file)
    error = float((splits[2].y - splits[0].y.mean()).abs().mean())
    return {"graphs": count, "nodes": sizes[0], "edges": sizes[1], "mean_mae": error}


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
