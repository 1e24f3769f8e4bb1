"""Does the search find the aggregation that made the labels? A teacher computes each node's target from its neighbours'
gated features with sum, mean or max; the search sees only graphs and targets. Writes results/recovery.csv.

    python benchmarks/recovery.py --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import torch

from gnas.arch.space import SearchSpace
from gnas.data.benchmark import Benchmark
from gnas.graph import GraphSet
from gnas.kernels.aggregate import aggregate
from gnas.model.task import Task
from gnas.strategies import SingleLevel, search

TEACHERS = ("sum", "mean", "max")
COLUMNS = ("date", "teacher", "seed", "chosen", "others", "val_mae", "seconds")


def teacher_benchmark(teacher: str, seed: int = 0, graphs: int = 240, channels: int = 4) -> Benchmark:
    """Random graphs whose node targets are ``teacher`` over the neighbours' gated features."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(8, 17, (graphs,), generator=generator)
    node_ptr = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    edges, edge_counts = [], []
    for count in counts.tolist():
        # Degrees differ widely, so that sum and mean are different functions.
        density = torch.rand(count, 1, generator=generator)
        adjacency = torch.rand(count, count, generator=generator) < density
        edges.append(adjacency.nonzero().T.flip(0))
        edge_counts.append(edges[-1].size(1))
    edge_ptr = torch.tensor([0, *edge_counts]).cumsum(0)
    x = torch.randn(int(node_ptr[-1]), channels, generator=generator)
    blank = GraphSet.build(x, torch.cat(edges, dim=1), node_ptr, edge_ptr, torch.zeros(len(x), 1), "node")
    gate = torch.randn(channels, 1, generator=generator)
    y = aggregate(torch.sigmoid(x @ gate) * x, blank.batch().neighbors, teacher)[:, :2]
    y = (y - y.mean(0)) / y.std(0)
    whole = GraphSet.build(x, torch.cat(edges, dim=1), node_ptr, edge_ptr, y, "node")
    train, val, test = (whole.select(ids) for ids in torch.arange(graphs).split([graphs - 80, 40, 40]))
    return Benchmark(
        f"teacher-{teacher}", train, val, test, Task("node", "regression", 2, in_channels=channels), "made here"
    )


def chosen_aggregations(teacher: str, seed: int = 0, epochs: int = 80) -> tuple[dict[str, int], float, float]:
    """How often each aggregation that reaches the output was chosen, the supernet's validation MAE, seconds."""
    strategy = SingleLevel(epochs=epochs, batch_size=16, alpha_lr=3e-3)
    result = search(teacher_benchmark(teacher, seed), SearchSpace(2, 2), strategy, channels=32, num_cells=1, seed=seed)
    return dict(result.genotype.aggregations()), result.history[-1]["val_metric"], result.seconds


def main() -> None:
    from rows import RESULTS, append

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=RESULTS / "recovery.csv")
    arguments = parser.parse_args()
    arguments.out.unlink(missing_ok=True)
    for teacher in TEACHERS:
        for seed in arguments.seeds:
            counts, mae, seconds = chosen_aggregations(teacher, seed)
            others = sum(count for name, count in counts.items() if name != teacher)
            today = datetime.date.today().isoformat()
            row = (today, teacher, seed, counts.get(teacher, 0), others, round(mae, 4), round(seconds, 1))
            append(arguments.out, COLUMNS, [dict(zip(COLUMNS, row, strict=True))])
            print(*row)


if __name__ == "__main__":
    main()
