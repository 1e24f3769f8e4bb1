"""A paper so small that its tables are made in seconds: every dataset is a dozen rings, every network is narrow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import small

from gnas.data.benchmark import Benchmark
from gnas.paper import Outcome, Request, Results, carry_out, plan_runs
from gnas.paper.scale import Scale, Source

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


def done(what: Request, out: Path, kept: tuple[Path, ...] = (), **more: Any) -> tuple[Outcome, Results]:
    """Run what is missing on tiny data."""
    results = Results([out, *kept])
    return carry_out(plan_runs(what), out, results, load=more.pop("load", load), **more), results


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
