"""What does a batch cost to assemble? Our store, exact and padded, against PyG's DataLoader on the same graphs.

    python benchmarks/batches.py --datasets zinc pattern mnist

Batches of 128 over the first 2,000 training graphs; rows are appended to results/batches.csv.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable

import torch
from rows import append, parser
from torch_geometric.loader import DataLoader

import gnas
from gnas.training.store import GraphStore

COLUMNS = ("date", "hardware", "dataset", "graphs", "megabytes", "store_seconds", "exact_ms", "padded_ms", "pyg_ms")


def main() -> None:
    words = parser(__doc__, "batches.csv")
    words.add_argument("--datasets", nargs="+", default=["zinc", "pattern", "mnist"])
    arguments = words.parse_args()
    for dataset in arguments.datasets:
        row = measure(dataset, arguments.device)
        append(arguments.out, COLUMNS, [row])
        print(row, flush=True)


def measure(dataset: str, device: str) -> dict[str, object]:
    split = gnas.load(dataset).train.select(range(2000))
    started = time.perf_counter()
    store = GraphStore(split, device)
    built = time.perf_counter() - started
    loader = DataLoader([split[i] for i in range(len(split))], batch_size=128, shuffle=True)
    generator = torch.Generator().manual_seed(0)
    return {
        "date": datetime.date.today().isoformat(),
        "hardware": torch.cuda.get_device_name() if device != "cpu" else f"CPU, {torch.get_num_threads()} threads",
        "dataset": dataset,
        "graphs": len(split),
        "megabytes": round(split.nbytes() / 1e6, 1),
        "store_seconds": round(built, 3),
        "exact_ms": per_batch(lambda: store.epoch(128, generator, padded=False)),
        "padded_ms": per_batch(lambda: store.epoch(128, generator, padded=True)),
        "pyg_ms": per_batch(lambda: (batch.to(device) for batch in loader)),
    }


def per_batch(epoch: object) -> float:
    """Milliseconds a batch, the better of two epochs."""
    best = float("inf")
    for _ in range(2):
        batches: Iterable[object] = epoch()  # type: ignore[operator]
        started = time.perf_counter()
        count = sum(1 for _ in batches)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - started) / count * 1e3)
    return round(best, 2)


if __name__ == "__main__":
    main()
