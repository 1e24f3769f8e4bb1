"""How do time and memory grow with cells, nodes, edges, channels and graphs in a batch? Fitted exponents.

    python benchmarks/growth.py                  # a GPU if there is one, about 90 s
    python benchmarks/growth.py --device cpu     # smaller sizes, some minutes; --clock cpu where other processes run
    python benchmarks/growth.py --fit            # only fit again, from the stored rows

One size is varied, the others stay at their base. Graphs are random, every node has the same number of senders
(shapes.py). ``nodes`` and ``edges`` are those of a batch; with the nodes the edges grow too (4 per node), with the edges the
nodes stay. The fit (fit.py) writes growth_exponents.csv, the slope of log time and log memory against log size over all sizes,
over the larger half, where fixed costs weigh less, and of what is added to the smallest (``_added``), without them; and, with
``--fit`` or without ``--out``, the coefficients of ``gnas.cost``.

``peak_mb`` is what a step needs: the peak allocated on a GPU (``reserved_mb``: what the process holds, the eager first steps
and the recorded ones together), the growth of the resident size on a CPU, each case in a process of its own. ``before_mb``
was there before. ``evaluation_ms`` is the time of a batch when evaluating.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
from collections.abc import Iterator
from dataclasses import dataclass, replace

import fit
import torch
import work
from rows import RESULTS, Rows, parser
from shapes import regular

from gnas.cost import FILE

COLUMNS = (
    *("varied", "what", "mode", "cells", "graphs", "nodes", "edges", "channels", "milliseconds", "evaluation_ms"),
    *("peak_mb", "reserved_mb", "before_mb", "clock"),
)


@dataclass(frozen=True)
class Size:
    """A batch and a network."""

    cells: int = 4
    graphs: int = 64
    nodes: int = 32  # of a graph
    degree: int = 4
    channels: int = 64


VARIED: dict[str, dict[str, tuple[int, ...]]] = {
    "cuda": {
        "cells": (2, 4, 8, 16, 32),
        "nodes": (16, 64, 256, 1024),
        "edges": (8, 32, 128, 512),
        "channels": (16, 32, 64, 128, 256),
        "graphs": (16, 64, 256, 1024),
    },
    "cpu": {
        "cells": (2, 4, 8, 16, 32),
        "nodes": (8, 16, 32, 64, 128),
        "edges": (8, 32, 128, 512),
        "channels": (16, 32, 64, 128),
        "graphs": (8, 16, 64, 128),
    },
}
BASE = {"cuda": Size(), "cpu": Size(cells=2, graphs=32, channels=32)}
# Few large graphs where the edges vary: a node can then have many senders.
EDGES_BASE = {"cuda": Size(graphs=8, nodes=1024), "cpu": Size(cells=2, graphs=2, nodes=1024, channels=32)}


def sizes(kind: str) -> Iterator[tuple[str, Size]]:
    """What is varied, and each size."""
    for varied, values in VARIED[kind].items():
        base = EDGES_BASE[kind] if varied == "edges" else BASE[kind]
        for value in values:
            yield varied, replace(base, **{"degree" if varied == "edges" else varied: value})


def main() -> None:
    words = parser(__doc__, "growth.csv")
    words.add_argument("--what", nargs="+", choices=("search", "training"), default=("search", "training"))
    words.add_argument("--varied", nargs="+", choices=tuple(VARIED["cpu"]), default=tuple(VARIED["cpu"]))
    words.add_argument("--most", type=int, default=0, help="leave out sizes with more nodes in a batch than this")
    words.add_argument("--threads", type=int, default=0)
    words.add_argument("--budget", type=float, default=0.4, help="seconds of timing for each figure")
    words.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time, one thread")
    words.add_argument("--fit", action="store_true", help="measure nothing")
    chosen = words.parse_args()
    device = torch.device(chosen.device)
    if not chosen.fit:
        if chosen.threads or chosen.clock == "cpu":
            torch.set_num_threads(1 if chosen.clock == "cpu" else chosen.threads)
        rows = Rows(chosen.out, device, COLUMNS)
        for varied, size in sizes(device.type):
            for what in chosen.what:
                if varied in chosen.varied and not 0 < chosen.most < size.graphs * size.nodes:
                    rows.add(varied=varied, **measure(what, size, device, chosen.budget, chosen.clock))
    ours = chosen.fit or chosen.out == RESULTS / "growth.csv"
    fit.main(chosen.out, FILE if ours else None)


def measure(what: str, size: Size, device: torch.device, budget: float, clock: str) -> dict[str, object]:
    """One row. On a CPU in a forked process: the peak of the resident size can only grow."""
    if device.type == "cuda":
        return case(what, size, device, budget, clock)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(case, (what, size, device, budget, clock))


def case(what: str, size: Size, device: torch.device, budget: float, clock: str) -> dict[str, object]:
    mode = "graph" if device.type == "cuda" else "eager"
    batches = 4
    benchmark = regular(size.graphs * batches, size.nodes, size.degree)
    collect(device)
    before, kept = held(device), peaks(device)[1]
    make = work.search if what == "search" else work.training
    ready = make(benchmark, size.cells, mode, device, channels=size.channels, batch=size.graphs)
    milliseconds = work.milliseconds(ready, device, budget, clock=clock)
    peak, reserved = peaks(device)
    evaluation = work.milliseconds(work.evaluation(ready), device, budget / 2, clock=clock)
    del ready
    collect(device)
    return {
        "what": what,
        "mode": mode,
        "cells": size.cells,
        "graphs": size.graphs,
        "nodes": size.graphs * size.nodes,
        "edges": benchmark.train.num_edges // batches,
        "channels": size.channels,
        "milliseconds": milliseconds,
        "evaluation_ms": evaluation,
        "peak_mb": peak - before,
        "reserved_mb": reserved - kept if device.type == "cuda" else peak - before,
        "before_mb": before,
        "clock": clock,
    }


def held(device: torch.device) -> float:
    """MB in use now."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device) / 2**20
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def peaks(device: torch.device) -> tuple[float, float]:
    """MB: the most that was in use, the most that was held."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20, torch.cuda.max_memory_reserved(device) / 2**20
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return most, most


def collect(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


if __name__ == "__main__":
    main()
