"""Ensembles: the greedy selection, what it reads, and that an ensemble is used like a network."""

import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import benchmark
from torch_geometric.data import Batch, Data
from trained import CLASSES, TASK, keep, network, refused

from gnas.compare import ensemble as module
from gnas.compare.ensemble import GAIN, STEPS, add_ensemble, select_members
from gnas.errors import InputError
from gnas.model.ensemble import Ensemble
from gnas.model.task import Task
from gnas.report import write_report
from gnas.run import checkpoint
from gnas.run.folder import Run
from gnas.run.leaderboard import Leaderboard
from gnas.run.models import choose_network, describe_network, find_model, load_model
from gnas.run.settings import Settings
from gnas.use.evaluate import evaluate
from gnas.use.export import export_run
from gnas.use.predict import predict
from gnas.workflow import Discovery, discover

BENCH = benchmark()
SETTINGS = Settings.resolve(
    strategy="race",
    nodes=2,
    cells=1,
    channels=8,
    epochs=9,
    batch=6,
    seeds=(1, 2),
    baselines=("gcn",),
    ensemble=3,
    search={"trials": 9, "finals": 1, "round_size": 3},
)
MEMBERS = "trained/ensemble/seed-1/model.json"


def members(folder: Path) -> list[dict]:
    return json.loads((folder / MEMBERS).read_text())["members"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Discovery:
    return discover(BENCH, SETTINGS, tmp_path_factory.mktemp("whole") / "run")


def greedy(values: np.ndarray, y: np.ndarray, most: int) -> list[int]:
    """The selection written plainly: every bag is averaged from the start."""
    error = [float(np.abs(np.mean([one], axis=0) - y).mean()) for one in values]
    bag = [int(np.argmin(error))]
    best = min(error)
    while len(bag) < STEPS:
        options = []
        for k in range(len(values)):
            if k in bag or len(set(bag)) < most:
                options.append((float(np.abs(np.mean(values[[*bag, k]], axis=0) - y).mean()), k))
        value, k = min(options)
        if not value < best - GAIN * max(best, 1.0):
            return bag
        bag.append(k)
        best = value
    return bag


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_selection_is_the_plain_one(networks: int, rows: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, values = rng.normal(size=(rows, 1)), rng.normal(size=(networks, rows, 1))
    tensors, target = [torch.from_numpy(one) for one in values], torch.from_numpy(y)
    chosen = select_members(tensors, lambda one: -float((one - target).abs().mean()), most)
    assert chosen == greedy(values, y, most)
    assert len(set(chosen)) <= most
    errors = [float(np.abs(one - y).mean()) for one in values]
    assert float(np.abs(values[chosen].mean(0) - y).mean()) <= min(errors) + 1e-12


def test_equal_networks_stop_at_once() -> None:
    values = [torch.ones(4, 1), torch.ones(4, 1)]
    assert select_members(values, lambda one: -float(one.abs().mean()), 2) == [0]


def test_the_ensemble_is_a_row_and_no_worse_than_its_best_member(whole: Discovery) -> None:
    row = next(row for row in whole.leaderboard.rows if row.name == "ensemble")
    found = members(whole.folder)
    assert 1 <= len(found) <= 3
    assert row.members == len(found)
    assert sum(one["weight"] for one in found) == pytest.approx(1)
    assert row.val <= min(one["val"] for one in found)
    assert row.val <= min(other.val for other in whole.leaderboard.rows) + 1e-6
    assert "not on equal terms" in row.remark
    assert not row.found
    model, info = load_model(whole.folder, "ensemble")
    assert row.num_weights == sum(one.num_weights() for one in model.members)
    assert Leaderboard.from_dict(whole.leaderboard.to_dict()) == whole.leaderboard
    test = evaluate(whole.folder, BENCH.test, network="ensemble")
    assert test.value == pytest.approx(row.mean)
    assert info.title.startswith("ensemble of ")


def test_candidates_of_the_race_take_part(whole: Discovery) -> None:
    config = Run(whole.folder / "trained/ensemble/seed-1").config
    assert sum("seed 1" in key or "seed 2" in key for key in config["from"]) == len(config["from"])
    assert any("rate" in key for key in config["from"])
    assert any(key.startswith("gcn, seed 2") or "seed 2" in key for key in config["from"])


@pytest.mark.parametrize("value", [None, {"own": True}, {"position": 3}, {"own": {"best": {}}}])
def test_a_candidate_with_the_checkpoint_of_something_else_is_one_line(
    whole: Discovery, tmp_path: Path, value: dict | None
) -> None:
    folder = Path(shutil.copytree(whole.folder, tmp_path / "run"))
    for file in folder.glob("search/trials/*/checkpoints/*"):
        state = checkpoint.load(file)
        checkpoint.save(file, {**state, **value} if value else {})
    shutil.rmtree(folder / "trained" / "ensemble")
    board = replace(whole.leaderboard, rows=tuple(row for row in whole.leaderboard.rows if not row.members))
    with pytest.raises(InputError, match=r"search/trials/\w+: its checkpoint is not one of this run"):
        add_ensemble(board, BENCH, 3, folder, seed=1, search=whole.search, batch_size=6)


def test_the_test_split_plays_no_part_in_the_selection(whole: Discovery, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole.folder, tmp_path / "run"))
    other = replace(BENCH, test=BENCH.train)
    board = replace(whole.leaderboard, rows=tuple(row for row in whole.leaderboard.rows if not row.members))
    found = add_ensemble(board, other, 3, folder, seed=1, search=whole.search, batch_size=6)
    assert members(folder) == members(whole.folder)
    row, before = (next(row for row in one.rows if row.members) for one in (found, whole.leaderboard))
    assert row.val == before.val
    assert row.mean != before.mean


def test_a_killed_selection_is_made_again(whole: Discovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "predict_splits", die)
        with pytest.raises(KeyboardInterrupt):
            discover(BENCH, SETTINGS, tmp_path / "run")
    assert choose_network(tmp_path / "run") != "ensemble"
    found = discover(BENCH, SETTINGS, tmp_path / "run", resume=True)
    assert members(found.folder) == members(whole.folder)
    times = [(found.folder / MEMBERS).stat().st_mtime_ns]
    discover(BENCH, SETTINGS, tmp_path / "run", resume=True)
    assert times == [(found.folder / MEMBERS).stat().st_mtime_ns]  # not made again


@pytest.mark.usefixtures("no_plots")
def test_the_report_lists_the_members(whole: Discovery) -> None:
    page = write_report(whole.folder).read_text()
    assert "Ensemble" in page
    assert "weight in the vote" in page
    assert members(whole.folder)[0]["name"].split(",")[0] in page


def test_seeds_are_averaged(whole: Discovery) -> None:
    name = next(row.name for row in whole.leaderboard.rows if row.found)
    each = [predict(whole.folder, BENCH.test, network=name, seed=seed).values for seed in (1, 2)]
    found = predict(whole.folder, BENCH.test, network=name, average_seeds=True)
    np.testing.assert_allclose(found.values, np.mean(each, axis=0))
    assert found.spread is not None
    np.testing.assert_allclose(found.spread, np.std(each, axis=0), atol=1e-12)
    assert found.columns[-1] == "spread"
    assert found.network == f"{name}, mean over 2 seeds"
    assert "do not go together" in refused(predict, whole.folder, BENCH.test, seed=1, network=name, average_seeds=True)
    assert "needs several" in refused(predict, whole.folder, BENCH.test, network="ensemble", average_seeds=True)


def test_a_single_network_has_no_spread(whole: Discovery) -> None:
    found = predict(whole.folder, BENCH.test, network="gnas")
    assert found.spread is None
    assert "spread" not in found.columns


def keep_ensemble(folder: Path, task: Task, weights: tuple[float, ...]) -> list:
    """A run whose only network is an ensemble of networks with random weights."""
    models = [network(task, seed=seed) for seed in range(len(weights))]
    place = keep(folder, models[0], name="ensemble")
    about = [{"name": f"n{k}", "seed": 1, "weight": one, "val": 0.5} for k, one in enumerate(weights)]
    described = json.loads((place / "model.json").read_text())
    (place / "weights.safetensors").unlink()
    for number, model in enumerate(models, start=1):
        (place / f"member_{number}").mkdir()
        checkpoint.save(place / f"member_{number}" / "weights.safetensors", model.state_dict())
        (place / f"member_{number}" / "model.json").write_text(json.dumps({**described, **describe_network(model)}))
    (place / "model.json").write_text(json.dumps({**described, "kind": "ensemble", "members": about}))
    return models


def graphs(task: Task) -> list[Data]:
    torch.manual_seed(0)
    sizes = (4, 6, 5)
    inputs = [
        torch.rand(n, task.in_channels)
        if not task.categories
        else torch.stack([torch.randint(size, (n,)) for size in task.categories], 1)
        for n in sizes
    ]
    return [Data(x=x, edge_index=torch.randint(len(x), (2, 9)).unique(dim=1)) for x in inputs]


@pytest.mark.parametrize("task", [TASK, CLASSES], ids=["regression", "classification"])
def test_an_ensemble_predicts_and_exports_like_a_network(task: Task, tmp_path: Path) -> None:
    models, data = keep_ensemble(tmp_path / "run", task, (0.75, 0.25)), graphs(task)
    batch = Batch.from_data_list(data)
    with torch.no_grad():
        each = torch.stack([task.predicted_values(one(batch).double()) for one in models]).numpy()
        called = task.predicted_values(load_model(tmp_path / "run")[0](batch).double()).numpy()
    mean = 0.75 * each[0] + 0.25 * each[1]
    spread = np.sqrt(0.75 * (each[0] - mean) ** 2 + 0.25 * (each[1] - mean) ** 2)
    out = export_run(tmp_path / "run", tmp_path / "export", format="torch")
    spec = importlib.util.spec_from_file_location("exported_ensemble", out / "model.py")
    assert spec is not None
    assert spec.loader is not None
    exported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(exported)
    more = (batch.batch,) if task.level == "graph" else ()
    given = {"x": batch.x, "edge_index": batch.edge_index} | ({"batch": batch.batch} if more else {})
    with torch.no_grad():
        program = torch.export.load(out / "model.pt2").module()(**given)
        plain = exported.load()(batch.x, batch.edge_index, *more)
        around = exported.load().spread(batch.x, batch.edge_index, *more)
    torch.testing.assert_close(program, plain)
    plain = plain.softmax(-1) if task.kind == "classification" else plain
    for values in (called, plain.double().numpy()):
        np.testing.assert_allclose(values, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(around.double().numpy(), spread, rtol=1e-3, atol=1e-5)
    for folder in (tmp_path / "run", out):
        found = predict(folder, data)
        np.testing.assert_allclose(found.values, mean, rtol=1e-4, atol=1e-5)
        assert found.spread is not None
        np.testing.assert_allclose(found.spread, spread, rtol=1e-3, atol=1e-5)
        assert found.columns[-1] == "spread"
    if task.kind == "classification":
        column = [row[-1] for row in found.rows()]
        np.testing.assert_allclose(column, spread[np.arange(len(mean)), mean.argmax(1)], rtol=1e-3, atol=1e-5)


def test_an_ensemble_of_labels_averages_probabilities() -> None:
    task = Task("graph", "multilabel", 2, in_channels=4)
    models, batch = [network(task, seed=seed) for seed in (0, 1)], Batch.from_data_list(graphs(TASK))
    with torch.no_grad():
        mean = sum(one(batch).sigmoid() for one in models) / 2
        found = Ensemble(models, [1, 1]).eval()(batch).sigmoid()
    torch.testing.assert_close(found, mean, rtol=1e-4, atol=1e-5)


def test_damaged_members_are_refused(tmp_path: Path) -> None:
    keep_ensemble(tmp_path, TASK, (0.5, 0.5))
    file = tmp_path / MEMBERS
    about = json.loads(file.read_text())
    about["members"][0]["weight"] = -1
    file.write_text(json.dumps(about))
    assert "needs members" in refused(load_model, tmp_path)


def test_an_unknown_network_names_the_choices(tmp_path: Path) -> None:
    keep(tmp_path, network())
    assert "gnas" in refused(find_model, tmp_path, "ensemble")
