"""The fused functions equal a composition of plain operations, gradients included."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from samples import INTERPRETED, assert_near, gradients, leaf, random_graph, shake

from gnas.arch import gap
from gnas.arch.genotype import Genotype
from gnas.kernels import fused
from gnas.model.network import Network
from gnas.model.task import Task

GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])


DEVICES = ["cpu", GPU]


DTYPES = [torch.float32] if INTERPRETED else [torch.float32, torch.float64]


TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11}


FILTERS = [
    ([0, 0, 0], [0, 1, 2]),
    ([0, 0, 0, 0], [2, 2, 1, 2]),
    ([1, 0, 2, 1, 0], [1, 2, 0, 1, 2]),
    ([0, 1], [0, 0]),
    ([0, 1, 1], [1, 1, 1]),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("sources", "kinds"), FILTERS)
@pytest.mark.parametrize("transposed", [False, True])
def test_gates(sources: list[int], kinds: list[int], transposed: bool, dtype: torch.dtype, device: str) -> None:
    nodes, channels = 37, 5
    sparse, dense = kinds.count(fused.SPARSE), kinds.count(fused.DENSE)
    shapes = [
        (max(sources) + 1, nodes, channels),
        (nodes, channels),
        (sparse, 2 * channels, 1),
        (sparse, 1, 1),
        (nodes, dense, channels) if transposed else (dense, nodes, channels),
        (dense, 1, channels),
    ]
    leaves = [leaf(*shape, seed=k, dtype=dtype, device=device) for k, shape in enumerate(shapes)]
    h, x, weight, bias, logits, dense_bias = leaves
    logits = logits.transpose(0, 1) if transposed else logits
    plan = fused.GatePlan(sources, kinds).to(device)
    out = fused.gate(h, x, fused.Gates(weight, bias, logits, dense_bias), plan)
    wanted, seen = [], {fused.IDENTITY: 0, fused.SPARSE: 0, fused.DENSE: 0}
    for source, kind in zip(sources, kinds, strict=True):
        row = seen[kind]
        seen[kind] += 1
        if kind == fused.IDENTITY:
            wanted.append(h[source])
        elif kind == fused.SPARSE:
            pair = torch.cat([h[source], x], 1)
            wanted.append(h[source] * torch.sigmoid(pair @ weight[row] + bias[row]))
        else:
            wanted.append(h[source] * torch.sigmoid(logits[row] + dense_bias[row]))
    assert_near(out, torch.stack(wanted), TOLERANCE[dtype])
    used = [one for k, one in enumerate(leaves) if k != 1 or sparse]
    assert_near(gradients(out, used), gradients(torch.stack(wanted), used), TOLERANCE[dtype])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("weighted", "holding", "relu"),
    [
        (False, "none", True),
        (False, "none", False),
        (True, "none", True),
        (True, "adjacent", False),
        (False, "apart", True),
    ],
)
@pytest.mark.parametrize(
    ("nodes", "channels", "masked"), [(7, 3, False), (150, 5, True), (1, 4, False), (70, 70, True)]
)
def test_norm_relu_mix(
    nodes: int, channels: int, masked: bool, weighted: bool, holding: str, relu: bool, dtype: torch.dtype, device: str
) -> None:
    groups = [1, 0, 1]
    y, weight, bias, p = (
        leaf(*shape, seed=k, dtype=dtype, device=device)
        for k, shape in enumerate([(3, nodes, channels), (3, 1, channels), (3, 1, channels), (3,)])
    )
    with torch.no_grad():
        y += 30  # far from zero: squares of the values themselves would lose the variance
    real = nodes - nodes // 4 if masked else nodes
    mask = torch.arange(nodes, device=device) < real if masked else None
    mean, var = torch.zeros_like(weight), torch.ones_like(weight)
    tickets = torch.zeros(3 * 3, dtype=torch.int32, device=device)
    norm = fused.Norm(mean.detach(), var.detach(), 0.1, 1e-5, mask, tickets, relu)
    held = leaf(3, nodes, channels, seed=9, dtype=dtype, device=device)
    before = {"none": (), "adjacent": held.unbind()[1:], "apart": (held[2], held[0])}[holding]
    targets = fused.Groups(groups).to(device)
    out = fused.norm_relu_mix(y, weight, bias, p if weighted else None, targets, norm, before)
    own = [bias[k].expand(1, -1) for k in range(3)]  # what the norm makes of a single row
    if real > 1:
        own = [F.batch_norm(y[k, :real], None, None, weight[k, 0], bias[k, 0], True) for k in range(3)]
    mixed = [(F.relu(one) if relu else one) * (p[k] if weighted else 1) for k, one in enumerate(own)]
    wanted = torch.stack([mixed[1], mixed[0] + mixed[2]])
    if before:
        wanted = wanted + torch.stack(tuple(before))[:, :real]
    tolerance = 20 * TOLERANCE[dtype]  # the distance from zero costs digits
    assert_near(out[:, :real], wanted, tolerance)
    leaves = [y, weight, bias, *([p] if weighted else [])] if real > 1 else [bias]
    leaves += [held] if before else []
    assert_near(gradients(out[:, :real], leaves), gradients(wanted, leaves), tolerance)
    assert not tickets.any()  # ready for the next call
    assert_near(norm.mean[:, 0], 0.1 * y[:, :real].mean(1), tolerance)
    spread = y[:, :real].var(1) if real > 1 else torch.zeros_like(norm.var[:, 0])
    assert_near(norm.var[:, 0], 0.9 + 0.1 * spread, tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("weighted", "holding", "relu"),
    [
        (False, "none", True),
        (False, "none", False),
        (True, "none", True),
        (True, "adjacent", False),
        (False, "apart", True),
    ],
)
@pytest.mark.parametrize(("nodes", "channels"), [(7, 3), (1, 4), (70, 70)])
def test_norm_relu_mix_with_running_statistics(
    nodes: int, channels: int, weighted: bool, holding: str, relu: bool, dtype: torch.dtype, device: str
) -> None:
    y, weight, bias, p, mean = (
        leaf(*shape, seed=k, dtype=dtype, device=device)
        for k, shape in enumerate([(3, nodes, channels), (3, 1, channels), (3, 1, channels), (3,), (3, 1, channels)])
    )
    var = mean.detach().square() + 0.1
    kept = (mean.detach().clone(), var.clone())
    tickets = torch.zeros(3 * 3, dtype=torch.int32, device=device)
    norm = fused.Norm(mean.detach(), var, 0.1, 1e-5, None, tickets, relu)
    held = leaf(3, nodes, channels, seed=9, dtype=dtype, device=device)
    before = {"none": (), "adjacent": held.unbind()[1:], "apart": (held[2], held[0])}[holding]
    targets = fused.Groups([1, 0, 1]).to(device)
    out = fused.norm_relu_mix(y, weight, bias, p if weighted else None, targets, norm, before, training=False)
    own = [F.batch_norm(y[k], kept[0][k, 0], var[k, 0], weight[k, 0], bias[k, 0], False) for k in range(3)]
    mixed = [(F.relu(one) if relu else one) * (p[k] if weighted else 1) for k, one in enumerate(own)]
    wanted = torch.stack([mixed[1], mixed[0] + mixed[2]])
    if before:
        wanted = wanted + torch.stack(tuple(before))
    assert_near(out, wanted.detach(), 20 * TOLERANCE[dtype])
    assert not out.requires_grad
    assert torch.equal(norm.mean, kept[0])
    assert torch.equal(norm.var, kept[1])


@pytest.mark.gpu
def test_norms_at_once_and_again_and_again() -> None:
    """Many programs that wait for the last of them, on two streams at once: every call gives the same bits."""
    y, weight, bias, p = (
        leaf(*shape, seed=k, dtype=torch.float32, device="cuda")
        for k, shape in enumerate([(9, 20_000, 64), (9, 1, 64), (9, 1, 64), (9,)])
    )
    groups = fused.Groups([0, 1, 2] * 3).to("cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]
    counters = [torch.zeros(18, dtype=torch.int32, device="cuda") for _ in streams]
    torch.cuda.synchronize()
    found = []
    for _ in range(50):
        for stream, tickets in zip(streams, counters, strict=True):
            with torch.cuda.stream(stream):
                mean, var = torch.zeros_like(weight), torch.ones_like(weight)
                norm = fused.Norm(mean.detach(), var.detach(), 0.1, 1e-5, None, tickets)
                out = fused.norm_relu_mix(y, weight, bias, p, groups, norm)
                found.append(
                    (out.double().sum(), norm.mean, *torch.autograd.grad(out.square().sum(), [weight, bias, p]))
                )
    torch.cuda.synchronize()
    for one in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], one, strict=True))
    assert_near(found[0][1][:, 0], 0.1 * y.mean(1), 1e-5)


@pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs Triton's interpreter or a GPU")
@pytest.mark.parametrize("training", [True, False])
def test_the_compiler_is_kept_out_of_the_kernels(training: bool) -> None:
    """Its tracer cannot follow them: the cell around them is compiled, they are called as they are."""
    device = "cpu" if INTERPRETED else "cuda"
    cell = gap.genotype("[dense(sum(sparse)) | sparse(max)]")[0]
    task = Task("node", "regression", 1, in_channels=4)
    net = shake(Network(Genotype((cell,)), task, 8)).to(device).train(training)
    batch = random_graph(9, 20, seed=1)
    given = (batch.x.float().to(device), batch.edge_index.to(device))
    plain, compiled = copy.deepcopy(net), copy.deepcopy(net)
    compiled.cells[0].forward = torch.compile(compiled.cells[0].forward, backend="aot_eager")  # type: ignore[method-assign]
    with torch.set_grad_enabled(training):
        out, wanted = compiled(*given), plain(*given)
        assert_near(out, wanted, 1e-5)
        if training:
            ours, theirs = (
                list(torch.autograd.grad(one.square().sum(), list(net.parameters())))
                for one, net in ((out, compiled), (wanted, plain))
            )
            assert_near(ours, theirs, 1e-4)
