"""Train one network by the benchmark's protocol and evaluate it."""

from __future__ import annotations

import copy
import itertools
import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from gnas import distributed
from gnas.data.benchmark import Benchmark
from gnas.errors import explain_memory
from gnas.model.metrics import MetricValue, name_per_target
from gnas.model.network import GraphModule
from gnas.model.task import decimals
from gnas.run.folder import Run
from gnas.run.protocol import TrainConfig
from gnas.training.engine import Engine, choose_mode, take_turns
from gnas.training.evaluation import SETTLED, Evaluator, PreciseNorms, lag_behind, list_norms
from gnas.training.loop import EpochLoop, Record, add_labels, lower_batch, make_generator, plan_epoch, steps_per_epoch
from gnas.training.meter import Meter
from gnas.training.optim import (
    WeightAverage,
    autocast,
    clip_and_step,
    make_adam,
    read_steps,
    restore,
    set_rate,
    use_precision,
)
from gnas.training.sampling import open_store
from gnas.training.stages import Stage, show_progress
from gnas.training.store import Planned, Store


@dataclass(frozen=True)
class TrainResult:
    """One trained network: its figures at the epoch with the best validation metric.

    Args:
        seed: The seed of the training.
        test, val, train: The metric that selects, on each split.
        test_per_batch: The test metric averaged over batches, as the authors report it.
        best_epoch, epochs: The epoch with the best validation metric, and the number of epochs.
        seconds: How long the training took.
        num_weights: The number of weights.
        metric: The name of the metric.
        norms_lag: The running averages of batch norms lag behind the weights: see ``precise_norms``.
        metrics: All metrics that fit the task, of ``val`` and ``test``, by name; None: not defined for these targets.
        per_target: The same for each target or class.
        history: A record per epoch.
        network: The network with the weights of the best epoch.

    >>> result = gnas.train(network, data, gnas.TrainConfig(epochs=1))
    >>> sorted(result.metrics)
    ['test', 'val']
    """

    seed: int
    test: float
    val: float
    train: float
    test_per_batch: float
    best_epoch: int
    epochs: int
    seconds: float
    num_weights: int
    metric: str
    norms_lag: bool = False
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict, compare=False)
    per_target: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict, repr=False, compare=False)
    history: list[Record] = field(default_factory=list, repr=False, compare=False)
    network: GraphModule | None = field(default=None, repr=False, compare=False)

    @property
    def seconds_per_epoch(self) -> float:
        return self.seconds / max(self.epochs, 1)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the history and the network, for result files."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("history", "network")}


@dataclass(frozen=True)
class Spread:
    """Results of several seeds of one network, with mean and standard deviation."""

    results: tuple[TrainResult, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(r.test for r in self.results)

    @property
    def std(self) -> float:
        return statistics.pstdev([r.test for r in self.results])

    @property
    def val(self) -> float:
        return statistics.fmean(r.val for r in self.results)


class Trainer(EpochLoop):
    """One network trained from one seed; of ``stores`` it reads train and val, and test only in :meth:`result`."""

    def __init__(
        self,
        model: GraphModule,
        config: TrainConfig,
        seed: int,
        device: torch.device,
        stores: dict[str, Store],
        run: Run | None = None,
        on_epoch: Callable[[Record], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(config.epochs, make_generator(seed), run, on_epoch, should_stop, config.checkpoint_every)
        self.model, self.config, self.seed, self.task = model.to(device), config, seed, model.task
        self.stores = stores
        self.model.train()
        distributed.same_start(self.model)
        self.weights = list(model.parameters())
        self.optimizer = make_adam(
            self.weights, config.lr, config.weight_decay, device, decoupled=config.optimizer == "adamw"
        )
        steps = steps_per_epoch(stores["train"], config.batch_size, config.epoch_steps)
        self.meter = Meter(self.task, device, steps, rows=stores["train"].num_rows)
        self.engine = Engine(self._step, device, choose_mode(config.engine, stores["train"]), parts=self.model.parts())
        self.average = copy.deepcopy(model) if config.ema else None
        self.averaging = None if self.average is None else WeightAverage(self.average, self.model, config.ema)
        judged = self.model if self.average is None else self.average
        self.judged = judged
        shown = [name for name in stores if name != "test" or config.test_curve]
        self.evaluators = {name: self._evaluator(name, config.engine) for name in shown}
        self.norms = None
        if config.precise_norms:
            options = (config.batch_size, config.precise_norms, config.engine, config.precision, self.engine.stream)
            self.norms = PreciseNorms(judged, stores["train"], *options)
        self.best: dict[str, Tensor] = {}
        self.best_val, self.best_epoch = math.nan, 0
        self.rate, self.lowest, self.waited = config.lr, math.inf, 0

    def what_to_lower(self) -> str:
        batch = lower_batch(self.stores["train"], "training.batch_size", self.config.batch_size)
        return f"{batch}the channels or the layers of the network"

    def _evaluator(self, split: str, mode: str, collect: bool = False) -> Evaluator:
        config, stream = self.config, self.engine.stream
        return Evaluator(
            self.judged, self.stores[split], config.batch_size, mode, config.precision, stream, split, collect
        )

    def plan(self) -> list[tuple[Planned, ...]]:
        if self.step_number == 0:
            with self.engine.on_stream():
                self.meter.reset()
                set_rate(self.optimizer, self._scheduled_rate())
        config = self.config
        plan = plan_epoch(self.stores["train"], config.batch_size, config.epoch_steps, self.generator)
        return [(p,) for p in plan]

    def _step(self, planned: Planned) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.engine.device, self.config.precision), distributed.shared_norms(self.config.sync_bn):
            batch = self.stores["train"].batch(planned.ids, planned.capacity)
            out = self.model(batch)
            loss = self.task.loss_value(out, batch, distributed.sum_over_processes)
        loss.backward()
        loss = distributed.reduce_gradients(loss, self.weights)
        clip_and_step(self.optimizer, self.weights, self.config.clip)
        if self.averaging is not None:
            self.averaging.step(read_steps(self.optimizer))
        self.meter.add(out, batch, loss)

    def finish_epoch(self) -> Record:
        distributed.end_epoch(self.model, *([] if self.average is None else [self.average]))
        train = self.meter.read(self.epoch)
        if self.norms is not None:
            self.norms()
        val = self.evaluators["val"](self.epoch)
        if not self.best or self.task.better(val["metric"], self.best_val):
            self.best_val, self.best_epoch = val["metric"], self.epoch + 1
            self.best = {name: value.clone() for name, value in self.judged.state_dict().items()}
        record = {
            "train_loss": train["loss"],
            "train_metric": train["metric"],
            "val_loss": val["loss"],
            "val_metric": val["metric"],
            "val_metric_per_batch": val["metric_per_batch"],
            "lr": self._scheduled_rate(),
        }
        if self.config.test_curve:
            record["test_metric_for_plots_only"] = self.evaluators["test"](self.epoch)["metric"]
        self._adapt(val["loss"])
        return record

    def _adapt(self, val_loss: float) -> None:
        """ReduceLROnPlateau on the validation loss, and the protocol's stop."""
        if self.config.schedule != "plateau":
            return
        if val_loss < self.lowest * (1 - 1e-4):
            self.lowest, self.waited = val_loss, 0
        else:
            self.waited += 1
        if self.waited > self.config.patience:
            self.rate, self.waited = self.rate * self.config.factor, 0
        self.done = self.rate < self.config.min_lr

    def _scheduled_rate(self) -> float:
        config = self.config
        if self.epoch < config.warmup:
            return config.lr * (self.epoch + 1) / (config.warmup + 1)
        if config.schedule == "restarts":
            ends = config.cycle_ends()
            begin, end = next((a, b) for a, b in itertools.pairwise((0, *ends)) if self.epoch < b or b == ends[-1])
            share = (self.epoch + 0.5 - begin) / (end - begin)  # half a step ahead: a cycle may be a single epoch
            self.rate = config.min_lr + 0.5 * (config.lr - config.min_lr) * (1 + math.cos(math.pi * min(share, 1.0)))
        if config.schedule == "cosine":
            share = (self.epoch - config.warmup) / max(config.epochs - config.warmup, 1)
            self.rate = config.min_lr + 0.5 * (config.lr - config.min_lr) * (1 + math.cos(math.pi * share))
        return self.rate

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "meter": self.meter.state(),
            "best": self.best,
            "numbers": [self.best_val, self.best_epoch, self.rate, self.lowest, self.waited],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        restore(self.optimizer, state["optimizer"])
        self.meter.load_state(state["meter"])
        device = self.engine.device
        self.best = {name: value.to(device) for name, value in state["best"].items()}
        self.best_val, self.best_epoch, self.rate, self.lowest, self.waited = state["numbers"]

    def result(self) -> TrainResult:
        """Load the weights of the best epoch and evaluate the test split, once."""
        with self.engine.on_stream():  # the stream that copies the weights of the best epoch
            self.judged.load_state_dict(self.best)
            self.model = self.judged  # the selected network
            brief = "part" in self.history[0]  # evaluating all training graphs would take longer than the training
            splits = ("val", "test") if brief else ("train", "val", "test")
            evaluators = {name: self._evaluator(name, "eager", name != "train") for name in splits}
            figures = {name: evaluate(self.epoch) for name, evaluate in evaluators.items()}
            metrics = {name: evaluators[name].read_metrics() for name in ("val", "test")}
        train = self.history[0]["train_metric"] if brief else figures["train"]["metric"]
        lag = self._norms_lag(train)
        return TrainResult(
            seed=self.seed,
            test=figures["test"]["metric"],
            val=self.best_val,
            train=train,
            test_per_batch=figures["test"]["metric_per_batch"],
            best_epoch=self.best_epoch,
            epochs=self.epoch,
            seconds=round(self.seconds, 3),
            num_weights=sum(p.numel() for p in self.judged.parameters()),
            metric=self.task.metric,
            metrics={split: {name: one.value for name, one in found.items()} for split, found in metrics.items()},
            per_target={split: self._name_targets(found) for split, found in metrics.items()},
            norms_lag=lag,
            history=self.history,
            network=self.judged,
        )

    def _name_targets(self, found: Mapping[str, MetricValue]) -> dict[str, dict[str, float | None]]:
        """Metrics of each target or class by its name; empty for a single target."""
        names = self.task.labels if len(self.task.labels) == self.task.num_outputs else ()
        return name_per_target(found, names or tuple(str(k) for k in range(self.task.num_outputs)))

    def _norms_lag(self, evaluated: float) -> bool:
        """Whether the best epoch scored much better on its own batches than in evaluation; warns if so."""
        config = self.config
        steps = self.epoch * steps_per_epoch(self.stores["train"], config.batch_size, config.epoch_steps)
        if self.norms is not None or self.average is not None or steps < SETTLED or not list_norms(self.model):
            return False
        batches = self.history[self.best_epoch - 1]["train_metric"]
        if not lag_behind(self.task, batches, evaluated):
            return False
        name, digits = type(self.model).__name__, decimals(self.task.metric)
        warnings.warn(
            f"{name}, seed {self.seed}: {self.task.metric} {batches:.{digits}f} on its training batches, but"
            f" {evaluated:.{digits}f} on the same graphs in evaluation; batch norm's running averages probably lag behind the"
            " weights: the setting training.precise_norms=16 takes the statistics anew",
            stacklevel=2,
        )
        return True


def train(
    build: Callable[[], GraphModule] | GraphModule,
    benchmark: Benchmark,
    config: TrainConfig | None = None,
    seed: int = 41,
    *,
    device: torch.device | str = "cpu",
    run: Run | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TrainResult:
    """Train one network.

    Args:
        build: Makes the network (so that the seed decides its initial weights too), or is it.
        benchmark: The data. The test split is read once, at the end.
        config: The protocol; by default the paper's.
        seed: Decides everything random.
        device: Where to train.
        run: A run folder. With it, the training can be stopped and resumed.
        on_epoch: Gets a record per epoch. Without it, a notebook shows the progress.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.

    >>> result = gnas.train(network, data, gnas.TrainConfig(epochs=1), seed=41)
    >>> result.metric, result.epochs, result.network(data.test[0].x, data.test[0].edge_index).shape[1]
    ('class_accuracy', 1, 4)
    """
    runs = None if run is None else [run]
    return train_seeds(
        build, benchmark, config, (seed,), device=device, runs=runs, on_epoch=on_epoch, should_stop=should_stop
    ).results[0]


def train_seeds(
    build: Callable[[], GraphModule] | GraphModule,
    benchmark: Benchmark,
    config: TrainConfig | None = None,
    seeds: Sequence[int] = (41, 95, 12, 35),
    *,
    device: torch.device | str = "cpu",
    runs: Sequence[Run] | None = None,
    on_epoch: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Spread:
    """Train one network from several seeds, all at once on a GPU, one after another on a CPU.

    Args:
        build: Makes the network (so that the seed decides its initial weights too), or is it.
        benchmark: The data. The test split is read once, at the end.
        config: The protocol; by default the paper's.
        seeds: One training for each.
        device: Where to train.
        runs: A run folder for each seed. With them, the trainings can be stopped and resumed.
        on_epoch: Gets a record per epoch, with the ``seed``. Without it, a notebook shows the progress.
        should_stop: Once it returns True, the state is saved and ``Interrupted`` is raised.

    >>> spread = gnas.train_seeds(network, gnas.load("cluster-mini"), seeds=(41, 95))  # doctest: +SKIP
    >>> [result.test for result in spread.results]  # doctest: +SKIP
    """
    config = config or TrainConfig.paper(benchmark)
    plan = [Stage("search", "training", config.epochs, len(seeds))]  # records without a stage have this key
    with show_progress(on_epoch, lambda: plan, benchmark.task.metric) as on_epoch:
        return _train_seeds(build, benchmark, config, seeds, torch.device(device), runs, on_epoch, should_stop)


def _train_seeds(
    build: Callable[[], GraphModule] | GraphModule,
    benchmark: Benchmark,
    config: TrainConfig,
    seeds: Sequence[int],
    device: torch.device,
    runs: Sequence[Run] | None,
    on_epoch: Callable[[Record], None] | None,
    should_stop: Callable[[], bool] | None,
) -> Spread:
    use_precision(config.precision)
    folders = list(runs) if runs is not None else [None] * len(seeds)
    trainers = []
    with explain_memory(device, "the size of the data or of the network"):
        stores = {name: open_store(split, device) for name, split in benchmark.splits().items()}
        for seed, folder in zip(seeds, folders, strict=True):
            torch.manual_seed(seed)
            model = copy.deepcopy(build) if isinstance(build, GraphModule) else build()
            note = add_labels(on_epoch, seed=seed)
            trainers.append(Trainer(model, config, seed, device, stores, folder, note, should_stop))
    if device.type == "cuda":
        take_turns([trainer.steps() for trainer in trainers])
        return Spread(tuple(trainer.result() for trainer in trainers))
    results = []
    for trainer in trainers:
        torch.manual_seed(trainer.seed)
        take_turns([trainer.steps()])
        results.append(trainer.result())
    return Spread(tuple(results))
