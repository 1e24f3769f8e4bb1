"""Run folders with networks that were never trained: what loading, exporting and predicting read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from samples import shake

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.data.benchmark import Benchmark
from gnas.data.encoding import Encoding
from gnas.errors import InputError
from gnas.model.baselines import build_baseline
from gnas.model.network import GraphModule, Network
from gnas.model.task import Task
from gnas.run import checkpoint
from gnas.run.models import describe_model

TASK = Task("graph", "regression", 1, in_channels=4, center=(1.5,), scale=(0.5,))
CLASSES = Task("node", "classification", 3, categories=(5, 3), labels=("low", "mid", "high"))
GENOTYPE = gap.genotype(["[identity | dense(sum(dense))]", "[max(sparse) | sparse(mean)]"])


def network(task: Task = TASK, genotype: Genotype = GENOTYPE, seed: int = 0, **options) -> Network:
    """Random weights and running statistics, in evaluation mode."""
    return shake(Network(genotype, task, 6, **options), seed).eval()


def hand_made(name: str, task: Task = TASK, layers: int = 2, seed: int = 0, **options: Any) -> GraphModule:
    """A hand-made network with random weights and running statistics, in evaluation mode."""
    return shake(build_baseline(name, task, num_layers=layers, channels=6, **options), seed).eval()


def keep(
    folder: Path,
    model: GraphModule,
    seed: int = 1,
    val: float = 0.5,
    test: float = 0.6,
    *,
    name: str = "gnas",
    dataset: str = "toy",
    encoding: Encoding | None = None,
) -> Path:
    """A finished training inside a run folder, as a comparison keeps it."""
    place = folder / "trained" / name / f"seed-{seed}"
    place.mkdir(parents=True)
    nothing: dict = dict.fromkeys(("train", "val", "test"))
    about = describe_model(model, Benchmark(dataset, **nothing, task=model.task, source="tests", encoding=encoding))
    (place / "model.json").write_text(json.dumps(about))
    checkpoint.save(place / "weights.safetensors", model.state_dict())
    result = {"seed": seed, "val": val, "test": test, "metric": model.task.metric, "best_epoch": 3}
    (place / "config.yaml").write_text(f"model: {name}\nseed: {seed}\n")
    (place / "result.json").write_text(json.dumps(result))
    return place


def refused(call, *arguments, **options) -> str:
    """The one line with which a call is refused."""
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    message = str(error.value)
    assert len(message.splitlines()) == 1
    return message
