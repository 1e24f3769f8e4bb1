"""What does a training step of each hand-made network cost?

    python benchmarks/hand_made.py                                      # a GPU if there is one: all shapes, about 60 s
    python benchmarks/hand_made.py --device cpu --batch 16 --shapes pattern zinc

Random graphs with the sizes of the datasets (shapes.py), four layers at the benchmark's width, batch 128 or ``--batch``.
``note`` names the state of the package: rows measured before a change stay for comparison.
"""

from __future__ import annotations

import torch
import work
from rows import Rows, parser
from shapes import SHAPES, synthetic

NAMES = ("mlp", "gcn", "gin", "graphsage", "monet", "gat", "gatedgcn")
COLUMNS = ("shape", "model", "weights", "batch", "mode", "milliseconds", "note")


def main() -> None:
    words = parser(__doc__, "hand_made.csv")
    words.add_argument("--shapes", nargs="+", choices=SHAPES, default=["zinc", "pattern", "mnist"])
    words.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    words.add_argument("--batch", type=int, default=work.TRAIN_BATCH)
    words.add_argument("--note", default="")
    chosen = words.parse_args()
    device = torch.device(chosen.device)
    mode = "graph" if device.type == "cuda" else "eager"
    rows = Rows(chosen.out, device, COLUMNS)
    for shape in chosen.shapes:
        benchmark = synthetic(shape, (4 * chosen.batch, chosen.batch, chosen.batch))
        for name in chosen.models:
            ready = work.training(benchmark, 4, mode, device, batch=chosen.batch, hand_made=name)
            about = {"shape": f"{shape} (random graphs of this size)", "batch": chosen.batch, "mode": mode}
            milliseconds = round(work.milliseconds(ready, device, 2.0), 3)
            weights = ready.kept[0].model.num_weights()  # type: ignore[index]
            rows.add(**about, model=name, weights=weights, milliseconds=milliseconds, note=chosen.note)


if __name__ == "__main__":
    main()
