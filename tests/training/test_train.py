"""The training protocol against a plain re-implementation, what is selected, and each option beyond the protocol."""

import copy
import dataclasses
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small import benchmark, builder, stop_after, transductive
from tiny import SPACE, ring, untimed

from gnas.data.benchmark import Benchmark
from gnas.errors import InputError, Interrupted
from gnas.graph import GraphSet
from gnas.model import baselines
from gnas.model.network import Network
from gnas.model.task import Task
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.strategies import Darts, SingleLevel, search
from gnas.training import optim
from gnas.training.engine import take_turns
from gnas.training.evaluation import Evaluator, evaluate
from gnas.training.loop import make_generator
from gnas.training.meter import NotFinite
from gnas.training.store import GraphStore
from gnas.training.train import Spread, Trainer, TrainResult, train, train_seeds

BENCH = benchmark()


CPU = torch.device("cpu")


SHORT = TrainConfig(epochs=3, batch_size=5)


HALF = SHORT.with_(precision="bf16")


def trained(config: TrainConfig = SHORT, bench: Benchmark = BENCH, seed: int = 2, **how) -> TrainResult:
    return train(builder(bench), bench, config, seed, **how)


# -- the protocol -----------------------------------------------------------------------------------------------------


def plain(bench: Benchmark, config: TrainConfig, seed: int) -> tuple[list[dict[str, float]], Network, float]:
    """The protocol with PyTorch's own parts: every epoch's figures, the network as selected, and its test metric."""
    torch.manual_seed(seed)
    model = builder(bench)()
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=config.patience)
    generator, history = make_generator(seed), []
    best, selected = math.inf, copy.deepcopy(model)
    for _ in range(config.epochs):
        order = torch.randperm(len(bench.train), generator=generator)
        losses = []
        for ids in order.split(config.batch_size):
            part = bench.train.select(ids).batch()
            loss = (model(part) - part.y[:, None]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item() * len(ids))
        model.eval()
        with torch.no_grad():
            val = float((model(bench.val.batch()).flatten() - bench.val.y).abs().mean())
        model.train()
        rate = optimizer.param_groups[0]["lr"]
        history.append({"train_loss": sum(losses) / len(order), "val_loss": val, "lr": rate})
        if val < best:
            best, selected = val, copy.deepcopy(model)
        schedule.step(val)
        if optimizer.param_groups[0]["lr"] < 1e-5:
            break
    with torch.no_grad():
        test = float((selected.eval()(bench.test.batch()).flatten() - bench.test.y).abs().mean())
    return history, selected, test


@pytest.mark.parametrize(("lr", "patience"), [(4e-3, 0), (1e-4, 2)])
def test_the_protocol_to_the_letter(lr: float, patience: int) -> None:
    config = TrainConfig(lr=lr, patience=patience, batch_size=5)
    history, selected, test = plain(BENCH, config, seed=2)
    assert 8 < len(history) < 1000  # it stopped by itself
    result = trained(config)
    assert result.epochs == len(history)
    for found, wanted in zip(result.history, history, strict=True):
        assert found["lr"] == pytest.approx(wanted["lr"], rel=1e-12)
        assert found["train_loss"] == pytest.approx(wanted["train_loss"], abs=1e-4)
        assert found["val_loss"] == pytest.approx(wanted["val_loss"], abs=1e-4)
    best = min(range(len(history)), key=lambda k: history[k]["val_loss"])
    assert result.best_epoch == best + 1 < len(history)
    assert result.test == pytest.approx(test, abs=1e-4)
    for a, b in zip(result.network.parameters(), selected.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-3)


def test_defaults_are_the_papers() -> None:
    wanted = {"epochs": 1000, "batch_size": 128, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0, "factor": 0.5}
    wanted |= {"schedule": "plateau", "min_lr": 1e-5, "warmup": 0, "clip": 0.0, "ema": 0.0, "test_curve": False}
    for patience in (10, 5):
        config = dataclasses.asdict(TrainConfig.paper(dataclasses.replace(BENCH, patience=patience)))
        assert {key: config[key] for key in wanted} == wanted
        assert config["patience"] == patience


def rates(losses: list[float], patience: int) -> tuple[list[float], list[float]]:
    """Learning rates after each of these validation losses: ours, and PyTorch's."""
    stores = {name: GraphStore(split) for name, split in BENCH.splits().items()}
    ours = Trainer(builder(BENCH)(), TrainConfig(patience=patience), 0, CPU, stores)
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience)
    found, wanted = [], []
    for loss in losses:
        ours._adapt(loss)
        theirs.step(loss)
        found.append(ours.rate)
        wanted.append(optimizer.param_groups[0]["lr"])
        assert ours.done == (wanted[-1] < 1e-5)
        if ours.done:
            break
    return found, wanted


@pytest.mark.parametrize("patience", [0, 1, 5])
def test_the_schedule_is_reduce_on_plateau(patience: int) -> None:
    generator = torch.Generator().manual_seed(patience)
    walk = torch.randn(120, generator=generator).cumsum(0).abs() + 1
    edge = [1.0, 1 - 0.5e-4, 1 - 1e-4, 1 - 2e-4, 0.5, 0.5, 0.49996, 0.6, 0.4] * 5  # about the threshold of 1e-4
    for losses in (walk.tolist(), edge, [1.0] * 60):
        found, wanted = rates(losses, patience)
        assert found == pytest.approx(wanted, rel=1e-12)
    assert len(found) == 1 + 7 * (patience + 1)  # seven halvings lead below 1e-5


# -- selection --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_the_best_epoch_is_selected(kind: str) -> None:
    bench = benchmark(kind)
    result = trained(TrainConfig(epochs=12, batch_size=5, lr=0.05), bench)
    pick = max if kind == "classification" else min
    metrics = [record["val_metric"] for record in result.history]
    assert (result.val, result.best_epoch) == (pick(metrics), metrics.index(pick(metrics)) + 1)
    assert evaluate(result.network, bench.val)["metric"] == pytest.approx(result.val, abs=1e-5)
    assert evaluate(result.network, bench.test)["metric"] == pytest.approx(result.test, abs=1e-5)
    assert evaluate(result.network, bench.train)["metric"] == pytest.approx(result.train, abs=1e-5)
    assert result.metric == bench.task.metric
    assert result.num_weights == result.network.num_weights()
    assert set(result.to_dict()) == {f.name for f in dataclasses.fields(result)} - {"history", "network"}


@pytest.mark.parametrize("curve", [False, True])
def test_the_test_split_is_read_once(curve: bool, monkeypatch) -> None:
    stores, reads = {name: GraphStore(split) for name, split in BENCH.splits().items()}, []
    call = Evaluator.__call__

    def counted(self: Evaluator, epoch: int) -> dict[str, float]:
        if self.store is stores["test"]:
            reads.append(epoch)
        return call(self, epoch)

    monkeypatch.setattr(Evaluator, "__call__", counted)
    trainer = Trainer(builder(BENCH)(), SHORT.with_(test_curve=curve), 1, CPU, stores)
    take_turns([trainer.steps()])
    assert len(reads) == (3 if curve else 0)
    trainer.result()
    assert len(reads) == (4 if curve else 1)
    assert all(("test_metric_for_plots_only" in record) == curve for record in trainer.history)
    assert not any(name.startswith("test") for record in trainer.history for name in record if "plots_only" not in name)


def test_the_curve_changes_nothing_else() -> None:
    without, curve = trained(), trained(SHORT.with_(test_curve=True))
    assert replace(curve, seconds=0) == replace(without, seconds=0)
    assert curve.history[curve.best_epoch - 1]["test_metric_for_plots_only"] == pytest.approx(curve.test, abs=1e-6)


# -- seeds ------------------------------------------------------------------------------------------------------------


def test_several_seeds_equal_each_alone() -> None:
    seeds = (41, 95, 12)
    heard: list[dict] = []
    spread = train_seeds(builder(BENCH, dropout=0.2), BENCH, SHORT, seeds, on_epoch=heard.append)
    alone = [train(builder(BENCH, dropout=0.2), BENCH, SHORT, seed) for seed in seeds]
    for one, other in zip(spread.results, alone, strict=True):
        assert untimed(one.history) == untimed(other.history)
        assert replace(one, seconds=0) == replace(other, seconds=0)
    tests = torch.tensor([one.test for one in alone], dtype=torch.float64)
    assert spread.mean == pytest.approx(float(tests.mean()))
    assert spread.std == pytest.approx(float(tests.std(correction=0)))
    assert spread.val == pytest.approx(sum(one.val for one in alone) / 3)
    assert len({one.test for one in alone}) == 3
    assert [record["seed"] for record in heard] == [41] * 3 + [95] * 3 + [12] * 3


def test_a_network_given_is_copied() -> None:
    torch.manual_seed(0)
    model = builder(BENCH)()
    before = copy.deepcopy(model.state_dict())
    spread = train_seeds(model, BENCH, SHORT, (1, 2))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert isinstance(spread, Spread)
    assert spread.results[0].test != spread.results[1].test  # other orders of the graphs


def test_several_seeds_stop_and_go_on(tmp_path: Path) -> None:
    seeds, wanted = (1, 2), train_seeds(builder(BENCH), BENCH, SHORT, (1, 2))
    runs = [Run(tmp_path / str(seed), {}) for seed in seeds]
    with pytest.raises(Interrupted):
        train_seeds(builder(BENCH), BENCH, SHORT, seeds, runs=runs, should_stop=stop_after(11))
    spread = train_seeds(builder(BENCH), BENCH, SHORT, seeds, runs=runs)
    for one, other in zip(spread.results, wanted.results, strict=True):
        assert untimed(one.history) == untimed(other.history)
        assert replace(one, seconds=0) == replace(other, seconds=0)
    for run in runs:
        run.close()


# -- options ----------------------------------------------------------------------------------------------------------


def trainer_of(config: TrainConfig, seed: int = 2) -> Trainer:
    torch.manual_seed(seed)
    stores = {name: GraphStore(split) for name, split in BENCH.splits().items()}
    return Trainer(builder(BENCH)(), config, seed, CPU, stores)


def test_clip(monkeypatch) -> None:
    norms = []
    step = optim.Adam.step

    def watched(self, *args):
        grads = [p.grad for group in self.param_groups for p in group["params"]]
        norms.append(float(torch.stack([g.norm() for g in grads]).norm()))
        return step(self, *args)

    monkeypatch.setattr(optim.Adam, "step", watched)
    trained()
    free = list(norms)
    norms.clear()
    trained(SHORT.with_(clip=0.01))
    assert min(free) > 0.02
    assert max(norms) < 0.0101


def test_cosine_and_warmup() -> None:
    config = TrainConfig(epochs=6, batch_size=12, lr=0.1, schedule="cosine", warmup=2, min_lr=0.01)
    result = trained(config)
    wanted = [0.1 / 3, 0.2 / 3] + [0.01 + 0.045 * (1 + math.cos(math.pi * k / 4)) for k in range(4)]
    assert [record["lr"] for record in result.history] == pytest.approx(wanted)


def test_the_rate_recorded_is_the_rate_used(monkeypatch) -> None:
    used = []
    step = optim.Adam.step
    monkeypatch.setattr(
        optim.Adam, "step", lambda self, *a: (used.append(self.param_groups[0]["lr"]), step(self, *a))[1]
    )
    for schedule in ("plateau", "cosine"):
        used.clear()
        result = trained(TrainConfig(epochs=8, batch_size=12, lr=0.1, schedule=schedule, warmup=2, patience=0))
        assert [record["lr"] for record in result.history] == pytest.approx(used)


def test_weight_decay_is_decoupled_in_adamw() -> None:
    """With decay alone: AdamW shrinks weights by lr * decay a step, whatever the gradient's size."""
    still, moved = (
        trainer_of(SHORT.with_(optimizer="adamw")),
        trainer_of(SHORT.with_(optimizer="adamw", weight_decay=0.5)),
    )
    assert isinstance(moved.optimizer, torch.optim.AdamW)
    for trainer in (still, moved):
        next(trainer.steps())
    start = trainer_of(SHORT).model
    for w, a, b in zip(start.parameters(), still.model.parameters(), moved.model.parameters(), strict=True):
        torch.testing.assert_close(b, a - 1e-3 * 0.5 * w, rtol=0, atol=1e-6)
    assert type(trainer_of(SHORT).optimizer) is optim.Adam


def test_averaged_weights_are_judged() -> None:
    trainer = trainer_of(SHORT.with_(ema=0.5))
    start = copy.deepcopy(trainer.model.state_dict())
    average = {name: value.clone() for name, value in start.items()}
    for step, _ in enumerate(trainer.steps(), start=1):
        decay = min(0.5, (1 + step) / (10 + step))
        for name, value in trainer.model.state_dict().items():
            if value.is_floating_point():
                average[name] = decay * average[name] + (1 - decay) * value
        if trainer.step_number == 3:
            break
    for name, value in trainer.average.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, average[name], rtol=0, atol=1e-5)
    result = trained(SHORT.with_(ema=0.5))
    assert evaluate(result.network, BENCH.val)["metric"] == pytest.approx(result.val, abs=1e-6)
    assert result.val != trained().val


def test_bf16() -> None:
    """Products in bfloat16, weights in float32: near the exact run, not equal to it."""
    kinds = set()
    trainer = trainer_of(SHORT.with_(precision="bf16"))
    trainer.model.head.layers[0].register_forward_hook(lambda m, i, out: kinds.add(out.dtype))
    take_turns([trainer.steps()])
    assert kinds == {torch.bfloat16}
    assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
    exact = trained(SHORT.with_(precision="float32"))
    assert trainer.history[-1]["train_loss"] == pytest.approx(exact.history[-1]["train_loss"], rel=0.1)
    assert trainer.history[-1]["train_loss"] != exact.history[-1]["train_loss"]
    assert math.isfinite(trainer.result().test)


@pytest.mark.parametrize("name", sorted(baselines.BASELINES))
def test_bf16_serves_every_baseline(name: str) -> None:
    result = train(lambda: baselines.build_baseline(name, BENCH.task, num_layers=2, channels=8), BENCH, HALF, 1)
    exact = train(lambda: baselines.build_baseline(name, BENCH.task, num_layers=2, channels=8), BENCH, SHORT, 1)
    assert result.history[-1]["train_loss"] == pytest.approx(exact.history[-1]["train_loss"], rel=0.2)
    assert result.history != exact.history


@pytest.mark.parametrize("strategy", [SingleLevel, Darts])
@pytest.mark.filterwarnings("ignore:epoch .*collapse")
def test_bf16_serves_the_search(strategy) -> None:
    settings = {"epochs": 2, "batch_size": 6, "stop_on_collapse": None}
    half, exact = (
        search(BENCH, SPACE, strategy(precision=precision, **settings), channels=8, num_cells=1).history
        for precision in ("bf16", "float32")
    )
    assert half[-1]["train_loss"] == pytest.approx(exact[-1]["train_loss"], rel=0.2)
    assert half[-1]["train_loss"] != exact[-1]["train_loss"]


def test_unknown_settings_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown training setting 'patiense'.*did you mean 'patience'"):
        TrainConfig().with_(patiense=3)
    assert TrainConfig().with_(patience=3) == TrainConfig(patience=3)


@pytest.mark.parametrize(
    "values",
    [
        *({name: value} for name in ("epochs", "batch_size", "checkpoint_every") for value in (0, -1, 2.5, "3", None)),
        *({"lr": value} for value in (0, -1e-3, math.nan, math.inf, "fast")),
        *({"factor": value} for value in (0.0, 1.0, 1.5)),
        *({name: -1} for name in ("patience", "warmup", "clip", "weight_decay", "min_lr", "ema")),
        {"ema": 1.0},
        {"patience": True},
        *({name: "non-sense"} for name in ("optimizer", "schedule", "precision", "engine")),
    ],
    ids=str,
)
def test_bad_values_are_named(values: dict) -> None:
    (name,) = values
    with pytest.raises(InputError, match=name):
        TrainConfig(**values)


@pytest.mark.parametrize(("split", "word"), [("train", "training"), ("val", "validation"), ("test", "test")])
def test_nan_in_the_data_is_named(split: str, word: str) -> None:
    graphs = getattr(BENCH, split)
    y = graphs.y.clone()
    y[5] = math.nan
    epoch = 1 if split != "test" else r"\d"  # the test split is read at the end
    with pytest.raises(NotFinite, match=rf"^the {word} loss is not finite at epoch {epoch}, batch [123];"):
        trained(bench=replace(BENCH, **{split: replace(graphs, y=y)}))


# -- other shapes of data ---------------------------------------------------------------------------------------------


def test_one_graph_with_masks() -> None:
    bench = transductive()
    result = train(builder(bench), bench, TrainConfig(epochs=40, lr=0.02), 1)
    assert result.train > 90  # a node's class is its own category
    out, y = result.network.eval()(bench.test.batch()).argmax(1), bench.test.y
    for split, figure in ((bench.val, result.val), (bench.test, result.test)):
        assert figure == pytest.approx(100 * float((out == y)[split.mask].float().mean()), abs=1e-3)


def test_foreign_rows_teach_nothing() -> None:
    """Labels of the other splits may be anything."""
    bench = transductive()
    train = replace(bench.train, y=torch.where(bench.train.mask, bench.train.y, 2 - bench.train.y))
    assert untimed(trained(SHORT, replace(bench, train=train)).history) == untimed(trained(SHORT, bench).history)


def test_edge_level() -> None:
    task = Task("edge", "classification", 2, categories=(3,))
    splits = []
    for part in range(3):
        graphs = [ring(6, 50 * part + k) for k in range(6)]
        for graph in graphs:
            source, target = graph.edge_index
            graph.y = (graph.x[source, 0] == graph.x[target, 0]).long()
        splits.append(GraphSet.from_data(graphs, level="edge"))
    bench = Benchmark("edges", *splits, task, "tests")
    result = train(builder(bench), bench, TrainConfig(epochs=30, batch_size=3, lr=0.02), 1)
    assert result.test > 90
    graph = bench.test[0]
    right = result.network.eval()(graph).argmax(1) == graph.y  # PyG's door, in the caller's order
    assert float(right.float().mean()) > 0.8
