"""A linear map with what surrounds it equals the composition of plain operations, gradients included."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from samples import INTERPRETED, assert_near, gradients, leaf, padded_edges, shake
from torch import Tensor

import gnas
from gnas.data.graph_encodings import with_encodings
from gnas.kernels import fused
from gnas.model import baselines
from gnas.model.stacked import BatchNorm
from gnas.training.store import GraphStore

DEVICE = "cpu" if INTERPRETED else "cuda"
ROWS = 66 if INTERPRETED else 130  # more than one chunk of rows, of which the last is not full
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]  # test_aggregate.py runs this file in Triton's interpreter


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products in float32."""
    monkeypatch.setenv("GNAS_FUSED", "triton")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [leaf(*shape, seed=k, dtype=torch.float32, device=DEVICE) for k, shape in enumerate(shapes)]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("around", ["nothing", "relu", "before"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("count", "rows", "inner", "outer"), [(1, 37, 5, 70), (2, ROWS, 68, 9), (1, 1, 1, 1)])
def test_linear(count: int, rows: int, inner: int, outer: int, turned: bool, around: str, parts: int) -> None:
    weight_shape = (count, outer, inner * parts) if turned else (count, inner * parts, outer)
    one, two, weight, bias, before = leaves(
        (count, rows, inner), (count, rows, inner), weight_shape, (count, 1, outer), (count, rows, outer)
    )
    weight_used = weight.transpose(1, 2) if turned else weight
    inputs = [one, two][:parts]
    wanted = torch.cat(inputs, dim=2) @ weight_used + (0 if around == "relu" else bias)
    wanted = F.relu(wanted) if around == "relu" else wanted + before if around == "before" else wanted
    joined = fused.Around(before=before if around == "before" else None, relu=around == "relu")
    assert fused.joins(*inputs)
    out = fused.linear(inputs, weight_used, None if around == "relu" else bias, joined)
    used = [*inputs, weight, *([] if around == "relu" else [bias]), *([before] if around == "before" else [])]
    assert_near(out, wanted, 1e-4)
    assert_near(gradients(out, used), gradients(wanted, used), 1e-4)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_ends_of_edges(relu: bool, both: bool) -> None:
    near = padded_edges().to(DEVICE)
    edges, real = near.source.numel(), int(near.ptr[-1])
    e, weight, bias, nodes = leaves((1, edges, 5), (1, 5, 6), (1, 1, 6), (6, 12 if both else 6))
    sent = nodes[:, -6:].index_select(0, near.source)
    received = nodes[:, :6].index_select(0, near.target) if both else 0
    wanted = e @ weight + bias + sent + received
    wanted = F.relu(wanted) if relu else wanted
    out = fused.linear([e], weight, bias, fused.Around(ends=nodes, neighbors=near, relu=relu))
    used = [e, weight, bias, nodes]
    assert_near(out[:, :real], wanted[:, :real], 1e-5)
    assert_near(gradients(out[:, :real], used), gradients(wanted[:, :real], used), 1e-5)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("channels", [5, 70])
def test_senders_through_gates(channels: int, mean: bool) -> None:
    near = padded_edges().to(DEVICE)
    edges, real = near.source.numel(), int(near.ptr[-1])
    relation, value = leaves((edges, channels), (6, channels))
    gate = torch.sigmoid(relation[:real])
    target, nothing = near.target[:real].long(), torch.zeros(6, channels, device=DEVICE)
    wanted = nothing.index_add(0, target, gate * value.index_select(0, near.source[:real]))
    wanted = wanted / (nothing.index_add(0, target, gate) + 1e-6) if mean else wanted
    out = fused.gated_sum(relation, value, near, mean)
    assert_near(out, wanted, 1e-5)
    assert_near(gradients(out, [relation, value]), gradients(wanted, [relation, value]), 1e-5)


@pytest.mark.parametrize("rows", [3, ROWS])
def test_feed_forward(rows: int) -> None:
    h, first, bias, second, second_bias = leaves((1, rows, 6), (1, 6, 12), (1, 1, 12), (1, 12, 6), (1, 1, 6))
    wanted = h + F.relu(h @ first + bias) @ second + second_bias
    out = fused.feed_forward(h, (first, bias), (second, second_bias), (fused.NO_DROP,) * 2)
    used = [h, first, bias, second, second_bias]
    assert_near(out, wanted, 1e-5)
    assert_near(gradients(out, used), gradients(wanted, used), 1e-5)


def test_dropout() -> None:
    """A kept value is scaled; backward, the same ones are kept; another seed keeps others."""
    h, weight, bias = leaves((1, 200, 20), (1, 20, 30), (1, 1, 30))
    drops = fused.draw_drops(0.25, 2, h)
    plain = h @ weight + bias
    found = [fused.linear([h], weight, bias, fused.Around(drop=drop)) for drop in (*drops, drops[0])]
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])
    kept = found[0] != 0
    assert 0.7 < kept.float().mean() < 0.8
    wanted = plain * kept / 0.75
    assert_near(found[0], wanted, 1e-5)
    used = [h, weight, bias]
    assert_near(gradients(found[0], used), gradients(wanted, used), 1e-4)
    plain = h @ weight + bias
    relu = fused.linear([h], weight, bias, fused.Around(relu=True, drop=drops[0]))
    assert_near(gradients(relu, used), gradients(F.relu(plain) * kept / 0.75, used), 1e-4)


def test_dropout_after_a_norm() -> None:
    """It is that of the same norm without dropout, for the values that are kept; what the result is added to is whole."""
    norm = shake(BatchNorm(20)).to(DEVICE)
    h, before = leaves((200, 20), (200, 20))
    mask = torch.arange(200, device=DEVICE) < 190
    (drop,) = fused.draw_drops(0.25, 1, h)

    def run(drop: fused.Drop, before: list[Tensor]) -> Tensor:
        return norm.relu_mix(h[None], mask, None, norm.alone, before, drop=drop).squeeze(0)

    assert norm.can_drop(h)
    out, plain = run(drop, [before]), run(fused.NO_DROP, [])
    kept = (run(drop, []) != 0) | (plain == 0)
    assert 0.7 < kept[plain != 0].float().mean() < 0.8
    used = [h, before, norm.weight, norm.bias]
    wanted = plain * kept / 0.75 + before
    assert_near(out, wanted, 1e-5)
    assert_near(gradients(out[:190], used), gradients(wanted[:190], used), 1e-4)


@pytest.mark.parametrize("name", ["gin+", "gatedgcn+", "pna+", "gatv2"])
def test_networks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and gradients of networks with edges, encodings and padding are those of plain PyTorch."""
    graphs = with_encodings(gnas.load("molecules-mini"), "walks:4,edge_walks:3")
    task = graphs.task
    store = GraphStore(graphs.train.select(range(4)), DEVICE)
    planned = store.plan(2, padded=True)[0]
    layers = 1 if INTERPRETED and name != "gatedgcn+" else 2  # a second starts the same kernels, there on other edges
    net = shake(baselines.build_recipe(name, task, 6, layers)).to(DEVICE)
    found = []
    for kernels in ("torch", "triton"):
        monkeypatch.setenv("GNAS_FUSED", kernels)
        own = copy.deepcopy(net).train()
        batch = store.batch(planned.ids, planned.capacity)
        loss = task.loss_value(own(batch), batch)
        grads = torch.autograd.grad(loss, list(own.parameters()), allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            evaluated = own.eval()(batch)[:-1]  # without the dummy graph
        found.append([loss, evaluated, *grads, *(b for b in own.buffers() if b.is_floating_point())])
    assert_near(found[1], found[0], 1e-4)
