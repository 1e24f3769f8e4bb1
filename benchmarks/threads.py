"""How much do searches with one and with two threads differ, and is that more than rounding?

    python benchmarks/threads.py [--epochs 4]

Runs the search of the demo (cluster-mini, its preset) with one thread, with two, and with one thread after the last bit of
one weight was changed. One row per epoch is written to results/threads.csv: the training loss of each, the relative
distance of the other two from the first, and whether the choices are still the same.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from rows import RESULTS, append, today

import gnas
from gnas.model.supernet import Supernet
from gnas.run.settings import Settings
from gnas.strategies import make_strategy

COLUMNS = ("date", "machine", "epoch", "loss", "two_threads", "last_bit", "same_choices_two", "same_choices_bit")


def history(epochs: int, threads: int, moved: bool = False) -> list[dict[str, Any]]:
    """The first epochs of the demo's search."""
    settings = Settings.resolve("fast")
    chosen = make_strategy(
        settings.search.strategy, epochs=epochs, batch_size=settings.search.batch_size, **settings.search.options
    )
    init = Supernet.__init__

    def moved_init(self: Supernet, *args: Any, **more: Any) -> None:
        init(self, *args, **more)
        with torch.no_grad():
            weight = next(iter(self.weights()))
            flat = weight.view(-1)
            flat[0] = torch.nextafter(flat[0], torch.tensor(torch.inf))

    torch.set_num_threads(threads)
    if moved:
        Supernet.__init__ = moved_init  # type: ignore[method-assign]
    try:
        benchmark = gnas.load("cluster-mini")
        result = gnas.search(
            benchmark, strategy=chosen, channels=settings.space.channels, num_cells=settings.space.cells
        )
    finally:
        Supernet.__init__ = init  # type: ignore[method-assign]
    return result.history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--epochs", type=int, default=4)
    epochs = parser.parse_args().epochs
    one, two, bit = history(epochs, 1), history(epochs, 2), history(epochs, 1, moved=True)
    results = RESULTS / "threads.csv"
    results.unlink(missing_ok=True)
    for a, b, c in zip(one, two, bit, strict=True):
        apart = [f"{abs(x['train_loss'] / a['train_loss'] - 1):.1e}" for x in (b, c)]
        same = [x["genotype"] == a["genotype"] for x in (b, c)]
        row = [*today().values(), a["epoch"], f"{a['train_loss']:.6f}", *apart, *same]
        append(results, COLUMNS, [dict(zip(COLUMNS, row, strict=True))])
        print(*row[2:])


if __name__ == "__main__":
    main()
