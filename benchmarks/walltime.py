"""How long from the start of a process to a genotype, and to trained networks? Imports, compiling and data included.

    python benchmarks/walltime.py zinc                     # search (50 epochs), cold and warm start, on a GPU if there is one
    python benchmarks/walltime.py zinc --train             # and four seeds trained to the protocol's stop
    python benchmarks/walltime.py mnist --random --epochs 5  # random graphs of MNIST's size and number, 5 epochs

Each start is a process of its own. The first ("cold") has an empty kernel cache: Triton's and Inductor's caches point to a new
folder. The second ("warm") finds what the first compiled and stops after its first step: the time that a second start needs.
Times count from the start of the process. ``full_s`` is the whole search (or training) at the protocol's length; with fewer
epochs than that it is extrapolated from the epochs after the first, and ``extrapolated`` says so. A training's length is
not known before: without a stop by the protocol its full time stays empty. Paper preset: 4 cells, width 64, batch 64 and 128.
``graphs`` are those to train on (a search uses half of them); ``nodes`` and ``edges`` are means of a graph.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

SIZES = ("graphs", "val_graphs", "nodes", "edges", "cells", "seeds", "epochs")
TIMES = ("imports_s", "data_s", "first_step_s", "later_epoch_s", "end_s", "full_s", "extrapolated")
COLUMNS = ("dataset", "data", "start", "what", *SIZES, *TIMES, "peak_mb", "result")


def main() -> None:
    chosen = arguments()
    if chosen.child:
        child(chosen)
        return
    import torch
    from rows import Rows

    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    common = {
        "dataset": chosen.dataset,
        "data": "random graphs of this size" if chosen.random else "the dataset",
        "cells": chosen.cells,
    }
    with tempfile.TemporaryDirectory(prefix="gnas-kernels-") as cache:
        for start in ("cold", "warm"):
            for found in measure(chosen, start, Path(cache)):
                rows.add(**common, start=start, **found)


def arguments() -> argparse.Namespace:
    from rows import parser

    words = parser(__doc__, "walltime.csv")
    words.add_argument("dataset")
    words.add_argument("--random", action="store_true", help="random graphs of this dataset's size: needs no data")
    words.add_argument("--graphs", type=int, nargs=3, default=None, help="of the random graphs; default: as published")
    words.add_argument("--cells", type=int, default=4)
    words.add_argument("--epochs", type=int, default=50, help="of the search")
    words.add_argument("--train", action="store_true", help="train the network found, too")
    words.add_argument("--train-epochs", type=int, default=1000, help="at most")
    words.add_argument("--seeds", type=int, default=4, help="trained at once")
    words.add_argument("--budget", type=int, default=0, help="weights of the trained network; 0: width 64")
    words.add_argument("--child", default="", help=argparse.SUPPRESS)
    return words.parse_args()


def measure(chosen: argparse.Namespace, start: str, cache: Path) -> list[dict[str, object]]:
    """One process; what it reported, as rows."""
    places = {"TRITON_CACHE_DIR": str(cache / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor")}
    command = [sys.executable, __file__, *sys.argv[1:], "--child", start]
    began = time.time()
    done = subprocess.run(
        command, env={**os.environ, **places, "GNAS_BEGAN": repr(began)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the {start} process failed:\n{done.stderr[-3000:]}")
    return [row for line in done.stdout.splitlines() if line.startswith("{") for row in [json.loads(line)]]


class Clock:
    """Seconds since the process was started; it hears of every step and epoch and keeps the first."""

    def __init__(self, device: Any, stop_at_first: bool) -> None:
        self.began = float(os.environ["GNAS_BEGAN"])
        self.device, self.stop_at_first = device, stop_at_first
        self.begin()

    def now(self) -> float:
        return time.time() - self.began

    def begin(self) -> None:
        """Forget the steps of the part before."""
        self.first: float | None = None
        self.ends: list[float] = []

    def step(self) -> bool:
        """After each step: keeps when the first was done; True asks the loop to stop."""
        if self.first is None:
            if self.device.type == "cuda":
                import torch

                torch.cuda.synchronize()
            self.first = self.now()
        return self.stop_at_first

    def epoch(self, record: dict[str, Any]) -> None:
        self.ends.append(self.now())

    def later(self, seeds: int = 1) -> float | None:
        """Seconds of an epoch after the first, of all seeds together."""
        ends = self.ends[seeds - 1 :: seeds]  # when all of them had ended this epoch
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else None


def child(chosen: argparse.Namespace) -> None:
    """The measured process."""
    import torch

    import gnas
    from gnas.errors import Interrupted
    from gnas.run.settings import Settings
    from gnas.strategies import make_strategy
    from gnas.workflow import make_candidate, train_config

    device = torch.device(chosen.device)
    clock = Clock(device, chosen.child == "warm")
    times: dict[str, object] = {"imports_s": clock.now()}
    benchmark = data(chosen)
    times["data_s"] = clock.now()
    train = benchmark.train
    mean_nodes, mean_edges = train.num_nodes / len(train), train.num_edges / len(train)
    times |= {"graphs": len(train), "val_graphs": len(benchmark.val), "nodes": mean_nodes, "edges": mean_edges}
    settings = Settings.resolve("paper", cells=chosen.cells, budget=chosen.budget)
    try:
        result = gnas.search(
            benchmark,
            gnas.SearchSpace(),
            make_strategy("single-level", epochs=chosen.epochs, batch_size=settings.search.batch_size),
            channels=settings.space.channels,
            num_cells=settings.space.cells,
            device=device,
            on_epoch=clock.epoch,
            should_stop=clock.step,
        )
    except Interrupted:
        report({**times, "what": "search", "epochs": 0, "first_step_s": clock.first, "peak_mb": peak(device)})
        return
    end = clock.now()
    full = whole(end, chosen.epochs, settings.search.epochs, clock.later())
    answer = f"val {result.history[-1]['val_metric']:.4g}"
    report({**times, "what": "search", **full, **of(clock, end), "seeds": 1, "peak_mb": peak(device), "result": answer})
    if not chosen.train:
        return
    clock.begin()
    config = train_config(settings, benchmark.patience).with_(epochs=chosen.train_epochs)
    spread = gnas.train_seeds(
        partial(make_candidate(result.genotype, benchmark, settings).build, benchmark.task),
        benchmark,
        config,
        settings.training.seeds[: chosen.seeds],
        device=device,
        on_epoch=clock.epoch,
        should_stop=clock.step,
    )
    end = clock.now()
    epochs = [one.epochs for one in spread.results]
    stopped = max(epochs) < chosen.train_epochs
    row = {
        **times,
        "what": "search and training",
        **of(clock, end, chosen.seeds if device.type == "cuda" else 1),
        "seeds": chosen.seeds,
    }
    row |= {
        "epochs": "/".join(map(str, epochs)),
        "full_s": end if stopped else "",
        "extrapolated": "no" if stopped else "",
    }
    report({**row, "peak_mb": peak(device), "result": f"test {spread.mean:.4g} +- {spread.std:.2g}"})


def whole(end: float, epochs: int, protocol: int, epoch: float | None) -> dict[str, object]:
    """The time at the protocol's length: measured, or extrapolated from the epochs after the first."""
    if epochs >= protocol:
        return {"epochs": epochs, "full_s": end, "extrapolated": "no"}
    full = "" if epoch is None else end + (protocol - epochs) * epoch
    return {"epochs": epochs, "full_s": full, "extrapolated": "" if epoch is None else "yes"}


def of(clock: Clock, end: float, seeds: int = 1) -> dict[str, object]:
    later = clock.later(seeds)
    return {"first_step_s": clock.first, "later_epoch_s": "" if later is None else later, "end_s": end}


def data(chosen: argparse.Namespace) -> Any:
    if chosen.random:
        from shapes import synthetic

        return synthetic(chosen.dataset, None if chosen.graphs is None else tuple(chosen.graphs))
    import gnas

    return gnas.load(chosen.dataset)


def peak(device: Any) -> float:
    """MB: reserved on a GPU, resident on a CPU."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_reserved() / 2**20
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(row: dict[str, object]) -> None:
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
