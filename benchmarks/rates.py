"""Do supernets learn with the rates of the presets? Regression and classes, at the level of graphs, nodes and edges.

    python benchmarks/rates.py --device cpu                      # every preset and task, small data, minutes
    python benchmarks/rates.py --presets fast --packed PACKED    # ESOL and FreeSolv, as pays.py prepares them

A supernet is searched for a few epochs. ``constant`` is the validation loss of the best constant prediction, ``val_loss`` the
lowest one of the supernet. ``lowered`` counts how often the search lowered its rate by itself, to ``rate`` at last.
``--factor 10`` begins with a rate that is too high.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from rows import Rows, parser

import gnas
from gnas.data.benchmark import Benchmark
from gnas.data.graph_encodings import with_encodings
from gnas.graph import GraphSet
from gnas.model.task import Task
from gnas.run.settings import Settings
from gnas.strategies import SingleLevel, search
from gnas.strategies.constant import constant_loss
from gnas.workflow import strategy_from_settings

COLUMNS = (
    "task",
    "data",
    "preset",
    "strategy",
    "begun_with",
    "rate",
    "epochs",
    "constant",
    "val_loss",
    "learned_at",
    "lowered",
    "seconds",
)
PRESETS = ("paper", "fast", "strong")
PACKED = ("graph regression esol", "graph regression freesolv")


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    rows = Rows(chosen.out, torch.device(chosen.device), COLUMNS)
    tasks = TASKS if chosen.packed is None else {name: partial(load_packed, chosen.packed, name) for name in PACKED}
    for name in chosen.tasks or tasks:
        benchmark = tasks[name]()
        for preset in chosen.presets:
            rows.add(task=name, data=benchmark.name, preset=preset, **measure(benchmark, preset, chosen))


def measure(benchmark: Benchmark, preset: str, chosen: argparse.Namespace) -> dict[str, object]:
    """A short search with the settings of a preset."""
    settings = Settings.resolve(preset).changed({"search.epochs": chosen.epochs})
    strategy, space = strategy_from_settings(settings, "single-level"), settings.space
    assert isinstance(strategy, SingleLevel)
    strategy = replace(strategy, lr=chosen.factor * strategy.lr)
    constant = constant_loss(benchmark.task, benchmark.train, benchmark.val)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = search(
            benchmark,
            space.search_space(),
            strategy,
            channels=space.channels,
            num_cells=space.cells,
            device=chosen.device,
        )
    history = result.history
    lowered = [record["not_learned"] for record in history if "not_learned" in record]
    rates = [one["new_rate"] for one in lowered if one["new_rate"] is not None]
    learned = next((record["epoch"] for record in history if record["val_loss"] < 0.98 * constant), "")
    return {
        "strategy": strategy.name,
        "begun_with": strategy.lr,
        "rate": rates[-1] if rates else strategy.lr,
        "epochs": len(history),
        "constant": constant,
        "val_loss": min(record["val_loss"] for record in history),
        "learned_at": learned,
        "lowered": len(rates),
        "seconds": time.perf_counter() - started,
    }


def load_packed(folder: Path, name: str) -> Benchmark:
    """A set of molecules with the input of the preset ``fast``."""
    from pays_data import read_part

    return with_encodings(read_part(folder, name.rpartition(" ")[2], 0), None, "auto")


def load_edges() -> Benchmark:
    """An edge task: whether the two ends of an edge belong to one community of cluster-mini."""
    nodes = gnas.load("cluster-mini")
    task = Task("edge", "classification", 2, categories=nodes.task.categories, metric="accuracy")
    splits = {name: _label_edges(graphs) for name, graphs in nodes.splits().items()}
    return replace(nodes, name="cluster-mini edges", task=task, **splits)


def _label_edges(graphs: GraphSet) -> GraphSet:
    shift = torch.repeat_interleave(graphs.node_ptr[:-1], graphs.edge_ptr.diff())
    source, target = graphs.edge_index.long() + shift
    return replace(graphs, y=(graphs.y[source] == graphs.y[target]).long(), level="edge")


TASKS: dict[str, Callable[[], Benchmark]] = {
    "graph regression": lambda: gnas.load("molecules-mini"),
    "graph classification": lambda: gnas.load("digits"),
    "node classification": lambda: gnas.load("cluster-mini"),
    "edge classification": load_edges,
}


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "rates.csv")
    words.add_argument("--presets", nargs="+", default=list(PRESETS), choices=PRESETS)
    words.add_argument("--tasks", nargs="+", default=[])
    words.add_argument("--packed", type=Path, help="the folder that `pays.py prepare` wrote")
    words.add_argument("--epochs", type=int, default=12)
    words.add_argument("--factor", type=float, default=1.0, help="what the preset's rate is multiplied by")
    words.add_argument("--threads", type=int, default=1)
    return words.parse_args()


if __name__ == "__main__":
    main()
