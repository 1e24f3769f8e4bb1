"""Neighbour aggregation: every implementation against a dense computation, forward and backward."""

import dataclasses
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obvious import dense_adjacency, dense_aggregate
from samples import INTERPRETED, assert_near, gradients, random_edges
from torch import Tensor

from gnas.errors import InputError
from gnas.graph import Neighbors
from gnas.kernels.aggregate import AGGREGATORS, aggregate, reduce

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
RANGES = [(6, 6), (0, 0), (4, 2), (2, 4), (6, 0), (0, 6), (0, 3), (3, 6)]  # channels [:sum_to] and [max_from:]


def values(rows: int, channels: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Few different values, so that maxima tie often."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, channels), generator=generator).to(dtype).requires_grad_()


def check(edge_index: Tensor, senders: int, receivers: int, x: Tensor, sum_to: int, max_from: int) -> None:
    neighbors, _ = Neighbors.from_edges(edge_index, senders, receivers)
    dense = dense_adjacency(edge_index, receivers, senders)
    total, largest = reduce(x, neighbors, sum_to, max_from)
    wanted = dense_aggregate(dense, x[:, :sum_to], "sum"), dense_aggregate(dense, x[:, max_from:], "max")
    assert total.dtype == largest.dtype == x.dtype
    assert_near([total, largest], list(wanted), TOLERANCE[x.dtype])
    found = gradients(torch.cat([total, largest], 1), [x])
    assert_near(found, gradients(torch.cat(wanted, 1), [x]), TOLERANCE[x.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("sum_to", "max_from"), RANGES)
def test_overlapping_channel_ranges(forced: str, sum_to: int, max_from: int, dtype: torch.dtype) -> None:
    check(random_edges(9, 25, seed=sum_to, isolated=2), 9, 9, values(9, 6, dtype), sum_to, max_from)


@st.composite
def problems(draw):
    senders, receivers = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    pair = st.tuples(st.integers(0, senders - 1), st.integers(0, receivers - 1))
    pairs = draw(st.lists(pair, max_size=20))
    channels = draw(st.integers(1, 4))
    sum_to, max_from = draw(st.integers(0, channels)), draw(st.integers(0, channels))
    rows = draw(st.lists(st.integers(-2, 2), min_size=senders * channels, max_size=senders * channels))
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    x = torch.tensor(rows, dtype=dtype).view(senders, channels).requires_grad_()
    return torch.tensor(pairs).view(-1, 2).long().T, senders, receivers, x, sum_to, max_from


@given(problem=problems())
@settings(
    max_examples=10 if INTERPRETED else 50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_bipartite_multigraphs(forced: str, problem) -> None:
    check(*problem)


@pytest.mark.parametrize("how", AGGREGATORS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_aggregate_equals_dense(forced: str, how: str, dtype: torch.dtype) -> None:
    edge_index, x = random_edges(8, 20, seed=5), values(8, 3, dtype)
    neighbors, _ = Neighbors.from_edges(edge_index, 8, 8)
    out, wanted = aggregate(x, neighbors, how), dense_aggregate(dense_adjacency(edge_index, 8), x, how)
    assert_near(out, wanted, TOLERANCE[dtype])
    assert_near(gradients(out, [x]), gradients(wanted, [x]), TOLERANCE[dtype])
    assert torch.equal(out[7], torch.zeros(3, dtype=dtype)), "node 7 is isolated"


@pytest.mark.parametrize("how", AGGREGATORS)
def test_readout_over_members(forced: str, how: str) -> None:
    x = values(5, 3)
    out = aggregate(x, Neighbors.members(torch.tensor([0, 0, 2, 2, 2]), 4), how)
    reduced = {"sum": lambda v: v.sum(0), "mean": lambda v: v.mean(0), "max": lambda v: v.amax(0)}[how]
    zero = torch.zeros(3, dtype=x.dtype)
    assert_near(out, torch.stack([reduced(x[:2]), zero, reduced(x[2:]), zero]), 1e-12)


def test_max_of_negative_values_is_negative_and_ties_go_to_the_first_sender(forced: str) -> None:
    neighbors, _ = Neighbors.from_edges(torch.tensor([[3, 2, 1, 2], [0, 0, 0, 3]]), 4, 4)
    x = torch.tensor([[9.0], [-2.0], [-1.0], [-1.0]], requires_grad=True)
    out = aggregate(x, neighbors, "max")
    assert out.flatten().tolist() == [-1.0, 0.0, 0.0, -1.0]
    out[0].sum().backward()
    assert x.grad.flatten().tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("how", AGGREGATORS)
@pytest.mark.parametrize("nodes", [0, 1, 4])
def test_no_edges_give_zeros_and_no_gradient(forced: str, nodes: int, how: str) -> None:
    neighbors, _ = Neighbors.from_edges(torch.zeros(2, 0, dtype=torch.long), nodes, nodes)
    x = torch.ones(nodes, 3, requires_grad=True)
    out = aggregate(x, neighbors, how)
    out.sum().backward()
    assert torch.equal(out, torch.zeros(nodes, 3))
    assert torch.equal(x.grad, torch.zeros(nodes, 3))


def test_one_node_with_a_loop(forced: str) -> None:
    check(torch.tensor([[0], [0]]), 1, 1, values(1, 4), 3, 1)


def test_padding_edges_count_for_nobody(forced: str) -> None:
    edge_index, x = random_edges(7, 15, seed=3), values(9, 4)
    neighbors, _ = Neighbors.from_edges(edge_index, 9, 9)
    edges = neighbors.source.numel()
    padding = torch.tensor([7, 8, 8], dtype=torch.int32)
    padded = dataclasses.replace(
        neighbors,
        source=torch.cat([neighbors.source, padding]),
        target=torch.cat([neighbors.target, padding]),
        back=torch.cat([neighbors.back, torch.arange(edges, edges + 3, dtype=torch.int32)]),
    )
    out, wanted = (torch.cat(reduce(x, given, 3, 1), 1) for given in (padded, neighbors))
    assert torch.equal(out, wanted)
    assert torch.equal(gradients(out, [x])[0], gradients(wanted, [x])[0])


def test_not_a_number_is_passed_on(forced: str) -> None:
    """A network that diverges must be seen to diverge."""
    neighbors, _ = Neighbors.from_edges(torch.tensor([[0, 1, 0, 2, 1], [0, 0, 1, 1, 2]]), 3, 3)
    x = torch.tensor([[torch.nan, 1.0], [1.0, 1.0], [1.0, torch.nan]])
    for how in AGGREGATORS:
        out = aggregate(x, neighbors, how)
        assert out.isnan().tolist() == [[True, False], [True, True], [False, False]], how


def test_minus_infinity_is_a_value(forced: str) -> None:
    neighbors, _ = Neighbors.from_edges(torch.tensor([[1, 1], [0, 1]]), 2, 3)
    x = torch.tensor([[0.0], [-torch.inf]], requires_grad=True)
    out = aggregate(x, neighbors, "max")
    assert out.flatten().tolist() == [-torch.inf, -torch.inf, 0.0]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(forced: str, mode) -> None:
    edge_index = random_edges(6, 12, seed=1)
    neighbors, _ = Neighbors.from_edges(edge_index, 6, 6)
    with mode():
        x = torch.randn(6, 3)
        for how in AGGREGATORS:
            assert_near(aggregate(x, neighbors, how), dense_aggregate(dense_adjacency(edge_index, 6), x, how), 1e-6)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_repeated_runs_are_identical_to_the_bit(forced: str) -> None:
    neighbors, _ = Neighbors.from_edges(random_edges(60, 900, seed=2), 60, 60)
    x = torch.randn(60, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
    runs = [torch.cat(reduce(x, neighbors, 16, 0), 1) for _ in range(3)]
    grads = [gradients(run, [x])[0] for run in runs]
    assert all(torch.equal(runs[0], run) and torch.equal(grads[0], grad) for run, grad in zip(runs, grads, strict=True))


def test_unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    neighbors, _ = Neighbors.from_edges(torch.tensor([[0], [0]]), 1, 1)
    with pytest.raises(InputError, match="sum, mean, max"):
        aggregate(torch.ones(1, 1), neighbors, "median")
    monkeypatch.setenv("GNAS_AGGREGATE", "cpp")
    with pytest.raises(InputError, match="GNAS_AGGREGATE 'cpp'; choose one of: reference, cpu, triton"):
        aggregate(torch.ones(1, 1), neighbors, "sum")


@pytest.mark.parametrize(("sum_to", "max_from"), [(4, 4), (0, 0), (3, 1)])
def test_custom_operator_is_well_formed(forced: str, sum_to: int, max_from: int) -> None:
    n, _ = Neighbors.from_edges(random_edges(7, 15, seed=4), 7, 7)
    x = torch.randn(7, 4, requires_grad=True)
    torch.library.opcheck(torch.ops.gnas.reduce, (x, n.source, n.target, n.ptr, n.back, n.back_ptr, sum_to, max_from))


def under(backend: str, device: str) -> None:
    """Compiled without a break, behind and before other operations, one of which leaves rows and columns swapped."""
    neighbors = Neighbors.from_edges(random_edges(9, 30, seed=6), 9, 9)[0].to(device)
    x = values(6, 9, torch.float32).detach().to(device).requires_grad_()

    def both(x: Tensor, neighbors: Neighbors) -> Tensor:
        total, largest = reduce(x.T * 2, neighbors, 4, 2)
        return torch.cat([total, largest], 1) * 3

    torch.compiler.reset()
    out, wanted = torch.compile(both, backend=backend, fullgraph=True)(x, neighbors), both(x, neighbors)
    assert_near(out, wanted, 1e-6)
    assert_near(gradients(out, [x]), gradients(wanted, [x]), 1e-6)


def test_compiled_in_one_graph() -> None:
    under("aot_eager", "cpu")


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="runs this file once more, not twice")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton_in_its_interpreter() -> None:
    """The tests above and a supernet with Triton's kernels. Its interpreter is chosen at import: a new process."""
    files = [
        __file__,
        *(
            str(Path(__file__).parents[1] / f"{name}.py")
            for name in (
                "kernels/aggregate/test_weighted",
                "kernels/aggregate/test_scores",
                "model/test_supernet",
                "kernels/test_fused",
                "kernels/fused/test_joined",
                "kernels/test_triton_batches",
                "kernels/test_triton_adam",
            )
        ),
    ]
    chosen = "(triton or float32 or joined or batches or test_triton_adam) and not repeated and not well_formed"
    command = [sys.executable, "-m", "pytest", "-x", *files, "-k", chosen, "-p", "no:cacheprovider"]
    forced = {"TRITON_INTERPRET": "1", "GNAS_AGGREGATE": "triton", "GNAS_FUSED": "triton"}
    done = subprocess.run(command, env={**os.environ, **forced}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 40


# -- on a GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("nodes", "edges", "channels"), [(1, 1, 1), (5, 0, 3), (200, 3000, 70), (3000, 9000, 192)])
@pytest.mark.parametrize("overlap", ["none", "some", "all"])
def test_triton_equals_reference(
    nodes: int, edges: int, channels: int, dtype: torch.dtype, overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sum_to, max_from = {
        "none": (channels // 2, channels // 2),
        "some": (channels - channels // 3, channels // 3),
        "all": (channels, 0),
    }[overlap]
    edge_index = torch.randint(0, max(nodes * 9 // 10, 1), (2, edges), generator=torch.Generator().manual_seed(7))
    neighbors = Neighbors.from_edges(edge_index, nodes, nodes)[0].to("cuda")
    x = values(nodes, channels, dtype).detach().cuda().requires_grad_()
    results = {}
    for name in ("reference", "triton"):
        monkeypatch.setenv("GNAS_AGGREGATE", name)
        out = torch.cat(reduce(x, neighbors, sum_to, max_from), 1)
        results[name] = [out, *gradients(out, [x])]
    assert_near(results["triton"], results["reference"], TOLERANCE[dtype])
    monkeypatch.setenv("GNAS_AGGREGATE", "triton")
    again = torch.cat(reduce(x, neighbors, sum_to, max_from), 1)
    assert torch.equal(again, results["triton"][0]), "two runs must agree to the bit"
    assert torch.equal(gradients(again, [x])[0], results["triton"][1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none")
def test_compiled_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GNAS_AGGREGATE", raising=False)
    under("inductor", "cuda")
