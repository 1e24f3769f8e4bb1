"""What does one step cost? Search and training steps of 4 and 12 cells, against a plain PyG model timed in the same run.

    python benchmarks/steps.py                                        # a GPU if there is one: all shapes, about 90 s
    python benchmarks/steps.py --device cpu --threads 1 2             # ZINC shape, 4 cells, with one and with two threads
    python benchmarks/steps.py --shapes zinc --cells 4 --modes graph  # a part of it

Graphs are random with the sizes of the datasets (shapes.py). Width 64 and batch 64 (search), width 60 and batch 128
(training of a genotype the authors published, its cells repeated), as in the figures quoted from the authors' code; those
are in the column quoted_ms: they were measured before, not in the same run. ``plain`` is plain_pyg.py: the same
mathematics, one module per operation, eager, its batches already on the device; ``speedup`` is its time over ours. Modes:
eager; graph (recorded CUDA graph); compiled (torch.compile, which takes minutes to compile, so it runs only when named).
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

import torch
import work
from rows import Rows, parser
from shapes import SHAPES, synthetic

from gnas.data.benchmark import Benchmark

COLUMNS = ("shape", "what", "cells", "replicas", "mode", "milliseconds", "plain_ms", "speedup", "quoted_ms")
# The authors' released code on ZINC, one H200 or 2 CPU cores: (alpha step + weight step), training step.
QUOTED = {
    ("cuda", "search", 4): 307.0,
    ("cuda", "search", 12): 1082.0,
    ("cuda", "training", 4): 18.8,
    ("cuda", "training", 12): 82.0,
    ("cpu", "search", 4): 1767.0,
    ("cpu", "training", 4): 242.0,
}
GRAPHS = 1024  # a multiple of both batches, also after the search has halved them


def main() -> None:
    words = parser(__doc__, "steps.csv")
    words.add_argument("--shapes", nargs="+", choices=SHAPES, default=None)
    words.add_argument("--cells", nargs="+", type=int, default=None)
    words.add_argument("--what", nargs="+", choices=("search", "training", "darts1"), default=("search", "training"))
    words.add_argument("--modes", nargs="+", choices=("plain", "eager", "graph", "compiled"), default=None)
    words.add_argument("--replicas", nargs="+", type=int, default=None, help="seeds at once (recorded steps)")
    words.add_argument("--threads", nargs="+", type=int, default=[0], help="on a CPU")
    words.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time, one thread")
    words.add_argument("--graphs", type=int, default=GRAPHS)
    words.add_argument("--budget", type=float, default=0.6, help="seconds of timing for each figure")
    chosen = words.parse_args()
    device = torch.device(chosen.device)
    cuda = device.type == "cuda"
    rows = Rows(chosen.out, device, COLUMNS)
    modes = chosen.modes or (["plain", "eager", "graph"] if cuda else ["plain", "eager"])
    for shape in chosen.shapes or (["zinc", "pattern", "mnist"] if cuda else ["zinc"]):
        benchmark = synthetic(shape, (chosen.graphs, 128, 128))
        for what in chosen.what:
            for cells in chosen.cells or ([4, 12] if cuda else [4]):
                case = Case(rows, benchmark, shape, what, cells, device, chosen.budget, chosen.clock)
                for threads in [1] if chosen.clock == "cpu" else chosen.threads:
                    if threads:
                        torch.set_num_threads(threads)
                    case.run(modes, chosen.replicas or ([1, 4] if cuda else [1]))


class Case:
    """One kind of step on one shape, measured in every mode."""

    def __init__(
        self,
        rows: Rows,
        benchmark: Benchmark,
        shape: str,
        what: str,
        cells: int,
        device: torch.device,
        budget: float,
        clock: str,
    ) -> None:
        self.rows, self.benchmark, self.device, self.budget, self.clock = rows, benchmark, device, budget, clock
        self.shape, self.what, self.cells = shape, what, cells

    def run(self, modes: Sequence[str], replicas: Sequence[int]) -> None:
        plain = None
        if "plain" in modes and self.what != "darts1":
            plain = self.milliseconds("plain", 1)
            self.add("plain", 1, plain, plain)
        for mode in [mode for mode in modes if mode != "plain"]:
            for count in replicas if mode == "graph" else replicas[:1]:
                self.add(mode, count, self.milliseconds(mode, count), plain)

    def add(self, mode: str, replicas: int, value: float, plain: float | None) -> None:
        quoted = QUOTED.get((self.device.type, self.what, self.cells)) if self.shape == "zinc" else None
        self.rows.add(
            shape=f"{self.shape} (random graphs of this size)",
            what=self.what,
            cells=self.cells,
            replicas=replicas,
            mode=mode,
            milliseconds=value,
            plain_ms="" if plain is None else plain,
            speedup="" if plain is None else plain * replicas / value,
            quoted_ms="" if quoted is None else quoted,
        )

    def milliseconds(self, mode: str, replicas: int) -> float:
        ready = self.work(mode, replicas)
        found = work.milliseconds(ready, self.device, self.budget, clock=self.clock)
        del ready
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return found

    def work(self, mode: str, replicas: int) -> work.Work:
        cells, device = self.cells, self.device
        if mode == "plain":
            make = work.plain_search if self.what == "search" else work.plain_training
            return make(self.benchmark, cells, device)
        if self.what == "training":
            return work.training(self.benchmark, cells, mode, device, replicas=replicas)
        kind = "single-level" if self.what == "search" else "darts1"
        return work.search(self.benchmark, cells, mode, device, kind=kind, replicas=replicas)


if __name__ == "__main__":
    main()
