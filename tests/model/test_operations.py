"""Each operation against an independent dense float64 computation, with gradients."""

import pytest
import torch
from obvious import dense_adjacency, normalised, operation, tensors, transformed
from samples import OWN, assert_near, gradients, random_edges, shake
from torch import nn
from torch_geometric.nn import GCNConv

from gnas.arch.operation import AGGREGATORS
from gnas.errors import InputError
from gnas.graph import Neighbors
from gnas.model.operations import (
    OPERATIONS,
    VARIANTS,
    Operation,
    find_variant,
    reduce_together,
)
from gnas.model.stacked import StackedBatchNorm, StackedLinear
from gnas.model.stage import Transform

NODES, CHANNELS, COUNT = 8, 5, 3
EDGES = random_edges(NODES, 22, seed=11)
NEIGHBORS, _ = Neighbors.from_edges(EDGES, NODES, NODES)
ADJACENCY = dense_adjacency(EDGES, NODES)


def inputs(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (COUNT, NODES, CHANNELS), (NODES, CHANNELS)
    h, x = (torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes)
    return h, x


@pytest.mark.parametrize("kind", ["paper", "reference", "bare"])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("implementation", ["reference", "cpu"])
def test_equals_dense_computation(name: str, kind: str, implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNAS_AGGREGATE", implementation)
    module = shake(OPERATIONS[name](CHANNELS, COUNT, find_variant(kind)).double())
    (h, x), leaves = inputs(), list(module.parameters())
    out = module(h, x, NEIGHBORS)
    wanted = torch.stack([operation(name, h[k], x, ADJACENCY, tensors(module, k), kind) for k in range(COUNT)])
    assert_near(out, wanted, 1e-10)
    assert_near(gradients(out, [h, x, *leaves]), gradients(wanted, [h, x, *leaves]), 1e-10)


@pytest.mark.parametrize(
    ("name", "kind", "shapes"),
    [
        ("sparse", "paper", {"gate.weight": (10, 1), "gate.bias": (1, 1)}),
        ("sparse", "reference", {"gate.weight": (10, 5), "gate.bias": (1, 5), "last.weight": (5, 1)}),
        ("dense", "paper", {"gate.weight": (10, 5), "gate.bias": (1, 5)}),
        ("sum", "reference", {}),
        ("mean", "paper", {}),
        ("mean", "reference", {"message.weight": (5, 5), "message.bias": (1, 5)}),
        ("max", "reference", {"message.weight": (5, 5), "message.bias": (1, 5)}),
        ("max", "paper", {}),
    ],
)
def test_parameters_are_those_of_the_formula(name: str, kind: str, shapes: dict) -> None:
    module = OPERATIONS[name](CHANNELS, COUNT, find_variant(kind))
    assert {key: tuple(value.shape[1:]) for key, value in module.named_parameters()} == shapes
    assert all(len(value) == COUNT for value in module.parameters())


@pytest.mark.parametrize("name", ["sparse", "dense"])
def test_gates_read_the_cells_input(name: str) -> None:
    module = shake(OPERATIONS[name](CHANNELS, COUNT, find_variant("paper")).double())
    h, x = inputs()
    gate = module(h, x, NEIGHBORS) / h
    moved = x.detach().clone()
    moved[2] += 1
    changed = (module(h, moved, NEIGHBORS) / h - gate).abs() > 1e-6
    assert changed[:, 2].all()
    assert not changed[:, :2].any()
    assert not changed[:, 3:].any()
    assert bool(((gate > 0) & (gate < 1)).all())
    one_a_node = torch.allclose(gate, gate[..., :1].expand_as(gate))
    assert one_a_node == (name == "sparse")


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("kind", ["paper", "reference"])
def test_an_isolated_node_gets_zeros(name: str, kind: str) -> None:
    module = OPERATIONS[name](CHANNELS, COUNT, find_variant(kind)).double()
    h, x = inputs()
    out = module(h - 10, x, NEIGHBORS)
    assert torch.equal(out[:, -1], torch.zeros(COUNT, CHANNELS, dtype=torch.float64))
    assert bool(out.isfinite().all())
    assert bool(gradients(out, [h])[0].isfinite().all())


def test_symmetric_is_the_propagation_of_gcn() -> None:
    edges = torch.cat([EDGES, EDGES.flip(0)], dim=1).unique(dim=1)
    edges = edges[:, edges[0] != edges[1]]
    gcn = GCNConv(CHANNELS, CHANNELS, add_self_loops=False, bias=False).double()
    with torch.no_grad():
        gcn.lin.weight.copy_(torch.eye(CHANNELS))
    h, x = inputs()
    found = OPERATIONS["symmetric"](CHANNELS, COUNT, find_variant("paper"))(
        h, x, Neighbors.from_edges(edges, NODES, NODES)[0]
    )
    assert_near(found, torch.stack([gcn(one, edges) for one in h]), 1e-10)


def test_equal_maxima_send_their_gradient_to_the_first_sender() -> None:
    neighbors, _ = Neighbors.from_edges(torch.tensor([[2, 1, 0, 3], [0, 0, 0, 1]]), 4, 4)
    h = torch.tensor([[[0.0], [1.0], [1.0], [5.0]]], requires_grad=True)
    OPERATIONS["max"](1, 1, find_variant("paper"))(h, h[0], neighbors)[0, 0].sum().backward()
    assert h.grad.flatten().tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("names", [("sum", "mean", "max"), ("sum", "max"), ("mean",), ("max",), ("mean", "max")])
@pytest.mark.parametrize("same", [True, False])
def test_several_aggregations_in_one_pass(names: tuple[str, ...], same: bool) -> None:
    stacks = [inputs(seed)[0][: COUNT - (0 if same else seed)] for seed in range(3)]
    messages = {name: stacks[0 if same else place] for place, name in enumerate(names)}
    results = reduce_together(messages, NEIGHBORS)
    assert set(results) == set(names)
    for name, h in messages.items():
        wanted = torch.stack([operation(name, one, one, ADJACENCY, {}) for one in h])
        assert_near(results[name], wanted, 1e-12)


def test_sum_and_mean_may_share_a_stack_while_max_has_its_own() -> None:
    h, other = inputs(0)[0], inputs(1)[0]
    results = reduce_together({"sum": h, "mean": h, "max": other}, NEIGHBORS)
    for name, values in (("sum", h), ("mean", h), ("max", other)):
        assert_near(results[name], torch.stack([operation(name, v, v, ADJACENCY, {}) for v in values]), 1e-12)
    results = reduce_together({"sum": other, "mean": h, "max": other}, NEIGHBORS)
    for name, values in (("sum", other), ("mean", h), ("max", other)):
        assert_near(results[name], torch.stack([operation(name, v, v, ADJACENCY, {}) for v in values]), 1e-12)


# -- what follows an operation --------------------------------------------------------------------------------------


def test_stacked_linear_is_linear_layers_side_by_side() -> None:
    stacked, (h, _) = StackedLinear(COUNT, CHANNELS, 4).double(), inputs()
    for k in range(COUNT):
        wanted = nn.functional.linear(h[k], stacked.weight[k].T, stacked.bias[k, 0])
        assert_near(stacked(h)[k], wanted, 1e-12)
    assert StackedLinear(COUNT, CHANNELS, 4, bias=False).bias is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
def test_stacked_batch_norm_is_torchs_own(masked: bool, dtype: torch.dtype) -> None:
    ours = StackedBatchNorm(COUNT, CHANNELS).to(dtype)
    theirs = [nn.BatchNorm1d(CHANNELS).to(dtype) for _ in range(COUNT)]
    mask = torch.arange(NODES) < 6 if masked else None
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for step in range(3):
        h = (inputs(step)[0].detach().to(dtype) * (step + 1) + step).requires_grad_()
        out = ours(h, mask)[:, mask] if masked else ours(h)
        wanted = torch.stack([norm(h[k, mask] if masked else h[k]) for k, norm in enumerate(theirs)])
        assert_near(out, wanted, tolerance)
        assert_near(gradients(out, [h]), gradients(wanted, [h]), tolerance)
    for k, norm in enumerate(theirs):
        assert_near(ours.running_mean[k, 0], norm.running_mean, tolerance)
        assert_near(ours.running_var[k, 0], norm.running_var, tolerance)
    ours.eval()
    out = ours(h, mask)
    assert_near(out, torch.stack([norm.eval()(h[k]) for k, norm in enumerate(theirs)]), tolerance)


def test_batch_norm_of_a_single_real_row_is_finite() -> None:
    norm = StackedBatchNorm(1, 2)
    out = norm(torch.tensor([[[1.0, 2.0], [7.0, 8.0]]]), torch.tensor([True, False]))
    assert bool(out.isfinite().all())
    assert bool(norm.running_var.isfinite().all())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm", [True, False])
def test_transform_is_linear_norm_relu(norm: bool, training: bool) -> None:
    module = shake(Transform(COUNT, CHANNELS, norm).double()).train(training)
    assert (module.norm is not None) == norm
    (h, _), leaves = inputs(), list(module.parameters())
    rows = [tensors(module, k) for k in range(COUNT)]
    wanted = torch.stack([transformed(h[k], rows[k], training) for k in range(COUNT)])
    out = module(h, None)
    assert_near(out, wanted, 1e-10)
    assert out.detach().min() == 0
    assert_near(gradients(out, [h, *leaves]), gradients(wanted, [h, *leaves]), 1e-10)


def test_masked_rows_do_not_enter_the_statistics() -> None:
    module, (h, _) = shake(StackedBatchNorm(1, CHANNELS).double()), inputs()
    mask = torch.arange(NODES) < 5
    row = tensors(module, 0)
    wanted = normalised(h[0], row, True, prefix="", mask=mask)
    spoilt = h[:1].detach().clone()
    spoilt[:, 5:] = 1e6
    assert_near(module(spoilt, mask)[0, :5], wanted[:5], 1e-10)


# -- names and extension --------------------------------------------------------------------------------------------


def test_operations_of_ones_own_follow_the_same_contract() -> None:
    h, x = inputs()
    for name, kind in OWN.items():
        out = kind(CHANNELS, COUNT, find_variant("paper"))(h, x, NEIGHBORS)
        assert_near(out, torch.stack([operation(name, one, x, ADJACENCY, {}) for one in h]), 1e-12)


def test_an_operation_must_define_forward() -> None:
    h, x = inputs()
    with pytest.raises(TypeError, match="must define forward"):
        Operation(CHANNELS, COUNT, find_variant("paper"))(h, x, NEIGHBORS)


def test_unknown_variant_lists_the_choices() -> None:
    with pytest.raises(InputError, match="paper, reference, bare"):
        find_variant("papper")


def test_every_built_in_operation_can_be_exported() -> None:
    for name, made in OPERATIONS.items():
        assert all(made.export_code(kind) is not None for kind in VARIANTS.values()), name
