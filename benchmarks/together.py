"""How much time do 16 brief trainings of different networks take together, against one after the other?

    python benchmarks/together.py --data-root data                    # a GPU, about 4 minutes
    python benchmarks/together.py --shapes zinc --ways row here local:8
    python benchmarks/together.py --device cpu --graphs 64 --candidates 2 --epochs 1 --ways row here

The networks are the first of a race: hand-made ones and random draws of the preset ``wide``, 8 cells, with the weights that
the field allows. ``row``: one after the other. ``here``: at once in one process, as a race trains a round on a GPU.
``local:N``: in N worker processes, as a race with ``--on local:N`` does; on a GPU they need NVIDIA's MPS to overlap, and they
are started before the clock. ``share`` is the time over that of ``row``; ``epochs_per_minute`` counts all trainings. The time
includes building the networks and recording their steps, as in a race.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from rows import Rows, parser
from shapes import with_columns

from gnas.data.benchmark import Benchmark
from gnas.jobs import Job, open_runner
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings
from gnas.strategies.candidate import RaceCandidate
from gnas.strategies.proposers import CandidateSpace, propose_candidate
from gnas.strategies.trial import TrialData

COLUMNS = ("data", "way", "candidates", "batch", "epochs", "steps", "seconds", "share", "epochs_per_minute")
WEIGHTS, CELLS = 500_000, 8
BATCHES = {"zinc": 128, "cluster": 32}


def main() -> None:
    chosen = arguments()
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    for shape in chosen.shapes:
        benchmark = with_columns(shape, chosen.graphs, chosen.data_root)
        candidates = propose(benchmark, chosen.candidates)
        in_a_row = 0.0
        for way in chosen.ways:
            seconds = measure(way, candidates, benchmark, BATCHES[shape], chosen)
            in_a_row = seconds if way == "row" else in_a_row
            trained = len(candidates) * chosen.epochs
            rows.add(
                data=benchmark.name,
                way=way,
                candidates=len(candidates),
                batch=BATCHES[shape],
                epochs=chosen.epochs,
                steps=trained * -(-len(benchmark.train) // BATCHES[shape]),
                seconds=seconds,
                share=seconds / in_a_row if in_a_row else "",
                epochs_per_minute=60 * trained / seconds,
            )


def propose(benchmark: Benchmark, count: int) -> list[RaceCandidate]:
    """The first candidates of a race that nothing is known about."""
    wide = Settings.resolve("wide")
    space = CandidateSpace(wide.space.search_space(), benchmark.task, CELLS, wide.training.lr, WEIGHTS)
    found: list[RaceCandidate] = []
    while len(found) < count:
        candidate = propose_candidate(space, [], {one.id for one in found}, len(found), 0)
        assert candidate is not None
        found.append(candidate)
    return found


def measure(
    way: str, candidates: list[RaceCandidate], benchmark: Benchmark, batch: int, chosen: argparse.Namespace
) -> float:
    """Seconds of all trainings."""
    config = TrainConfig(
        epochs=chosen.epochs, batch_size=batch, optimizer="adamw", schedule="cosine", clip=1.0, ema=0.99
    )
    common = {"data": TrialData(benchmark.train, benchmark.val), "task": benchmark.task, "config": config, "seed": 0}

    def make_job(group: list[RaceCandidate], number: str) -> Job:
        count = len(group)
        own = {"candidates": group, "begins": [0] * count, "ends": [chosen.epochs] * count, "rungs": [()] * count}
        folders = [f"{number}/{one.id}" for one in group]
        arguments = {**common, **own, "operations": None}
        return Job("gnas.strategies.race_job.race_job", folders[0], arguments, tuple(folders[1:]))

    groups = [candidates] if way == "here" else [[one] for one in candidates]
    with (
        tempfile.TemporaryDirectory() as folder,
        open_runner(Path(folder), "here" if way == "row" else way, device=chosen.device) as runner,
    ):
        warm = 1 if runner.in_process else runner.pool.width  # every worker has started, and has the graphs
        for _ in runner.results([make_job(candidates[:1], f"warm-{number}") for number in range(warm)]):
            pass
        started = time.perf_counter()
        for _ in runner.results([make_job(group, "timed") for group in groups]):
            pass
        return time.perf_counter() - started


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "together.csv")
    words.add_argument("--shapes", nargs="+", choices=BATCHES, default=list(BATCHES))
    words.add_argument("--ways", nargs="+", default=["row", "here", "local:4", "local:8"], metavar="WAY")
    words.add_argument("--candidates", type=int, default=16)
    words.add_argument("--epochs", type=int, default=4)
    words.add_argument("--graphs", type=int, default=5000, help="in train")
    words.add_argument("--data-root", default=None, help="folder of the datasets; without it graphs are random")
    return words.parse_args()


if __name__ == "__main__":
    main()
