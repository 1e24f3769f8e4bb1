"""Training on the nodes of one graph: steps of an epoch, dropout of the input, the linear head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import gnas
from gnas.arch.genotype import Genotype
from gnas.arch.hand_made import HandMade
from gnas.arch.space import SearchSpace
from gnas.cli.prepare import find_earlier_input
from gnas.data.own.load import load_own
from gnas.errors import InputError
from gnas.graph import GraphBatch
from gnas.model import baselines
from gnas.model.encoder import Encoder, drop_entries
from gnas.model.head import Head
from gnas.model.task import Task
from gnas.run.folder import Run, same_settings
from gnas.run.protocol import TrainConfig
from gnas.run.settings import ONE_GRAPH, Settings, TrainingSettings
from gnas.strategies.proposers import CandidateSpace, propose_candidate
from gnas.strategies.race import Race
from gnas.training.loop import make_generator, plan_epoch, steps_per_epoch
from gnas.training.sampling import open_store
from gnas.training.train import train
from gnas.workflow import baseline_dropout, make_baseline_candidate, strategy_from_settings, summarise_data


@pytest.fixture(scope="module")
def benchmark() -> gnas.Benchmark:
    random = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.rand(60, 4, generator=random) + y[:, None]
    edges = torch.stack([torch.arange(60), (torch.arange(60) + 2) % 60])
    parts = [torch.arange(60) % 3 == part for part in range(3)]
    return gnas.load(
        Data(
            x=x,
            edge_index=torch.cat([edges, edges.flip(0)], 1),
            y=y,
            train_mask=parts[0],
            val_mask=parts[1],
            test_mask=parts[2],
        )
    )


@pytest.mark.parametrize(("size", "least", "steps"), [(2, 1, 3), (2, 3, 3), (2, 4, 6), (5, 7, 7), (3, 7, 8)])
def test_an_epoch_passes_the_graphs_until_it_has_its_steps(size: int, least: int, steps: int) -> None:
    ring = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.ones(2, 1), edge_index=ring, y=torch.tensor([k % 2])) for k in range(5)]
    store = open_store(gnas.graph.GraphSet.from_data(graphs))
    plan = plan_epoch(store, size, least, make_generator(0))
    assert len(plan) == steps == steps_per_epoch(store, size, least)
    seen = torch.cat([planned.ids for planned in plan])
    assert len(set(seen[seen < 5].bincount(minlength=5).tolist())) == 1  # every graph equally often


def test_a_training_takes_the_steps_of_its_epochs(benchmark: gnas.Benchmark) -> None:
    model = baselines.build_baseline("gcn", benchmark.task, num_layers=1, channels=4)
    few = train(model, benchmark, TrainConfig(epochs=2, lr=0.01), 0)
    many = train(model, benchmark, TrainConfig(epochs=2, lr=0.01, epoch_steps=20), 0)
    assert few.epochs == many.epochs == 2
    assert many.history[-1]["train_loss"] < few.history[-1]["train_loss"]


def test_dropout_of_the_input_is_for_nodes_of_one_graph_in_training() -> None:
    x = torch.ones(40, 8)
    batch = GraphBatch.from_edges(x, torch.zeros(2, 0, dtype=torch.long))
    for level, head, drops in (("node", "linear", True), ("node", "mlp", False), ("graph", "linear", False)):
        encoder = Encoder(Task(level, "classification", 2, in_channels=8, head=head), 6, dropout=0.5)
        assert torch.equal(encoder.eval()(batch), encoder.linear(x))
        assert (encoder.train()(batch) == 0).any().item() is drops


def test_the_nodes_of_one_graph_have_a_linear_head(benchmark: gnas.Benchmark) -> None:
    assert benchmark.has_one_graph
    assert benchmark.task.head == "linear"
    head = Head(benchmark.task, 6)
    h = torch.randn(60, 6)
    assert torch.equal(head(h, benchmark.train.batch()), head.layers[0](h))
    assert len(head.layers) == 1


def test_the_preset_fast_trains_one_graph_with_dropout(benchmark: gnas.Benchmark) -> None:
    fast = Settings.resolve("fast")
    one, many = fast.for_data(True), fast.for_data(False)
    assert (one.training.dropout, one.training.weight_decay, one.training.ema) == (0.5, 5e-4, 0.98)
    assert (one.training.epoch_steps, one.search.options["epoch_steps"]) == (7, 5)
    assert (many.training.dropout, many.training.weight_decay, many.training.ema) == (0.0, 0.0, 0.0)
    assert (many.training.epoch_steps, many.search) == (1, fast.search)
    assert one.for_data(True) == one
    assert Settings.resolve("fast", ema=0.9).for_data(True).training.ema == 0.9
    assert Settings.resolve("fast", dropout=0.0).for_data(True).training.weight_decay == 0.0
    assert Settings().for_data(True) == Settings()
    assert Settings(training=TrainingSettings(dropout=None)).for_data(True).training.dropout == 0.5
    assert Settings.resolve("fast", strategy="random").for_data(True).search.options == {}
    assert baseline_dropout(benchmark, one) == 0.5
    assert baseline_dropout(gnas.load("cluster-mini"), one) == 0.0


@pytest.mark.parametrize("preset", ["wide", "strong"])
def test_other_presets_train_one_graph_in_the_same_way(preset: str) -> None:
    one = Settings.resolve(preset).for_data(True).training
    assert {name: getattr(one, name) for name in ONE_GRAPH} == ONE_GRAPH
    assert Settings.resolve(preset, ema=0.9).for_data(True).training.ema == 0.9
    assert Settings.resolve(preset).for_data(False).training.ema != ONE_GRAPH["ema"]


def test_a_race_on_one_graph_has_its_rate_of_dropout(benchmark: gnas.Benchmark) -> None:
    race = strategy_from_settings(Settings.resolve("wide").for_data(True))
    assert isinstance(race, Race)
    assert race.dropout == 0.5
    space = CandidateSpace(SearchSpace(), benchmark.task, 2, 0.01, 50_000, dropout=race.dropout)
    assert {one.dropout for one in space.hand_made()} == {0.5}
    assert space.choices()["dropout"] == (0.2, 0.5, 0.7)
    many = strategy_from_settings(Settings.resolve("wide").for_data(False))
    assert isinstance(many, Race)
    assert many.dropout == 0.0


def test_an_older_run_of_the_preset_fast_keeps_its_schedule() -> None:
    """It names all settings of its time, and no steps of an epoch."""
    older = Settings.resolve("fast", dropout=0.0).to_dict()
    del older["training"]["epoch_steps"]
    found = Settings.from_values("fast", older, {}).for_data(True)
    assert found == Settings.resolve("fast", dropout=0.0)
    assert (found.training.epoch_steps, found.training.ema, "epoch_steps" in found.search.options) == (1, 0.0, False)


def test_a_run_without_steps_of_an_epoch_resumes_with_one(tmp_path: Path) -> None:
    config: dict[str, Any] = {"settings": {"training": {"lr": 0.1}}, "training": {"lr": 0.1}}
    Run(tmp_path / "run", config).close()
    for group in (config["settings"]["training"], config["training"]):
        group["epoch_steps"] = 1
    assert same_settings({"training": {"lr": 0.1}}, {"training": config["training"]})
    Run(tmp_path / "run", config, resume=True).close()
    config["training"]["epoch_steps"] = 7
    with pytest.raises(InputError, match=r"cannot resume with another training\.epoch_steps \(7; the run has 1\)"):
        Run(tmp_path / "run", config, resume=True)


def test_an_older_run_on_one_graph_keeps_its_head(tmp_path: Path, benchmark: gnas.Benchmark) -> None:
    facts = summarise_data(benchmark)
    assert load_own(benchmark, head="mlp").task.head == "mlp"
    for head, graphs, options in (("linear", 1, {}), (None, 1, {"head": "mlp"}), (None, 2, {})):
        task = {**facts["task"], "head": head} if head else {k: v for k, v in facts["task"].items() if k != "head"}
        content = {**facts, "task": task, "splits": {"train": {"graphs": graphs}}}
        (tmp_path / "data.json").write_text(json.dumps(content))
        assert find_earlier_input(tmp_path) == options


def test_networks_on_one_graph_are_shallow_and_may_propagate(benchmark: gnas.Benchmark) -> None:
    space = CandidateSpace(SearchSpace(variant="bare"), benchmark.task, 4, 0.01, 50_000, dropout=0.5)
    gcn = space.hand_made()[0].architecture
    assert gcn == HandMade("gcn", 2, options={"original": True})
    assert {one.architecture.num_layers for one in space.hand_made() if isinstance(one.architecture, HandMade)} == {2}
    assert space.depths == (1, 2, 3, 4)
    assert space.branches.space.stack.propagation == (10, 0)
    third = propose_candidate(space, [], set(), 2, 0)
    assert third is not None
    assert isinstance(third.architecture, Genotype)
    assert (third.architecture.stack.propagation, len(third.architecture)) == (10, 1)
    assert third.channels > 0


def test_without_dropout_one_graph_is_like_others(benchmark: gnas.Benchmark) -> None:
    space = CandidateSpace(SearchSpace(variant="bare"), benchmark.task, 4, 0.01, 50_000)
    assert HandMade("gcn", 4) in [one.architecture for one in space.hand_made()]
    assert (space.depths, space.branches.space.stack.propagation, space.derive()) == ((2, 4, 6, 8), (0,), [])
    assert make_baseline_candidate("gcn", benchmark, 4).architecture == HandMade("gcn", 4)
    assert make_baseline_candidate("gcn", benchmark, 4, dropout=0.5).architecture.options == {"original": True}


def test_dropout_of_a_sparse_input_keeps_its_mean() -> None:
    x = torch.zeros(400, 50)
    x[:, :3] = 2.0
    dropped = drop_entries(x, 0.5)
    assert set(dropped.unique().tolist()) == {0.0, 4.0}
    assert (dropped[:, 3:] == 0).all()
    assert dropped[:, :3].mean().item() == pytest.approx(2.0, rel=0.1)


def test_a_budget_makes_no_very_wide_gcn_of_few_columns(benchmark: gnas.Benchmark) -> None:
    assert baselines.build_baseline("gcn", benchmark.task, num_layers=2, budget=100_000, original=True).channels == 256
