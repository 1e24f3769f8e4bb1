"""The supernet: grouped evaluation against one operation at a time, alphas, derivation, inherited weights."""

import copy
import dataclasses
from itertools import pairwise

import numpy as np
import obvious
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import INTERPRETED, OWN, assert_near, gradients, pad, shake
from torch_geometric.data import Batch

from gnas.arch.genotype import Genotype
from gnas.arch.space import SearchSpace
from gnas.graph import GraphBatch
from gnas.model.network import Network
from gnas.model.supernet import Supernet
from gnas.model.task import Task

TASK = Task("graph", "regression", 2, in_channels=4)
VARIANTS = ("paper", "reference")
CELLS, OUTPUTS = (1, 1) if INTERPRETED else (2, 2)  # in Triton's interpreter: a second one calls the same kernels again
DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [pytest.param(torch.float32, 1e-5, id="float32"), pytest.param(torch.float64, 1e-10, id="float64")],
)


def build(
    space: SearchSpace | None = None,
    task: Task = TASK,
    num_cells: int = 2,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    **options,
) -> Supernet:
    return shake(Supernet(space or SearchSpace(2, 2), task, 8, num_cells, **options), seed).to(dtype)


# -- evaluation -----------------------------------------------------------------------------------------------------


def check(net: Supernet, batch: Batch, tolerance: float, fusion: str = "concat") -> None:
    """Outputs and the gradients of every weight and alpha."""
    categories = bool(net.task.categories)
    x = batch.categories if categories else batch.x.to(net.filter_alphas.dtype)
    leaves = [*net.weights(), *net.alphas()]
    wanted = obvious.supernet(net, x, batch.edge_index, batch.batch, fusion)
    out = net(x, batch.edge_index, batch.batch)
    assert_near(out, wanted, tolerance)
    found = gradients(out, leaves)
    assert_near(found, gradients(wanted, leaves), tolerance)
    assert all(float(grad.abs().max()) > 0 for grad in found[-2:]), "alphas must be felt"


@pytest.mark.parametrize("training", [True, False])
@DTYPES
@pytest.mark.parametrize("share", [False] if INTERPRETED else [False, True])
@pytest.mark.parametrize("kind", VARIANTS)
def test_groups_equal_one_operation_at_a_time(
    batch: Batch, kind: str, share: bool, dtype: torch.dtype, tolerance: float, training: bool
) -> None:
    net = build(SearchSpace(2, OUTPUTS, variant=kind), num_cells=CELLS, dtype=dtype, share_alphas=share).train(training)
    check(net, batch, tolerance)


@pytest.mark.parametrize("level", ["node", "edge"])
@pytest.mark.parametrize("kind", VARIANTS)
def test_other_levels_and_categories(batch: Batch, level: str, kind: str) -> None:
    task = Task(level, "classification", 3, categories=(5, 3))
    check(build(SearchSpace(2, 1, variant=kind), task), batch, 1e-10)


@pytest.mark.parametrize("kind", VARIANTS)
def test_the_papers_size_of_three_nodes(batch: Batch, kind: str) -> None:
    check(build(SearchSpace(variant=kind), num_cells=1), batch, 1e-10)


@pytest.mark.parametrize("options", [{"norm": False}, {"fusion": "sum"}, {"fusion": "max"}, {"operations": OWN}])
def test_options(batch: Batch, options: dict) -> None:
    space = SearchSpace(2, 2, filters=("own_filter", "dense"), aggregators=("own_median", "max"))
    space = space if "operations" in options else SearchSpace(1, 3)
    check(build(space, **options), batch, 1e-10, options.get("fusion", "concat"))


FILTERS = st.lists(st.sampled_from(["zero", "identity", "sparse", "dense"]), min_size=1, max_size=4, unique=True)
AGGREGATORS = st.lists(st.sampled_from(["identity", "mean", "sum", "max"]), min_size=1, max_size=4, unique=True)


@given(
    FILTERS.filter(lambda names: names != ["zero"]),
    AGGREGATORS,
    st.sampled_from(VARIANTS),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
@settings(max_examples=12, deadline=None)
def test_any_subset_of_candidates(filters, aggregators, kind: str, size: tuple[int, int]) -> None:
    space = SearchSpace(*size, tuple(filters), tuple(aggregators), variant=kind)
    net = build(space, num_cells=1)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    edges, batch = torch.tensor([[0, 1, 2, 0], [1, 0, 1, 3]]), torch.zeros(5, dtype=torch.long)
    leaves = list(net.parameters())
    out, wanted = net(x, edges), obvious.supernet(net, x, edges, batch)
    assert_near(out, wanted, 1e-10)
    assert_near(gradients(out, leaves), gradients(wanted, leaves), 1e-9)


@DTYPES
@pytest.mark.parametrize("kind", VARIANTS)
def test_padding_changes_nothing_in_training(batch: Batch, kind: str, dtype: torch.dtype, tolerance: float) -> None:
    plain = GraphBatch.from_pyg(batch)
    plain, results = dataclasses.replace(plain, x=plain.x.to(dtype)), []
    for inner in (plain, pad(plain)):
        net = build(SearchSpace(2, OUTPUTS, variant=kind), num_cells=CELLS, dtype=dtype)
        out = net(inner)[:3]
        statistics = [value for name, value in net.named_buffers() if "running" in name]
        results.append([out, *gradients(out, list(net.parameters())), *statistics])
    assert_near(results[1], results[0], tolerance)


@pytest.mark.parametrize("aggregator", ["identity", "max"])
def test_second_derivatives_are_refused_rather_than_wrong(batch: Batch, aggregator: str) -> None:
    task = Task("node", "regression", 2, in_channels=4)
    net = build(SearchSpace(2, 2, filters=("identity",), aggregators=(aggregator,)), task)
    grads = torch.autograd.grad(net(batch).square().sum(), net.weights(), create_graph=True, allow_unused=True)
    total = sum(grad.square().sum() for grad in grads if grad is not None)
    with pytest.raises(RuntimeError, match=r"once_differentiable|no autograd formula"):
        total.backward()


# -- alphas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [False, True])
def test_alphas_are_parameters_apart_from_the_weights(share: bool) -> None:
    net = build(num_cells=3, share_alphas=share)
    alphas, weights = {id(a) for a in net.alphas()}, {id(w) for w in net.weights()}
    assert not alphas & weights
    assert alphas | weights == {id(p) for p in net.parameters()}
    assert len(net.weights()) == len(weights)
    assert {"filter_alphas", "aggregator_alphas"} <= set(net.state_dict())
    links = net.space.links()
    wanted = sum(len(link.candidates) for link in links) * (1 if share else 3)
    assert sum(a.numel() for a in net.alphas()) == wanted
    assert [len(a) for a in net.link_alphas(2)] == [len(link.candidates) for link in links]


def test_shared_alphas_are_one_cells_alphas(batch: Batch) -> None:
    shared, apart = build(share_alphas=True), build()
    with torch.no_grad():
        for one, many in zip(shared.alphas(), apart.alphas(), strict=True):
            many.copy_(one.expand_as(many))
    state = {name: value for name, value in shared.state_dict().items() if "alphas" not in name}
    apart.load_state_dict(state, strict=False)
    out, wanted = shared(batch), apart(batch)
    assert_near(out, wanted, 1e-12)
    sums = [grad.sum(0, keepdim=True) for grad in gradients(wanted, apart.alphas())]
    assert_near(gradients(out, shared.alphas()), sums, 1e-12)


def test_alphas_start_small_and_follow_the_seed() -> None:
    nets = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        nets.append(Supernet(SearchSpace(), TASK, 4, 4))
    first, again, other = (torch.cat([a.flatten() for a in net.alphas()]) for net in nets)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 5e-4 < first.std().item() < 2e-3, "1e-3 times a normal draw"


def test_mixing_is_a_distribution_on_every_link() -> None:
    net = build()
    for row, cell in enumerate(net.mixing()):
        start = 0
        for alpha in net.link_alphas(row):
            share = cell[start : start + len(alpha)]
            assert_near(share, torch.softmax(alpha, 0), 1e-12)
            start += len(alpha)
        assert start == len(cell)


# -- derivation -----------------------------------------------------------------------------------------------------


def push(net: Supernet, genotype: Genotype, strength: float = 200.0) -> None:
    """Alphas that leave one operation on every link: the genotype's, or zero where the genotype has no link."""
    with torch.no_grad():
        for number, cell in enumerate(genotype):
            chosen = {(link.source, link.target): link.operation for link in cell.links}
            for link, alpha in zip(net.links, net.link_alphas(number), strict=True):
                winner = chosen.get((link.source, link.target), "zero")
                alpha.fill_(-strength)
                alpha[link.candidates.index(winner)] = strength


@given(st.integers(0, 10_000), st.sampled_from(VARIANTS))
@settings(max_examples=20, deadline=None)
def test_the_genotype_follows_the_alphas(seed: int, kind: str) -> None:
    space = SearchSpace(3, 2, variant=kind)
    wanted = space.sample(np.random.default_rng(seed), 2)
    net = Supernet(space, TASK, 2, 2)
    push(net, wanted)
    assert net.genotype() == wanted


@given(st.integers(0, 10_000), st.sampled_from(VARIANTS))
@settings(max_examples=20, deadline=None)
def test_choices_are_the_strongest_non_zero_of_each_node(seed: int, kind: str) -> None:
    space = SearchSpace(2, 2, variant=kind)
    net = build(space, seed=seed)
    genotype = net.genotype()
    assert genotype in space
    assert len(genotype) == 2
    for number, choices in enumerate(net.choices()):
        assert [choice.link for choice in choices] == list(genotype[number].links)
        for choice in choices:
            rivals = []
            for link, alpha in zip(net.links, net.link_alphas(number), strict=True):
                if link.target == choice.link.target:
                    strength = dict(zip(link.candidates, alpha.tolist(), strict=True))
                    rivals += [value for name, value in strength.items() if name != "zero"]
                    if link.source == choice.link.source:
                        assert strength[choice.link.operation] == choice.strength
            first, second = sorted(rivals, reverse=True)[:2]
            assert choice.strength == first
            assert choice.margin == pytest.approx(first - second)
            assert choice.margin >= 0


def test_a_strong_zero_is_never_chosen() -> None:
    net = build()
    with torch.no_grad():
        net.filter_alphas[..., net.space.filters.index("zero")] = 100.0
    assert "zero" not in net.genotype().operations()
    assert net.genotype() in net.space


def test_a_choice_without_rivals_is_certain() -> None:
    net = build(SearchSpace(1, 1, filters=("zero", "dense"), aggregators=("sum",)))
    assert [choice.margin for choice in net.choices()[0]] == [float("inf")] * 3


# -- inherited weights ----------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), kind=st.sampled_from(VARIANTS), share=st.booleans())
@settings(max_examples=15, deadline=None)
def test_an_inherited_network_is_the_supernet_at_one_hot_alphas(seed: int, kind: str, share: bool) -> None:
    space = SearchSpace(2, 2, variant=kind)
    genotype = space.sample(np.random.default_rng(seed), 2)
    genotype = Genotype((genotype[0],) * 2, kind) if share else genotype
    net = build(space, seed=seed, share_alphas=share).eval()
    push(net, genotype)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    edges = torch.tensor([[0, 1, 2, 0, 4], [1, 0, 1, 3, 1]])
    network = net.inherit_weights(genotype).eval()
    assert network.genotype == genotype
    assert next(network.parameters()).dtype == torch.float64
    for cell in network.cells:  # the authors' code searches and trains with different slopes below zero
        cell.config = dataclasses.replace(cell.config, slope=obvious.SEARCH_SLOPE[kind])
    assert_near(network(x, edges), net(x, edges), 1e-10)


def test_inherited_weights_are_a_copy(batch: Batch) -> None:
    net = build().eval()
    before, network = net(batch), net.inherit_weights(net.genotype())
    assert isinstance(network, Network)
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
    assert torch.equal(net(batch), before)


@pytest.mark.parametrize("options", [{"norm": False}, {"fusion": "mean"}, {"dropout": 0.5}])
def test_an_inherited_network_keeps_the_options(batch: Batch, options: dict) -> None:
    net = build(**options).eval()
    push(net, net.genotype())
    assert_near(net.inherit_weights(net.genotype()).eval()(batch), net(batch), 1e-10)


# -- where it can go ------------------------------------------------------------------------------------------------


def test_deepcopy_and_state_dict_round_trip(batch: Batch) -> None:
    net = build()
    net(batch)
    net.eval()
    twin, other = copy.deepcopy(net), build(seed=1).eval()
    other.load_state_dict(net.state_dict())
    for same in (twin, other):
        assert torch.equal(same(batch), net(batch))
        assert same.genotype() == net.genotype()
        assert not {id(p) for p in same.parameters()} & {id(p) for p in net.parameters()}


def test_compiled(batch: Batch) -> None:
    net, inner = build(SearchSpace(2, 1), num_cells=1), GraphBatch.from_pyg(batch)
    torch.compiler.reset()
    compiled = torch.compile(copy.deepcopy(net), backend="aot_eager", fullgraph=True)
    out, wanted = compiled(inner), net(inner)
    assert_near(out, wanted, 1e-10)
    assert_near(gradients(out, list(compiled.parameters())), gradients(wanted, list(net.parameters())), 1e-9)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none")
@pytest.mark.parametrize("kind", VARIANTS)
def test_cpu_and_cuda_agree(batch: Batch, kind: str) -> None:
    net = build(SearchSpace(2, 2, variant=kind))
    there = copy.deepcopy(net).to("cuda")
    out, moved = net(batch), there(batch.clone().to("cuda"))
    assert_near(moved.cpu(), out, 1e-9)
    found = [grad.cpu() for grad in gradients(moved, list(there.parameters()))]
    assert_near(found, gradients(out, list(net.parameters())), 1e-8)
    assert there.genotype() == net.genotype()
    push(there, net.genotype())
    network = there.inherit_weights(net.genotype())
    assert {p.device.type for p in network.parameters()} == {"cuda"}


@pytest.mark.parametrize("kind", VARIANTS)
def test_number_of_weights_counts_every_candidate(kind: str) -> None:
    c, space = 8, SearchSpace(2, 2, variant=kind)
    net = build(space)
    reference = kind == "reference"
    block = c * c + 2 * c
    each = {
        "zero": 0,
        "identity": 0 if reference else block,
        "sparse": (2 * c * c + 2 * c if reference else 2 * c + 1) + block,
        "dense": 2 * c * c + c + block,
        "sum": block,
        "mean": (c * c + c) * reference + block,
        "max": (c * c + c) * reference + block,
    }
    cell = sum(each[name] for link in space.links() for name in link.candidates)
    cell += len(space.output_nodes()) * c * c + 2 * c
    sizes = [c, c, c, c, 2] if reference else [c, 4, 2, 2]
    head = sum((a + 1) * b for a, b in pairwise(sizes))
    assert sum(w.numel() for w in net.weights()) == 5 * c + 2 * cell + head
