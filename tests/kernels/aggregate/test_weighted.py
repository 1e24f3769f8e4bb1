"""Sums with a weight on each edge: every implementation against a dense computation, forward and backward."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import INTERPRETED, assert_near, gradients, padded_edges, random_edges
from torch import Tensor

from gnas.graph import Neighbors
from gnas.kernels.aggregate import cpu, weighted_sum

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def dense(x: Tensor, weight: Tensor, neighbors: Neighbors) -> Tensor:
    """The same by a matrix of receivers and senders for each head."""
    heads = weight.size(1)
    count = int(neighbors.ptr[-1])
    source, target = neighbors.source[:count].long(), neighbors.target[:count].long()
    matrix = x.new_zeros(heads, neighbors.num_receivers, neighbors.num_senders)
    for head in range(heads):
        place = (torch.full_like(source, head), target, source)
        matrix = matrix.index_put(place, weight[:count, head], accumulate=True)
    return (matrix @ x.unflatten(1, (heads, -1)).transpose(0, 1)).transpose(0, 1).flatten(1)


def check(neighbors: Neighbors, heads: int, width: int, dtype: torch.dtype, device: str = "cpu") -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(neighbors.num_senders, heads * width, generator=generator, dtype=dtype).to(device).requires_grad_()
    weight = torch.rand(neighbors.source.numel(), heads, generator=generator, dtype=dtype).to(device).requires_grad_()
    found, wanted = weighted_sum(x, weight, neighbors.to(device)), dense(x, weight, neighbors.to(device))
    assert found.dtype == dtype
    assert_near([found], [wanted], TOLERANCE[dtype])
    assert_near(gradients(found, [x, weight]), gradients(wanted, [x, weight]), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("heads", "width"), [(1, 1), (1, 5), (3, 4), (8, 18), (5, 1), (70, 1), (2, 70)])
def test_heads_and_gates(forced: str, heads: int, width: int, dtype: torch.dtype) -> None:
    neighbors, _ = Neighbors.from_edges(random_edges(9, 25, seed=heads, isolated=2), 9, 9)
    check(neighbors, heads, width, dtype)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=30), st.integers(1, 3), st.integers(1, 3))
@settings(
    max_examples=10 if INTERPRETED else 50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_bipartite_multigraphs(forced: str, pairs: list[tuple[int, int]], heads: int, width: int) -> None:
    neighbors, _ = Neighbors.from_edges(torch.tensor(pairs).view(-1, 2).long().T, 5, 7)
    check(neighbors, heads, width, torch.float64)


def test_padding_edges_count_for_nobody(forced: str) -> None:
    padded = padded_edges()
    check(padded, 2, 3, torch.float64)
    weight = torch.rand(15, 2, requires_grad=True)
    weighted_sum(torch.rand(6, 4), weight, padded).sum().backward()
    assert weight.grad is not None
    assert (weight.grad[12:] == 0).all()


def test_kinds_of_numbers_are_joined(forced: str) -> None:
    neighbors, _ = Neighbors.from_edges(random_edges(6, 12, seed=1), 6, 6)
    x, weight = torch.rand(6, 4, dtype=torch.bfloat16, requires_grad=True), torch.rand(12, 2, requires_grad=True)
    out = weighted_sum(x, weight, neighbors)
    assert out.dtype == torch.float32
    assert_near([out], [dense(x.float(), weight, neighbors)], 1e-5)
    assert [g.dtype for g in gradients(out, [x, weight])] == [torch.bfloat16, torch.float32]


def test_many_blocks_of_edges_are_as_good_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    if INTERPRETED:
        pytest.skip("of the CPU implementation")
    neighbors, _ = Neighbors.from_edges(random_edges(40, 300, seed=2, isolated=7), 40, 40)
    for edges in (1, 7, 64, 300, 301):  # fewer than a receiver has, and more than there are
        monkeypatch.setattr(cpu, "EDGES", edges)
        check(neighbors, 3, 2, torch.float64)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none")
@pytest.mark.parametrize(("heads", "width"), [(1, 144), (8, 18), (3, 90), (70, 1)])
def test_on_a_gpu(heads: int, width: int) -> None:
    neighbors, _ = Neighbors.from_edges(random_edges(300, 4000, seed=3, isolated=20), 300, 300)
    for dtype in TOLERANCE:
        check(neighbors, heads, width, dtype, "cuda")
