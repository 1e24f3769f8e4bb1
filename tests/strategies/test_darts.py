"""Bilevel search: the unrolled gradient against autograd, and which half of the training graphs moves what."""

from dataclasses import replace

import obvious
import pytest
import torch
from samples import flat
from small import benchmark, transductive
from tiny import SPACE, tiny
from torch import Tensor
from torch.func import functional_call

from gnas.graph import GraphBatch
from gnas.strategies import Darts, SearchProblem, SingleLevel, search
from gnas.strategies.base import SearchContext
from gnas.strategies.darts import DartsSearch
from gnas.strategies.gradient import GradientSearch

SMALL = {"epochs": 2, "batch_size": 4}


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


def through_the_step(one: DartsSearch, train: GraphBatch, val: GraphBatch) -> list[Tensor]:
    """Autograd through w' = w - rate (momentum * buffer + dL/dw + decay * w), the definition of the second order."""
    supernet, settings, slow = one.supernet, one.settings, obvious.Slow(one.supernet)
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
    loss = one.problem.task.loss_value(obvious.Slow(one.supernet)(val), val)
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
