"""The common part of gradient strategies: a supernet, two optimisers, and a history of the choices."""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from gnas import distributed
from gnas.arch.genotype import Genotype
from gnas.fields import check_fields, setting
from gnas.graph import GraphSet
from gnas.model.supernet import Supernet
from gnas.run.protocol import EPOCH_STEPS, PRECISE_NORMS, PRECISION, PRECISIONS, SYNC_BN
from gnas.strategies.base import SearchContext, SearchProblem, SearchResult
from gnas.strategies.constant import ConstantWatch
from gnas.strategies.searches import search_best
from gnas.training.engine import Engine, choose_mode, take_turns
from gnas.training.evaluation import Evaluator, PreciseNorms
from gnas.training.loop import EpochLoop, Record, lower_batch, make_generator, plan_epoch, steps_per_epoch
from gnas.training.meter import Meter
from gnas.training.optim import clear_state, make_adam, make_sgd, restore, set_rate, use_precision
from gnas.training.sampling import open_store
from gnas.training.store import Planned

DECIDED = 5  # earlier epochs have no meaningful choices yet
DERIVATIONS = ("last", "best")


@dataclass(frozen=True)
class GradientSettings:
    """Settings of the gradient strategies; the defaults are the paper's (Searching setting)."""

    epochs: int = setting(50, "epochs of the supernet", at_least=1)
    batch_size: int = setting(64, "graphs in a batch", at_least=1)
    epoch_steps: int = setting(1, EPOCH_STEPS, at_least=1)
    lr: float = setting(0.025, "learning rate of the weights at the start; cosine to 0", above=0)
    momentum: float = setting(0.9, "of the weights")
    weight_decay: float = setting(3e-4, "of the weights")
    alpha_lr: float = setting(3e-4, "learning rate of the alphas", above=0)
    alpha_weight_decay: float = setting(1e-3, "of the alphas")
    clip: float = setting(5.0, "largest norm of the gradient of the weights; `0`: no limit")
    share_alphas: bool = setting(False, "one set of alphas for all cells")
    train_share: float = setting(
        0.5,
        "share of the training graphs that the weights are fitted to. DARTS uses the others for the alphas (at most 0.95)",
        above=0,
        at_most=1,
    )
    derive: str = setting(
        "last",
        "architecture of the last epoch, or of the one with the lowest validation loss (`best`)",
        choices=DERIVATIONS,
    )
    searches: int = setting(
        1,
        "number of searches, from consecutive seeds (`--searches N`). Each result is trained briefly; the best by validation "
        "is the result",
        at_least=1,
    )
    trial_epochs: int = setting(10, "epochs of such a brief training", at_least=1)
    trial_lr: float = setting(1e-3, "its learning rate", above=0)
    stop_on_collapse: float | None = setting(
        None, "stop when `identity` has this share of level 2, such as `0.5`; `null`: never"
    )
    precision: str = setting("tf32", PRECISION, choices=PRECISIONS)
    precise_norms: int = setting(0, PRECISE_NORMS, at_least=0)
    sync_bn: bool = setting(False, SYNC_BN)

    def __post_init__(self) -> None:
        check_fields(self)

    def search(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        """Search from ``searches`` seeds and return the best result."""
        return search_best(self, problem, context)

    def search_once(self, problem: SearchProblem, context: SearchContext) -> SearchResult:
        """Search from the seed of the context."""
        raise TypeError("a gradient strategy defines search_once()")


class GradientSearch(EpochLoop):
    """Epochs over a supernet: weights by SGD with a cosine schedule, alphas by Adam (paper, Searching setting)."""

    advice = "fewer cells, or more epochs"  # against collapse
    warned = False
    settings: GradientSettings

    def __init__(self, settings: GradientSettings, problem: SearchProblem, context: SearchContext) -> None:
        super().__init__(
            settings.epochs, make_generator(context.seed), context.run, context.on_epoch, context.should_stop
        )
        torch.manual_seed(context.seed)
        use_precision(settings.precision)
        self.settings, self.problem, self.context = settings, problem, context
        self.supernet = self._build().to(context.device)
        self.supernet.train()
        distributed.same_start(self.supernet)
        device = context.device
        self.weight_optimizer = make_sgd(
            self.supernet.weights(), settings.lr, settings.momentum, settings.weight_decay, device
        )
        self.alpha_optimizer = make_adam(
            self.supernet.alphas(), settings.alpha_lr, settings.alpha_weight_decay, device, betas=(0.5, 0.999)
        )
        self.stores = [open_store(part, device) for part in self._parts()]
        self.store = self.stores[0]
        steps = steps_per_epoch(self.store, settings.batch_size, settings.epoch_steps)
        self.meter = Meter(problem.task, device, steps, rows=self.store.num_rows)
        self.watch = ConstantWatch.from_graphs(problem.task, problem.train, problem.val, steps)
        mode = choose_mode(context.engine, *self.stores)
        self.engine = Engine(self._step, device, mode, parts=self.supernet.parts())
        self.evaluator = Evaluator(
            self.supernet,
            open_store(problem.val, device),
            settings.batch_size,
            context.engine,
            settings.precision,
            self.engine.stream,
            "val",
        )
        self.norms = None
        if settings.precise_norms:
            options = (
                settings.batch_size,
                settings.precise_norms,
                context.engine,
                settings.precision,
                self.engine.stream,
            )
            self.norms = PreciseNorms(self.supernet, self.store, *options)

    def _build(self) -> Supernet:
        problem = self.problem
        return Supernet(
            problem.space,
            problem.task,
            problem.channels,
            problem.num_cells,
            share_alphas=self.settings.share_alphas,
            operations=problem.operations,
        )

    def _parts(self) -> list[GraphSet]:
        """The training graphs that the weights are fitted to."""
        return [self.split()[0]]

    def split(self) -> tuple[GraphSet, GraphSet]:
        """``train_share`` of the training graphs, and the rest. A single graph is in both parts, with its rows split."""
        train, share = self.problem.train, self.settings.train_share
        if len(train) == 1:
            return _masked_parts(train, self.context.seed, share)
        order = torch.randperm(len(train), generator=make_generator(self.context.seed))
        size = max(int(len(train) * share), 1)
        return train.select(order[:size]), train.select(order[size:])

    def _step(self, *planned: Planned) -> None:
        raise TypeError("a gradient strategy defines _step()")

    def rate(self) -> float:
        """Cosine from lr to 0 over the epochs; lower if the supernet did not learn."""
        return self.watch.factor * 0.5 * self.settings.lr * (1 + math.cos(math.pi * self.epoch / self.epochs))

    def begin_epoch(self) -> None:
        with self.engine.on_stream():
            self.meter.reset()
            set_rate(self.weight_optimizer, self.rate())

    def plan(self) -> list[tuple[Planned, ...]]:
        if self.step_number == 0:
            self.begin_epoch()
        plan = plan_epoch(self.store, self.settings.batch_size, self.settings.epoch_steps, self.generator)
        return [(p,) for p in plan]

    def what_to_lower(self) -> str:
        problem, batch = self.problem, lower_batch(self.store, "search.batch_size", self.settings.batch_size)
        return f"{batch}space.channels (now {problem.channels}) or space.cells (now {problem.num_cells})"

    def finish_epoch(self) -> Record:
        distributed.end_epoch(self.supernet)
        rate = self.rate()
        train = self.meter.read(self.epoch)
        if self.norms is not None:
            self.norms()
        val = self.evaluator(self.epoch)
        genotype = self.supernet.genotype()
        collapse = measure_identity_share(genotype)
        if has_collapsed(self.epoch + 1, collapse) and not self.warned:
            self.warned = True
            warnings.warn(
                f"epoch {self.epoch + 1}: identity holds {collapse:.0%} of the aggregation places (collapse): little is passed "
                f"along edges; try {self.advice}, or stop_on_collapse=0.5"
            )
        limit = self.settings.stop_on_collapse
        self.done = limit is not None and collapse >= limit
        record = {
            "train_loss": train["loss"],
            "train_metric": train["metric"],
            "val_loss": val["loss"],
            "val_metric": val["metric"],
            "lr": rate,
            **describe_choices(self.supernet, genotype, collapse),
        }
        if self.watch.judge(train["loss"], val["loss"]):
            record["not_learned"] = self._lower_rate(rate)
        return record

    def _lower_rate(self, rate: float) -> Record:
        """Start again with a lower rate: the supernet does not beat a constant prediction. Returns the entry of the history."""
        epochs = self.watch.epochs
        known = f"no better than a constant prediction after {epochs} epochs at rate {rate:.3g}"
        if not self.watch.lower():
            warnings.warn(
                f"epoch {self.epoch + 1}: the supernet is {known}, although the rate was lowered: its choices mean little; "
                "try another strategy, such as race"
            )
            return {"epochs": epochs, "rate": rate, "new_rate": None}
        new = self.settings.lr * self.watch.factor
        warnings.warn(f"epoch {self.epoch + 1}: the supernet is {known}; it begins anew with rate {new:.3g}")
        torch.manual_seed(self.context.seed)
        with torch.no_grad():
            self.supernet.load_state_dict(self._build().state_dict())
        for optimizer in (self.weight_optimizer, self.alpha_optimizer):
            clear_state(optimizer)
        return {"epochs": epochs, "rate": rate, "new_rate": new}

    def state(self) -> dict[str, Any]:
        return {
            "supernet": self.supernet.state_dict(),
            "weights": self.weight_optimizer.state_dict(),
            "alphas": self.alpha_optimizer.state_dict(),
            "meter": self.meter.state(),
            "watch": self.watch.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.supernet.load_state_dict(state["supernet"])
        restore(self.weight_optimizer, state["weights"])
        restore(self.alpha_optimizer, state["alphas"])
        self.meter.load_state(state["meter"])
        if "watch" in state:  # checkpoints of earlier versions have none
            self.watch.load_state(state["watch"])
        self.warned = any(has_collapsed(record["epoch"], record["identity_share"]) for record in self.history)

    def search(self, name: str) -> SearchResult:
        """Run to the end and derive a genotype."""
        take_turns([self.steps()])
        genotype = self.derive_genotype()
        return SearchResult(
            genotype, self.history, round(self.seconds, 3), name, trained_epochs=self.epoch, seed=self.context.seed
        )

    def derive_genotype(self) -> Genotype:
        """The genotype of the last epoch, or of the best. After a collapse the last epoch is not considered."""
        history = self.history[:-1] if self.done and len(self.history) > 1 else self.history
        if self.settings.derive == "best":
            return Genotype.from_yaml(min(history, key=lambda record: record["val_loss"])["genotype"])
        return self.supernet.genotype() if history is self.history else Genotype.from_yaml(history[-1]["genotype"])


def has_collapsed(epoch: int, share: float) -> bool:
    """Whether identity has replaced the aggregations, at an epoch late enough to judge."""
    return epoch >= DECIDED and share >= 0.5


def measure_identity_share(genotype: Genotype) -> float:
    """Share of identity among the operations of the second level; 1 means that no message is passed."""
    links = [link for cell in genotype for link in cell.links if cell.level(link.target) == 2]
    return sum(link.operation == "identity" for link in links) / max(len(links), 1)


def describe_choices(supernet: Supernet, genotype: Genotype, collapse: float) -> Record:
    """The present choices: alphas, genotype, depth, counts, entropy, margins."""
    with torch.no_grad():
        alphas = [[a.tolist() for a in supernet.link_alphas(c)] for c in range(supernet.num_cells)]
        entropies = [
            float(-(p * p.log()).sum())
            for c in range(supernet.num_cells)
            for p in (a.double().softmax(-1) for a in supernet.link_alphas(c))
        ]
    margins = [choice.margin for cell in supernet.choices() for choice in cell]
    finite = [m for m in margins if math.isfinite(m)]
    return {
        "depth": genotype.depth(),
        "operations": dict(sorted(genotype.operations().items())),
        "second_level": count_second_level(genotype),
        "identity_share": collapse,
        "entropy": sum(entropies) / len(entropies),
        "margin": sum(finite) / max(len(finite), 1),
        "genotype": genotype.to_yaml(),
        "alphas": alphas,
    }


def count_second_level(genotype: Genotype) -> dict[str, int]:
    """Number of times that each operation is on the second level."""
    counts: dict[str, int] = {}
    for cell in genotype:
        for link in cell.links:
            if cell.level(link.target) == 2:
                counts[link.operation] = counts.get(link.operation, 0) + 1
    return dict(sorted(counts.items()))


def _masked_parts(graph: GraphSet, seed: int, share: float) -> tuple[GraphSet, GraphSet]:
    """Both parts of transductive data: the same graph, each with its share of the training rows. A single row is in both."""
    rows = torch.ones(graph.y.size(0), dtype=torch.bool) if graph.mask is None else graph.mask
    chosen = rows.nonzero().flatten()
    chosen = chosen[torch.randperm(len(chosen), generator=make_generator(seed))]
    size = int(len(chosen) * share)
    parts = []
    for part in (chosen[: max(size, 1)], chosen[size:]):
        mask = torch.zeros_like(rows)
        mask[part] = True
        parts.append(dataclasses.replace(graph, mask=mask))
    return parts[0], parts[1]
