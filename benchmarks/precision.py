"""How long does an epoch of a training take on a CPU with each way to allow TF32? They take turns in one process.

    python benchmarks/precision.py [--dataset molecules-mini] [--rounds 3]

``ours`` is ``use_precision("tf32")``, ``exact`` is ``use_precision("float32")``, and ``pytorch`` is PyTorch's own
``set_float32_matmul_precision("high")``. The network is gin+ of the preset ``wide`` with 100,000 weights.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import torch
from rows import Rows, parser

import gnas
from gnas.arch.hand_made import HandMade
from gnas.data.graph_encodings import with_encodings
from gnas.model.build import build_network
from gnas.run.settings import Settings
from gnas.training.optim import use_precision
from gnas.training.sampling import open_store
from gnas.training.train import Trainer
from gnas.workflow import train_config

COLUMNS = ("dataset", "way", "rounds", "epoch_seconds", "relative")
WAYS = {
    "exact": lambda: use_precision("float32"),
    "ours": lambda: use_precision("tf32"),
    "pytorch": lambda: torch.set_float32_matmul_precision("high"),
}


def main() -> None:
    options = parser(__doc__, "precision.csv")
    options.add_argument("--dataset", default="molecules-mini")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    settings, cpu = Settings.resolve("wide"), torch.device("cpu")
    data = with_encodings(gnas.load(chosen.dataset), settings.data.get("encodings"), None)
    stores = {name: open_store(graphs, cpu) for name, graphs in data.splits().items()}
    config = replace(train_config(settings), epochs=1)
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(chosen.rounds + 1):
        for place, (name, use) in enumerate(WAYS.items()):
            use()
            seed = len(WAYS) * number + place  # other batches each time, as in a training: few have the same shapes
            torch.manual_seed(0)
            model = build_network(HandMade("gin+", 4, budget=100_000), data.task)
            begin = time.process_time()
            for _ in Trainer(model, config, seed, cpu, dict(stores)).steps():
                pass
            if number:  # the first round loads code
                times[name].append(time.process_time() - begin)
    rows = Rows(chosen.out, cpu, COLUMNS)
    usual = statistics.median(times["exact"])
    for name, found in times.items():
        middle = statistics.median(found)
        figures = {"epoch_seconds": round(middle, 3), "relative": round(middle / usual, 2)}
        rows.add(dataset=chosen.dataset, way=name, rounds=chosen.rounds, **figures)


if __name__ == "__main__":
    main()
