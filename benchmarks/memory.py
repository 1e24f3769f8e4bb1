"""How much memory do search and training steps take when edges have a state? The edges of a batch are many: PATTERN has 780,000.

    python benchmarks/memory.py                                    # a GPU, about two minutes; fails above 16 GiB
    python benchmarks/memory.py --recompute never                  # what the same steps take if every message is kept
    python benchmarks/memory.py --device cpu --batch 4 --recompute always

Steps are those of the preset ``wide`` on random graphs of PATTERN's sizes with walks on nodes and edges (shapes.py).
``search`` is a step of the supernet. ``training`` is one of GatedGCN+ and of a network with every kind of message, both with
edge states that every cell updates and a feed-forward layer after each cell.

``peak_mb`` is the peak allocated on a GPU by steps and evaluation of 64 graphs, the data included (``reserved_mb``: what
the process holds). ``kept_mb``, on a
CPU, is what the forward pass keeps for the backward pass: it is linear in the edges, so a small batch tells the rest.
``recompute``: whether the backward pass computes messages again (``auto``: those of large batches).
"""

from __future__ import annotations

import argparse
import dataclasses

import torch
import work
from growth import collect, peaks
from rows import Rows, parser
from shapes import with_columns

from gnas.arch.gap import genotype
from gnas.arch.genotype import Genotype
from gnas.arch.recipes import expand_recipe
from gnas.arch.stack import Stack
from gnas.data.benchmark import Benchmark
from gnas.model import edges
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings

COLUMNS = (
    *("what", "network", "engine", "recompute", "cells", "channels", "graphs", "nodes", "edges", "milliseconds"),
    *("kept_mb", "peak_mb", "reserved_mb"),
)
LIMIT_MB = 16 * 1024
LARGE = {"auto": edges.LARGE, "always": 0, "never": 2**60}
EVERY_MESSAGE = "[identity | sum(edge) | mean(gated) | max(attention) | std(pair)]"
WIDE = Settings.resolve("wide")
CONFIG = TrainConfig(optimizer="adamw", weight_decay=1e-5, clip=1.0)
BATCHES = 2


def main() -> None:
    chosen = arguments()
    device = torch.device(chosen.device)
    edges.LARGE = LARGE[chosen.recompute]
    rows = Rows(chosen.out, device, COLUMNS)
    benchmark = with_columns("pattern", BATCHES * chosen.batch)
    highest = 0.0
    for cells in chosen.cells:
        for name in chosen.networks:
            row = measure(name, cells, benchmark, device, chosen)
            rows.add(recompute=chosen.recompute, engine=chosen.engine, **row)
            highest = max(highest, float(row["peak_mb"] or 0))
    if chosen.recompute == "auto" and highest > LIMIT_MB:
        raise SystemExit(f"a step took {highest / 1024:.1f} GiB; the limit is {LIMIT_MB // 1024} GiB")


def measure(
    name: str, cells: int, benchmark: Benchmark, device: torch.device, chosen: argparse.Namespace
) -> dict[str, object]:
    """One row: the time and the memory of steps."""
    collect(device)
    ready = prepare(name, cells, benchmark, device, chosen)
    kept = count_kept(ready) if device.type == "cpu" else ""
    milliseconds = work.milliseconds(ready, device, chosen.budget)
    work.milliseconds(work.evaluation(ready), device, chosen.budget / 4)
    peak, reserved = peaks(device) if device.type == "cuda" else ("", "")
    del ready
    collect(device)
    return {
        "what": "search" if name == "supernet" else "training",
        "network": name,
        "cells": cells,
        "channels": chosen.channels,
        "graphs": chosen.batch,
        "nodes": benchmark.train.num_nodes // BATCHES,
        "edges": benchmark.train.num_edges // BATCHES,
        "milliseconds": milliseconds,
        "kept_mb": kept,
        "peak_mb": peak,
        "reserved_mb": reserved,
    }


def prepare(name: str, cells: int, benchmark: Benchmark, device: torch.device, chosen: argparse.Namespace) -> work.Work:
    size = {"channels": chosen.channels, "batch": chosen.batch}
    if name == "supernet":
        space = WIDE.space.search_space()
        return work.search(benchmark, cells, chosen.engine, device, space=space, **size)
    found = NETWORKS[name](cells)
    return work.training(benchmark, cells, chosen.engine, device, genotype=found, config=CONFIG, **size)


def every_message(cells: int) -> Genotype:
    """A network whose cells have a branch for every kind of message."""
    return dataclasses.replace(genotype(EVERY_MESSAGE, cells, "bare"), stack=Stack(ffn=True, edges="updated"))


NETWORKS = {"gatedgcn+": lambda cells: expand_recipe("gatedgcn+", cells), "every message": every_message}


def count_kept(ready: work.Work) -> float:
    """MB of tensors that a step keeps for its backward pass, weights included."""
    kept: dict[int, torch.Tensor] = {}

    def keep(value: torch.Tensor) -> torch.Tensor:
        kept.setdefault(value.untyped_storage().data_ptr(), value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        ready.step()
    return sum(value.untyped_storage().nbytes() for value in kept.values()) / 2**20


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "memory.csv")
    words.add_argument("--batch", type=int, default=128, help="graphs")
    words.add_argument("--cells", type=int, nargs="+", default=(4, 12))
    words.add_argument("--channels", type=int, default=WIDE.space.channels)
    words.add_argument("--networks", nargs="+", choices=("supernet", *NETWORKS), default=("supernet", *NETWORKS))
    words.add_argument("--recompute", choices=LARGE, default="auto")
    words.add_argument("--engine", choices=("eager", "graph"), help="default: graph on a GPU, eager on a CPU")
    words.add_argument("--budget", type=float, default=0.4, help="seconds of timing for each figure")
    chosen = words.parse_args()
    chosen.engine = chosen.engine or ("eager" if torch.device(chosen.device).type == "cpu" else "graph")
    return chosen


if __name__ == "__main__":
    main()
