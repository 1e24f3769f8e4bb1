"""The gradient strategies: what each step follows, how the training graphs are divided, and what is recorded."""

import contextlib
import json
import math
import warnings
from dataclasses import replace
from pathlib import Path

import obvious
import pytest
import torch
from small import benchmark, transductive
from tiny import SPACE, tiny
from torch import Tensor
from torch.func import functional_call

from gnas.arch.genotype import Genotype
from gnas.errors import InputError, Interrupted
from gnas.graph import GraphBatch
from gnas.model.supernet import Supernet
from gnas.run.folder import Run
from gnas.strategies import Darts, SearchProblem, SingleLevel, search
from gnas.strategies.base import SearchContext
from gnas.strategies.darts import DartsSearch
from gnas.strategies.gradient import DECIDED, GradientSearch, identity_share
from gnas.strategies.single_level import SingleLevelSearch

SMALL = {"epochs": 2, "batch_size": 4}
pytestmark = pytest.mark.filterwarnings("ignore:epoch .*collapse")


def problem(kind: str = "regression", cells: int = 2) -> SearchProblem:
    bench = tiny(kind)
    return SearchProblem(bench.train, bench.val, bench.task, SPACE, 4, cells)


def darts(order: int, kind: str = "regression", **settings: float) -> DartsSearch:
    """A search in float64 whose alphas have opinions."""
    one = DartsSearch(Darts(order=order, **{**SMALL, **settings}), problem(kind), SearchContext())
    one.supernet.double()
    with torch.no_grad():
        for alpha in one.supernet.alphas():
            alpha.copy_(torch.randn_like(alpha))
    return one


class Slow(torch.nn.Module):
    """The obvious evaluation of a supernet, as a module whose parameters can be exchanged."""

    def __init__(self, supernet: Supernet) -> None:
        super().__init__()
        self.supernet = supernet

    def forward(self, batch: GraphBatch) -> Tensor:
        edges = torch.stack([batch.neighbors.source, batch.neighbors.target]).long()
        return obvious.supernet(self.supernet, batch.x, edges, batch.batch.long())


def through_the_step(one: DartsSearch, train: GraphBatch, val: GraphBatch) -> list[Tensor]:
    """Autograd through w' = w - rate (momentum * buffer + dL/dw + decay * w), the definition of the second order."""
    supernet, settings, slow = one.supernet, one.settings, Slow(one.supernet)
    named = {f"supernet.{name}": value for name, value in supernet.named_parameters()}
    names = [name for name in named if not name.endswith("_alphas")]
    alphas, weights = supernet.alphas(), [named[name] for name in names]
    loss = one.problem.task.loss_value(functional_call(slow, named, (train,)), train)
    slopes = torch.autograd.grad(loss, weights, create_graph=True)
    rate, ahead = one.weight_optimizer.param_groups[0]["lr"], {}
    for name, weight, slope in zip(names, weights, slopes, strict=True):
        buffer = one.weight_optimizer.state[weight].get("momentum_buffer", torch.zeros_like(weight))
        ahead[name] = weight - rate * (settings.momentum * buffer + slope + settings.weight_decay * weight)
    value = one.problem.task.loss_value(functional_call(slow, {**named, **ahead}, (val,)), val)
    return list(torch.autograd.grad(value, alphas))


def halves(one: GradientSearch) -> tuple[GraphBatch, GraphBatch]:
    return one.store.graphs.batch(), one.held_out.graphs.batch()


def flat(gradients) -> Tensor:
    return torch.cat([g.flatten() for g in gradients])


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("moved", [False, True], ids=["first-step", "with-momentum"])
def test_unrolled_gradients_equal_autograd_through_the_step(kind: str, moved: bool, monkeypatch) -> None:
    """With a reach so short that no ReLU changes side: there the difference quotient would see a jump, autograd none."""
    monkeypatch.setattr("gnas.strategies.darts.REACH", 1e-6)
    one = darts(2, kind, lr=0.3, weight_decay=0.1)
    train, val = halves(one)
    if moved:
        one._weight_step(train)
        assert all("momentum_buffer" in one.weight_optimizer.state[w] for w in one.supernet.weights())
    before = [w.detach().clone() for w in one.supernet.weights()]
    found, wanted = flat(one.unrolled_gradients(train, val)), flat(through_the_step(one, train, val))
    assert all(torch.equal(a, b) for a, b in zip(before, one.supernet.weights(), strict=True))
    plain = flat(one._first_order(val))
    near, far = (found - wanted).norm(), (plain - wanted).norm()
    assert far > 0.05 * wanted.norm()  # the step ahead matters here
    assert near < 1e-6 * far
    # Each term counts: leaving one out is seen.
    for name, value in (("momentum", 0.0), ("weight_decay", 0.0)):
        if name == "weight_decay" or moved:
            one.settings = replace(one.settings, **{name: value})
            assert (flat(one.unrolled_gradients(train, val)) - wanted).norm() > 1e-3 * far
            one.settings = replace(one.settings, **{name: {"momentum": 0.9, "weight_decay": 0.1}[name]})


def test_the_first_order_is_the_plain_gradient() -> None:
    one = darts(1)
    _, val = halves(one)
    loss = one.problem.task.loss_value(Slow(one.supernet)(val), val)
    wanted = torch.autograd.grad(loss, one.supernet.alphas())
    torch.testing.assert_close(flat(one._first_order(val)), flat(wanted), rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2])
def test_a_darts_step_moves_alphas_by_the_held_out_half(order: int) -> None:
    one = darts(order)
    (here, there), *_ = one.plan()
    train = one.store.batch(here.ids, here.capacity)
    val = one.held_out.batch(there.ids, there.capacity)
    gradients = one._first_order(val) if order == 1 else one.unrolled_gradients(train, val)
    twins = [torch.nn.Parameter(a.detach().clone()) for a in one.supernet.alphas()]
    settings = one.settings
    optimizer = torch.optim.Adam(twins, settings.alpha_lr, betas=(0.5, 0.999), weight_decay=settings.alpha_weight_decay)
    for twin, gradient in zip(twins, gradients, strict=True):
        twin.grad = gradient.clone()
    optimizer.step()
    weights = [w.detach().clone() for w in one.supernet.weights()]
    one._step(here, there)
    torch.testing.assert_close(flat(one.supernet.alphas()), flat(twins), rtol=0, atol=1e-12)
    assert not torch.equal(flat(weights), flat(one.supernet.weights()))


def test_single_level_one_pass_serves_both(monkeypatch) -> None:
    one = SingleLevelSearch(SingleLevel(**SMALL, clip=0.5), problem(), SearchContext())
    one.supernet.double()
    (here,), *_ = one.plan()
    batch = one.store.graphs.select(here.ids).batch()
    weights, alphas = one.supernet.weights(), one.supernet.alphas()
    loss = one.problem.task.loss_value(Slow(one.supernet)(batch), batch)
    slopes = torch.autograd.grad(loss, [*weights, *alphas])
    twins = [torch.nn.Parameter(p.detach().clone()) for p in (*weights, *alphas)]
    for twin, slope in zip(twins, slopes, strict=True):
        twin.grad = slope.clone()
    torch.nn.utils.clip_grad_norm_(twins[: len(weights)], 0.5)
    torch.optim.SGD(twins[: len(weights)], 0.025, 0.9, weight_decay=3e-4).step()
    torch.optim.Adam(twins[len(weights) :], 3e-4, (0.5, 0.999), weight_decay=1e-3).step()
    calls = 0
    run = Supernet.run

    def counted(self, batch):
        nonlocal calls
        calls += 1
        return run(self, batch)

    monkeypatch.setattr(Supernet, "run", counted)
    one._step(here)
    assert calls == 1
    torch.testing.assert_close(flat([*weights, *alphas]), flat(twins), rtol=0, atol=1e-9)


@pytest.mark.parametrize("strategy", [SingleLevel, Darts])
def test_the_weights_rate_is_a_cosine(strategy) -> None:
    history = search(tiny(), SPACE, strategy(epochs=4, batch_size=12), channels=4, num_cells=1).history
    wanted = [0.025 * (1 + math.cos(math.pi * k / 4)) / 2 for k in range(4)]
    assert [record["lr"] for record in history] == pytest.approx(wanted)


# -- data -------------------------------------------------------------------------------------------------------------


def test_halves_are_disjoint_and_complete() -> None:
    train = problem().train
    marked = replace(train, y=torch.arange(len(train)).float())
    splits = []
    for seed in (0, 0, 1):
        one = DartsSearch(Darts(**SMALL), replace(problem(), train=marked), SearchContext(seed))
        splits.append((one.store.graphs.y.tolist(), one.held_out.graphs.y.tolist()))
    first, second = splits[0]
    assert (len(first), len(second)) == (6, 6)
    assert sorted(first + second) == list(range(12))
    assert splits[0] == splits[1] != splits[2]


def test_a_single_graph_is_divided_by_rows() -> None:
    bench = transductive()
    posed = SearchProblem(bench.train, bench.val, bench.task, SPACE, 4, 1)
    one = DartsSearch(Darts(**SMALL), posed, SearchContext())
    here, there = one.store.graphs.mask, one.held_out.graphs.mask
    assert (int(here.sum()), int(there.sum())) == (5, 5)
    assert not bool((here & there).any())
    assert torch.equal(here | there, bench.train.mask)
    assert torch.equal(one.store.graphs.edge_index, bench.train.edge_index)
    assert len(one.search("darts").history) == 2


@pytest.mark.parametrize("strategy", [SingleLevel(**SMALL), Darts(**SMALL)])
def test_a_single_graph_with_one_target_trains(strategy) -> None:
    bench = benchmark()
    history = search(replace(bench, train=bench.train.select([0])), SPACE, strategy, channels=4, num_cells=1).history
    assert all(record["train_loss"] > 0 for record in history)


# -- what is recorded -------------------------------------------------------------------------------------------------

FIELDS = {"epoch", "train_loss", "train_metric", "val_loss", "val_metric", "lr", "depth", "operations", "second_level"}
FIELDS |= {"identity_share", "entropy", "margin", "genotype", "alphas", "seconds"}


@pytest.mark.parametrize("share", [False, True])
def test_history(share: bool) -> None:
    strategy = SingleLevel(epochs=3, batch_size=12, alpha_lr=0.1, share_alphas=share)
    one = SingleLevelSearch(strategy, problem("classification"), SearchContext())
    result = one.search("single-level")
    assert json.loads(json.dumps(result.history)) == result.history
    for record in result.history:
        assert set(record) == FIELDS
        cells = [[torch.tensor(a, dtype=torch.float64) for a in cell] for cell in record["alphas"]]
        assert [len(a) for a in cells[0]] == [len(link.candidates) for link in SPACE.links()]
        shares = [a.softmax(0) for cell in cells for a in cell]
        entropy = sum(-(p * p.log()).sum() for p in shares) / len(shares)
        assert record["entropy"] == pytest.approx(float(entropy), abs=1e-6)
        genotype = Genotype.from_yaml(record["genotype"])
        assert record["depth"] == genotype.depth()
        assert sum(record["operations"].values()) == sum(len(cell.links) for cell in genotype)
        assert sum(record["second_level"].values()) == 2 * SPACE.nodes
        assert record["identity_share"] == record["second_level"].get("identity", 0) / 4 == identity_share(genotype)
        assert (record["alphas"][0] == record["alphas"][1]) == share
        assert record["margin"] >= 0
    assert result.history[0]["alphas"] != result.history[1]["alphas"]
    assert result.genotype == one.supernet.genotype() == Genotype.from_yaml(result.history[-1]["genotype"])
    last = [[a.tolist() for a in one.supernet.link_alphas(c)] for c in range(2)]
    assert result.history[-1]["alphas"] == last


def test_shared_alphas_are_one_row() -> None:
    one = SingleLevelSearch(SingleLevel(**SMALL, share_alphas=True), problem(), SearchContext())
    assert [a.size(0) for a in one.supernet.alphas()] == [1, 1]
    cells = one.search("single-level").genotype
    assert cells[0] == cells[1]


# -- collapse ---------------------------------------------------------------------------------------------------------


class Collapsing(SingleLevelSearch):
    """Identity wins on the second level from the second epoch on."""

    def finish_epoch(self):
        with torch.no_grad():
            place = SPACE.aggregators.index("identity")
            self.supernet.aggregator_alphas[..., place] = 5.0 if self.epoch >= 1 else -5.0
        return super().finish_epoch()


def collapse(limit: float | None, epochs: int = 4, context: SearchContext | None = None) -> Collapsing:
    settings = SingleLevel(epochs=epochs, batch_size=12, stop_on_collapse=limit)
    return Collapsing(settings, problem(), context or SearchContext())


@pytest.mark.filterwarnings("default")
def test_collapse_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = collapse(None, DECIDED + 2).search("single-level")
    assert [record["identity_share"] for record in result.history] == [0] + [1] * (DECIDED + 1)
    messages = [str(one.message) for one in heard if "collapse" in str(one.message)]
    assert len(messages) == 1
    assert messages[0].startswith(f"epoch {DECIDED}: identity holds 100% of the aggregation places")
    assert "stop_on_collapse" in messages[0]


@pytest.mark.filterwarnings("default")
def test_collapse_is_not_warned_of_again_after_a_resume(tmp_path: Path) -> None:
    def heard(stop: bool) -> int:
        with Run(tmp_path, {}, resume=True) as run, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            told: list[int] = []
            context = SearchContext(
                run=run, on_epoch=lambda record: told.append(1), should_stop=lambda: stop and len(told) >= DECIDED
            )
            with contextlib.suppress(Interrupted):
                collapse(None, DECIDED + 3, context).search("single-level")
        return sum("collapse" in str(one.message) for one in caught)

    assert (heard(stop=True), heard(stop=False)) == (1, 0)


def test_stop_on_collapse_gives_the_epoch_before() -> None:
    result = collapse(0.8).search("single-level")
    assert [record["identity_share"] for record in result.history] == [0, 1]
    assert result.genotype == Genotype.from_yaml(result.history[0]["genotype"])
    assert identity_share(result.genotype) == 0
    assert result.trained_epochs == 2


# -- what is fitted, what is derived ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_weights_are_fitted_to_a_share_of_the_training_graphs(share: float) -> None:
    one = SingleLevelSearch(SingleLevel(epochs=1, batch_size=12, train_share=share), problem(), SearchContext())
    everything = problem().train
    assert len(one.store.graphs) == int(share * len(everything))
    assert set(one.store.graphs.y.flatten().tolist()) <= set(everything.y.flatten().tolist())
    assert len(one.stores) == 1  # nothing that is not used takes memory


@pytest.mark.parametrize(("strategy", "share"), [(SingleLevel, 0), (SingleLevel, 1.1), (Darts, 1.0), (Darts, -0.5)])
def test_a_share_that_leaves_nothing_is_refused(strategy: type, share: float) -> None:
    with pytest.raises(InputError, match="train_share is"):
        strategy(train_share=share)


def test_an_unknown_derivation_is_refused() -> None:
    with pytest.raises(InputError, match="derive"):
        SingleLevel(derive="first")


class Worsening(SingleLevelSearch):
    """Choices change from epoch to epoch, and the second has the lowest validation loss."""

    def finish_epoch(self):
        with torch.no_grad():
            self.supernet.aggregator_alphas[..., self.epoch] = 5.0 + self.epoch
        return super().finish_epoch() | {"val_loss": (2.0, 1.0, 3.0)[self.epoch]}


@pytest.mark.parametrize(("derive", "epoch"), [("best", 1), ("last", 2)])
def test_what_is_derived_is_the_last_or_the_best_epoch(derive: str, epoch: int) -> None:
    settings = SingleLevel(epochs=3, batch_size=12, derive=derive)
    result = Worsening(settings, problem(), SearchContext()).search("single-level")
    genotypes = [record["genotype"] for record in result.history]
    assert len(set(genotypes)) == 3
    assert result.genotype == Genotype.from_yaml(genotypes[epoch])
