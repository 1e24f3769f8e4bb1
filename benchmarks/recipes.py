"""What does a step of today's networks cost, against the same network in plain PyG, timed in turns in one run?

    python benchmarks/recipes.py                                       # a GPU: recipes and searches, about 6 minutes
    python benchmarks/recipes.py --device cpu --threads 2 --parts recipes networks searches
    python benchmarks/recipes.py --cases zinc-gatedgcn+ --seeds 1 4

``recipes``: a training step of GatedGCN+ and GIN+ by the recipes of ZINC, CIFAR10 and CLUSTER (weights, layers, batch,
dropout; AdamW, gradient clip), several seeds at once on a GPU. ``networks``: a training step of a found network and of each
hand-made one. ``searches``: a search step of the paper's space and of the preset ``wide``, 4 cells, batch 64; plain PyG has
the paper's space alone. Graphs are random with the sizes of the datasets (shapes.py); ``--data-root`` reads the datasets.
``plain`` is plain_layers.py or plain_pyg.py; its batches are ready on the device. ``speedup`` is its median time for as many
seeds over ours.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import work
from plain_layers import LAYERS, PlainHandMade, PlainRecipe
from plain_pyg import PlainTrainStep
from rows import Rows, parser
from shapes import with_columns

from gnas.data.benchmark import Benchmark
from gnas.model import baselines
from gnas.model.network import width_for
from gnas.run.protocol import TrainConfig
from gnas.run.settings import Settings

COLUMNS = (
    "part",
    "data",
    "network",
    "weights",
    "channels",
    "batch",
    "engine",
    "seeds",
    "milliseconds",
    "plain_ms",
    "speedup",
)
PARTS = ("recipes", "networks", "searches")
FOUND = "found"
SHAPES = ("zinc", "pattern")
PATTERN_BATCH = 8  # on a CPU: a batch of 128 has 780,000 edges


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A network and how it is trained: its published number of weights, layers, batch and dropout."""

    shape: str
    name: str
    weights: int
    layers: int
    batch: int
    dropout: float


RECIPES = {
    "zinc-gatedgcn+": Recipe("zinc", "gatedgcn+", 413_000, 9, 32, 0.05),
    "zinc-gin+": Recipe("zinc", "gin+", 477_000, 12, 32, 0.0),
    "cifar10-gatedgcn+": Recipe("cifar10", "gatedgcn+", 119_000, 10, 16, 0.15),
    "cluster-gatedgcn+": Recipe("cluster", "gatedgcn+", 475_000, 16, 16, 0.2),
}
CONFIG = TrainConfig(optimizer="adamw", weight_decay=1e-5, clip=1.0)


def main() -> None:
    chosen = arguments()
    device = torch.device(chosen.device)
    if chosen.threads or chosen.clock == "cpu":
        torch.set_num_threads(1 if chosen.clock == "cpu" else chosen.threads)
    rows = Rows(chosen.out, device, COLUMNS)
    for part in chosen.parts or (["recipes", "searches"] if device.type == "cuda" else PARTS):
        for row in {"recipes": recipes, "networks": networks, "searches": searches}[part](chosen, device):
            rows.add(part=part, engine=chosen.engine, **row)
            gc.collect()


def recipes(chosen: argparse.Namespace, device: torch.device) -> Iterator[dict[str, object]]:
    """Training steps of the recipes for one seed and for several."""
    for name in chosen.cases:
        one = RECIPES[name]
        benchmark, options = recipe_step(one, chosen.graphs, chosen.data_root)
        channels = options["build"]().channels
        plain = PlainRecipe(one.name, benchmark.task, channels, one.layers, one.dropout)
        about = {"data": benchmark.name, "network": one.name, "channels": channels, "batch": one.batch}
        works = {"plain": plain_step(plain, benchmark, one.batch, device, CONFIG)}
        for seeds in chosen.seeds if device.type == "cuda" else [1]:
            works[str(seeds)] = work.training(benchmark, one.layers, chosen.engine, device, replicas=seeds, **options)
        yield from compared(works, about | {"weights": count_weights(plain)}, device, chosen)


def recipe_step(one: Recipe, graphs: int, data_root: str | None = None) -> tuple[Benchmark, dict[str, Any]]:
    """The data of a recipe, and the options of ``work.training`` for its step."""
    benchmark = with_columns(one.shape, graphs, data_root)
    make = partial(baselines.build_recipe, one.name, benchmark.task, num_layers=one.layers)
    channels = width_for(one.weights, lambda width: make(channels=width), 2)
    build = partial(make, channels=channels, dropout=one.dropout)
    return benchmark, {"batch": one.batch, "build": build, "config": CONFIG}


def networks(chosen: argparse.Namespace, device: torch.device) -> Iterator[dict[str, object]]:
    """Training steps of a found network and of the hand-made ones, 4 cells or layers."""
    for shape in chosen.shapes:
        batch = PATTERN_BATCH if shape == "pattern" and device.type == "cpu" else work.TRAIN_BATCH
        benchmark = with_columns(shape, chosen.graphs, chosen.data_root, columns=False)
        for name in chosen.networks:
            if name == FOUND:
                ours = work.training(benchmark, 4, chosen.engine, device, batch=batch)
                channels = work.TRAIN_CHANNELS
                plain = work.plain_network(work.published(4), benchmark.task, channels)
            else:
                ours = work.training(benchmark, 4, chosen.engine, device, batch=batch, hand_made=name)
                channels = ours.kept[0].model.channels  # type: ignore[index]
                plain = PlainHandMade(name, benchmark.task, channels, 4)
            about = {"data": benchmark.name, "network": name, "channels": channels, "batch": batch}
            works = {"plain": plain_step(plain, benchmark, batch, device, TrainConfig()), "1": ours}
            yield from compared(works, about | {"weights": count_weights(plain)}, device, chosen)


def searches(chosen: argparse.Namespace, device: torch.device) -> Iterator[dict[str, object]]:
    """Search steps of the paper's space and of the wide one."""
    for shape in chosen.shapes:
        batch = PATTERN_BATCH if shape == "pattern" and device.type == "cpu" else work.SEARCH_BATCH
        papers = with_columns(shape, chosen.graphs, chosen.data_root, columns=False)
        columns = with_columns(shape, chosen.graphs, chosen.data_root)
        wide = Settings.resolve("wide").space.search_space()
        works = {
            "plain": work.plain_search(papers, 4, device, batch),
            "paper": work.search(papers, 4, chosen.engine, device, batch=batch),
            "wide": work.search(columns, 4, chosen.engine, device, batch=batch, space=wide),
        }
        times = work.compare(works, device, chosen.budget, clock=chosen.clock)
        for name in ("paper", "wide"):
            weights = count_weights(works[name].kept[0].supernet)  # type: ignore[index]
            about = {"data": columns.name, "network": f"space {name}", "weights": weights, "batch": batch, "seeds": 1}
            row = about | {"channels": work.SEARCH_CHANNELS, "milliseconds": times[name]}
            if name == "paper":
                row |= {"plain_ms": times["plain"], "speedup": times["plain"] / times[name]}
            yield row


def plain_step(
    network: torch.nn.Module, benchmark: Benchmark, batch: int, device: torch.device, config: TrainConfig
) -> work.Work:
    """The step of a plain network on batches that are ready."""
    step = PlainTrainStep(network.to(device).train(), config.weight_decay, config.clip)  # type: ignore[arg-type]
    return work.over_batches(step, benchmark.train, batch, device)


def compared(
    works: dict[str, work.Work], about: dict[str, object], device: torch.device, chosen: argparse.Namespace
) -> Iterator[dict[str, object]]:
    """A row for each number of seeds."""
    times = work.compare(works, device, chosen.budget, clock=chosen.clock)
    for name, value in times.items():
        if name != "plain":
            speedup = times["plain"] * int(name) / value
            yield about | {"seeds": int(name), "milliseconds": value, "plain_ms": times["plain"], "speedup": speedup}


def count_weights(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def arguments() -> argparse.Namespace:
    words = parser(__doc__, "recipes.csv")
    words.add_argument("--parts", nargs="+", choices=PARTS, default=None)
    words.add_argument("--cases", nargs="+", choices=RECIPES, default=list(RECIPES), help="of the recipes")
    words.add_argument("--networks", nargs="+", choices=(FOUND, *LAYERS), default=[FOUND, *LAYERS])
    words.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES, help="of networks and searches")
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 4, 8], help="seeds at once, on a GPU")
    words.add_argument("--engine", choices=("auto", "compiled"), default="auto")
    words.add_argument("--threads", type=int, default=0, help="on a CPU")
    words.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time, one thread")
    words.add_argument("--graphs", type=int, default=512, help="random graphs: a multiple of the batches")
    words.add_argument("--data-root", default=None, help="folder of the datasets; without it graphs are random")
    words.add_argument("--budget", type=float, default=2.0, help="seconds of timing for each figure")
    return words.parse_args()


if __name__ == "__main__":
    main()
