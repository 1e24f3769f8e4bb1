"""A paper so small that its tables are made in seconds: every dataset is a dozen rings, every network is narrow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import small
import yaml

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.data.benchmark import Benchmark
from gnas.jobs import open_runner
from gnas.paper import Changes, Request, Results, Summary, perform_runs, plan_runs
from gnas.paper.catalogue import list_entries, train_run
from gnas.paper.runs import Scale, Source

NODES = ("pattern", "cluster")
TINY = Scale(
    "tiny",
    {name: Source(name) for name in ("zinc", "pattern", "cluster", "mnist", "cifar10")},
    depths={4: 1, 8: 2, 12: 2, 16: 2},
    weights=0.02,
    settings={"channels": 4, "nodes": 2, "search_epochs": 2, "search_batch": 4, "epochs": 2, "batch": 4},
    trials=2,
    seeds=(41, 95),
    grid=(1, 2),
)


def load(source: Source) -> Benchmark:
    return replace(small.benchmark("classification" if source.name in NODES else "regression"), name=source.name)


def wanted(*items: str, **more: Any) -> Request:
    return Request(items=items, scale=TINY, **more)


def done(
    what: Request, out: Path, kept: tuple[Path, ...] = (), on: str = "here", **more: Any
) -> tuple[Summary, Results]:
    """Do what is missing on tiny data."""
    results = Results([out, *kept])
    with open_runner(out, on, sync=more.pop("sync", None)) as runner:
        return perform_runs(plan_runs(what), results, runner, load=more.pop("load", load), **more), results


def files(folder: Path, *patterns: str) -> dict[str, bytes]:
    """Contents by path of the files that match."""
    return {str(f.relative_to(folder)): f.read_bytes() for pattern in patterns for f in sorted(folder.rglob(pattern))}


def untimed(folder: Path) -> dict[str, object]:
    """Everything that was computed, without the clock."""
    found: dict[str, object] = {}
    for name, content in files(folder, "history.jsonl").items():
        found[name] = [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in content.splitlines()]
    for name, content in files(folder, "result.json").items():
        if name.count("seed-"):
            found[name] = {k: v for k, v in json.loads(content).items() if k != "seconds"}
    return found


# -- run folders as they would be, written by hand ---------------------------------------------------------------------


ONE = gap.genotype("[sparse(sum(sparse)) | max]")
TWO = gap.genotype("[mean]")


def write_run(place: Path, name: str, genotype: Genotype, results: dict[int, dict[str, Any]], cells: int = 4) -> None:
    """A finished network as its folder would be."""
    folder = place / name
    search = {"seconds": 7.0, "strategy": "single-level", "formulas": ["[mean]"] * cells}
    for seed, result in results.items():
        one = folder / "trained" / "gnas" / f"seed-{seed}"
        one.mkdir(parents=True)
        (one / "config.yaml").write_text(yaml.safe_dump({"describe": f"genotype {genotype.id}, channels 8"}))
        told = {"seed": seed, "metric": "mae", "num_weights": 1000, "epochs": 3, "seconds": 1.5, "train": 0.1}
        (one / "result.json").write_text(json.dumps({**told, **result}))
    (folder / "config.yaml").write_text(yaml.safe_dump({"job": "search"}))
    (folder / "genotype.yaml").write_text(genotype.to_yaml())
    (folder / "result.json").write_text(json.dumps({"search": search}))


def write_depth(place: Path, genotype: Genotype, *cells: int) -> None:
    """Algorithm 1 from 16 cells as its folder would be, after searches with so many cells."""
    folder = place / "zinc/depth-from-16-seed0"
    folder.mkdir(parents=True, exist_ok=True)
    rounds = [{"initial": one, "genotype": genotype.id if one == cells[-1] else "0000000000"} for one in cells]
    (folder / "config.yaml").write_text(yaml.safe_dump({"job": "depth"}))
    (folder / "genotype.yaml").write_text(genotype.to_yaml())
    (folder / "result.json").write_text(json.dumps({"genotype": genotype.id, "rounds": rounds, "seconds": 20.0}))


def algorithm_1(changes: dict[str, Any] | None = None) -> tuple[Any, Request]:
    """The training behind the line of Algorithm 1, and what to ask for to have that line."""
    asked = Request(items=("table-zinc",), methods=("gnas",), depths=(16,), changes=Changes(changes or {}))
    return train_run(entry("algorithm-1", 16), asked), asked


def entry(model: str = "gnas", depth: int = 4, asked: Request | None = None) -> Any:
    asked = asked or Request()
    return next(e for e in list_entries("table-zinc", asked) if (e.model, e.depth) == (model, depth))


def seeds(test: float, val: float, **more: Any) -> dict[int, dict[str, Any]]:
    return {seed: {"test": test + place / 100, "val": val, **more} for place, seed in enumerate((41, 95, 12, 35))}
