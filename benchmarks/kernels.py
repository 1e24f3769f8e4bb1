"""Which kernels take the time of a step? The longest of an eager search and training step, with counts.

    python benchmarks/kernels.py                       # a GPU if there is one, ZINC-sized graphs, 4 cells, about 20 s
    python benchmarks/kernels.py --shape pattern --top 20
    python benchmarks/kernels.py --recipes zinc-gin+ zinc-gatedgcn+   # training steps of today's networks instead

The kernels are those of a recorded step too, which only saves the launches. ``step_us`` is the time of all of them together.
``note`` names the state of the package: rows measured before a change stay for comparison.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
import work
from recipes import RECIPES, recipe_step
from rows import Rows, parser
from shapes import SHAPES, synthetic
from torch.profiler import ProfilerActivity, profile

COLUMNS = ("shape", "what", "cells", "kernel", "calls", "us", "step_us", "note")


def main() -> None:
    words = parser(__doc__, "kernels.csv")
    words.add_argument("--shape", choices=list(SHAPES), default="zinc")
    words.add_argument("--cells", type=int, default=4)
    words.add_argument("--top", type=int, default=30)
    words.add_argument("--recipes", nargs="+", choices=RECIPES, default=[])
    words.add_argument("--note", default="")
    chosen = words.parse_args()
    device = torch.device(chosen.device)
    rows = Rows(chosen.out, device, COLUMNS)
    for shape, what, cells, ready in steps(chosen, device):
        kernels = list(longest(ready, device))
        total = round(sum(us for _, _, us in kernels))
        for name, calls, us in kernels[: chosen.top]:
            about = {"shape": shape, "what": what, "cells": cells, "step_us": total, "note": chosen.note}
            rows.add(**about, kernel=name, calls=calls, us=round(us))


def steps(chosen: argparse.Namespace, device: torch.device) -> Iterator[tuple[str, str, int, work.Work]]:
    """Shape, name, cells and the step itself of what is measured."""
    for name in chosen.recipes:
        benchmark, options = recipe_step(RECIPES[name], 512)
        yield benchmark.name, name, RECIPES[name].layers, work.training(benchmark, 0, "eager", device, **options)
    if chosen.recipes:
        return
    benchmark = synthetic(chosen.shape)
    for what, make in (("search", work.search), ("training", work.training)):
        shape = f"{chosen.shape} (random graphs of this size)"
        yield shape, what, chosen.cells, make(benchmark, chosen.cells, "eager", device)


def longest(ready: work.Work, device: torch.device) -> Iterator[tuple[str, int, float]]:
    """Name, calls and microseconds of each kernel of one step, the longest first."""
    cuda = device.type == "cuda"
    for _ in range(3):
        ready.step()
    work.synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as seen:
        ready.step()
        work.synchronize(device)
    times = [
        (e.key[:120], e.count, e.self_device_time_total if cuda else e.self_cpu_time_total) for e in seen.key_averages()
    ]
    yield from sorted((one for one in times if one[2] > 0), key=lambda one: -one[2])


if __name__ == "__main__":
    main()
