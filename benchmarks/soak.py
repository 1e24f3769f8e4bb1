"""Do memory and open files grow over hundreds of short searches in one process?

    python benchmarks/soak.py [--searches 300]

Every search is a whole search on a few graphs, with the strategies in turn. Its run folder is read and then removed. One row per
search is written to results/soak.csv: resident memory, open files and threads after it.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from tiny import SPACE, tiny

from gnas.run.folder import Run
from gnas.strategies import make_strategy, search

SMALL = {"epochs": 1, "batch_size": 6}
STRATEGIES = {
    "single-level": SMALL,
    "darts2": SMALL,
    "random": {**SMALL, "trials": 2},
    "evolution": {**SMALL, "trials": 2, "population": 2, "sample": 1},
    "graphnas": {**SMALL, "trials": 2, "heads": (1, 2), "widths": (4, 8), "hidden": 8},
}


@dataclass(frozen=True)
class After:
    """The process after a search."""

    search: int
    make_strategy: str
    megabytes: float
    files: int
    threads: int
    tensors: int
    seconds: float


def soak(searches: int) -> Iterator[After]:
    """Search again and again."""
    process, benchmark = psutil.Process(), tiny()
    started = time.monotonic()
    for number in range(1, searches + 1):
        name = list(STRATEGIES)[number % len(STRATEGIES)]
        with tempfile.TemporaryDirectory() as folder, Run(folder, {"search": number}) as run:
            chosen = make_strategy(name, **STRATEGIES[name])
            search(benchmark, SPACE, chosen, channels=4, num_cells=1, seed=number, run=run)  # type: ignore[arg-type]
            assert run.history()
            assert run.load_state() is not None
        gc.collect()
        tensors = sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())
        yield After(
            number,
            name,
            round(process.memory_info().rss / 2**20, 2),
            process.num_fds(),
            process.num_threads(),
            tensors,
            round(time.monotonic() - started, 2),
        )


def main() -> None:
    from rows import RESULTS, append, today

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--searches", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    made, results = today(), RESULTS / "soak.csv"
    results.unlink(missing_ok=True)
    for after in soak(options.searches):
        append(results, [*made, *After.__dataclass_fields__], [{**made, **asdict(after)}])
        if after.search % 20 == 0:
            print(after, flush=True)


if __name__ == "__main__":
    main()
