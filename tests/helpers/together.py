"""What test_distributed.py runs, alone and in several processes; results go to a file of each process.

torchrun --nproc-per-node 2 tests/helpers/together.py FOLDER
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small
import tiny
import torch

import gnas
from gnas import distributed
from gnas.arch.stack import StackSpace
from gnas.data.benchmark import with_sampling
from gnas.errors import Interrupted
from gnas.model import baselines
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies import make_strategy, search
from gnas.training.train import train

SEARCHES = ("single-level", "darts1", "darts2")
RELATIONS = gnas.SearchSpace(
    1,
    2,
    aggregators=("mean", "max", "std"),
    variant="bare",
    messages=("plain", "edge", "gated", "attention", "pair"),
    stack=StackSpace(ffn=(True,), edges=("updated",)),
)
BATCH = 5  # of 6 graphs: the last batch has one, which is the first process's


def searched(name: str, run: Run | None = None, sync_bn: bool = True, stop: int = 0, **more: Any) -> dict[str, Any]:
    """A search on graph regression: the final alphas and the history."""
    chosen = make_strategy(name, epochs=2, batch_size=BATCH, sync_bn=sync_bn, alpha_lr=0.05, **more)
    stopping = small.stop_after(stop) if stop else None
    problem = small.benchmark("regression")
    result = search(problem, tiny.SPACE, chosen, channels=16, num_cells=2, run=run, should_stop=stopping)
    return {"genotype": result.genotype.to_yaml(), "history": tiny.untimed(result.history)}


def related() -> dict[str, Any]:
    """A search over messages on graphs with columns of edges."""
    chosen = make_strategy("single-level", epochs=2, batch_size=BATCH, sync_bn=True, alpha_lr=0.05)
    result = search(small.with_edge_columns(), RELATIONS, chosen, channels=4, num_cells=2)
    return {"genotype": result.genotype.to_yaml(), "history": tiny.untimed(result.history)}


def trained(name: str, kind: str = "regression", sync_bn: bool = True, **more: Any) -> dict[str, Any]:
    """A training: its figures and weights."""
    others = {"multilabel": small.multilabel, "edges": small.with_edge_columns}
    bench = others[kind]() if kind in others else small.benchmark(kind)
    if kind == "classification":
        bench = replace(bench, task=replace(bench.task, loss="weighted_cross_entropy", metric="class_accuracy"))
    build = small.builder(bench) if name == "gnas" else lambda: baselines.build_baseline(name, bench.task, num_layers=2)
    result = train(build, bench, TrainConfig(epochs=2, batch_size=BATCH, sync_bn=sync_bn, **more), seed=3)
    assert result.network is not None
    if kind == "edges":
        assert result.network.edge_encoder.features == 2  # type: ignore[union-attr]
    weights = torch.cat([v.flatten().double() for v in result.network.state_dict().values()])
    return {
        "weights": weights.tolist(),
        "history": tiny.untimed(result.history),
        "test": result.test,
        "metrics": result.metrics,
    }


def sampled() -> dict[str, Any]:
    """A search on sampled neighbourhoods of one graph."""
    bench = with_sampling(small.transductive(), "3,2")
    chosen = gnas.SingleLevel(epochs=2, batch_size=4, sync_bn=True)
    result = search(bench, tiny.SPACE, chosen, channels=6, num_cells=2)
    return {"genotype": result.genotype.to_yaml(), "history": tiny.untimed(result.history)}


def resumed(folder: Path) -> dict[str, Any]:
    """The single-level search, stopped within an epoch and gone on with."""
    run = Run(folder, {"job": "test"})
    with pytest.raises(Interrupted, match="epoch 2, step 1"):
        searched("single-level", run, stop=3)
    run.close()
    with Run(folder, {"job": "test"}, resume=True) as again:
        return searched("single-level", again)


def diverged() -> str:
    """What is said when one process holds other alphas."""
    supernet = gnas.Supernet(tiny.SPACE, small.benchmark().task, 4, 1)
    distributed.same_start(supernet)
    distributed.end_epoch(supernet)
    with torch.no_grad():
        supernet.filter_alphas[0, 0, 0] += 1e-6 * distributed.get_rank()
    try:
        distributed.end_epoch(supernet)
    except distributed.Diverged as error:
        return str(error)
    return ""


def refused(folder: Path) -> str:
    """What the processes are told about a folder that holds a run: the first one looks."""
    try:
        Run(folder, {"job": "test"})
    except gnas.InputError as error:
        return str(error)
    return ""


def everything(folder: Path) -> dict[str, Any]:
    torch.set_default_dtype(torch.float64)
    found: dict[str, Any] = {name: searched(name) for name in SEARCHES}
    found["trained"] = trained("gnas", ema=0.9, clip=1.0)
    found["classes"] = trained("gnas", "classification")
    found["labels"] = trained("gnas", "multilabel")
    found["gatedgcn"] = trained("gatedgcn")
    found["edges"] = trained("gatedgcn+", "edges")
    found["messages"] = related()
    found["resumed"] = resumed(folder / "run")
    if distributed.num_processes() > 1:
        found["apart"] = searched("single-level", sync_bn=False)
        found["sampled"] = sampled()
        found["trials"] = searched_by_trials()
        found["diverged"], found["refused"] = diverged(), refused(folder / "run")
    return found


def searched_by_trials() -> dict[str, Any]:
    chosen = make_strategy("random", epochs=1, trials=3, batch_size=BATCH)
    result = search(small.benchmark(), tiny.SPACE, chosen, channels=6, num_cells=1)
    return {"genotype": result.genotype.to_yaml()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed.join_processes("cpu")
    where = Path(sys.argv[1])
    (where / f"rank-{distributed.get_rank()}.json").write_text(json.dumps(everything(where)))
