"""Networks from their folders: descriptions and back, which seed is taken, and what is refused in one line."""

import functools
import json
import re
from pathlib import Path

import pytest
import torch
from samples import OWN
from torch import nn
from trained import CLASSES, GENOTYPE, TASK, keep, network, refused

from gnas.arch.genotype import Genotype
from gnas.arch.graphnas import GraphNASArchitecture, LayerChoice
from gnas.data.benchmark import Benchmark
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model.baselines import BASELINES
from gnas.model.build import build_network
from gnas.model.network import GraphModule, Network
from gnas.model.task import Task
from gnas.run import checkpoint
from gnas.run.models import build_model, choose_seed, describe_model, load_model
from gnas.run.record import TrainingFigures
from gnas.use.export import export_run

CONTINUOUS = Task("edge", "classification", 2, in_channels=4)
DIFFERENT = {
    "found": lambda task: Network(GENOTYPE, task, 6, norm=False, fusion="max", residual=False, dropout=0.25),
    "graphnas": lambda task: build_network(GraphNASArchitecture((LayerChoice("gat", "sum", "relu", 2, 4),), 6), task),
    **{name: lambda task, make=make: make(task, 5, 3, 0.25) for name, make in BASELINES.items()},
    "gat-heads": lambda task: BASELINES["gat"](task, 3, 2, heads=2),
    "gcn-mean": lambda task: BASELINES["gcn"](task, 3, 2, normalization="mean"),
    "monet-kernels": lambda task: BASELINES["monet"](task, 3, 2, kernels=2),
}


def benchmark(task: Task) -> Benchmark:
    nothing: dict = dict.fromkeys(("train", "val", "test"))
    return Benchmark("toy", **nothing, task=task, source="tests")


refusal = functools.partial(refused, load_model)


# -- descriptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [TASK, CLASSES, CONTINUOUS], ids=["regression", "classes", "edges"])
@pytest.mark.parametrize("what", DIFFERENT)
def test_any_network_is_built_again_from_its_description(what: str, task: Task) -> None:
    model = DIFFERENT[what](task)
    told = json.loads(json.dumps(describe_model(model, benchmark(task))))
    again = build_model(told)
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    again.load_state_dict(model.state_dict())
    assert describe_model(again, benchmark(task)) == told
    assert again.task == task
    assert again.task.labels == task.labels


def test_a_description_says_what_it_is() -> None:
    told = describe_model(network(CLASSES), benchmark(CLASSES))
    assert told["kind"] == "found"
    assert Genotype.from_yaml(told["genotype"]) == GENOTYPE
    assert (told["channels"], told["dataset"], told["encoding"]) == (6, "toy", None)
    assert told["task"]["labels"] == ["low", "mid", "high"]


def test_a_network_of_ones_own_is_described_but_not_built() -> None:
    class Mine(GraphModule):
        def __init__(self) -> None:
            super().__init__()
            self.task, self.linear = TASK, nn.Linear(4, 1)

    told = describe_model(Mine(), benchmark(TASK))
    assert told["kind"] == "own"
    with pytest.raises(InputError, match="Mine cannot be built"):
        build_model(told)


def test_operations_of_ones_own_are_handed_over(tmp_path: Path) -> None:
    text = GENOTYPE.to_yaml().replace("dense", "own_filter").replace("max", "own_median")
    model = network(genotype=Genotype.from_yaml(text), operations=OWN)
    keep(tmp_path, model)
    assert "unknown operation 'own_" in refusal(tmp_path)
    again, _ = load_model(tmp_path, operations=OWN)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"kind": "founded"}, "did you mean 'found'"),
        ({"kind": 3}, "kind of network"),
        ({"genotype": None}, "description of a network"),
        ({"genotype": "a: ["}, "genotype"),
        ({"channels": 10**9}, "channels is 1000000000"),
        ({"channels": "6"}, "channels is '6'"),
        ({"task": {"level": "graph"}}, "description of a network"),
        ({"task": None}, "description of a network"),
        ({"task": {"levels": "graph"}}, "did you mean 'level'"),
        ({"options": {"fusion": "cat"}}, "did you mean 'concat'"),
        ({"options": {"width": 3}}, "description of a network"),
        ({"dropout": "much"}, "dropout is 'much'"),
        ({"kind": "baseline", "baseline": "gatedgnc", "num_layers": 2}, "did you mean 'gatedgcn'"),
        ({"kind": "baseline", "baseline": "gcn", "num_layers": 10**9}, "num_layers is"),
        ({"kind": "graphnas"}, "genotype"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path: Path, change: dict, expected: str) -> None:
    file = keep(tmp_path, network()) / "model.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    assert expected in refusal(tmp_path)


# -- folders --------------------------------------------------------------------------------------------------------


def test_the_seed_that_is_best_on_validation_is_taken(tmp_path: Path) -> None:
    for seed, (val, test) in {41: (0.5, 0.1), 95: (0.3, 0.9), 12: (0.4, 0.2)}.items():
        keep(tmp_path, network(seed=seed), seed, val, test)
    model, info = load_model(tmp_path)
    assert (info.seed, info.name, info.dataset, sorted(info.results)) == (95, "gnas", "toy", [12, 41, 95])
    assert torch.equal(model.encoder.linear.weight, network(seed=95).encoder.linear.weight)
    assert load_model(tmp_path, seed=12)[1].seed == 12
    assert not model.training


@pytest.mark.parametrize(
    ("metric", "vals", "best"),
    [("mae", {1: 2.0, 2: 1.0}, 2), ("accuracy", {1: 2.0, 2: 1.0}, 1), ("rmse", {1: float("nan"), 2: 9.0}, 2)],
)
def test_best_means_best_for_the_metric(metric: str, vals: dict, best: int) -> None:
    assert choose_seed({seed: TrainingFigures(seed, -val, val, metric) for seed, val in vals.items()}) == best


def test_a_training_and_an_exported_folder_stand_for_themselves(tmp_path: Path, batch) -> None:
    place = keep(tmp_path / "run", network(), seed=7)
    exported = export_run(tmp_path / "run", tmp_path / "exported")
    wanted = network()(GraphBatch.from_edges(batch.x.float(), batch.edge_index, batch.batch))
    for folder in (place, exported):
        model, info = load_model(folder)
        assert (info.name, info.seed, info.results[7].test) == ("gnas", 7, 0.6)
        assert info.exported == (folder == exported)
        assert torch.equal(model(batch.x.float(), batch.edge_index, batch.batch), wanted)
        assert "seed 7 only, not of seed 8" in refusal(folder, seed=8)


def test_what_is_not_there_is_said_with_the_choices(tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "nowhere")
    assert "no trained network and no exported model" in refusal(tmp_path)
    keep(tmp_path, network(), 41)
    keep(tmp_path, BASELINES["gcn"](TASK, 4, 2), 41, name="gcn")
    assert "choose one of: gcn, gnas; did you mean 'gnas'" in refusal(tmp_path, network="gnass")
    assert "unknown trained network" in refusal(tmp_path, network="../trained/gnas")
    assert "no finished training of gnas with seed 3; seeds: 41" in refusal(tmp_path, seed=3)
    (tmp_path / "trained/gnas/seed-41/result.json").unlink()
    assert "no training of gnas is finished" in refusal(tmp_path, network="gnas")


def test_a_training_without_a_description_is_refused(tmp_path: Path) -> None:
    (keep(tmp_path, network()) / "model.json").unlink()
    assert "no model.json" in refusal(tmp_path)


# -- weights --------------------------------------------------------------------------------------------------------


def test_weights_of_another_network_are_named(tmp_path: Path) -> None:
    place = keep(tmp_path, network())
    checkpoint.save(place / "weights.safetensors", Network(GENOTYPE, TASK, 7).state_dict())
    message = refusal(tmp_path)
    assert (
        "of another network: encoder.linear.weight is [7, 4] in weights.safetensors and [6, 4] in the network"
        in message
    )
    checkpoint.save(place / "weights.safetensors", network(norm=False).state_dict())
    assert "not there" in refusal(tmp_path)
    checkpoint.save(place / "weights.safetensors", [1, 2])
    assert "holds no weights" in refusal(tmp_path)


@pytest.mark.parametrize("exported", [False, True])
def test_damaged_or_missing_weights_are_refused(tmp_path: Path, exported: bool) -> None:
    folder = keep(tmp_path / "run", network())
    folder = export_run(tmp_path / "run", tmp_path / "exported") if exported else folder
    file = folder / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    assert "damaged" in refusal(folder)
    file.unlink()
    assert "no such" in refusal(folder)


def test_exported_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    keep(tmp_path / "run", network())
    folder = export_run(tmp_path / "run", tmp_path / "a")
    keep(tmp_path / "wider", Network(GENOTYPE, TASK, 7))
    other = export_run(tmp_path / "wider", tmp_path / "b")
    (folder / "weights.safetensors").write_bytes((other / "weights.safetensors").read_bytes())
    assert "encoder.weight is [7, 4] in weights.safetensors and [6, 4] in" in refusal(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kind": "found"}', "null", "[" * 10_000])
def test_any_text_in_the_place_of_a_description_is_refused(tmp_path: Path, text: str) -> None:
    (keep(tmp_path, network()) / "model.json").write_text(text)
    refusal(tmp_path)


@pytest.mark.parametrize("change", [{"seed": None}, {"val": "good"}, {"test": None}, {"metric": 3}])
def test_a_result_without_its_figures_is_refused(tmp_path: Path, change: dict) -> None:
    place = keep(tmp_path / "run", network())
    folder = export_run(tmp_path / "run", tmp_path / "exported")
    for file, where in ((place / "result.json", ()), (folder / "model.json", ("exported", "results", 0))):
        told = json.loads(file.read_text())
        inner = told
        for key in where:
            inner = inner[key]
        inner |= change
        file.write_text(json.dumps(told))
    for one in (tmp_path / "run", place, folder):
        assert re.search(f"(its|no valid) {next(iter(change))!r}", refusal(one))
